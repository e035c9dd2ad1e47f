package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/infra"
)

// TestTemplateTranscript prints what the command says besides templates.
func TestTemplateTranscript(t *testing.T) {
	t.Parallel()
	newShell(t).golden("template.txt", [][]string{
		{"template", "-o", os.DevNull},
		{"template", "--budget", "--format", "terraform", "-o", os.DevNull, "--json"},
		{"template", "--format", "pulumi"},
		{"template", "--parts", "vpc"},
		{"template", "--namespace", "eu/de"},
		{"template", "--table", "a"},
		{"template", "--budget", "--control", "same", "--usage", "same"},
		{"template", "-o", "nowhere/dynalimit.yaml"},
		{"template", "--aggregator", "--namespace", "eu"},
	})
}

// TestTemplatePrintsTheFile: with the values of the flags as defaults, on its standard output and
// into a file.
func TestTemplatePrintsTheFile(t *testing.T) {
	values := map[string]string{"LimitsTableName": "llm-limits", "Budgets": "true", "BudgetUsageTableName": "spent", "Keeper": "true", "Tables": "false", "Roles": "true", "Alarms": "false", "NamespacePrefix": "eu/"}
	args := []string{"template", "--table", "llm-limits", "--budget", "--usage", "spent", "--keeper", "--parts", "roles", "--namespace", "eu"}
	for format, want := range map[string]string{"cloudformation": infra.CloudFormation(values), "terraform": infra.Terraform(values)} {
		code, stdout, stderr := runPlain(t, append(args, "--format", format)...)
		require.Equal(t, exitOK, code, stderr)
		assert.Equal(t, want, stdout)
		path := filepath.Join(t.TempDir(), "out")
		code, _, stderr = runPlain(t, append(args, "--format", format, "-o", path)...)
		require.Equal(t, exitOK, code, stderr)
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, want, string(written))
	}
}
