package infra

// The functions of a template, and what calls them.

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
	return append(
		f.runtime(),
		field{Key: "Code", Value: object{{Key: "S3Bucket", Value: ref(paramCodeBucket)}, {Key: "S3Key", Value: ref(paramCodeKey)}}},
		field{Key: "Role", Value: getAtt(f.id+"Role", "Arn")},
		field{Key: "LoggingConfig", Value: object{{Key: "LogGroup", Value: ref(f.id + "Log")}}},
		field{Key: "Environment", Value: object{{Key: "Variables", Value: environment}}},
	)
}

func (t template) source(f streamFunction) object {
	stream := ref(paramStream)
	if t.Has(PartTables) {
		stream = getAtt(limitsTable+"Table", "StreamArn")
	}
	o := append(object{{Key: "EventSourceArn", Value: stream}, {Key: "FunctionName", Value: ref(functionOf(f.id))}}, f.delivery(ref)...)
	return append(
		o,
		field{Key: "DestinationConfig", Value: object{{Key: "OnFailure", Value: object{{Key: "Destination", Value: getAtt(queueOf(f.id), "Arn")}}}}},
		field{Key: "FilterCriteria", Value: object{{Key: "Filters", Value: list{object{{Key: "Pattern", Value: f.pattern}}}}}, Note: f.lets},
	)
}
