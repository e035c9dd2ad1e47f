package infra

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
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
	{Partition: "aws", Region: "eu-central-1", Account: "123456789012", Key: key, Bucket: "kept", Prefix: "a/b/", ArchiveKey: key + "-2", Keyset: keysetARN},
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

// TestTerraformDeploysTheTemplate: the configuration is in the form of terraform fmt and has the
// template as its body, with values filled in, in as many bytes as a request takes. Terraform
// itself, where it is installed with its provider, finds nothing wrong.
func TestTerraformDeploysTheTemplate(t *testing.T) {
	values, err := whole.Values()
	require.NoError(t, err)
	text := []byte(Terraform(values))
	assert.Equal(t, string(hclwrite.Format(text)), string(text))
	file, diagnostics := hclsyntax.ParseConfig(text, "main.tf", hcl.InitialPos)
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	for _, b := range file.Body.(*hclsyntax.Body).Blocks {
		if b.Type == "resource" {
			body, diagnostics := b.Body.Attributes["template_body"].Expr.Value(nil)
			require.False(t, diagnostics.HasErrors(), diagnostics.Error())
			assert.Equal(t, inline(CloudFormation(values)), body.AsString())
			assert.LessOrEqual(t, len(body.AsString()), 51_200)
		}
	}
	providers, program := os.Getenv("DYNALIMIT_TERRAFORM_PROVIDERS"), "terraform"
	if providers == "" {
		t.Log("NOT VALIDATED: DYNALIMIT_TERRAFORM_PROVIDERS names no folder with the provider hashicorp/aws")
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), text, 0o600))
	for _, args := range [][]string{{"init", "-backend=false", "-input=false", "-plugin-dir=" + providers}, {"validate"}} {
		run := exec.CommandContext(t.Context(), program, args...)
		run.Dir = dir
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// deployedTable is what the template says of a table.
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

func first(v any) map[string]any { return v.([]any)[0].(map[string]any) }

// TestTablesAreThoseOfTheLibrary: the template makes the tables that the library makes, with what a
// deployment adds.
func TestTablesAreThoseOfTheLibrary(t *testing.T) {
	r, err := dynalimit.NewRepository(dynamodb.New(dynamodb.Options{Region: "us-east-1"}), tableName, nil)
	require.NoError(t, err)
	inputs, err := budget.Tables{Control: budgets.Control, Usage: budgets.Usage}.TableInputs()
	require.NoError(t, err)
	for _, at := range places {
		all := made(t, whole, at, nil)
		for id, of := range map[string]struct {
			input *dynamodb.CreateTableInput
			ttl   string
		}{
			"LimitsTable":        {r.TableInput(), "ttl"},
			"BudgetControlTable": {inputs[0], budget.TTLAttribute},
			"BudgetUsageTable":   {inputs[1], budget.TTLAttribute},
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
		}
	}
}

// TestRolesTrustWhomTheyShould: the account, or the principal or service that parameters name; the
// functions' roles trust Lambda. A boundary bounds each.
func TestRolesTrustWhomTheyShould(t *testing.T) {
	const someone, boundary, service = "arn:aws:iam::210987654321:role/ci", "arn:aws:iam::123456789012:policy/edge", "ecs-tasks.amazonaws.com"
	trusts := []map[string]string{{}, {"TrustedPrincipalArn": someone, "PermissionsBoundaryArn": boundary}, {"TrustedPrincipalArn": someone, "TrustedService": service}}
	for _, o := range deployments {
		for j, at := range places {
			trust := trusts[j]
			all := made(t, o, at, trust)
			for name := range all {
				id, ok := strings.CutSuffix(name, "Role")
				if !ok {
					continue
				}
				properties := propertiesOf(all, name)
				assert.Equal(t, trust["PermissionsBoundaryArn"], orEmpty(properties["PermissionsBoundary"]), id)
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
		}
	}
}

func orEmpty(v any) string {
	text, _ := v.(string)
	return text
}

// TestAlarmsEnd: each alarm on DynamoDB's own metrics is on a sum that fills them, as else it would
// never be over; and that on the age of the stream alone tells silence too, for who reads the
// stream says something every minute.
func TestAlarmsEnd(t *testing.T) {
	topic := map[string]string{"AlarmTopicArn": "arn:aws:sns:eu-central-1:123456789012:alarms"}
	for _, o := range deployments {
		all, found := made(t, o, places[0], topic), 0
		for name := range all {
			id, ok := strings.CutSuffix(name, "Alarm")
			if !ok {
				continue
			}
			found++
			alarm := as[struct {
				Namespace, TreatMissingData           string
				AlarmActions, InsufficientDataActions []string
				Metrics                               []struct {
					Expression string
					MetricStat struct{ Metric struct{ Namespace string } }
				}
			}](t, propertiesOf(all, name))
			assert.Equal(t, []string{topic["AlarmTopicArn"]}, alarm.AlarmActions, id)
			namespace, summed := alarm.Namespace, len(alarm.Metrics) > 0
			if summed {
				namespace = alarm.Metrics[1].MetricStat.Metric.Namespace
				assert.NotEmpty(t, alarm.Metrics[0].Expression, id)
			}
			assert.LessOrEqual(t, len(alarm.Metrics), 11, "an expression and as many as it takes")
			assert.Equal(t, namespace == "AWS/DynamoDB", summed && id != "UsageMissing", id)
			assert.Equal(t, id == "StreamAge", alarm.TreatMissingData == "missing" && len(alarm.InsufficientDataActions) == 1, id)
		}
		assert.Equal(t, slices.Contains(o.Parts, "alarms") || len(o.Parts) == 0, found > 0)
	}
}

// TestFunctionsReadTheStream: of the table that is made or given, records that fail come again
// alone, what is given up is told, and only the aggregator is called by the clock.
func TestFunctionsReadTheStream(t *testing.T) {
	const given = "arn:aws:stream"
	for stream, parts := range map[string][]string{"!GetAtt LimitsTable.StreamArn": nil, given: {"roles"}} {
		all := made(t, Options{Aggregator: true, Archive: true, Parts: parts}, places[0], map[string]string{"AggregatorCodeBucket": "my-code", "LimitsStreamArn": given})
		for id, pattern := range map[string]string{"Aggregator": `{"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#BUCKET#"}]}}}}`, "Archive": "REMOVE"} {
			source := propertiesOf(all, id+"Source")
			assert.Equal(t, stream, source["EventSourceArn"], id)
			assert.Equal(t, []any{"ReportBatchItemFailures"}, source["FunctionResponseTypes"], id)
			assert.Equal(t, []any{true, -1, 1}, []any{source["BisectBatchOnFunctionError"], source["MaximumRetryAttempts"], source["ParallelizationFactor"]}, id)
			assert.Equal(t, "!GetAtt "+id+"DeadLetters.Arn", source["DestinationConfig"].(map[string]any)["OnFailure"].(map[string]any)["Destination"], id)
			assert.Contains(t, first(source["FilterCriteria"].(map[string]any)["Filters"])["Pattern"], pattern, id)
			assert.Equal(t, "my-code", propertiesOf(all, id+"Function")["Code"].(map[string]any)["S3Bucket"], id)
		}
		assert.NotContains(t, all, "ArchiveSchedule")
		assert.Contains(t, all, "AggregatorSchedule")
	}
}
