package stack_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack/stacktest"
)

const (
	table, role = "AWS::DynamoDB::Table", "AWS::IAM::Role"
	retains     = "Resources: {Table: {Type: AWS::DynamoDB::Table, DeletionPolicy: Retain}, Role: {Type: AWS::IAM::Role}}"
)

func deployment() stack.Deployment {
	return stack.Deployment{Stack: "limits", Template: "Resources: {}", Params: map[string]string{"Name": "limits"}}
}

// isAbsent is a stack that is not there yet, and is made at the third look.
func isAbsent() *stacktest.Stage {
	status := func(s string) string { return stacktest.Stacks(stacktest.Stack("limits", s, stacktest.Ours)) }
	made := &stacktest.Stage{Answers: map[string][]string{
		"DescribeStacks":     {status("CREATE_IN_PROGRESS"), status("CREATE_IN_PROGRESS"), status("CREATE_COMPLETE")},
		"GetTemplateSummary": {stacktest.Summary("Name")}, "SetStackPolicy": {""}, "UpdateStack": {stacktest.Unchanged},
	}}
	return &stacktest.Stage{
		Answers: map[string][]string{"DescribeStacks": {stacktest.Absent}, "GetTemplateSummary": {stacktest.Summary("Name")}, "CreateStack": {stacktest.Begun}},
		Then:    map[string]*stacktest.Stage{"CreateStack": made},
	}
}

// TestDeploy waits until a new stack is made. Deployed again it is unchanged.
func TestDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stacktest.Player{First: isAbsent}
		began := time.Now()
		changed, err := stack.Deploy(t.Context(), p.Client(), nil, deployment(), time.Now())
		require.NoError(t, err)
		assert.True(t, changed)
		assert.Equal(t, 4*time.Second, time.Since(began), "two seconds between two looks")
		asked := p.Requests("CreateStack")[0]
		assert.Equal(t, []string{"Name", "limits", "CAPABILITY_IAM", "deployed-by"}, []string{
			asked.Get("Parameters.member.1.ParameterKey"), asked.Get("Parameters.member.1.ParameterValue"), asked.Get("Capabilities.member.1"), asked.Get("Tags.member.1.Key"),
		})
		assert.NotEmpty(t, asked.Get("ClientRequestToken"), "a retry creates nothing twice")
		changed, err = stack.Deploy(t.Context(), p.Client(), found(t, p), deployment(), time.Now())
		require.NoError(t, err)
		assert.False(t, changed)
	})
}

// TestThrottledRequestsAreSentAgain: the SDK's patience is enough for a burst.
func TestThrottledRequestsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stacktest.Player{First: func() *stacktest.Stage {
			return &stacktest.Stage{Answers: map[string][]string{"DescribeStacks": {"!Throttling: Rate exceeded", "!Throttling: Rate exceeded", stacktest.Absent}}}
		}}
		s, err := stack.Find(t.Context(), p.Client(), "limits")
		require.NoError(t, err)
		assert.Nil(t, s)
		assert.Len(t, p.Requests("DescribeStacks"), 3)
	})
}

// TestParametersKeepTheirValue: those that are not given keep what the stack has, or get their
// default; one that the template has not is refused.
func TestParametersKeepTheirValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deployment()
		d.Params["Other"] = "x"
		p := &stacktest.Player{First: isAbsent}
		_, err := stack.Deploy(t.Context(), p.Client(), nil, d, time.Now())
		require.ErrorContains(t, err, "--param Other: the template has no such parameter; it has Name")
		d.Params = nil
		p = &stacktest.Player{First: func() *stacktest.Stage { return isAbsent().Then["CreateStack"] }}
		_, err = stack.Deploy(t.Context(), p.Client(), &stack.Stack{Name: "limits", Params: map[string]string{"Name": "mine", "Gone": "x"}}, d, time.Now())
		require.NoError(t, err)
		asked := p.Requests("UpdateStack")[0]
		assert.Equal(t, "true", asked.Get("Parameters.member.1.UsePreviousValue"))
		assert.Empty(t, asked.Get("Parameters.member.2.ParameterKey"))
	})
}

// standing is a stack with a status, whose deletion ends with another one.
func standing(status, template, end string) *stacktest.Stage {
	stacks := func(status string) string {
		return stacktest.Stacks(stacktest.Stack("limits", status, stacktest.Ours, stacktest.Protected))
	}
	deleted := &stacktest.Stage{Answers: map[string][]string{"DescribeStacks": {stacks("DELETE_IN_PROGRESS"), stacks(end)}, "UpdateTerminationProtection": {""}}}
	return &stacktest.Stage{
		Answers: map[string][]string{
			"DescribeStacks": {stacks(status)}, "GetTemplate": {stacktest.Template(template)}, "UpdateTerminationProtection": {""}, "DeleteStack": {""},
			"ListStackResources": {stacktest.Resources(stacktest.Resource("Table", "limits", table)) + stacktest.Next, stacktest.Resources(stacktest.Resource("Role", "role", role))},
		},
		Then: map[string]*stacktest.Stage{"DeleteStack": deleted},
	}
}

