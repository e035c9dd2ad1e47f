package infra

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

var (
	budgets = &BudgetTables{Control: "budget-control", Usage: "budget-usage"}
	// whole is everything that there is.
	whole = Options{Table: tableName, Budget: budgets, Aggregator: true, Archive: true, Tail: true, Keeper: true}
)

const key = "arn:aws:kms:eu-central-1:123456789012:key/1"

// places are where templates are resolved: each partition, with Amazon's key and another.
var places = []Place{
	{Partition: "aws", Region: "eu-central-1", Account: "123456789012", Bucket: "kept", Prefix: "limits/"},
	{Partition: "aws", Region: "eu-central-1", Account: "123456789012", Key: key, Bucket: "kept", Prefix: "a/b/", ArchiveKey: key + "-2", Keyset: keysetARN, Alerts: alertsARN},
	{Partition: "aws-us-gov", Region: "us-gov-west-1", Account: "123456789012", Key: strings.Replace(key, "aws", "aws-us-gov", 1), Bucket: "kept", Prefix: "limits/", ArchiveKey: key},
}

// deployments are options that make everything once, and nearly nothing.
var deployments = []Options{
	whole, {}, {Namespace: "eu", Budget: budgets, Keeper: true}, {Parts: []string{"roles"}, Namespace: "eu"}, {Parts: []string{"alarms"}, Tail: true, Archive: true}, {Parts: []string{"tables"}, Budget: budgets, Aggregator: true},
}

// TestOptionsThatCannotBeDescribed: what is wrong is named before anything is written.
func TestOptionsThatCannotBeDescribed(t *testing.T) {
	for want, o := range map[string]Options{
		"aggregator is of the whole": {Aggregator: true, Namespace: "eu"},
		"archive is of the whole":    {Archive: true, Namespace: "eu"},
		"tail is of the whole":       {Tail: true, Namespace: "eu"},
		"keeper is about the tables": {Keeper: true},
		`parts has "vpc"`:            {Parts: []string{"vpc"}},
		"table":                      {Table: "a b"},
		"Namespace":                  {Namespace: "eu/de"},
		"tables.usage":               {Budget: &BudgetTables{Control: "budget-control"}},
		"is an ARN":                  {Table: "arn:aws:dynamodb:eu-central-1:123456789012:table/limits"},
		"name two tables":            {Budget: &BudgetTables{Control: "budget", Usage: "budget"}},
		"name the limiter's table":   {Table: "limits", Budget: &BudgetTables{Control: "limits", Usage: "usage"}},
	} {
		_, err := o.Values()
		require.ErrorContains(t, err, want)
	}
}

// TestInlineIsTheTemplate: what 'stack deploy' sends says what the template says, in as many
// bytes as a request takes.
func TestInlineIsTheTemplate(t *testing.T) {
	assert.LessOrEqual(t, len(Inline()), 51_200)
	values, err := whole.Values()
	require.NoError(t, err)
	assert.Equal(t, resources(t, cloudFormation, places[1], values), resources(t, Inline(), places[1], values))
	assert.Equal(t, made(t, whole, places[1], nil), resources(t, Inline(), places[1], values), "values as parameters, and as defaults")
}

