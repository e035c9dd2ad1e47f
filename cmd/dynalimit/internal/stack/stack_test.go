package stack_test

import (
	"context"
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

// created is a stack that is made in three events.
func created() *stacktest.Stage {
	return &stacktest.Stage{Answers: map[string][]string{
		"DescribeStackEvents": {
			stacktest.Events(stacktest.Event(1, "NAME", "CREATE_IN_PROGRESS", "")) + stacktest.Next, stacktest.Events(stacktest.Event(0, "NAME", "REVIEW_IN_PROGRESS", "")),
			stacktest.Events(stacktest.Event(2, "Table", "CREATE_COMPLETE", ""), stacktest.Event(1, "NAME", "CREATE_IN_PROGRESS", "")),
			stacktest.Events(stacktest.Event(3, "NAME", "CREATE_COMPLETE", ""), stacktest.Event(2, "Table", "CREATE_COMPLETE", "")),
		},
		"DescribeStacks": {stacktest.Stacks(stacktest.Stack("limits", "CREATE_COMPLETE", stacktest.Ours))},
	}}
}

// absent is a stack that is not there yet: a change set is known at its third look, on two pages.
func absent() *stacktest.Stage {
	gone := &stacktest.Stage{Answers: map[string][]string{"DescribeStacks": {stacktest.Absent}}}
	review := &stacktest.Stage{
		Answers: map[string][]string{
			"DescribeStacks": {stacktest.Stacks(stacktest.Stack("limits", "REVIEW_IN_PROGRESS", stacktest.Ours))},
			"DescribeChangeSet": {
				"<Status>CREATE_IN_PROGRESS</Status>", "<Status>CREATE_IN_PROGRESS</Status>",
				stacktest.Changes(stacktest.Change("Add", "Table", table, "", "")) + stacktest.Next, stacktest.Changes(stacktest.Change("Add", "Role", role, "", "")),
			},
			"DescribeStackEvents": {stacktest.Events(stacktest.Event(0, "NAME", "REVIEW_IN_PROGRESS", ""))},
			"ExecuteChangeSet":    {""}, "DeleteChangeSet": {""}, "DeleteStack": {""},
			"GetTemplateSummary": {stacktest.Summary("Name")}, "CreateChangeSet": {stacktest.Proposed},
		},
		Then: map[string]*stacktest.Stage{"ExecuteChangeSet": created(), "DeleteStack": gone},
	}
	return &stacktest.Stage{
		Answers: map[string][]string{"DescribeStacks": {stacktest.Absent}, "GetTemplateSummary": {stacktest.Summary("Name")}, "CreateChangeSet": {stacktest.Proposed}},
		Then:    map[string]*stacktest.Stage{"CreateChangeSet": review},
	}
}

// TestEveryEventIsToldOnce: in pages, as they come, and not those before the deployment; the
// change set is waited for, and read to its last page.
func TestEveryEventIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stacktest.Player{First: absent}
		began := time.Now()
		set, err := stack.Propose(t.Context(), p.Client(), nil, deployment(), time.Now())
		require.NoError(t, err)
		assert.Len(t, set.Changes, 2)
		assert.Equal(t, []string{"CAPABILITY_IAM"}, set.Capabilities)
		mark, err := stack.Execute(t.Context(), p.Client(), set)
		require.NoError(t, err)
		var told []string
		require.NoError(t, stack.Follow(t.Context(), p.Client(), "limits", set.StackID(), mark, func(e stack.Event) { told = append(told, e.ID) }))
		assert.Equal(t, []string{"event-1", "event-2", "event-3"}, told)
		assert.Equal(t, 8*time.Second, time.Since(began), "two seconds between two looks")
		asked := p.Requests("CreateChangeSet")[0]
		assert.Equal(t, []string{"Name", "limits", "CREATE", "CAPABILITY_IAM", "deployed-by"}, []string{
			asked.Get("Parameters.member.1.ParameterKey"), asked.Get("Parameters.member.1.ParameterValue"), asked.Get("ChangeSetType"), asked.Get("Capabilities.member.1"), asked.Get("Tags.member.1.Key"),
		})
		assert.NotEmpty(t, p.Requests("ExecuteChangeSet")[0].Get("ClientRequestToken"), "a retry executes nothing twice")
	})
}

