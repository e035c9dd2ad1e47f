package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack/stacktest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// newStacks is a shell with a CloudFormation that makes the tables in the shell's engine.
func newStacks(t *testing.T) (*shell, *stacktest.Server) {
	t.Helper()
	s := newShell(t)
	server := &stacktest.Server{DynamoDB: s.db.Client(), Now: s.clock}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", listener.URL)
	return s, server
}

// TestStackTranscript plays the life of a stack.
func TestStackTranscript(t *testing.T) {
	s, server := newStacks(t)
	s.golden("stack.txt", [][]string{
		{"stack", "list"},
		{"stack", "status"},
		{"stack", "status", "--json"},
		{"stack", "deploy", "--dry-run", "--parts", "tables,roles"},
		{"stack", "list"},
		{"stack", "deploy", "--parts", "tables,roles"},
		{"stack", "deploy", "--parts", "tables,roles", "--yes"},
		{"stack", "deploy", "--parts", "tables,roles", "--yes"},
		{"stack", "deploy", "--parts", "tables,roles", "--param", "DeletionProtection=false", "--yes"},
		{"stack", "deploy", "--parts", "tables,roles", "--table", "others", "--yes"},
		{"stack", "deploy", "--parts", "tables,roles", "--param", "NoSuch=1"},
		{"stack", "deploy", "--parts", "everything"},
		{"stack", "deploy", "1st"},
		{"stack", "deploy", "--parts=tables", "--dry-run", "--json"},
		{"stack", "status"},
		{"stack", "status", "--json"},
		{"stack", "status", "not a name"},
		{"stack", "list"},
		{"stack", "list", "--json"},
		{"stack", "list", "dynalimit"},
		{"stack", "delete"},
		{"stack", "delete", "no-such-stack"},
		{"stack", "delete", "--dry-run"},
		{"stack", "delete", "--remove-protection"},
		{"stack", "delete", "--remove-protection", "--yes", "--json"},
		{"stack", "deploy", "second", "--table", "second", "--parts=tables", "--yes", "--json"},
		{"stack", "delete", "second", "--remove-protection", "--yes"},
		{"table", "status", "--table", "second"},
	})
	assert.Positive(t, server.Requests("DeleteChangeSet"), "those that are not executed are deleted")
}

// TestStackDeployMakesTheTableReady: after it, the table is as 'table create' makes it.
func TestStackDeployMakesTheTableReady(t *testing.T) {
	s, _ := newStacks(t)
	s.must("stack", "deploy", "--budget", "--yes")
	var status tablesStatus
	unmarshal(t, s.must("table", "status", "--budget", "--json"), &status)
	require.Len(t, status.Tables, 3)
	for _, table := range status.Tables {
		assert.True(t, table.Ready, table.Name)
		assert.Empty(t, table.Findings, table.Name)
	}
	assert.True(t, status.Tables[0].CompositeOnly)
	assert.Contains(t, s.must("table", "create", "--budget", "--dry-run"), "It is as it should be.")
}

// TestStackDeployRefusesToLoseATable: replaced or let go of, it is named, nothing is
// executed, and the change set is put away.
func TestStackDeployRefusesToLoseATable(t *testing.T) {
	s, server := newStacks(t)
	s.must("stack", "deploy", "--budget", "--parts=tables", "--yes")
	executed := server.Requests("ExecuteChangeSet")
	for _, test := range []struct{ flag, want string }{
		{"--table=another", "new, empty tables in the place of LimitsTable (limits)"},
		{"--parts=tables", "let go of the tables BudgetControlTable (control), BudgetUsageTable (usage)"},
	} {
		deletions := server.Requests("DeleteChangeSet")
		args := []string{"stack", "deploy", "--parts=tables", "--yes", test.flag}
		if strings.HasPrefix(test.flag, "--table") {
			args = append(args, "--budget")
		}
		code, _, stderr := s.run(args...)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, test.want)
		assert.Contains(t, stderr, "nothing was changed")
		assert.Equal(t, deletions+1, server.Requests("DeleteChangeSet"))
	}
	assert.Equal(t, executed, server.Requests("ExecuteChangeSet"))
	assert.Contains(t, s.must("stack", "deploy", "--budget", "--parts=tables", "--yes"), "nothing changes")
}

