package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/infra"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack/stacktest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

const tableKind, roleKind = "AWS::DynamoDB::Table", "AWS::IAM::Role"

// stacks is a shell with a CloudFormation that plays the life of each stack: it is made, is as
// it should be when it is deployed again, and is deleted.
type stacks struct {
	*shell
	*stacktest.Player
	table string // that it makes, and that a stack keeps
}

func newStacks(t *testing.T) *stacks {
	t.Helper()
	s := &stacks{shell: newShell(t), table: "limits"}
	s.Player = &stacktest.Player{First: s.absent, After: func(action, stack string) {
		if action == "CreateStack" {
			s.makeTable()
		}
	}}
	listener := httptest.NewServer(s.Player)
	t.Cleanup(listener.Close)
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", listener.URL)
	return s
}

// makeTable makes the table as a stack does, unless it is there.
func (s *stacks) makeTable() {
	in := s.repository().TableInput()
	in.TableName, in.DeletionProtectionEnabled = &s.table, new(true)
	in.StreamSpecification = &types.StreamSpecification{StreamEnabled: new(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
	client := s.db.Client()
	if _, err := client.CreateTable(context.Background(), in); err != nil {
		return
	}
	_, err := client.UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &s.table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: new("ttl"), Enabled: new(true)},
	})
	assert.NoError(s.t, err)
	_, err = client.UpdateContinuousBackups(context.Background(), &dynamodb.UpdateContinuousBackupsInput{
		TableName: &s.table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: new(true)},
	})
	assert.NoError(s.t, err)
}