// TestInterrupted: a change set that is being made is put away, with the empty stack that was
// made for it; one that is beside somebody else's leaves the stack.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stacktest.Player{First: absent}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := stack.Propose(ctx, p.Client(), nil, deployment(), time.Now())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, p.Requests("DeleteChangeSet"), 1)
		assert.Len(t, p.Requests("DeleteStack"), 1)

		p = &stacktest.Player{First: func() *stacktest.Stage { return absent().Then["CreateChangeSet"] }}
		s, err := stack.Find(t.Context(), p.Client(), "limits")
		require.NoError(t, err)
		set, err := stack.Propose(t.Context(), p.Client(), s, deployment(), time.Now())
		require.NoError(t, err)
		assert.True(t, set.New)
		require.NoError(t, stack.Discard(t.Context(), p.Client(), set))
		assert.Empty(t, p.Requests("DeleteStack"))
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

// TestRefuse: what would lose a table, or might, is refused; the same of anything else is
// not.
func TestRefuse(t *testing.T) {
	for _, test := range []struct {
		action, replacement, want string
	}{
		{"Add", "", ""},
		{"Modify", "False", ""},
		{"Modify", "True", "new, empty tables in the place of T (limits)"},
		{"Modify", "Conditional", "may make new, empty tables in the place of T (limits)"},
		{"Dynamic", "", "may make new, empty tables in the place of T (limits)"},
		{"Remove", "", "let go of the tables T (limits)"},
	} {
		of := func(kind string) error {
			return stack.Refuse([]stack.Change{{Action: test.action, Logical: "T", Physical: "limits", Type: kind, Replacement: test.replacement}})
		}
		require.NoError(t, of(role), test.action)
		if test.want == "" {
			require.NoError(t, of(table), test.action)
			continue
		}
		require.ErrorContains(t, of(table), test.want)
		require.ErrorContains(t, of("AWS::DynamoDB::GlobalTable"), test.want)
	}
}

// TestParametersKeepTheirValue: those that are not given keep what the stack has, or get their
// default; one that the template has not is refused.
func TestParametersKeepTheirValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deployment()
		d.Params["Other"] = "x"
		p := &stacktest.Player{First: absent}
		_, err := stack.Propose(t.Context(), p.Client(), nil, d, time.Now())
		require.ErrorContains(t, err, "--param Other: the template has no such parameter; it has Name")
		d.Params = nil
		_, err = stack.Propose(t.Context(), p.Client(), &stack.Stack{Name: "limits", Params: map[string]string{"Name": "mine", "Gone": "x"}}, d, time.Now())
		require.NoError(t, err)
		asked := p.Requests("CreateChangeSet")[0]
		assert.Equal(t, "true", asked.Get("Parameters.member.1.UsePreviousValue"))
		assert.Empty(t, asked.Get("Parameters.member.2.ParameterKey"))
	})
}

