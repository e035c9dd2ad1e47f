package infra

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

var budgets = &BudgetTables{Control: "budget-control", Usage: "budget-usage"}

// options are those whose templates are kept in testdata: each option once, and all together.
// TestTemplatesAreWhole has the other combinations; those of ofOneRole are not kept.
var options = map[string]Options{
	"limits": {},
	"everything": {
		Table: "llm-limits", Budget: budgets, Aggregator: true, Archive: true, Tail: true, Keeper: true, Tags: map[string]string{"team": "search", "cost-center": "42: LLM"},
	},
	"namespace": {Namespace: "eu", Parts: []Part{PartRoles}},
	"tables":    {Budget: budgets, Parts: []Part{PartTables}, Tags: map[string]string{"team": "search"}},
	"alarms":    {Parts: []Part{PartAlarms}},
	// of a table that is there already
	"aggregator": {Aggregator: true, Parts: []Part{PartAlarms}},
	"archive":    {Archive: true, Parts: []Part{PartAlarms}},
	"tail":       {Tail: true, Parts: []Part{PartAlarms}},
	"keeper":     {Keeper: true, Budget: budgets, Parts: []Part{PartAlarms}},
}

func modelOf(t *testing.T, o Options) *Model {
	t.Helper()
	m, err := New(o)
	require.NoError(t, err)
	return m
}

// TestTemplates: the templates are as they were read. scripts/lint.sh lets cfn-lint read
// those in testdata.
func TestTemplates(t *testing.T) {
	for name, o := range options {
		if slices.Contains(ofOneRole, name) {
			continue
		}
		m := modelOf(t, o)
		golden(t, name+".yaml", m.CloudFormation())
		golden(t, name+".tf", m.Terraform())
	}
}

// ofOneRole are those options whose templates repeat what others say.
var ofOneRole = []string{"keeper", "tail"}

// TestTemplatesOfOneRole: besides their heading they say nothing that was not read in those
// of everything and of alarms, and have what is there without the role, and the role.
func TestTemplatesOfOneRole(t *testing.T) {
	lines := func(text string) (all []string) {
		for line := range strings.Lines(text) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		return all
	}
	for _, name := range ofOneRole {
		with, without := options[name], options[name]
		without.Keeper, without.Tail = false, false
		role := strings.ToUpper(name[:1]) + name[1:]
		for _, kind := range []struct {
			text  func(*Model) string
			named string   // a resource
			adds  []string // the resources of a role
		}{
			{(*Model).CloudFormation, `\n  (\w+):\n    (?:\w+: .*\n    )*Type: AWS::`, []string{role + "Policy", role + "Role"}},
			{(*Model).Terraform, `\nresource "(\w+)" "(\w+)"`, []string{"aws_iam_policy." + name, "aws_iam_role." + name, "aws_iam_role_policy_attachment." + name}},
		} {
			read := append(lines(kind.text(modelOf(t, options["everything"]))), lines(kind.text(modelOf(t, options["alarms"])))...)
			text := kind.text(modelOf(t, with))
			for _, line := range lines(text) {
				if !strings.HasSuffix(strings.Trim(line, `."`), ": alarms, "+name) {
					assert.Contains(t, read, line, name)
				}
			}
			want := append(found(kind.text(modelOf(t, without)), kind.named), kind.adds...)
			slices.Sort(want)
			require.Greater(t, len(want), len(kind.adds))
			assert.Equal(t, want, found(text, kind.named), name)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))         //nolint:gosec // documents
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644)) //nolint:gosec // a document
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "%s: if it is meant, run go test -update", name)
}

// TestTerraformIsFormed: each configuration is HCL, in the form of terraform fmt.
func TestTerraformIsFormed(t *testing.T) {
	for name, o := range options {
		text := []byte(modelOf(t, o).Terraform())
		_, diagnostics := hclsyntax.ParseConfig(text, name+".tf", hcl.InitialPos)
		require.False(t, diagnostics.HasErrors(), diagnostics.Error())
		assert.Equal(t, string(hclwrite.Format(text)), string(text), name)
	}
}

