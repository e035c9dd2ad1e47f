package infra

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var budgets = &BudgetTables{Control: "budget-control", Usage: "budget-usage"}

// options are those whose templates are kept in testdata.
var options = map[string]Options{
	"limits":     {},
	"everything": {Table: "llm-limits", Budget: budgets, Tags: map[string]string{"team": "search", "cost-center": "42: LLM"}},
	"namespace":  {Namespace: "eu", Parts: []Part{PartRoles}},
	"tables":     {Budget: budgets, Parts: []Part{PartTables}, Tags: map[string]string{"team": "search"}},
	"alarms":     {Parts: []Part{PartAlarms}},
	"no-alarms":  {Parts: []Part{PartRoles, PartTables}},
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
		m := modelOf(t, o)
		golden(t, name+".yaml", m.CloudFormation())
		golden(t, name+".tf", m.Terraform())
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
		`parts has "vpc"`:              {Parts: []Part{"vpc"}},
		"table":                        {Table: "a b"},
		"Namespace":                    {Namespace: "eu/de"},
		"tables.usage":                 {Budget: &BudgetTables{Control: "budget-control"}},
		"is an ARN":                    {Table: "arn:aws:dynamodb:eu-central-1:123456789012:table/limits"},
		"name two tables":              {Budget: &BudgetTables{Control: "budget", Usage: "budget"}},
		"name the limiter's table":     {Table: "limits", Budget: &BudgetTables{Control: "limits", Usage: "usage"}},
		`tags has "aws:team"`:          {Tags: map[string]string{"aws:team": "x"}},
		`tags has "team": leave out`:   {Tags: map[string]string{"team": "a\nb"}},
		`tags has "": a key has 1 to`:  {Tags: map[string]string{"": "x"}},
		`tags has "t": leave out quot`: {Tags: map[string]string{"t": `${x}`}},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, want)
	}
}
