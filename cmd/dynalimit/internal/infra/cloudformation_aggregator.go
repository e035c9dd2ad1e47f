package infra

// getAtt is an attribute of a resource of the stack.
func getAtt(id, attribute string) code { return code("!GetAtt " + id + "." + attribute) }

// cfnRuns is what the function needs besides its tables: to write its log, and to tell
// which records were given up.
func cfnRuns(id string) field {
	return field{Key: "Policies", Value: list{object{
		{Key: "PolicyName", Value: "runs"},
		{Key: "PolicyDocument", Value: runs(getAtt(id+"Log", "Arn"), getAtt(queueOf(id), "Arn"))},
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

// resourcesOf are a function and what calls it.
func (t template) resourcesOf(f streamFunction) object {
	made := func(id, kind, note string, properties object) field {
		return field{Key: id, Note: note, Value: object{{Key: "Type", Value: kind}, {Key: "Properties", Value: properties}}}
	}
	o := object{
		made(f.id+"Log", "AWS::Logs::LogGroup", "What the function says.", t.tagged(object{{Key: "RetentionInDays", Value: logDays}})),
		made(queueOf(f.id), "AWS::SQS::Queue", "Says which records were given up.", t.tagged(object{
			{Key: "MessageRetentionPeriod", Value: letterSeconds}, {Key: "SqsManagedSseEnabled", Value: true},
		})),
		made(functionOf(f.id), "AWS::Lambda::Function", f.note, t.tagged(t.function(f))),
		made(f.id+"Source", "AWS::Lambda::EventSourceMapping", "", t.source(f)),
	}
	if !f.closes {
		return o
	}
	return append(
		o,
		made(f.id+"Schedule", "AWS::Events::Rule", "Closes the hours that are due.", object{
			{Key: "Description", Value: "Closes hours of usage"},
			{Key: "ScheduleExpression", Value: closeEvery},
			{Key: "Targets", Value: list{object{{Key: "Id", Value: "close"}, {Key: "Arn", Value: getAtt(functionOf(f.id), "Arn")}}}},
		}),
		made(f.id+"ScheduleCalls", "AWS::Lambda::Permission", "", object{
			{Key: "Action", Value: "lambda:InvokeFunction"},
			{Key: "FunctionName", Value: ref(functionOf(f.id))},
			{Key: "Principal", Value: eventsService},
			{Key: "SourceArn", Value: getAtt(f.id+"Schedule", "Arn")},
		}),
	)
}

func (t template) function(f streamFunction) object {
	environment := object{{Key: "DYNALIMIT_TABLE", Value: ref(tableParam(limitsTable))}}
	for _, s := range f.settings {
		environment = append(environment, field{Key: s.name, Value: ref(s.param)})
	}
	return object{
		{Key: "Description", Value: f.about},
		{Key: "Runtime", Value: "provided.al2023"},
		{Key: "Architectures", Value: list{"arm64"}},
		{Key: "Handler", Value: "bootstrap"},
		{Key: "Code", Value: object{{Key: "S3Bucket", Value: ref(paramCodeBucket)}, {Key: "S3Key", Value: ref(paramCodeKey)}}},
		{Key: "Role", Value: getAtt(f.id+"Role", "Arn")},
		{Key: "MemorySize", Value: functionMemory},
		{Key: "Timeout", Value: functionTimeout},
		{Key: "LoggingConfig", Value: object{{Key: "LogGroup", Value: ref(f.id + "Log")}}},
		{Key: "Environment", Value: object{{Key: "Variables", Value: environment}}},
	}
}

func (t template) source(f streamFunction) object {
	stream := ref(paramStream)
	if t.Has(PartTables) {
		stream = getAtt(limitsTable+"Table", "StreamArn")
	}
	var window any = longestWindow
	if f.window != "" {
		window = ref(f.window)
	}
	return object{
		{Key: "EventSourceArn", Value: stream},
		{Key: "FunctionName", Value: ref(functionOf(f.id))},
		{Key: "StartingPosition", Value: "TRIM_HORIZON"},
		{Key: "BatchSize", Value: f.batch},
		{Key: "MaximumBatchingWindowInSeconds", Value: window},
		{Key: "FunctionResponseTypes", Value: list{"ReportBatchItemFailures"}, Note: "A batch comes again from its first failure on."},
		{Key: "BisectBatchOnFunctionError", Value: true, Note: "A batch that is too much for the function comes in halves."},
		{Key: "MaximumRetryAttempts", Value: tries, Note: "Nothing is given up but by its age, half an hour before the stream drops it."},
		{Key: "MaximumRecordAgeInSeconds", Value: oldestRecord},
		{Key: "ParallelizationFactor", Value: shardWorkers, Note: "The records of an item come one batch after the other."},
		{Key: "DestinationConfig", Value: object{{Key: "OnFailure", Value: object{{Key: "Destination", Value: getAtt(queueOf(f.id), "Arn")}}}}},
		{Key: "FilterCriteria", Value: object{{Key: "Filters", Value: list{object{{Key: "Pattern", Value: f.pattern}}}}}, Note: f.lets},
	}
}