// TestTerraformIsFormed: the configuration is in the form of terraform fmt, also with values
// filled in; terraform itself, where it is installed with its provider, finds nothing wrong.
func TestTerraformIsFormed(t *testing.T) {
	values, err := whole.Values()
	require.NoError(t, err)
	for _, text := range []string{terraform, Terraform(values)} {
		assert.Equal(t, string(hclwrite.Format([]byte(text))), text)
	}
	providers, program := os.Getenv("DYNALIMIT_TERRAFORM_PROVIDERS"), "terraform"
	if providers == "" {
		t.Log("NOT VALIDATED: DYNALIMIT_TERRAFORM_PROVIDERS names no folder with the provider hashicorp/aws")
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(Terraform(values)), 0o600))
	for _, args := range [][]string{{"init", "-backend=false", "-input=false", "-plugin-dir=" + providers}, {"validate"}} {
		run := exec.CommandContext(t.Context(), program, args...)
		run.Dir = dir
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// deployedTable is what both templates say of a table.
type deployedTable struct {
	TableName                 string
	BillingMode               types.BillingMode
	DeletionProtectionEnabled any
	AttributeDefinitions      []types.AttributeDefinition
	KeySchema                 []types.KeySchemaElement
	GlobalSecondaryIndexes    []types.GlobalSecondaryIndex
	StreamSpecification       types.StreamSpecification
	TimeToLiveSpecification   struct {
		AttributeName string
		Enabled       bool
	}
	PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
	SSESpecification                 *struct {
		SSEEnabled bool
		Key        string `json:"KMSMasterKeyId"`
	}
}

// ofTerraform is a table of the configuration in the words of CloudFormation.
func ofTerraform(t *testing.T, m map[string]any) deployedTable {
	t.Helper()
	keys := func(m map[string]any) []any {
		return []any{
			map[string]any{"AttributeName": m["hash_key"], "KeyType": "HASH"}, map[string]any{"AttributeName": m["range_key"], "KeyType": "RANGE"},
		}
	}
	var definitions, indexes []any
	for _, a := range m["attribute"].([]any) {
		a := a.(map[string]any)
		definitions = append(definitions, map[string]any{"AttributeName": a["name"], "AttributeType": a["type"]})
	}
	list, _ := m["global_secondary_index"].([]any)
	for _, x := range list {
		x := x.(map[string]any)
		indexes = append(indexes, map[string]any{
			"IndexName": x["name"], "KeySchema": keys(x),
			"Projection": map[string]any{"ProjectionType": x["projection_type"], "NonKeyAttributes": x["non_key_attributes"]},
		})
	}
	require.Equal(t, true, m["stream_enabled"])
	table := map[string]any{
		"TableName": m["name"], "BillingMode": m["billing_mode"], "DeletionProtectionEnabled": "true",
		"AttributeDefinitions": definitions, "KeySchema": keys(m), "GlobalSecondaryIndexes": indexes,
		"StreamSpecification":              map[string]any{"StreamViewType": m["stream_view_type"]},
		"TimeToLiveSpecification":          map[string]any{"AttributeName": first(m["ttl"])["attribute_name"], "Enabled": first(m["ttl"])["enabled"]},
		"PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": first(m["point_in_time_recovery"])["enabled"]},
	}
	require.Equal(t, true, m["deletion_protection_enabled"])
	require.Equal(t, true, first(m["lifecycle"])["prevent_destroy"])
	if sse := first(m["server_side_encryption"]); sse["enabled"].(bool) {
		table["SSESpecification"] = map[string]any{"SSEEnabled": true, "KMSMasterKeyId": sse["kms_key_arn"]}
	}
	return as[deployedTable](t, table)
}

func first(v any) map[string]any { return v.([]any)[0].(map[string]any) }

// TestTablesAreThoseOfTheLibrary: both templates make the tables that the library makes,
// with what a deployment adds, and they agree.
func TestTablesAreThoseOfTheLibrary(t *testing.T) {
	r, err := dynalimit.NewRepository(dynamodb.New(dynamodb.Options{Region: "us-east-1"}), tableName, nil)
	require.NoError(t, err)
	inputs, err := budget.Tables{Control: budgets.Control, Usage: budgets.Usage}.TableInputs()
	require.NoError(t, err)
	for _, at := range places {
		all, c := made(t, whole, at, nil), configuredBy(t, whole, at, nil)
		for id, of := range map[string]struct {
			input *dynamodb.CreateTableInput
			ttl   string
			hcl   map[string]any
		}{
			"LimitsTable":        {r.TableInput(), "ttl", c.instances("aws_dynamodb_table", "limits")["0"]},
			"BudgetControlTable": {inputs[0], budget.TTLAttribute, c.instances("aws_dynamodb_table", "budget")["control"]},
			"BudgetUsageTable":   {inputs[1], budget.TTLAttribute, c.instances("aws_dynamodb_table", "budget")["usage"]},
		} {
			resource := all[id].(map[string]any)
			assert.Equal(t, []any{"Retain", "Retain"}, []any{resource["DeletionPolicy"], resource["UpdateReplacePolicy"]})
			got, want := as[deployedTable](t, resource["Properties"]), as[deployedTable](t, of.input)
			want.DeletionProtectionEnabled, want.StreamSpecification = "true", types.StreamSpecification{StreamViewType: types.StreamViewTypeNewAndOldImages}
			want.TimeToLiveSpecification.AttributeName, want.TimeToLiveSpecification.Enabled = of.ttl, true
			want.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled = true
			want.SSESpecification = got.SSESpecification
			if at.Key == "" {
				assert.Nil(t, got.SSESpecification)
			} else {
				assert.Equal(t, at.Key, got.SSESpecification.Key)
			}
			assert.Equal(t, want, got, id)
			assert.Equal(t, got, ofTerraform(t, of.hcl), "Terraform: %s", id)
		}
	}
}