// TestStackDeployAfterAFailedCreation: the failure is explained with its reason, twice, and
// cleaned up when that is asked for.
func TestStackDeployAfterAFailedCreation(t *testing.T) {
	s, server := newStacks(t)
	server.Fail = map[string]string{"AcquireRole": "API: iam:CreateRole User: ann is not authorized"}
	args := []string{"stack", "deploy", "--parts", "tables,roles", "--yes"}
	code, stdout, stderr := s.run(args...)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "CREATE_FAILED")
	assert.Contains(t, stdout, "iam:CreateRole User: ann is not authorized")
	assert.Contains(t, stderr, "ROLLBACK_COMPLETE: AcquireRole: API: iam:CreateRole")
	assert.Contains(t, stderr, "--clean-up")
	assert.NotContains(t, stderr, "cancelled")

	code, _, stderr = s.run(args...)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "was never made whole (ROLLBACK_COMPLETE) because AcquireRole: API: iam:CreateRole")

	server.Set(func() { server.Fail = nil })
	_, err := s.db.Client().UpdateTable(t.Context(), unprotected("limits"))
	require.NoError(t, err)
	s.must("table", "delete", "--yes")
	code, stdout, stderr = s.run(append(args, "--clean-up")...)
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "DELETE_COMPLETE")
	assert.Contains(t, stdout, "The stack dynalimit is deployed.")
}

// TestStackDeployBySomebodyElse: a stack that is at work is left alone, with the code for
// trying again; one that is another's is not taken over unless that is meant.
func TestStackDeployBySomebodyElse(t *testing.T) {
	s, server := newStacks(t)
	s.must("stack", "deploy", "--parts=tables", "--yes")
	server.Stand("dynalimit", "UPDATE_IN_PROGRESS")
	for _, command := range []string{"deploy", "delete"} {
		code, _, stderr := s.run("stack", command, "--yes")
		assert.Equal(t, exitConflict, code)
		assert.Contains(t, stderr, "is being changed by somebody else (UPDATE_IN_PROGRESS)")
	}
	server.Stand("dynalimit", "UPDATE_COMPLETE")

	server.Untag("dynalimit")
	code, _, stderr := s.run("stack", "deploy", "--parts=tables", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "--adopt")
	code, _, stderr = s.run("stack", "delete", "--remove-protection", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "was not deployed with this command")
	s.must("stack", "deploy", "--parts=tables,alarms", "--yes", "--adopt")
	assert.Contains(t, s.must("stack", "list"), "dynalimit  UPDATE_COMPLETE")
}

// TestStackErrorsSayWhatToDo: what is missing, and where to get it.
func TestStackErrorsSayWhatToDo(t *testing.T) {
	s, server := newStacks(t)
	for action, test := range map[string]struct {
		refusal stacktest.Refusal
		want    string
		code    int
	}{
		"CreateChangeSet":    {stacktest.Refusal{Code: "AccessDenied", Message: "User: ann is not authorized to perform: cloudformation:CreateChangeSet", Status: 403, Times: -1}, "cloudformation:CreateChangeSet; have that permission added", exitFailed},
		"GetTemplateSummary": {stacktest.Refusal{Code: "ValidationError", Message: "Template error: no such function", Status: 400, Times: -1}, "check the template: Template error: no such function", exitFailed},
		"ExecuteChangeSet":   {stacktest.Refusal{Code: "InvalidChangeSetStatus", Message: "ChangeSet cannot be executed in its current status of [OBSOLETE]", Status: 400, Times: -1}, "by somebody else", exitConflict},
	} {
		server.Set(func() { server.Refuse = map[string]stacktest.Refusal{action: test.refusal} })
		code, _, stderr := s.run("stack", "deploy", "--parts=tables", "--yes")
		assert.Equal(t, test.code, code, action)
		assert.Contains(t, stderr, test.want, action)
		server.Set(func() { server.Refuse = nil })
		assert.Contains(t, s.must("stack", "list"), "No stack here", "%s: the empty stack of the change set is put away", action)
	}
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "")
	code, _, stderr := s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitUsage, code, "an engine is no reason to ask AWS")
	assert.Contains(t, stderr, "dynalimit table create")
}

// TestStackIsNotAskedOfAWSBesideALocalEngine, where the environment names the engine, as
// 'dynalimit local' says to set it.
func TestStackIsNotAskedOfAWSBesideALocalEngine(t *testing.T) {
	s, _ := newStacks(t)
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", s.endpoint)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // whatever is asked is not sent
	var out, errs bytes.Buffer
	assert.Equal(t, exitUsage, run(ctx, []string{"stack", "deploy", "--yes"}, &term.Output{Writer: &out}, &errs))
	assert.Contains(t, errs.String(), "make the table with 'dynalimit table create'")
}