func found(t *testing.T, p *stacktest.Player) *stack.Stack {
	t.Helper()
	s, err := stack.Find(t.Context(), p.Client(), "limits")
	require.NoError(t, err)
	require.NotNil(t, s)
	return s
}

// TestDeletionKeepsTables: a stack whose template retains its table is deleted; one whose template does
// not is left.
func TestDeletionKeepsTables(t *testing.T) {
	p := &stacktest.Player{First: func() *stacktest.Stage { return standing("CREATE_COMPLETE", retains, "DELETE_COMPLETE") }}
	farewell, err := stack.PreviewDelete(t.Context(), p.Client(), found(t, p))
	require.NoError(t, err)
	assert.Len(t, farewell.Stays, 1)
	assert.Len(t, farewell.Goes, 1)
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, stack.Delete(t.Context(), p.Client(), found(t, p)))
	})
	assert.Equal(t, "false", p.Requests("UpdateTerminationProtection")[0].Get("EnableTerminationProtection"))

	p = &stacktest.Player{First: func() *stacktest.Stage {
		return standing("CREATE_COMPLETE", strings.ReplaceAll(retains, "Retain", "Delete"), "")
	}}
	_, err = stack.PreviewDelete(t.Context(), p.Client(), found(t, p))
	require.ErrorContains(t, err, "the tables limits would be deleted with the stack limits")
}

// TestTerminationProtectionComesBack: whichever request ends a deletion before it began.
func TestTerminationProtectionComesBack(t *testing.T) {
	for _, action := range []string{"UpdateTerminationProtection", "DeleteStack"} {
		stage := standing("CREATE_COMPLETE", retains, "")
		stage.Answers[action] = []string{"!AccessDenied: not authorized", ""}
		p := &stacktest.Player{First: func() *stacktest.Stage { return stage }}
		require.ErrorContains(t, stack.Delete(t.Context(), p.Client(), found(t, p)), "not authorized")
		asked := p.Requests("UpdateTerminationProtection")
		assert.Equal(t, "true", asked[len(asked)-1].Get("EnableTerminationProtection"), action)
	}
}

// TestHalfDeleted: it is told what failed in the deletion, not what failed before, and what is
// left is cleaned up unless a table would go with it.
func TestHalfDeleted(t *testing.T) {
	for _, policy := range []string{"Retain", "Delete"} {
		stage := standing("DELETE_FAILED", strings.ReplaceAll(retains, "Retain", policy), "DELETE_COMPLETE")
		stage.Answers["DescribeStackEvents"] = []string{stacktest.Events(
			stacktest.Event(1, "NAME", "DELETE_FAILED", ""), stacktest.Event(7, "Role", "DELETE_FAILED", "Resource deletion cancelled"), stacktest.Event(6, "Table", "DELETE_FAILED", "it is in use"),
			stacktest.Event(5, "NAME", "DELETE_IN_PROGRESS", ""), stacktest.Event(4, "Table", "UPDATE_FAILED", "the update failed"), stacktest.Event(3, "NAME", "UPDATE_IN_PROGRESS", ""),
		)}
		p := &stacktest.Player{First: func() *stacktest.Stage { return stage }}
		s := found(t, p)
		err := stack.CheckDeployable(t.Context(), p.Client(), s, false)
		require.ErrorContains(t, err, "is half deleted (DELETE_FAILED) because Table: it is in use: CloudFormation")
		synctest.Test(t, func(t *testing.T) { err = stack.CleanUp(t.Context(), p.Client(), s) })
		if policy == "Retain" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "the tables limits would be deleted")
		assert.Empty(t, p.Requests("DeleteStack"))
	}
}

// TestListFollowsPages: ours are found on every page, others are not.
func TestListFollowsPages(t *testing.T) {
	p := &stacktest.Player{List: []string{
		stacktest.Stacks(stacktest.Stack("one", "CREATE_COMPLETE", stacktest.Ours)) + stacktest.Next,
		stacktest.Stacks(stacktest.Stack("other", "CREATE_COMPLETE")) + stacktest.Next,
		stacktest.Stacks(stacktest.Stack("two", "UPDATE_COMPLETE", stacktest.Ours)),
	}}
	all, err := stack.List(t.Context(), p.Client())
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "two", all[1].Name)
}

// TestLargeTemplate: it is refused before anything is sent, with what to do.
func TestLargeTemplate(t *testing.T) {
	p := &stacktest.Player{}
	d := deployment()
	d.Template += "# " + string(make([]byte, stack.MaxInline))
	_, err := stack.Deploy(t.Context(), p.Client(), nil, d, time.Now())
	require.ErrorContains(t, err, "--template-url")
}
