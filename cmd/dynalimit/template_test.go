package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTemplateTranscript prints templates, whole and in parts. What is in them is tested in
// the room that makes them.
func TestTemplateTranscript(t *testing.T) {
	newShell(t).golden("template.txt", [][]string{
		{"cfn", "--parts", "tables"},
		{"cfn", "-o", os.DevNull},
		{"cfn", "--budget", "--tags", "team=search", "-o", os.DevNull, "--json"},
		{"cfn", "--parts", "alarms", "--json"},
		{"cfn", "--parts", "vpc"},
		{"cfn", "--namespace", "eu/de"},
		{"cfn", "--table", "a"},
		{"cfn", "--budget", "--control", "same", "--usage", "same"},
		{"cfn", "--tags", "aws:team=search"},
		{"cfn", "-o", "nowhere/dynalimit.yaml"},
		{"cfn", "--aggregator", "--namespace", "eu"},
		{"terraform", "--namespace", "eu", "--parts", "roles"},
		{"terraform", "-o", os.DevNull},
		{"terraform", "--parts", "alarms", "--json"},
		{"terraform", "--parts", "roles,vpc"},
		{"terraform", "--budget", "--control", "limits"},
	})
}

// TestTemplatesAreThoseOfTheRoom: the flags reach the room, and nothing is asked of AWS.
func TestTemplatesAreThoseOfTheRoom(t *testing.T) {
	room := filepath.Join("internal", "infra", "testdata")
	for name, args := range map[string][]string{
		"limits.yaml":     {"cfn"},
		"limits.tf":       {"terraform"},
		"everything.tf":   {"terraform", "--table", "llm-limits", "--budget", "--control", "budget-control", "--usage", "budget-usage", "--aggregator", "--archive", "--tail", "--keeper", "--tags", "team=search,cost-center=42: LLM"},
		"everything.yaml": {"cfn", "--table", "llm-limits", "--budget", "--control", "budget-control", "--usage", "budget-usage", "--aggregator", "--archive", "--tail", "--keeper", "--tags", "team=search,cost-center=42: LLM"},
		"aggregator.yaml": {"cfn", "--aggregator", "--parts", "alarms"},
		"namespace.tf":    {"terraform", "--namespace", "eu", "--parts", "roles"},
	} {
		want, err := os.ReadFile(filepath.Join(room, name))
		require.NoError(t, err)
		code, stdout, stderr := runPlain(t, args...)
		require.Equal(t, exitOK, code, stderr)
		assert.Equal(t, string(want), stdout, name)
		path := filepath.Join(t.TempDir(), name)
		code, _, stderr = runPlain(t, append(args, "-o", path)...)
		require.Equal(t, exitOK, code, stderr)
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(written), name)
	}
}