// TestStackWhoseTableCannotBeWritten: the stack is deployed, and what is left is said.
func TestStackWhoseTableCannotBeWritten(t *testing.T) {
	s, _ := newStacks(t)
	s.db.SetFaults(denying("PutItem"))
	code, stdout, stderr := s.run("stack", "deploy", "--parts=tables", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "is deployed")
	assert.Contains(t, stderr, "dynalimit table create --table limits")
	s.db.SetFaults(nil)
	s.must("table", "create")
	assert.Contains(t, s.must("stack", "deploy", "--parts=tables", "--yes"), "nothing changes")
}

// TestStackDeployInterrupted: Ctrl-C leaves CloudFormation at work, and says how to follow.
func TestStackDeployInterrupted(t *testing.T) {
	s, server := newStacks(t)
	server.Steps = 1
	ctx, interrupt := context.WithCancel(s.context())
	server.After = func(action string) {
		if action == "DescribeStackEvents" && server.Requests("DescribeStackEvents") == 2 {
			interrupt()
		}
	}
	var out, errs bytes.Buffer
	code := run(ctx, []string{"--endpoint", s.endpoint, "stack", "deploy", "--parts=tables", "--yes"}, &term.Output{Writer: &out}, &errs)
	assert.Equal(t, exitInterrupted, code)
	assert.Contains(t, errs.String(), "goes on with the stack dynalimit without this command; follow it with 'dynalimit stack status dynalimit'")
	assert.Equal(t, 1, server.Requests("ExecuteChangeSet"))
	code, stdout, _ := s.run("stack", "status")
	assert.Equal(t, exitNo, code)
	assert.Contains(t, stdout, "CREATE_IN_PROGRESS")
}

// TestStackChangesAreColoured: what comes is green, what changes yellow, what goes or is
// replaced red, and a failure with its reason too.
func TestStackChangesAreColoured(t *testing.T) {
	var out bytes.Buffer
	o := &term.Output{Writer: &out, Colour: true}
	for _, c := range []stack.Change{
		{Action: "Add", Logical: "A", Type: "T"},
		{Action: "Modify", Logical: "M", Type: "T", Replacement: "False"},
		{Action: "Modify", Logical: "C", Type: "T", Replacement: "Conditional"},
		{Action: "Modify", Logical: "R", Type: "T", Replacement: "True"},
		{Action: "Remove", Logical: "X", Type: "T"},
	} {
		printStackChange(o, c)
	}
	printStackEvent(o, stack.Event{Logical: "X", Status: "CREATE_FAILED", Reason: "no\x1b[2J permission"})
	assert.Equal(t, "  \x1b[32m+ A  T\x1b[0m\n  \x1b[33m~ M  T\x1b[0m\n  \x1b[33m~ C  T  may be replaced\x1b[0m\n"+
		"  \x1b[31m± R  T  REPLACED\x1b[0m\n  \x1b[31m- X  T\x1b[0m\n"+
		"  \x1b[2m00:00:00\x1b[0m  \x1b[31mCREATE_FAILED       \x1b[0m  X\x1b[31m: no\uFFFD[2J permission\x1b[0m\n", out.String())
}

// TestStackWhoseTableIsGone: a table that somebody deleted is not made anew without its
// settings, and both that and a stack that could not be protected are told.
func TestStackWhoseTableIsGone(t *testing.T) {
	s, server := newStacks(t)
	server.Set(func() {
		server.Refuse = map[string]stacktest.Refusal{"UpdateTerminationProtection": {Code: "AccessDenied", Message: "not authorized to perform: cloudformation:UpdateTerminationProtection", Status: 403, Times: -1}}
	})
	code, _, _ := s.run("stack", "deploy", "--parts=tables", "--yes")
	assert.Equal(t, exitFailed, code)
	s.must("table", "delete", "--remove-protection", "--yes")
	code, stdout, stderr := s.run("stack", "deploy", "--parts=tables", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "nothing changes")
	assert.Contains(t, stderr, "there is no table limits here")
	assert.Contains(t, stderr, "cloudformation:UpdateTerminationProtection")
	_, stdout, _ = s.run("table", "status")
	assert.Contains(t, stdout, "there is no such table")
}
