package infra

// The function that adds the stream of the limits to usage.

const (
	paramCodeBucket = "AggregatorCodeBucket"
	paramCodeKey    = "AggregatorCodeKey"
	paramWindow     = "AggregatorBatchingWindow"
	paramRetention  = "UsageRetentionDays"
	paramStream     = "LimitsStreamArn"

	aggregatorID = "Aggregator"

	lambdaService = "lambda.amazonaws.com"
	eventsService = "events.amazonaws.com"
	// bucketRecords lets the records of buckets alone through: those of the snapshots would
	// have the function feed itself. Buckets of all namespaces have such a sort key.
	bucketRecords = `{"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#BUCKET#"}]}}}}`
)

// How the function is run.
const (
	functionMemory  = int64(512) // MB
	functionTimeout = int64(300) // seconds
	logDays         = int64(30)
	// batchSize is below what Lambda sends at once, 6 MB, for most buckets.
	batchSize = int64(1000)
	// oldestRecord gives up records half an hour before the stream drops them, in seconds:
	// then the queue says where they are, while they can still be read.
	oldestRecord = int64(84_600)
	// tries are without end: what fails is tried until it is too old.
	tries = int64(-1)
	// shardWorkers is 1 because of the order of an item's records: with more, Lambda
	// divides a shard by partition keys, which keeps that order, but a batch that fails then
	// comes again beside later ones.
	shardWorkers = int64(1)
	// letterSeconds is how long the queue keeps what it is told: as long as it can.
	letterSeconds = int64(14 * 24 * 3600)
	closeEvery    = "rate(5 minutes)"
)

func aggregatorParameters() []parameter {
	only, both := []Part{partAggregator}, []Part{partAggregator, partArchive}
	return []parameter{
		{paramCodeBucket, "", "S3 bucket, in the region, with the function's zip, which make lambda builds", bucketName, both, true},
		{paramCodeKey, "", "Key of the zip in the bucket; another one deploys another version", "^.{1,1024}$", both, true},
		{paramWindow, "60", "How many seconds the function waits for more records, 0 to 300: more is cheaper, and usage is later", "^([0-9]|[1-9][0-9]|[12][0-9]{2}|300)$", only, false},
		{paramRetention, "90", "How many days usage is kept by the hour; 0 for ever", "^[0-9]{1,5}$", only, false},
		{paramStream, "", "ARN of the stream of the limits' table", "^arn:.+/stream/.+$", both, true},
	}
}

// aggregatorAlarms are those on the function, besides its age.
func aggregatorAlarms(limits string) []Alarm {
	return []Alarm{
		{
			ID: "AggregatorErrors", About: "The function that adds up usage fails: its batch comes again, or hours stay open. See its log.",
			Metrics: []Metric{{Namespace: namespaceLambda, Name: "Errors", Made: aggregatorID}}, Statistic: "Sum", Threshold: 1, Periods: 1,
		},
		{
			ID: "AggregatorDeadLetters", About: "Records were given up before they were added to usage. The message says which: they can be read for half an hour more.",
			Metrics: []Metric{{Namespace: namespaceSQS, Name: "ApproximateNumberOfMessagesVisible", Made: aggregatorID}}, Statistic: "Maximum", Threshold: 1, Periods: 1,
		},
		{
			ID: "UsageMissing", About: "Records were skipped because they cannot be read, or never came: usage is missing. See the function's log, and repair it.",
			Metrics:   []Metric{{Namespace: MetricNamespace, Name: MetricRecordsSkipped, Table: limits}, {Namespace: MetricNamespace, Name: MetricUsageGaps, Table: limits}},
			Statistic: "Sum", Threshold: 1, Periods: 1,
		},
	}
}

// What the function publishes besides MetricStreamAge.
const (
	// MetricRecordsSkipped counts the records that were given up because they cannot be read.
	MetricRecordsSkipped = "RecordsSkipped"
	// MetricUsageGaps counts where consumption is known to lack its records.
	MetricUsageGaps = "UsageGaps"
)