// TestTerraformAgrees: terraform itself, or tofu, where it is installed, finds nothing to
// format, and nothing wrong where it has the provider too.
func TestTerraformAgrees(t *testing.T) {
	program := terraform()
	if program == "" {
		t.Log("NOT CHECKED: neither terraform nor tofu is installed")
		return
	}
	for name, o := range options {
		fmt := exec.CommandContext(t.Context(), program, "fmt", "-check", "-diff", "-")
		fmt.Stdin = strings.NewReader(modelOf(t, o).Terraform())
		var out bytes.Buffer
		fmt.Stdout, fmt.Stderr = &out, &out
		require.NoError(t, fmt.Run(), "%s: %s", name, out.String())
	}
	providers := os.Getenv("DYNALIMIT_TERRAFORM_PROVIDERS")
	if providers == "" {
		t.Log("NOT VALIDATED: DYNALIMIT_TERRAFORM_PROVIDERS names no folder with the provider hashicorp/aws")
		return
	}
	for name, o := range options {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(modelOf(t, o).Terraform()), 0o600))
		for _, args := range [][]string{{"init", "-backend=false", "-input=false", "-plugin-dir=" + providers}, {"validate"}} {
			run := exec.CommandContext(t.Context(), program, args...)
			run.Dir = dir
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
		}
	}
}