// TestRolesOfBothTemplatesAreTheSame: they may the same, whom they trust and what bounds them is
// the same, and neither template has one that the other has not.
func TestRolesOfBothTemplatesAreTheSame(t *testing.T) {
	const someone, boundary, service = "arn:aws:iam::210987654321:role/ci", "arn:aws:iam::123456789012:policy/edge", "ecs-tasks.amazonaws.com"
	trusts := []map[string]string{{}, {"TrustedPrincipalArn": someone, "PermissionsBoundaryArn": boundary}, {"TrustedPrincipalArn": someone, "TrustedService": service}}
	for i, o := range deployments {
		for j, at := range places {
			trust := trusts[j]
			all, c := made(t, o, at, trust), configuredBy(t, o, at, trust)
			roles := c.instances("aws_iam_role", "of")
			found := 0
			for name := range all {
				id, ok := strings.CutSuffix(name, "Role")
				if !ok {
					continue
				}
				found++
				assert.Equal(t, readPolicy(t, policyOf(t, id, o, at)).Statement, c.policyOf(variableName(id)), "%d %s", i, id)
				properties, role := propertiesOf(all, name), roles[variableName(id)]
				require.NotNil(t, role, id)
				assert.Equal(t, trust["PermissionsBoundaryArn"], orEmpty(properties["PermissionsBoundary"]), id)
				assert.Equal(t, trust["PermissionsBoundaryArn"], orEmpty(role["permissions_boundary"]), id)
				text, err := json.Marshal(properties["AssumeRolePolicyDocument"])
				require.NoError(t, err)
				assert.JSONEq(t, string(text), role["assume_role_policy"].(string), id)
				principal := map[string]any{"AWS": "arn:" + at.Partition + ":iam::123456789012:root"}
				switch {
				case id == "Aggregator" || id == "Archive":
					principal = map[string]any{"Service": "lambda.amazonaws.com"}
				case trust["TrustedService"] != "" && id != "Read" && id != "Admin":
					principal = map[string]any{"Service": service}
				case trust["TrustedPrincipalArn"] != "":
					principal = map[string]any{"AWS": someone}
				}
				assert.Equal(t, principal, first(properties["AssumeRolePolicyDocument"].(map[string]any)["Statement"])["Principal"], id)
			}
			assert.Len(t, roles, found)
		}
	}
}

func orEmpty(v any) string {
	text, _ := v.(string)
	return text
}

// watched is what both templates say of an alarm.
type watched struct {
	About, Missing             string
	Actions, OK, Silence       []any
	Threshold, Periods, Period any
	Expression                 any
	Metrics                    []watchedMetric
}

type watchedMetric struct {
	Namespace, Name, Statistic any
	Dimensions                 map[string]any
}