// standing is a stack with a status whose deletion goes as events say, which are after event 1.
func standing(status, template string, events ...string) *stacktest.Stage {
	stacks := stacktest.Stacks(stacktest.Stack("limits", status, stacktest.Ours, stacktest.Protected))
	deleted := &stacktest.Stage{Answers: map[string][]string{
		"DescribeStackEvents": {stacktest.Events(append(events, stacktest.Event(1, "NAME", status, ""))...)}, "DescribeStacks": {stacks}, "UpdateTerminationProtection": {""},
	}}
	return &stacktest.Stage{
		Answers: map[string][]string{
			"DescribeStacks": {stacks}, "GetTemplate": {stacktest.Template(template)}, "UpdateTerminationProtection": {""}, "DeleteStack": {""},
			"ListStackResources":  {stacktest.Resources(stacktest.Resource("Table", "limits", table)) + stacktest.Next, stacktest.Resources(stacktest.Resource("Role", "role", role))},
			"DescribeStackEvents": {stacktest.Events(stacktest.Event(1, "NAME", status, ""))},
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

// TestDeletionKeepsTables: a stack whose template retains its table is deleted, and told how;
// one whose template does not is left.
func TestDeletionKeepsTables(t *testing.T) {
	p := &stacktest.Player{First: func() *stacktest.Stage {
		return standing("CREATE_COMPLETE", retains, stacktest.Event(3, "NAME", "DELETE_COMPLETE", ""), stacktest.Event(2, "Table", "DELETE_SKIPPED", ""))
	}}
	farewell, err := stack.Weigh(t.Context(), p.Client(), found(t, p))
	require.NoError(t, err)
	assert.Len(t, farewell.Stays, 1)
	assert.Len(t, farewell.Goes, 1)
	var told []string
	require.NoError(t, stack.Delete(t.Context(), p.Client(), found(t, p), func(e stack.Event) { told = append(told, e.Status) }))
	assert.Equal(t, []string{"DELETE_SKIPPED", "DELETE_COMPLETE"}, told)
	assert.Equal(t, "false", p.Requests("UpdateTerminationProtection")[0].Get("EnableTerminationProtection"))

	p = &stacktest.Player{First: func() *stacktest.Stage {
		return standing("CREATE_COMPLETE", strings.ReplaceAll(retains, "Retain", "Delete"))
	}}
	_, err = stack.Weigh(t.Context(), p.Client(), found(t, p))
	require.ErrorContains(t, err, "the tables limits would be deleted with the stack limits")
}

// TestTerminationProtectionComesBack: whichever request ends a deletion before it began.
func TestTerminationProtectionComesBack(t *testing.T) {
	for _, action := range []string{"UpdateTerminationProtection", "DeleteStack"} {
		stage := standing("CREATE_COMPLETE", retains)
		stage.Answers[action] = []string{"!AccessDenied: not authorized", ""}
		p := &stacktest.Player{First: func() *stacktest.Stage { return stage }}
		require.ErrorContains(t, stack.Delete(t.Context(), p.Client(), found(t, p), func(stack.Event) {}), "not authorized")
		asked := p.Requests("UpdateTerminationProtection")
		assert.Equal(t, "true", asked[len(asked)-1].Get("EnableTerminationProtection"), action)
	}
}

// TestHalfDeleted: it is told what failed in the deletion, not what failed before, and what is
// left is cleaned up unless a table would go with it.
func TestHalfDeleted(t *testing.T) {
	for _, policy := range []string{"Retain", "Delete"} {
		stage := standing("DELETE_FAILED", strings.ReplaceAll(retains, "Retain", policy), stacktest.Event(8, "NAME", "DELETE_COMPLETE", ""))
		stage.Answers["DescribeStackEvents"] = []string{stacktest.Events(
			stacktest.Event(1, "NAME", "DELETE_FAILED", ""), stacktest.Event(7, "Role", "DELETE_FAILED", "Resource deletion cancelled"), stacktest.Event(6, "Table", "DELETE_FAILED", "it is in use"),
			stacktest.Event(5, "NAME", "DELETE_IN_PROGRESS", ""), stacktest.Event(4, "Table", "UPDATE_FAILED", "the update failed"), stacktest.Event(3, "NAME", "UPDATE_IN_PROGRESS", ""),
		)}
		p := &stacktest.Player{First: func() *stacktest.Stage { return stage }}
		s := found(t, p)
		err := stack.Standing(t.Context(), p.Client(), s, false)
		require.ErrorContains(t, err, "is half deleted (DELETE_FAILED) because Table: it is in use: CloudFormation")
		err = stack.CleanUp(t.Context(), p.Client(), s, func(stack.Event) {})
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
	_, err := stack.Propose(t.Context(), p.Client(), nil, d, time.Now())
	require.ErrorContains(t, err, "--template-url")
}