func terraform() string {
	for _, name := range []string{"terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// TestOptionsThatCannotBeDescribed: what is wrong is named before anything is written.
func TestOptionsThatCannotBeDescribed(t *testing.T) {
	for want, o := range map[string]Options{
		"aggregator is of the whole":    {Aggregator: true, Namespace: "eu"},
		"archive is of the whole":       {Archive: true, Namespace: "eu"},
		"tail is of the whole":          {Tail: true, Namespace: "eu"},
		`parts has "vpc"`:               {Parts: []Part{"vpc"}},
		"table":                         {Table: "a b"},
		"Namespace":                     {Namespace: "eu/de"},
		"tables.usage":                  {Budget: &BudgetTables{Control: "budget-control"}},
		"is an ARN":                     {Table: "arn:aws:dynamodb:eu-central-1:123456789012:table/limits"},
		"name two tables":               {Budget: &BudgetTables{Control: "budget", Usage: "budget"}},
		"name the limiter's table":      {Table: "limits", Budget: &BudgetTables{Control: "limits", Usage: "usage"}},
		`tags has "aws:team"`:           {Tags: map[string]string{"aws:team": "x"}},
		`tags has "team": AWS takes`:    {Tags: map[string]string{"team": "a\nb"}},
		`tags has "": a key has 1 to`:   {Tags: map[string]string{"": "x"}},
		`tags has "t": AWS takes`:       {Tags: map[string]string{"t": `${x}`}},
		`tags has "a\ab"`:               {Tags: map[string]string{"a\ab": "x"}},
		`tags has "a\xffb"`:             {Tags: map[string]string{"a\xffb": "x"}},
		`tags has "a#b"`:                {Tags: map[string]string{"a#b": "x"}},
		`tags has "team" in two cases`:  {Tags: map[string]string{"team": "x", "Team": "x"}},
		`has 1 to 128 characters and a`: {Tags: map[string]string{strings.Repeat("é", 129): "x"}},
		"tags are 51":                   {Tags: manyTags(51)},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, want)
	}
}

func manyTags(n int) map[string]string {
	tags := map[string]string{}
	for i := range n {
		tags["tag-"+strconv.Itoa(i)] = "x"
	}
	return tags
}

// TestTagsAreAsGiven: both templates say the tags that were given, whatever AWS takes as a
// tag and the languages read as something else.
func TestTagsAreAsGiven(t *testing.T) {
	for _, text := range []string{
		"for", "null", "Null", "if", "yes", "NO", "1e3", "0x1F", "2001-01-01", ".inf", "-", "- a", " a", "a ", "a: b", "=", "@x", "é",
		"a\u2028b", "a\u00a0b", strings.Repeat("é", 128),
	} {
		tags := map[string]string{text: text}
		m := modelOf(t, Options{Tags: tags, Parts: []Part{PartTables}})
		table := resolveStack(t, m.CloudFormation(), places[0], nil)["Resources"].(map[string]any)["LimitsTable"].(map[string]any)
		got := as[[]struct{ Key, Value string }](t, table["Properties"].(map[string]any)["Tags"])
		assert.Equal(t, []struct{ Key, Value string }{{text, text}}, got, "CloudFormation")
		c := resolveTerraform(t, m.Terraform(), places[0], nil)
		assert.Equal(t, tags, as[map[string]string](t, c.plain(c.resource("aws_dynamodb_table", "limits"))["tags"]), "Terraform")
	}
}

// TestAlarmsOnDynamoDBAreOver: CloudWatch leaves an alarm on a metric of DynamoDB as it is
// while the metric is missing, which it is when there is nothing to count. So each such
// alarm is on an expression that fills it.
func TestAlarmsOnDynamoDBAreOver(t *testing.T) {
	m := modelOf(t, options["everything"])
	resources := resolveStack(t, m.CloudFormation(), places[0], nil)["Resources"].(map[string]any)
	c := resolveTerraform(t, m.Terraform(), places[0], nil)
	seen := 0
	for _, a := range m.Alarms {
		if a.Metrics[0].Namespace != namespaceDynamoDB {
			continue
		}
		seen++
		in := resources[a.ID+"Alarm"].(map[string]any)["Properties"].(map[string]any)
		assert.NotContains(t, in, "MetricName", "CloudFormation: %s", a.ID)
		require.Len(t, in["Metrics"], 1+len(a.Metrics), a.ID)
		assert.Equal(t, sumExpression, in["Metrics"].([]any)[0].(map[string]any)["Expression"])
		body := c.plain(c.resource("aws_cloudwatch_metric_alarm", snake(a.ID)))
		assert.NotContains(t, body, "metric_name", "Terraform: %s", a.ID)
		require.Len(t, body["metric_query"], 1+len(a.Metrics), a.ID)
		assert.Equal(t, sumExpression, body["metric_query"].([]any)[0].(map[string]any)["expression"])
	}
	assert.Equal(t, 9, seen, "reads, writes and errors of three tables")
}

// TestSilenceOfTheStreamIsTold: who reads the stream says every minute how far it is behind.
// If it dies it says nothing, which an alarm that takes silence for good would never tell.
func TestSilenceOfTheStreamIsTold(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:123456789012:alarms"
	m := modelOf(t, options["alarms"])
	resources := resolveStack(t, m.CloudFormation(), places[0], map[string]string{paramTopic: topic, paramFunction: "f"})["Resources"].(map[string]any)
	c := resolveTerraform(t, m.Terraform(), places[0], map[string]cty.Value{"alarm_topic_arn": cty.StringVal(topic)})
	for _, a := range m.Alarms {
		in := resources[a.ID+"Alarm"].(map[string]any)["Properties"].(map[string]any)
		body := c.plain(c.resource("aws_cloudwatch_metric_alarm", snake(a.ID)))
		silence := []any{in["TreatMissingData"], in["InsufficientDataActions"], body["treat_missing_data"], body["insufficient_data_actions"]}
		if a.ID == "StreamAge" {
			assert.Equal(t, []any{"missing", []any{topic}, "missing", []any{topic}}, silence)
		} else {
			assert.Equal(t, []any{"notBreaching", nil, "notBreaching", nil}, silence, "%s: nothing happens, so nothing is counted", a.ID)
		}
	}
}
