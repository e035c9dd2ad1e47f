package infra

// getAtt is an attribute of a resource of the stack.
func getAtt(id, attribute string) code { return code("!GetAtt " + id + "." + attribute) }

// cfnRuns is what the function needs besides its tables: to write its log, and to tell
// which records were given up.
func cfnRuns() field {
	return field{Key: "Policies", Value: list{object{
		{Key: "PolicyName", Value: "runs"},
		{Key: "PolicyDocument", Value: runs(getAtt(aggregatorID+"Log", "Arn"), getAtt(queueID, "Arn"))},
	}}}
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

// aggregator are the function and what calls it.
func (t template) aggregator() object {
	made := func(id, kind, note string, properties object) field {
		return field{Key: id, Note: note, Value: object{{Key: "Type", Value: kind}, {Key: "Properties", Value: properties}}}
	}
	return object{
		made(aggregatorID+"Log", "AWS::Logs::LogGroup", "What the function says.", t.tagged(object{{Key: "RetentionInDays", Value: logDays}})),
		made(queueID, "AWS::SQS::Queue", "Says which records were given up.", t.tagged(object{
			{Key: "MessageRetentionPeriod", Value: letterSeconds}, {Key: "SqsManagedSseEnabled", Value: true},
		})),
		made(functionID, "AWS::Lambda::Function", "Adds the stream of the limits to usage, and closes its hours.", t.tagged(t.function())),
		made(aggregatorID+"Source", "AWS::Lambda::EventSourceMapping", "", t.source()),
		made(aggregatorID+"Schedule", "AWS::Events::Rule", "Closes the hours that are due.", object{
			{Key: "Description", Value: "Closes hours of usage"},
			{Key: "ScheduleExpression", Value: closeEvery},
			{Key: "Targets", Value: list{object{{Key: "Id", Value: "close"}, {Key: "Arn", Value: getAtt(functionID, "Arn")}}}},
		}),
		made(aggregatorID+"ScheduleCalls", "AWS::Lambda::Permission", "", object{
			{Key: "Action", Value: "lambda:InvokeFunction"},
			{Key: "FunctionName", Value: ref(functionID)},
			{Key: "Principal", Value: eventsService},
			{Key: "SourceArn", Value: getAtt(aggregatorID+"Schedule", "Arn")},
		}),
	}
}

func (t template) function() object {
	return object{
		{Key: "Description", Value: "Adds the stream of the limits to usage (dynalimit)"},
		{Key: "Runtime", Value: "provided.al2023"},
		{Key: "Architectures", Value: list{"arm64"}},
		{Key: "Handler", Value: "bootstrap"},
		{Key: "Code", Value: object{{Key: "S3Bucket", Value: ref(paramCodeBucket)}, {Key: "S3Key", Value: ref(paramCodeKey)}}},
		{Key: "Role", Value: getAtt(aggregatorID+"Role", "Arn")},
		{Key: "MemorySize", Value: functionMemory},
		{Key: "Timeout", Value: functionTimeout},
		{Key: "LoggingConfig", Value: object{{Key: "LogGroup", Value: ref(aggregatorID + "Log")}}},
		{Key: "Environment", Value: object{{Key: "Variables", Value: object{
			{Key: "DYNALIMIT_TABLE", Value: ref(tableParam(limitsTable))},
			{Key: "DYNALIMIT_RETENTION_DAYS", Value: ref(paramRetention)},
		}}}},
	}
}

func (t template) source() object {
	stream := ref(paramStream)
	if t.Has(PartTables) {
		stream = getAtt(limitsTable+"Table", "StreamArn")
	}
	return object{
		{Key: "EventSourceArn", Value: stream},
		{Key: "FunctionName", Value: ref(functionID)},
		{Key: "StartingPosition", Value: "TRIM_HORIZON"},
		{Key: "BatchSize", Value: batchSize},
		{Key: "MaximumBatchingWindowInSeconds", Value: ref(paramWindow)},
		{Key: "FunctionResponseTypes", Value: list{"ReportBatchItemFailures"}, Note: "A batch comes again from its first failure on."},
		{Key: "BisectBatchOnFunctionError", Value: true, Note: "A batch that is too much for the function comes in halves."},
		{Key: "MaximumRetryAttempts", Value: tries, Note: "Nothing is given up but by its age, half an hour before the stream drops it."},
		{Key: "MaximumRecordAgeInSeconds", Value: oldestRecord},
		{Key: "ParallelizationFactor", Value: shardWorkers, Note: "The records of an item come one batch after the other."},
		{Key: "DestinationConfig", Value: object{{Key: "OnFailure", Value: object{{Key: "Destination", Value: getAtt(queueID, "Arn")}}}}},
		{Key: "FilterCriteria", Value: object{{Key: "Filters", Value: list{object{{Key: "Pattern", Value: bucketRecords}}}}}, Note: "Records of buckets alone."},
	}
}
