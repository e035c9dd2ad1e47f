package infra

// The function that keeps what expires.

const (
	paramBucket     = "ArchiveBucket"
	paramPrefix     = "ArchivePrefix"
	paramArchiveKey = "ArchiveKmsKeyArn"

	archiveID  = "Archive"
	bucketName = "^[a-z0-9][a-z0-9.-]{2,62}$"
	// expiredRecords lets through what DynamoDB itself deleted, of the kinds that are kept.
	expiredRecords = `{"eventName":["REMOVE"],"userIdentity":{"type":["Service"],"principalId":["dynamodb.amazonaws.com"]},` +
		`"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#AUDIT#"},{"prefix":"#USAGE"},{"prefix":"#CHILDREN_"}]}}}}`
	// archiveBatch is as many as Lambda gives: the more, the fewer files.
	archiveBatch = int64(10_000)
)

func archiveParameters() []parameter {
	only := []Part{partArchive}
	return []parameter{
		{paramBucket, "", "S3 bucket, in any region, that keeps what expires", bucketName, only, true},
		{paramPrefix, "dynalimit/", "What the key of every object begins with, with a slash at the end", "^([A-Za-z0-9_=.-]+/)+$", only, false},
		{paramArchiveKey, "", "ARN of the KMS key, not of an alias, that objects are encrypted under; empty for what the bucket says", "^(arn:.+:key/.+)?$", only, false},
	}
}

// archiveRole is that of the function that archives: it reads the stream, and puts objects
// below the prefix.
func archiveRole() Role {
	return Role{ID: archiveID, About: "Keeps what expires of the limits in S3", Function: true, Statements: []Statement{
		readStream("ListStreams"),
		{Sid: "PutObjects", About: "Files of what expired.", Actions: []string{"s3:PutObject"}, Resources: []Resource{{Objects: true}}},
		useKey("kms:Decrypt"),
		{
			Sid: "UseArchiveKey", About: "Objects are encrypted under this key: S3 uses it for the function.", Actions: []string{"kms:GenerateDataKey"},
			Resources: []Resource{{Param: paramArchiveKey}}, Conditions: []Condition{{stringLike, viaService, []string{"s3.*"}}}, With: paramArchiveKey,
		},
	}}
}

// archiveAlarms are those on the function that archives.
func archiveAlarms(limits string) []Alarm {
	return []Alarm{
		{
			ID: "ArchiveAge", About: "What expires is more than an hour late in the archive: objects cannot be put. See the function's log: after a day it is lost.",
			Metrics: []Metric{{Namespace: namespaceLambda, Name: "IteratorAge", Made: archiveID}}, Statistic: "Maximum", Threshold: 3_600_000, Periods: 3,
		},
		{
			ID: "ArchiveErrors", About: "The function that archives fails: its batch comes again. See its log.",
			Metrics: []Metric{{Namespace: namespaceLambda, Name: "Errors", Made: archiveID}}, Statistic: "Sum", Threshold: 1, Periods: 1,
		},
		{
			ID: "ArchiveDeadLetters", About: "Records were given up before they were archived. The message says which: they can be read for half an hour more.",
			Metrics: []Metric{{Namespace: namespaceSQS, Name: "ApproximateNumberOfMessagesVisible", Made: archiveID}}, Statistic: "Maximum", Threshold: 1, Periods: 1,
		},
		{
			ID: "ArchiveMissing", About: "Records were skipped because they cannot be read: what expired with them is not in the archive. See the function's log.",
			Metrics: []Metric{{Namespace: MetricNamespace, Name: MetricArchiveSkipped, Table: limits}}, Statistic: "Sum", Threshold: 1, Periods: 1,
		},
	}
}

// MetricArchiveSkipped counts the records that the function gave up because they cannot be
// read; it publishes it.
const MetricArchiveSkipped = "ArchiveSkipped"
