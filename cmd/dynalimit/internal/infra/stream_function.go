package infra

// streamFunction is a function of AWS Lambda that the stream of the limits calls.
type streamFunction struct {
	// id begins the names of what is made for it.
	id string
	// about says what it is, to people who look at it, and note to readers of a template.
	about, note string
	// pattern is the filter of its records, and lets says what that lets through.
	pattern, lets string
	// batch is how many records it is given at most.
	batch int64
	// window is the parameter that says how long it waits for records; "" is as long as it
	// can.
	window string
	// closes means that a schedule calls it.
	closes   bool
	settings []setting
}

// setting is a variable of a function's environment that has a parameter's value.
type setting struct {
	name, param string
	// optional means that the parameter may have none.
	optional bool
}

// longestWindow is how many seconds Lambda waits for records at most.
const longestWindow = int64(300)

func functionOf(id string) string { return id + "Function" }

func queueOf(id string) string { return id + "DeadLetters" }

// functions are those that are deployed.
func (m *Model) functions() (all []streamFunction) {
	if m.Aggregator {
		all = append(all, streamFunction{
			id: aggregatorID, about: "Adds the stream of the limits to usage (dynalimit)", note: "Adds the stream of the limits to usage, and closes its hours.",
			pattern: bucketRecords, lets: "Records of buckets alone.", batch: batchSize, window: paramWindow, closes: true,
			settings: []setting{{"DYNALIMIT_RETENTION_DAYS", paramRetention, false}},
		})
	}
	if m.Archive {
		all = append(all, streamFunction{
			id: archiveID, about: "Keeps what expires of the limits in S3 (dynalimit)", note: "Keeps changes and usage that expire.",
			pattern: expiredRecords, lets: "What DynamoDB deleted by its time to live, and is archived.", batch: archiveBatch,
			settings: []setting{{"DYNALIMIT_ARCHIVE_BUCKET", paramBucket, false}, {"DYNALIMIT_ARCHIVE_PREFIX", paramPrefix, false}, {"DYNALIMIT_ARCHIVE_KMS_KEY", paramArchiveKey, true}},
		})
	}
	return all
}

// runtime is how the function runs, as far as both languages say it alike.
func (f streamFunction) runtime() object {
	return object{
		{Key: "Description", Value: f.about},
		{Key: "Runtime", Value: "provided.al2023"},
		{Key: "Architectures", Value: list{"arm64"}},
		{Key: "Handler", Value: "bootstrap"},
		{Key: "MemorySize", Value: functionMemory},
		{Key: "Timeout", Value: functionTimeout},
	}
}

// delivery is how records reach the function, as far as both languages say it alike; value is
// that of a parameter.
func (f streamFunction) delivery(value func(param string) code) object {
	var window any = longestWindow
	if f.window != "" {
		window = value(f.window)
	}
	return object{
		{Key: "StartingPosition", Value: "TRIM_HORIZON"},
		{Key: "BatchSize", Value: f.batch},
		{Key: "MaximumBatchingWindowInSeconds", Value: window},
		{Key: "FunctionResponseTypes", Value: list{"ReportBatchItemFailures"}, Note: "A batch comes again from its first failure on."},
		{Key: "BisectBatchOnFunctionError", Value: true, Note: "A batch that is too much for the function comes in halves."},
		{Key: "MaximumRetryAttempts", Value: tries, Note: "Nothing is given up but by its age, half an hour before the stream drops it."},
		{Key: "MaximumRecordAgeInSeconds", Value: oldestRecord},
		{Key: "ParallelizationFactor", Value: shardWorkers, Note: "The records of an item come one batch after the other."},
	}
}

// spelled are fields as Terraform spells them.
func spelled(o object) []any {
	out := make([]any, len(o))
	for i, f := range o {
		f.Key = snake(f.Key)
		out[i] = f
	}
	return out
}

// runs is the policy of what runs the function.
func runs(log, queue code) object {
	return object{{Key: "Version", Value: policyVersion}, {Key: "Statement", Value: list{
		object{
			{Key: "Sid", Value: "WriteLog"},
			{Key: "Effect", Value: "Allow"},
			{Key: "Action", Value: texts([]string{"logs:CreateLogStream", "logs:PutLogEvents"})},
			{Key: "Resource", Value: log},
		},
		object{{Key: "Sid", Value: "TellGivenUp"}, {Key: "Effect", Value: "Allow"}, {Key: "Action", Value: "sqs:SendMessage"}, {Key: "Resource", Value: queue}},
	}}}
}