// declared says which parameters the template has.
func declared() string {
	var names []string
	for _, found := range regexp.MustCompile(`\n  (\w+):\n    Type: String\n`).FindAllStringSubmatch(infra.CloudFormation(nil), -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return stacktest.Summary(names...)
}

// absent is a stack that is not there.
func (s *stacks) absent() *stacktest.Stage {
	return &stacktest.Stage{
		Answers: map[string][]string{"DescribeStacks": {stacktest.Absent}, "GetTemplateSummary": {declared()}, "CreateStack": {stacktest.Begun}},
		Then:    map[string]*stacktest.Stage{"CreateStack": s.made("CREATE_COMPLETE", "")},
	}
}

// made is a stack that is made and, when it is deployed again, is as it should be.
func (s *stacks) made(status, more string) *stacktest.Stage {
	resources := stacktest.Resources(stacktest.Resource("LimitsTable", s.table, tableKind), stacktest.Resource("AcquireRole", "role-1", roleKind))
	stage := &stacktest.Stage{Answers: map[string][]string{
		"DescribeStacks":              {stacktest.Stacks(stacktest.Stack("NAME", status, stacktest.Ours, stacktest.Output("LimitsTableName", s.table), more))},
		"DescribeStackEvents":         {stacktest.Events(stacktest.Event(3, "NAME", "CREATE_COMPLETE", ""), stacktest.Event(2, "LimitsTable", "CREATE_COMPLETE", ""), stacktest.Event(1, "NAME", "CREATE_IN_PROGRESS", ""), stacktest.Event(0, "NAME", "REVIEW_IN_PROGRESS", ""))},
		"ListStackResources":          {resources},
		"UpdateTerminationProtection": {""},
		"GetTemplate":                 {stacktest.Template("Resources: {LimitsTable: {DeletionPolicy: Retain}}")},
		"GetTemplateSummary":          {declared()}, "SetStackPolicy": {""}, "UpdateStack": {stacktest.Unchanged}, "DeleteStack": {""},
	}, Then: map[string]*stacktest.Stage{}}
	if more == "" {
		stage.Then["UpdateTerminationProtection"] = s.made(status, stacktest.Protected)
		return stage
	}
	stage.Then["DeleteStack"] = &stacktest.Stage{Answers: map[string][]string{
		"DescribeStacks": {stacktest.Stacks(stacktest.Stack("NAME", "DELETE_COMPLETE", stacktest.Ours))},
	}}
	return stage
}

// TestStackTranscript plays the life of a stack.
func TestStackTranscript(t *testing.T) {
	s := newStacks(t)
	s.List = []string{"", stacktest.Stacks(stacktest.Stack("dynalimit", "CREATE_COMPLETE", stacktest.Ours), stacktest.Stack("other", "CREATE_COMPLETE"))}
	s.golden("stack.txt", [][]string{
		{"stack", "list"},
		{"stack", "status"},
		{"stack", "status", "--json"},
		{"stack", "deploy", "--parts", "everything"},
		{"stack", "deploy", "1st"},
		{"stack", "deploy", "--param", "NoSuch=1", "--yes"},
		{"stack", "deploy"},
		{"stack", "deploy", "mine", "--yes"},
		{"stack", "deploy", "mine", "--yes"},
		{"stack", "deploy", "mine", "--yes", "--json"},
		{"stack", "status", "mine"},
		{"stack", "status", "mine", "--json"},
		{"stack", "status", "not a name"},
		{"stack", "list"},
		{"stack", "list", "--json"},
		{"stack", "list", "dynalimit"},
		{"stack", "delete", "mine"},
		{"stack", "delete", "no-such-stack"},
		{"stack", "delete", "mine", "--dry-run"},
		{"stack", "delete", "mine", "--remove-protection"},
		{"stack", "delete", "mine", "--remove-protection", "--yes", "--json"},
	})
}

// TestStackDeployPassesParameters: flags are values of the template's parameters; what no flag
// names is left to the stack.
func TestStackDeployPassesParameters(t *testing.T) {
	s := newStacks(t)
	s.must("stack", "deploy", "--budget", "--control", "money", "--keeper", "--parts", "tables,roles", "--param", "TrustedService=ecs-tasks.amazonaws.com", "--tags", "team=search", "--yes")
	asked := s.Requests("CreateStack")[0]
	got := map[string]string{}
	for i := range 20 {
		prefix := "Parameters.member." + string(rune('0'+i)) + "."
		if name := asked.Get(prefix + "ParameterKey"); name != "" {
			got[name] = asked.Get(prefix + "ParameterValue")
		}
	}
	assert.Equal(t, map[string]string{
		"Budgets": "true", "BudgetControlTableName": "money", "Keeper": "true", "Tables": "true", "Roles": "true", "Alarms": "false", "TrustedService": "ecs-tasks.amazonaws.com",
	}, got)
	assert.Equal(t, infra.Inline(), asked.Get("TemplateBody"))
	assert.Equal(t, "team", asked.Get("Tags.member.2.Key"))
	var status tablesStatus
	unmarshal(t, s.must("table", "status", "--json"), &status)
	assert.True(t, status.Tables[0].Ready, "after it, the table is as 'table create' makes it")
	assert.Empty(t, status.Tables[0].Findings)
	assert.True(t, status.Tables[0].CompositeOnly)
}

// TestStackDeployKeepsTables: the stack has a policy that forbids to replace or remove a table before
// it is updated, and the refusal of CloudFormation is told.
func TestStackDeployKeepsTables(t *testing.T) {
	s := newStacks(t)
	stage := s.made("CREATE_COMPLETE", stacktest.Protected)
	stage.Answers["UpdateStack"] = []string{stacktest.Begun}
	undone := s.made("UPDATE_ROLLBACK_COMPLETE", stacktest.Protected)
	undone.Answers["DescribeStackEvents"] = []string{stacktest.Events(
		stacktest.Event(3, "LimitsTable", "UPDATE_FAILED", "Action denied by stack policy"), stacktest.Event(2, "NAME", "UPDATE_IN_PROGRESS", ""))}
	stage.Then["UpdateStack"] = undone
	s.SetStage("dynalimit", stage)
	code, _, stderr := s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "UPDATE_ROLLBACK_COMPLETE: LimitsTable: Action denied by stack policy; everything is as it was before")
	s.SetStage("second", nil)
	s.must("stack", "deploy", "second", "--yes")
	for _, policy := range []string{s.Requests("SetStackPolicy")[0].Get("StackPolicyBody"), s.Requests("CreateStack")[0].Get("StackPolicyBody")} {
		assert.JSONEq(t, `{"Statement": [
			{"Effect": "Allow", "Action": "Update:*", "Principal": "*", "Resource": "*"},
			{"Effect": "Deny", "Action": ["Update:Replace", "Update:Delete"], "Principal": "*", "Resource": "*",
				"Condition": {"StringEquals": {"ResourceType": ["AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable"]}}}]}`, policy)
	}

	s = newStacks(t)
	stage = s.made("CREATE_COMPLETE", stacktest.Protected)
	stage.Answers["SetStackPolicy"] = []string{"!AccessDenied: not authorized to perform: cloudformation:SetStackPolicy"}
	s.SetStage("dynalimit", stage)
	code, _, stderr = s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "cloudformation:SetStackPolicy; have that permission added")
	assert.Empty(t, s.Requests("UpdateStack"), "without the policy nothing is updated")
}

