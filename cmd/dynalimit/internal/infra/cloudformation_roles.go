package infra

// Policies, roles, alarms and outputs of a template.

// cfnARN is the ARN of what a statement is about, in whichever partition the stack is.
func cfnARN(r Resource) code {
	switch {
	case r.Objects:
		return sub("arn:${AWS::Partition}:s3:::${" + paramBucket + "}/${" + paramPrefix + "}*")
	case r.Param != "":
		return ref(r.Param)
	}
	arn := "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${" + tableParam(r.Table) + "}"
	return sub(arn + r.below())
}

func (t template) policy(r Role) field {
	var statements list
	for _, s := range r.Statements {
		var v any = s.tree(cfnARN)
		if s.With != "" {
			v = choose(has(s.With), v, noValue)
		}
		statements = append(statements, v)
	}
	return field{Key: r.ID + "Policy", Note: r.About + ".", Value: object{
		{Key: "Type", Value: "AWS::IAM::ManagedPolicy"},
		{Key: "Properties", Value: object{
			{Key: "Description", Value: r.About},
			{Key: "PolicyDocument", Value: object{{Key: "Version", Value: policyVersion}, {Key: "Statement", Value: statements}}},
		}},
	}}
}

func (t template) role(r Role) field {
	account := choose(has(paramPrincipal), ref(paramPrincipal), sub("arn:${AWS::Partition}:iam::${AWS::AccountId}:root"))
	trusted := object{{Key: "AWS", Value: account}}
	switch {
	case r.Function:
		trusted = object{{Key: "Service", Value: lambdaService}}
	case r.Serves:
		trusted = choose(has(paramService), object{{Key: "Service", Value: ref(paramService)}}, trusted)
	}
	properties := object{
		{Key: "Description", Value: r.About},
		{Key: "ManagedPolicyArns", Value: list{ref(r.ID + "Policy")}},
		{Key: "PermissionsBoundary", Value: choose(has(paramBoundary), ref(paramBoundary), noValue)},
		{Key: "AssumeRolePolicyDocument", Value: object{
			{Key: "Version", Value: policyVersion},
			{Key: "Statement", Value: list{object{
				{Key: "Effect", Value: "Allow"}, {Key: "Action", Value: "sts:AssumeRole"}, {Key: "Principal", Value: trusted},
			}}},
		}},
	}
	if r.Function {
		properties = append(properties, cfnRuns(r.ID))
	}
	return field{Key: r.ID + "Role", Value: object{{Key: "Type", Value: "AWS::IAM::Role"}, {Key: "Properties", Value: t.tagged(properties)}}}
}

func (t template) alarm(a Alarm) field {
	actions := choose(has(paramTopic), list{ref(paramTopic)}, noValue)
	properties := object{
		{Key: "AlarmDescription", Value: a.About},
		{Key: "AlarmActions", Value: actions},
		{Key: "OKActions", Value: actions},
	}
	if a.Steady {
		properties = append(properties, field{Key: "InsufficientDataActions", Value: actions})
	}
	if !a.summed() {
		properties = append(properties,
			field{Key: "Namespace", Value: a.Metrics[0].Namespace}, field{Key: "MetricName", Value: a.Metrics[0].Name},
			field{Key: "Dimensions", Value: cfnDimensions(a.Metrics[0])},
			field{Key: "Statistic", Value: a.Statistic}, field{Key: "Period", Value: periodSeconds},
		)
	} else {
		properties = append(properties, field{Key: "Metrics", Value: cfnSum(a)})
	}
	properties = append(
		properties,
		field{Key: "EvaluationPeriods", Value: int64(a.Periods)},
		field{Key: "Threshold", Value: a.Threshold},
		field{Key: "ComparisonOperator", Value: comparison},
		field{Key: "TreatMissingData", Value: a.missing()},
	)
	o := object{{Key: "Type", Value: "AWS::CloudWatch::Alarm"}}
	if a.Function {
		o = append(o, field{Key: "Condition", Value: has(paramFunction)})
	}
	return field{Key: a.ID + "Alarm", Value: append(o, field{Key: "Properties", Value: properties})}
}

// cfnSum are the metrics of an alarm on their sum.
func cfnSum(a Alarm) list {
	l := list{object{{Key: "Id", Value: "total"}, {Key: "Expression", Value: sumExpression}, {Key: "Label", Value: a.ID}, {Key: "ReturnData", Value: true}}}
	for i, metric := range a.Metrics {
		l = append(l, object{
			{Key: "Id", Value: metricID(i)},
			{Key: "ReturnData", Value: false},
			{Key: "MetricStat", Value: object{
				{Key: "Metric", Value: object{
					{Key: "Namespace", Value: metric.Namespace}, {Key: "MetricName", Value: metric.Name}, {Key: "Dimensions", Value: cfnDimensions(metric)},
				}},
				{Key: "Period", Value: periodSeconds},
				{Key: "Stat", Value: a.Statistic},
			}},
		})
	}
	return l
}

func cfnDimensions(metric Metric) list {
	var l list
	for _, d := range metric.dimensions() {
		var value any = d.value
		switch {
		case d.table != "":
			value = ref(tableParam(d.table))
		case d.queue:
			value = getAtt(queueOf(d.made), "QueueName")
		case d.function && d.made != "":
			value = ref(functionOf(d.made))
		case d.function:
			value = ref(paramFunction)
		}
		l = append(l, object{{Key: "Name", Value: d.name}, {Key: "Value", Value: value}})
	}
	return l
}

func (t template) outputs() object {
	var o object
	for _, table := range t.Tables {
		o = append(o, field{Key: tableParam(table.ID), Value: object{{Key: "Description", Value: table.About}, {Key: "Value", Value: ref(tableParam(table.ID))}}})
		if t.Has(PartTables) {
			o = append(o, field{Key: table.ID + "StreamArn", Value: object{
				{Key: "Description", Value: "The stream of its changes"}, {Key: "Value", Value: code("!GetAtt " + table.ID + "Table.StreamArn")},
			}})
		}
	}
	for _, r := range t.Roles {
		o = append(o,
			field{Key: r.ID + "RoleArn", Value: object{{Key: "Description", Value: r.About}, {Key: "Value", Value: code("!GetAtt " + r.ID + "Role.Arn")}}},
			field{Key: r.ID + "PolicyArn", Value: object{{Key: "Description", Value: "The policy, to attach to a role of yours"}, {Key: "Value", Value: ref(r.ID + "Policy")}}},
		)
	}
	return o
}
