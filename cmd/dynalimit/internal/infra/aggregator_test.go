package infra

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

// parts of the function in both languages, with what AWS would tell of each in neither.
type deployment struct {
	resources map[string]any
	terraform configuration
}

func (d deployment) cfn(id string) map[string]any {
	return d.resources[id].(map[string]any)["Properties"].(map[string]any)
}

func (d deployment) hcl(kind string) map[string]any {
	return d.terraform.plain(d.terraform.resource(kind, "aggregator"))
}

// same requires that attributes of both languages are equal, as texts: CloudFormation passes
// numbers of parameters on as such.
func same(t *testing.T, a, b map[string]any, names map[string]string) {
	t.Helper()
	text := func(v any) string {
		out, err := json.Marshal(v)
		require.NoError(t, err)
		var s string
		if json.Unmarshal(out, &s) == nil {
			return s
		}
		return string(out)
	}
	for one, other := range names {
		assert.Contains(t, a, one)
		assert.Equal(t, text(a[one]), text(b[other]), "%s, %s", one, other)
	}
}

func first(v any) map[string]any { return v.([]any)[0].(map[string]any) }

// TestBothTemplatesRunTheSameFunction: with the same code, settings, source, queue, log and
// schedule, in every partition.
func TestBothTemplatesRunTheSameFunction(t *testing.T) {
	for _, name := range []string{"everything", "aggregator"} {
		m := modelOf(t, options[name])
		for _, at := range places {
			params := map[string]string{paramCodeBucket: "my-code", paramCodeKey: "v1.zip", paramWindow: "300", paramStream: "arn:stream"}
			d := deployment{resolveStack(t, m.CloudFormation(), at, params)["Resources"].(map[string]any), resolveTerraform(t, m.Terraform(), at, map[string]cty.Value{
				"aggregator_code_bucket": cty.StringVal("my-code"), "aggregator_code_key": cty.StringVal("v1.zip"), "aggregator_batching_window": cty.NumberIntVal(300),
				"limits_stream_arn": cty.StringVal("arn:stream"),
			})}
			f, g := d.cfn(functionOf(aggregatorID)), d.hcl("aws_lambda_function")
			same(t, f, g, map[string]string{
				"Runtime": "runtime", "Architectures": "architectures", "Handler": "handler", "MemorySize": "memory_size", "Timeout": "timeout",
			})
			same(t, f["Code"].(map[string]any), g, map[string]string{"S3Bucket": "s3_bucket", "S3Key": "s3_key"})
			assert.Equal(t, map[string]any{"DYNALIMIT_TABLE": m.name(limitsTable), "DYNALIMIT_RETENTION_DAYS": 90.0}, first(g["environment"])["variables"], "Terraform makes texts of numbers")
			assert.Equal(t, map[string]any{"DYNALIMIT_TABLE": m.name(limitsTable), "DYNALIMIT_RETENTION_DAYS": "90"}, f["Environment"].(map[string]any)["Variables"])
			assert.Equal(t, []any{"provided.al2023", []any{"arm64"}}, []any{f["Runtime"], f["Architectures"]})

			source, mapping := d.cfn(aggregatorID+"Source"), d.hcl("aws_lambda_event_source_mapping")
			same(t, source, mapping, map[string]string{
				"StartingPosition": "starting_position", "BatchSize": "batch_size", "MaximumBatchingWindowInSeconds": "maximum_batching_window_in_seconds",
				"FunctionResponseTypes": "function_response_types", "BisectBatchOnFunctionError": "bisect_batch_on_function_error",
				"MaximumRetryAttempts": "maximum_retry_attempts", "MaximumRecordAgeInSeconds": "maximum_record_age_in_seconds",
				"ParallelizationFactor": "parallelization_factor",
			})
			assert.Equal(t, "300", source["MaximumBatchingWindowInSeconds"])
			assert.Equal(t, bucketRecords, first(source["FilterCriteria"].(map[string]any)["Filters"])["Pattern"])
			assert.Equal(t, bucketRecords, first(first(mapping["filter_criteria"])["filter"])["pattern"])
			assert.Equal(t, "!GetAtt AggregatorDeadLetters.Arn", source["DestinationConfig"].(map[string]any)["OnFailure"].(map[string]any)["Destination"])
			assert.Equal(t, "aws_sqs_queue.aggregator.arn", first(first(mapping["destination_config"])["on_failure"])["destination_arn"])
			if m.Has(PartTables) {
				assert.Equal(t, "!GetAtt LimitsTable.StreamArn", source["EventSourceArn"])
				assert.Equal(t, "aws_dynamodb_table.limits.stream_arn", mapping["event_source_arn"])
			} else {
				assert.Equal(t, []any{"arn:stream", "arn:stream"}, []any{source["EventSourceArn"], mapping["event_source_arn"]})
			}

			same(t, d.cfn(queueOf(aggregatorID)), d.hcl("aws_sqs_queue"), map[string]string{"MessageRetentionPeriod": "message_retention_seconds", "SqsManagedSseEnabled": "sqs_managed_sse_enabled"})
			same(t, d.cfn(aggregatorID+"Log"), d.hcl("aws_cloudwatch_log_group"), map[string]string{"RetentionInDays": "retention_in_days"})
			same(t, d.cfn(aggregatorID+"Schedule"), d.hcl("aws_cloudwatch_event_rule"), map[string]string{"ScheduleExpression": "schedule_expression"})
			same(t, d.cfn(aggregatorID+"ScheduleCalls"), d.hcl("aws_lambda_permission"), map[string]string{"Action": "action", "Principal": "principal"})
			assert.Equal(t, "!GetAtt AggregatorSchedule.Arn", d.cfn(aggregatorID + "ScheduleCalls")["SourceArn"])
			assert.Equal(t, "aws_cloudwatch_event_rule.aggregator.arn", d.hcl("aws_lambda_permission")["source_arn"])
		}
	}
}