// TestStackDeployAfterAFailedCreation: the failure is explained with its reason, and cleaned up
// when that is asked for.
func TestStackDeployAfterAFailedCreation(t *testing.T) {
	s := newStacks(t)
	failed := s.made("ROLLBACK_COMPLETE", "")
	failed.Answers["DescribeStackEvents"] = []string{stacktest.Events(
		stacktest.Event(4, "NAME", "ROLLBACK_COMPLETE", ""), stacktest.Event(3, "LimitsTable", "CREATE_FAILED", "Resource creation cancelled"),
		stacktest.Event(2, "AcquireRole", "CREATE_FAILED", "ann is not authorized: iam:CreateRole"), stacktest.Event(1, "NAME", "CREATE_IN_PROGRESS", ""), stacktest.Event(0, "NAME", "REVIEW_IN_PROGRESS", ""),
	)}
	gone := s.absent()
	gone.Answers["DescribeStacks"] = []string{stacktest.Stacks(stacktest.Stack("NAME", "DELETE_COMPLETE", stacktest.Ours))}
	failed.Then["DeleteStack"] = gone
	begun := s.absent()
	begun.Then["CreateStack"] = failed
	s.SetStage("dynalimit", begun)
	code, _, stderr := s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "ROLLBACK_COMPLETE: AcquireRole: ann is not authorized: iam:CreateRole; correct that, then 'dynalimit stack deploy --clean-up'")
	assert.NotContains(t, stderr, "cancelled")
	code, _, stderr = s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "was never made whole (ROLLBACK_COMPLETE) because AcquireRole: ann is not authorized")
	code, stdout, stderr := s.run("stack", "deploy", "--yes", "--clean-up")
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "The stack dynalimit is deployed.")
}

// TestStackDeployBySomebodyElse: a stack that is at work is left alone, with the code for
// trying again; one that is another's is not taken over unless that is meant.
func TestStackDeployBySomebodyElse(t *testing.T) {
	s := newStacks(t)
	s.SetStage("dynalimit", s.made("UPDATE_IN_PROGRESS", stacktest.Protected))
	for _, command := range []string{"deploy", "delete"} {
		code, _, stderr := s.run("stack", command, "--yes")
		assert.Equal(t, exitConflict, code)
		assert.Contains(t, stderr, "is being changed by somebody else (UPDATE_IN_PROGRESS)")
	}
	theirs := s.made("CREATE_COMPLETE", stacktest.Protected)
	theirs.Answers["DescribeStacks"] = []string{stacktest.Stacks(stacktest.Stack("dynalimit", "CREATE_COMPLETE"))}
	s.SetStage("dynalimit", theirs)
	for _, test := range []struct{ command, want string }{{"deploy", "--adopt"}, {"delete", "was not deployed with this command"}} {
		code, _, stderr := s.run("stack", test.command, "--yes")
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, test.want)
	}
	s.makeTable()
	assert.Contains(t, s.must("stack", "deploy", "--yes", "--adopt"), "nothing changes")
}

