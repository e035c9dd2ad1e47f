package infra

import "strings"

// Policies, roles, alarms and outputs in Terraform.

func hclARN(r Resource) code {
	switch {
	case r.Objects:
		return code(`"arn:${data.aws_partition.current.partition}:s3:::${var.` + variables[paramBucket] + `}/${var.` + variables[paramPrefix] + `}*"`)
	case r.Param != "":
		return variable(r.Param)
	case r.below() != "":
		return code(`"${local.` + tableARN(r.Table) + `}` + r.below() + `"`)
	default:
		return code("local." + tableARN(r.Table))
	}
}

// encoded is a document as the argument of jsonencode.
func encoded(o object) code { return code("jsonencode(" + hclValue(o, 0) + ")") }

func (t module) policy(r Role) block {
	var always list
	with, params := map[string]list{}, []string(nil)
	for _, s := range r.Statements {
		if s.With == "" {
			always = append(always, s.tree(hclARN))
			continue
		}
		if with[s.With] == nil {
			params = append(params, s.With)
		}
		with[s.With] = append(with[s.With], s.tree(hclARN))
	}
	document := "jsonencode({\n  Version = " + hclText(policyVersion) + "\n  Statement = concat(\n    " + hclValue(always, 2)
	for _, param := range params {
		document += ",\n    var." + variables[param] + " == null ? [] : " + hclValue(with[param], 2)
	}
	document += ",\n  )\n})"
	return block{Note: r.About + ".", Head: `resource "aws_iam_policy" ` + hclText(snake(r.ID)), Body: []any{
		field{Key: "name_prefix", Value: "dynalimit-" + snake(r.ID) + "-"},
		field{Key: "description", Value: r.About},
		field{Key: "tags", Value: code("var.tags")},
		field{Key: "policy", Value: code(document)},
	}}
}

func (t module) role(r Role) block {
	account := `{ AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") }`
	principal := code(account)
	switch {
	case r.Function:
		principal = `{ Service = "` + lambdaService + `" }`
	case r.Serves:
		principal = code("var.trusted_service == null ? " + account + " : { Service = var.trusted_service }")
	}
	return block{Head: `resource "aws_iam_role" ` + hclText(snake(r.ID)), Body: []any{
		field{Key: "name_prefix", Value: "dynalimit-" + snake(r.ID) + "-"},
		field{Key: "description", Value: r.About},
		field{Key: "permissions_boundary", Value: variable(paramBoundary)},
		field{Key: "tags", Value: code("var.tags")},
		field{Key: "assume_role_policy", Value: encoded(object{
			{Key: "Version", Value: policyVersion},
			{Key: "Statement", Value: list{object{
				{Key: "Effect", Value: "Allow"}, {Key: "Action", Value: "sts:AssumeRole"}, {Key: "Principal", Value: principal},
			}}},
		})},
	}}
}

func attachment(r Role) block {
	id := snake(r.ID)
	return block{Head: `resource "aws_iam_role_policy_attachment" ` + hclText(id), Body: []any{
		field{Key: "role", Value: code("aws_iam_role." + id + ".name")},
		field{Key: "policy_arn", Value: code("aws_iam_policy." + id + ".arn")},
	}}
}

func (t module) alarm(a Alarm) block {
	id := snake(a.ID)
	var body []any
	if a.Function {
		body = append(body, field{Key: "count", Value: code("var." + variables[paramFunction] + " == null ? 0 : 1")})
	}
	topic := code("var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]")
	body = append(
		body,
		field{Key: "alarm_name", Value: code(`"${var.` + tableVariable(t.Tables[0].ID) + `}-` + strings.ReplaceAll(id, "_", "-") + `"`)},
		field{Key: "alarm_description", Value: a.About},
		field{Key: "alarm_actions", Value: topic},
		field{Key: "ok_actions", Value: topic},
		field{Key: "comparison_operator", Value: comparison},
		field{Key: "threshold", Value: a.Threshold},
		field{Key: "evaluation_periods", Value: int64(a.Periods)},
		field{Key: "treat_missing_data", Value: a.missing()},
		field{Key: "tags", Value: code("var.tags")},
	)
	if a.Steady {
		body = append(body, field{Key: "insufficient_data_actions", Value: topic})
	}
	if !a.summed() {
		body = append(
			body,
			field{Key: "namespace", Value: a.Metrics[0].Namespace},
			field{Key: "metric_name", Value: a.Metrics[0].Name},
			field{Key: "statistic", Value: a.Statistic},
			field{Key: "period", Value: periodSeconds},
			field{Key: "dimensions", Value: hclDimensions(a.Metrics[0])},
		)
	} else {
		body = append(body, hclSum(a)...)
	}
	return block{Note: a.About, Head: `resource "aws_cloudwatch_metric_alarm" ` + hclText(id), Body: body}
}

// hclSum are the queries of an alarm on the sum of metrics.
func hclSum(a Alarm) []any {
	queries := []any{block{Head: "metric_query", Body: []any{
		field{Key: "id", Value: "total"},
		field{Key: "expression", Value: sumExpression},
		field{Key: "label", Value: a.ID},
		field{Key: "return_data", Value: true},
	}}}
	for i, metric := range a.Metrics {
		queries = append(queries, block{Head: "metric_query", Body: []any{
			field{Key: "id", Value: metricID(i)},
			block{Head: "metric", Body: []any{
				field{Key: "namespace", Value: metric.Namespace},
				field{Key: "metric_name", Value: metric.Name},
				field{Key: "stat", Value: a.Statistic},
				field{Key: "period", Value: periodSeconds},
				field{Key: "dimensions", Value: hclDimensions(metric)},
			}},
		}})
	}
	return queries
}

func hclDimensions(metric Metric) object {
	var o object
	for _, d := range metric.dimensions() {
		var value any = d.value
		switch {
		case d.table != "":
			value = code("var." + tableVariable(d.table))
		case d.queue:
			value = code("aws_sqs_queue." + snake(d.made) + ".name")
		case d.function && d.made != "":
			value = code("aws_lambda_function." + snake(d.made) + ".function_name")
		case d.function:
			value = variable(paramFunction)
		}
		o = append(o, field{Key: d.name, Value: value})
	}
	return o
}

func (t module) outputs() []block {
	var blocks []block
	add := func(name, about, value string) {
		blocks = append(blocks, block{Head: "output " + hclText(name), Body: []any{
			field{Key: "description", Value: about}, field{Key: "value", Value: code(value)},
		}})
	}
	if t.Has(PartTables) {
		for _, table := range t.Tables {
			id := snake(table.ID)
			add(id+"_table_arn", table.About, "aws_dynamodb_table."+id+".arn")
			add(id+"_stream_arn", "The stream of its changes", "aws_dynamodb_table."+id+".stream_arn")
		}
	}
	for _, r := range t.Roles {
		id := snake(r.ID)
		add(id+"_role_arn", r.About, "aws_iam_role."+id+".arn")
		add(id+"_policy_arn", "The policy, to attach to a role of yours", "aws_iam_policy."+id+".arn")
	}
	return blocks
}