// cfnAlarm is an alarm of the template.
func cfnAlarm(p map[string]any) watched {
	actions := func(name string) []any { l, _ := p[name].([]any); return append([]any{}, l...) }
	dimensions := func(l any) map[string]any {
		m := map[string]any{}
		for _, d := range l.([]any) {
			m[d.(map[string]any)["Name"].(string)] = d.(map[string]any)["Value"]
		}
		return m
	}
	w := watched{
		About: p["AlarmDescription"].(string), Missing: p["TreatMissingData"].(string),
		Actions: actions("AlarmActions"), OK: actions("OKActions"), Silence: actions("InsufficientDataActions"),
		Threshold: p["Threshold"], Periods: p["EvaluationPeriods"], Period: p["Period"],
	}
	if p["Metrics"] == nil {
		w.Metrics = []watchedMetric{{p["Namespace"], p["MetricName"], p["Statistic"], dimensions(p["Dimensions"])}}
		return w
	}
	w.Expression = first(p["Metrics"])["Expression"]
	for _, m := range p["Metrics"].([]any)[1:] {
		stat := m.(map[string]any)["MetricStat"].(map[string]any)
		metric := stat["Metric"].(map[string]any)
		w.Period = stat["Period"]
		w.Metrics = append(w.Metrics, watchedMetric{metric["Namespace"], metric["MetricName"], stat["Stat"], dimensions(metric["Dimensions"])})
	}
	return w
}

// hclAlarm is an alarm of the configuration.
func hclAlarm(b map[string]any) watched {
	actions := func(name string) []any { l, _ := b[name].([]any); return append([]any{}, l...) }
	w := watched{
		About: b["alarm_description"].(string), Missing: b["treat_missing_data"].(string),
		Actions: actions("alarm_actions"), OK: actions("ok_actions"), Silence: actions("insufficient_data_actions"),
		Threshold: b["threshold"], Periods: b["evaluation_periods"], Period: b["period"],
	}
	if b["metric_query"] == nil {
		w.Metrics = []watchedMetric{{b["namespace"], b["metric_name"], b["statistic"], b["dimensions"].(map[string]any)}}
		return w
	}
	w.Expression = first(b["metric_query"])["expression"]
	for _, q := range b["metric_query"].([]any)[1:] {
		metric := first(q.(map[string]any)["metric"])
		w.Period = metric["period"]
		w.Metrics = append(w.Metrics, watchedMetric{metric["namespace"], metric["metric_name"], metric["stat"], metric["dimensions"].(map[string]any)})
	}
	return w
}

// inBoth is what the template for CloudFormation says in the words of the other.
var inBoth = strings.NewReplacer(
	"ref:AggregatorFunction", "aws_lambda_function.of.aggregator.function_name", "ref:ArchiveFunction", "aws_lambda_function.of.archive.function_name",
	"!GetAtt AggregatorDeadLetters.QueueName", "aws_sqs_queue.of.aggregator.name", "!GetAtt ArchiveDeadLetters.QueueName", "aws_sqs_queue.of.archive.name",
	"!GetAtt AggregatorDeadLetters.Arn", "aws_sqs_queue.of.aggregator.arn", "!GetAtt ArchiveDeadLetters.Arn", "aws_sqs_queue.of.archive.arn",
	"!GetAtt LimitsTable.StreamArn", "aws_dynamodb_table.limits.0.stream_arn",
)

// plainText is a value as JSON, of either template.
func plainText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return inBoth.Replace(string(text))
}

// TestAlarmsOfBothTemplatesAreTheSame; each that is on DynamoDB's own metrics is on a sum that
// fills them, as else it would never be over; and that on the age of the stream alone tells
// silence too, for who reads the stream says something every minute.
func TestAlarmsOfBothTemplatesAreTheSame(t *testing.T) {
	topic := map[string]string{"AlarmTopicArn": "arn:aws:sns:eu-central-1:123456789012:alarms"}
	for _, o := range deployments {
		all, c := made(t, o, places[0], topic), configuredBy(t, o, places[0], topic)
		alarms := c.instances("aws_cloudwatch_metric_alarm", "sum")
		maps.Copy(alarms, c.instances("aws_cloudwatch_metric_alarm", "of"))
		found := 0
		for name := range all {
			id, ok := strings.CutSuffix(name, "Alarm")
			if !ok {
				continue
			}
			found++
			require.Contains(t, alarms, id)
			alarm := cfnAlarm(propertiesOf(all, name))
			assert.JSONEq(t, plainText(t, alarm), plainText(t, hclAlarm(alarms[id])), id)
			assert.LessOrEqual(t, len(alarm.Metrics), 10, "as many as an expression takes")
			assert.Equal(t, alarm.Metrics[0].Namespace == "AWS/DynamoDB", alarm.Expression != nil && id != "UsageMissing", id)
			assert.Equal(t, id == "StreamAge", alarm.Missing == "missing" && len(alarm.Silence) == 1, id)
		}
		assert.Len(t, alarms, found)
		assert.Equal(t, slices.Contains(o.Parts, "alarms") || len(o.Parts) == 0, found > 0)
	}
}