// TestStackErrorsSayWhatToDo: what is missing, and where to get it.
func TestStackErrorsSayWhatToDo(t *testing.T) {
	for action, test := range map[string]struct{ failure, want string }{
		"CreateStack":        {"!AccessDenied: User: ann is not authorized to perform: cloudformation:CreateStack", "cloudformation:CreateStack; have that permission added"},
		"GetTemplateSummary": {"!ValidationError: Template error: no such function", "check the template: Template error: no such function"},
	} {
		s := newStacks(t)
		stage := s.absent()
		stage.Answers[action] = []string{test.failure}
		s.SetStage("dynalimit", stage)
		s.SetStage("", stage) // a template is of no stack
		code, _, stderr := s.run("stack", "deploy", "--yes")
		assert.Equal(t, exitFailed, code, action)
		assert.Contains(t, stderr, test.want, action)
	}
	s := newStacks(t)
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "")
	code, _, stderr := s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitUsage, code, "an engine is no reason to ask AWS")
	assert.Contains(t, stderr, "dynalimit table create")
}

// TestStackWhoseTableCannotBeWritten: the stack is deployed, and what is left is said.
func TestStackWhoseTableCannotBeWritten(t *testing.T) {
	s := newStacks(t)
	s.db.SetFaults(denying("PutItem"))
	code, stdout, stderr := s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "is deployed")
	assert.Contains(t, stderr, "dynalimit table create --table limits")
}

// TestStackDeployInterrupted: Ctrl-C leaves CloudFormation at work, and says how to follow.
func TestStackDeployInterrupted(t *testing.T) {
	s := newStacks(t)
	ctx, interrupt := context.WithCancel(s.context())
	s.After = func(action, _ string) {
		if action == "DescribeStacks" && len(s.Requests("CreateStack")) > 0 {
			interrupt()
		}
	}
	stage := s.absent()
	stage.Then["CreateStack"] = s.made("CREATE_IN_PROGRESS", "")
	s.SetStage("dynalimit", stage)
	var out, errs bytes.Buffer
	code := run(ctx, []string{"--endpoint", s.endpoint, "stack", "deploy", "--yes"}, &term.Output{Writer: &out}, &errs)
	assert.Equal(t, exitInterrupted, code)
	assert.Contains(t, errs.String(), "goes on with the stack dynalimit without this command; follow it with 'dynalimit stack status dynalimit'")
}

// TestStackEventsAreColoured: a failure is red, with its reason.
func TestStackEventsAreColoured(t *testing.T) {
	var out bytes.Buffer
	printStackEvent(&term.Output{Writer: &out, Colour: true}, stack.Event{Logical: "X", Status: "CREATE_FAILED", Reason: "no\x1b[2J permission"})
	assert.Equal(t, "  \x1b[2m00:00:00\x1b[0m  \x1b[31mCREATE_FAILED       \x1b[0m  X\x1b[31m: no\uFFFD[2J permission\x1b[0m\n", out.String())
}

// TestStackWhoseTableIsGone: a table that somebody deleted is not made anew without its
// settings, and both that and a stack that could not be protected are told.
func TestStackWhoseTableIsGone(t *testing.T) {
	s := newStacks(t)
	stage := s.made("CREATE_COMPLETE", "")
	stage.Answers["UpdateTerminationProtection"] = []string{"!AccessDenied: not authorized to perform: cloudformation:UpdateTerminationProtection"}
	s.SetStage("dynalimit", stage)
	code, stdout, stderr := s.run("stack", "deploy", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "nothing changes")
	assert.Contains(t, stderr, "there is no table limits here")
	assert.Contains(t, stderr, "cloudformation:UpdateTerminationProtection")
	_, stdout, _ = s.run("table", "status")
	assert.Contains(t, stdout, "there is no such table")
}
