package infra

// The functions of a configuration, and what calls them.

// provider is which versions of Terraform's provider know everything that is described.
func (m *Model) provider() string {
	if m.Aggregator || m.Archive {
		return ">= 5.32" // where a function's log goes
	}
	return ">= 5.0"
}

// resourcesOf are a function and what calls it.
func (t module) resourcesOf(f streamFunction) []block {
	id := snake(f.id)
	tags := field{Key: "tags", Value: code("var.tags")}
	of := func(kind, note string, body ...any) block {
		return block{Note: note, Head: "resource " + hclText(kind) + " " + hclText(id), Body: body}
	}
	blocks := []block{
		of("aws_cloudwatch_log_group", "What the function says.",
			field{Key: "name_prefix", Value: "/aws/lambda/dynalimit-" + id + "-"}, field{Key: "retention_in_days", Value: logDays}, tags),
		of("aws_sqs_queue", "Says which records were given up.",
			field{Key: "name_prefix", Value: "dynalimit-" + id + "-"}, field{Key: "message_retention_seconds", Value: letterSeconds},
			field{Key: "sqs_managed_sse_enabled", Value: true}, tags),
		of("aws_iam_role_policy", "",
			field{Key: "name_prefix", Value: "runs-"}, field{Key: "role", Value: code("aws_iam_role." + id + ".id")},
			field{Key: "policy", Value: encoded(runs(code(`"${aws_cloudwatch_log_group.`+id+`.arn}:*"`), code("aws_sqs_queue."+id+".arn")))}),
		of("aws_lambda_function", f.note, append(t.function(f), tags)...),
		of("aws_lambda_event_source_mapping", "", t.source(f)...),
	}
	if !f.closes {
		return blocks
	}
	return append(
		blocks,
		of("aws_cloudwatch_event_rule", "Closes the hours that are due.",
			field{Key: "name_prefix", Value: "dynalimit-" + id + "-"}, field{Key: "description", Value: "Closes hours of usage"},
			field{Key: "schedule_expression", Value: closeEvery}, tags),
		of("aws_cloudwatch_event_target", "",
			field{Key: "rule", Value: code("aws_cloudwatch_event_rule." + id + ".name")}, field{Key: "arn", Value: code("aws_lambda_function." + id + ".arn")}),
		of("aws_lambda_permission", "",
			field{Key: "action", Value: "lambda:InvokeFunction"}, field{Key: "function_name", Value: code("aws_lambda_function." + id + ".function_name")},
			field{Key: "principal", Value: eventsService}, field{Key: "source_arn", Value: code("aws_cloudwatch_event_rule." + id + ".arn")}),
	)
}

func (t module) function(f streamFunction) []any {
	id := snake(f.id)
	environment := object{{Key: "DYNALIMIT_TABLE", Value: code("var." + tableVariable(limitsTable))}}
	for _, s := range f.settings {
		value := variable(s.param)
		if s.optional {
			value = code("var." + variables[s.param] + ` == null ? "" : var.` + variables[s.param])
		}
		environment = append(environment, field{Key: s.name, Value: value})
	}
	name := field{Key: "function_name", Value: code(`"${var.` + tableVariable(limitsTable) + `}-` + id + `"`)}
	return append(
		append([]any{name}, spelled(f.runtime())...),
		field{Key: "s3_bucket", Value: variable(paramCodeBucket)},
		field{Key: "s3_key", Value: variable(paramCodeKey)},
		field{Key: "role", Value: code("aws_iam_role." + id + ".arn")},
		block{Head: "logging_config", Body: []any{
			field{Key: "log_format", Value: "Text"}, field{Key: "log_group", Value: code("aws_cloudwatch_log_group." + id + ".name")},
		}},
		block{Head: "environment", Body: []any{field{Key: "variables", Value: environment}}},
	)
}

func (t module) source(f streamFunction) []any {
	id := snake(f.id)
	stream := variable(paramStream)
	if t.Has(PartTables) {
		stream = code("aws_dynamodb_table." + snake(limitsTable) + ".stream_arn")
	}
	body := append([]any{
		field{Key: "event_source_arn", Value: stream},
		field{Key: "function_name", Value: code("aws_lambda_function." + id + ".arn")},
	}, spelled(f.delivery(variable))...)
	return append(
		body,
		field{Key: "depends_on", Value: code("[aws_iam_role_policy." + id + ", aws_iam_role_policy_attachment." + id + "]")},
		block{Head: "destination_config", Body: []any{block{Head: "on_failure", Body: []any{
			field{Key: "destination_arn", Value: code("aws_sqs_queue." + id + ".arn")},
		}}}},
		block{Note: f.lets, Head: "filter_criteria", Body: []any{block{Head: "filter", Body: []any{
			field{Key: "pattern", Value: f.pattern},
		}}}},
	)
}