// TestFunctionsOfBothTemplatesAreTheSame: with the same code, settings, source, filter, queue,
// log and schedule, in every partition.
func TestFunctionsOfBothTemplatesAreTheSame(t *testing.T) {
	given := map[string]string{"AggregatorCodeBucket": "my-code", "AggregatorCodeKey": "v1.zip", "AggregatorBatchingWindow": "300", "LimitsStreamArn": "arn:aws:stream"}
	for _, parts := range [][]string{nil, {"roles"}} {
		for _, at := range places {
			o := Options{Aggregator: true, Archive: true, Parts: parts}
			all, c := made(t, o, at, given), configuredBy(t, o, at, given)
			for _, id := range []string{"Aggregator", "Archive"} {
				f, g := propertiesOf(all, id+"Function"), c.instances("aws_lambda_function", "of")[variableName(id)]
				same(t, f, g, "Description", "Runtime", "Architectures", "Handler", "MemorySize", "Timeout")
				same(t, f["Code"].(map[string]any), g, "S3Bucket", "S3Key")
				assert.Equal(t, f["Environment"].(map[string]any)["Variables"], first(g["environment"])["variables"])
				source, mapping := propertiesOf(all, id+"Source"), c.instances("aws_lambda_event_source_mapping", "of")[variableName(id)]
				same(t, source, mapping, "EventSourceArn", "StartingPosition", "BatchSize", "MaximumBatchingWindowInSeconds", "FunctionResponseTypes",
					"BisectBatchOnFunctionError", "MaximumRetryAttempts", "MaximumRecordAgeInSeconds", "ParallelizationFactor")
				assert.Equal(t, first(source["FilterCriteria"].(map[string]any)["Filters"])["Pattern"], first(first(mapping["filter_criteria"])["filter"])["pattern"])
				assert.Equal(t, plainText(t, source["DestinationConfig"].(map[string]any)["OnFailure"].(map[string]any)["Destination"]),
					plainText(t, first(first(mapping["destination_config"])["on_failure"])["destination_arn"]))
				queue, log := c.instances("aws_sqs_queue", "of")[variableName(id)], c.instances("aws_cloudwatch_log_group", "of")[variableName(id)]
				assert.EqualValues(t, propertiesOf(all, id+"DeadLetters")["MessageRetentionPeriod"], queue["message_retention_seconds"])
				assert.Equal(t, propertiesOf(all, id+"DeadLetters")["SqsManagedSseEnabled"], queue["sqs_managed_sse_enabled"])
				same(t, propertiesOf(all, id+"Log"), log, "RetentionInDays")
			}
			assert.NotContains(t, all, "ArchiveSchedule")
			rules := c.instances("aws_cloudwatch_event_rule", "of")
			assert.Len(t, rules, 1)
			same(t, propertiesOf(all, "AggregatorSchedule"), rules["aggregator"], "Description", "ScheduleExpression")
			same(t, propertiesOf(all, "AggregatorScheduleCalls"), c.instances("aws_lambda_permission", "of")["aggregator"], "Action", "Principal")
		}
	}
}

// same requires that properties of both templates are equal, as texts: CloudFormation passes
// numbers of parameters on as such.
func same(t *testing.T, cfn, hcl map[string]any, names ...string) {
	t.Helper()
	for _, name := range names {
		require.Contains(t, cfn, name)
		require.Contains(t, hcl, variableName(name))
		assert.Equal(t, strings.Trim(plainText(t, cfn[name]), `"`), strings.Trim(plainText(t, hcl[variableName(name)]), `"`), name)
	}
}