// TestFunctionsRoleIsLambdasAlone: no account takes it, and the boundary bounds it.
func TestFunctionsRoleIsLambdasAlone(t *testing.T) {
	const boundary = "arn:aws:iam::123456789012:policy/edge"
	m := modelOf(t, options["everything"])
	d := deployment{
		resolveStack(t, m.CloudFormation(), places[0], map[string]string{paramBoundary: boundary, paramPrincipal: "arn:aws:iam::1:role/x", paramService: "ecs"})["Resources"].(map[string]any),
		resolveTerraform(t, m.Terraform(), places[0], map[string]cty.Value{"permissions_boundary_arn": cty.StringVal(boundary), "trusted_service": cty.StringVal("ecs")}),
	}
	role, body := d.cfn(aggregatorID+"Role"), d.hcl("aws_iam_role")
	assert.Equal(t, boundary, role["PermissionsBoundary"])
	assert.Equal(t, boundary, body["permissions_boundary"])
	want := map[string]any{"Version": policyVersion, "Statement": []any{
		map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": "lambda.amazonaws.com"}},
	}}
	assert.Equal(t, want, role["AssumeRolePolicyDocument"])
	text, err := json.Marshal(want)
	require.NoError(t, err)
	assert.JSONEq(t, string(text), body["assume_role_policy"].(string))

	runs := first(role["Policies"])["PolicyDocument"].(map[string]any)["Statement"].([]any)
	var hcl struct{ Statement []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(d.hcl("aws_iam_role_policy")["policy"].(string)), &hcl))
	require.Len(t, runs, 2)
	for i, statement := range runs {
		assert.Equal(t, statement.(map[string]any)["Action"], hcl.Statement[i]["Action"])
	}
	assert.Equal(t, []any{"!GetAtt AggregatorLog.Arn", "!GetAtt AggregatorDeadLetters.Arn"}, []any{runs[0].(map[string]any)["Resource"], runs[1].(map[string]any)["Resource"]})
	assert.Equal(t, []any{"aws_cloudwatch_log_group.aggregator.arn:*", "aws_sqs_queue.aggregator.arn"}, []any{hcl.Statement[0]["Resource"], hcl.Statement[1]["Resource"]})
}

// TestAlarmsOnTheFunctionAreOnIts: with it, they name it and its queue rather than a
// parameter, and no alarm waits for what a function that has nothing to read does not say.
func TestAlarmsOnTheFunctionAreOnIts(t *testing.T) {
	m := modelOf(t, options["aggregator"])
	d := deployment{resolveStack(t, m.CloudFormation(), places[0], nil)["Resources"].(map[string]any), resolveTerraform(t, m.Terraform(), places[0], nil)}
	assert.NotContains(t, d.resources, "StreamAgeAlarm")
	for id, want := range map[string][2]string{
		"StreamFunctionAge":     {"ref:AggregatorFunction", "aws_lambda_function.aggregator.function_name"},
		"AggregatorErrors":      {"ref:AggregatorFunction", "aws_lambda_function.aggregator.function_name"},
		"AggregatorDeadLetters": {"!GetAtt AggregatorDeadLetters.QueueName", "aws_sqs_queue.aggregator.name"},
	} {
		in := d.cfn(id + "Alarm")
		assert.Equal(t, want[0], first(in["Dimensions"])["Value"], id)
		body := d.terraform.plain(d.terraform.resource("aws_cloudwatch_metric_alarm", snake(id)))
		for _, v := range body["dimensions"].(map[string]any) {
			assert.Equal(t, want[1], v, id)
		}
		assert.NotContains(t, body, "count")
		assert.NotContains(t, d.resources[id+"Alarm"], "Condition")
	}
}
