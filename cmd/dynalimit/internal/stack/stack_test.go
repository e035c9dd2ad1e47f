package stack_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack/stacktest"
)

// template has a table, and parameters that change its name, its key and a tag of it.
const template = `
Parameters:
  Name: {Type: String, Default: limits}
  Protection: {Type: String, Default: "true"}
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      TableName: !Ref Name
      DeletionProtectionEnabled: !Ref Protection
  Topic:
    Type: AWS::SNS::Topic
`

func deployment(params map[string]string) stack.Deployment {
	return stack.Deployment{Stack: "limits", Template: template, Params: params}
}

// deploy goes the whole way, and returns what was told of it.
func deploy(ctx context.Context, client stack.Client, d stack.Deployment) (set *stack.ChangeSet, events []stack.Event, err error) {
	s, err := stack.Find(ctx, client, d.Stack)
	if err == nil {
		err = stack.Standing(ctx, client, s, false)
	}
	if err != nil {
		return nil, nil, err
	}
	set, err = stack.Propose(ctx, client, s, d, time.Now())
	if err != nil || set.ID == "" {
		return set, nil, err
	}
	mark, err := stack.Execute(ctx, client, set)
	if err != nil {
		return set, nil, err
	}
	err = stack.Follow(ctx, client, d.Stack, set.StackID(), mark, func(e stack.Event) { events = append(events, e) })
	return set, events, err
}

// TestEveryEventIsToldOnce: in pages of one, as they come one at a time, and not those of
// the deployment before.
func TestEveryEventIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stacktest.Server{PageSize: 1, Steps: 1, Slow: 3}
		for _, protection := range []string{"true", "false"} {
			began := time.Now()
			set, events, err := deploy(t.Context(), server.Client(), deployment(map[string]string{"Protection": protection}))
			require.NoError(t, err)
			seen := map[string]int{}
			for i, e := range events {
				seen[e.ID]++
				if i > 0 {
					assert.Less(t, events[i-1].ID, e.ID, "oldest first")
				}
			}
			want, changes := 6, 2
			if protection == "false" {
				want, changes = 4, 1
			}
			assert.Len(t, set.Changes, changes, "all pages of a change set")
			assert.Len(t, events, want)
			assert.Len(t, seen, want)
			assert.GreaterOrEqual(t, time.Since(began), time.Duration(want-1+3)*2*time.Second, "two seconds between two looks")
		}
		set, _, err := deploy(t.Context(), server.Client(), deployment(nil))
		require.NoError(t, err)
		assert.Empty(t, set.ID, "nothing changes: parameters that are left out keep their value")
	})
}

// TestInterrupted: while the change set is made it is put away, with the empty stack; while
// CloudFormation is at work, that goes on.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stacktest.Server{Slow: 100}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _, err := deploy(ctx, server.Client(), deployment(nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s, err := stack.Find(t.Context(), server.Client(), "limits")
		require.NoError(t, err)
		assert.Nil(t, s)
		assert.Equal(t, 1, server.Requests("DeleteChangeSet"))

		server.Set(func() { server.Slow, server.Steps = 0, 1 })
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, events, err := deploy(ctx, server.Client(), deployment(nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotEmpty(t, events)
		s, err = stack.Find(t.Context(), server.Client(), "limits")
		require.NoError(t, err)
		assert.True(t, s.Running())
	})
}

// TestThrottledRequestsAreSentAgain: the SDK's patience is enough for a burst.
func TestThrottledRequestsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stacktest.Server{Refuse: map[string]stacktest.Refusal{
			"DescribeStackEvents": {Code: "Throttling", Message: "Rate exceeded", Status: 400, Times: 2},
		}}
		_, events, err := deploy(t.Context(), server.Client(), deployment(nil))
		require.NoError(t, err)
		assert.Len(t, events, 6)
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
		require.NoError(t, of("AWS::IAM::Role"), test.action)
		if test.want == "" {
			require.NoError(t, of("AWS::DynamoDB::Table"), test.action)
			continue
		}
		require.ErrorContains(t, of("AWS::DynamoDB::Table"), test.want)
		require.ErrorContains(t, of("AWS::DynamoDB::GlobalTable"), test.want)
	}
}

// TestDeletionKeepsTables: a template that does not retain its table is not deleted, and
// one that does is, in any partition.
func TestDeletionKeepsTables(t *testing.T) {
	for _, partition := range []string{"aws", "aws-cn", "aws-us-gov"} {
		server := &stacktest.Server{Partition: partition, PageSize: 1}
		_, _, err := deploy(t.Context(), server.Client(), deployment(nil))
		require.NoError(t, err)
		s, err := stack.Find(t.Context(), server.Client(), "limits")
		require.NoError(t, err)
		require.Contains(t, s.ID, "arn:"+partition+":cloudformation:")
		farewell, err := stack.Weigh(t.Context(), server.Client(), s)
		require.NoError(t, err)
		assert.Len(t, farewell.Stays, 1)
		assert.Len(t, farewell.Goes, 1)
		var events []stack.Event
		require.NoError(t, stack.Delete(t.Context(), server.Client(), s, func(e stack.Event) { events = append(events, e) }))
		assert.Equal(t, "DELETE_SKIPPED", events[1].Status)
		s, err = stack.Find(t.Context(), server.Client(), "limits")
		require.NoError(t, err)
		assert.Nil(t, s)
	}
	server := &stacktest.Server{}
	d := deployment(nil)
	d.Template = "Resources: {Table: {Type: 'AWS::DynamoDB::Table', Properties: {TableName: mine}}}"
	_, _, err := deploy(t.Context(), server.Client(), d)
	require.NoError(t, err)
	s, err := stack.Find(t.Context(), server.Client(), "limits")
	require.NoError(t, err)
	_, err = stack.Weigh(t.Context(), server.Client(), s)
	require.ErrorContains(t, err, "the tables mine would be deleted")
}

// TestListFollowsPages: ours are found on every page, others are not.
func TestListFollowsPages(t *testing.T) {
	server := &stacktest.Server{PageSize: 1}
	for _, name := range []string{"one", "other", "two"} {
		d := deployment(nil)
		d.Stack = name
		_, _, err := deploy(t.Context(), server.Client(), d)
		require.NoError(t, err)
	}
	server.Untag("other")
	all, err := stack.List(t.Context(), server.Client())
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "two", all[1].Name)
}

// TestLargeTemplate: it is refused before anything is sent, with what to do.
func TestLargeTemplate(t *testing.T) {
	server := &stacktest.Server{}
	d := deployment(nil)
	d.Template += "# " + string(make([]byte, stack.MaxInline))
	_, _, err := deploy(t.Context(), server.Client(), d)
	require.ErrorContains(t, err, "--template-url")
	assert.Zero(t, server.Requests("CreateChangeSet"))
}

// found is a stack that has to be there.
func found(t *testing.T, server *stacktest.Server) *stack.Stack {
	t.Helper()
	s, err := stack.Find(t.Context(), server.Client(), "limits")
	require.NoError(t, err)
	require.NotNil(t, s)
	return s
}

// TestChangeSetOfSomebodyElseStays: the empty stack of a creation that another looks over is
// not deleted with the change set that was made beside it.
func TestChangeSetOfSomebodyElseStays(t *testing.T) {
	server := &stacktest.Server{}
	theirs, err := stack.Propose(t.Context(), server.Client(), nil, deployment(nil), time.Now())
	require.NoError(t, err)
	ours, err := stack.Propose(t.Context(), server.Client(), found(t, server), deployment(nil), time.Now().Add(time.Second))
	require.NoError(t, err)
	assert.True(t, ours.New)
	require.NoError(t, stack.Discard(t.Context(), server.Client(), ours))
	_, err = stack.Execute(t.Context(), server.Client(), theirs)
	require.NoError(t, err)
}

// deaf loses the answers to the first change of termination protection, and to the first
// deletion before it is asked for.
type deaf struct {
	stack.Client
	protection, deletion error
}

func (d *deaf) UpdateTerminationProtection(ctx context.Context, in *cloudformation.UpdateTerminationProtectionInput, opts ...func(*cloudformation.Options)) (*cloudformation.UpdateTerminationProtectionOutput, error) {
	out, err := d.Client.UpdateTerminationProtection(ctx, in, opts...)
	lost := d.protection
	d.protection = nil
	return out, cmp.Or(err, lost)
}

func (d *deaf) DeleteStack(context.Context, *cloudformation.DeleteStackInput, ...func(*cloudformation.Options)) (*cloudformation.DeleteStackOutput, error) {
	return nil, d.deletion
}

// TestTerminationProtectionComesBack: whichever request ends a deletion before it began, even
// one that was obeyed and whose answer was lost.
func TestTerminationProtectionComesBack(t *testing.T) {
	lost := errors.New("the connection broke")
	for _, d := range []*deaf{{protection: lost}, {deletion: lost}} {
		server := &stacktest.Server{}
		d.Client = server.Client()
		_, _, err := deploy(t.Context(), d, deployment(nil))
		require.NoError(t, err)
		require.NoError(t, stack.Protect(t.Context(), server.Client(), "limits", true))
		require.ErrorIs(t, stack.Delete(t.Context(), d, found(t, server), func(stack.Event) {}), lost)
		assert.True(t, found(t, server).Protected)
	}
}

// TestHalfDeleted: it is told what failed then, not what failed before, and what is left is
// cleaned up unless a table would go with it.
func TestHalfDeleted(t *testing.T) {
	for _, policy := range []string{"Retain", "Delete"} {
		server := &stacktest.Server{}
		d := deployment(nil)
		d.Template = strings.ReplaceAll(template, "Retain", policy)
		_, _, err := deploy(t.Context(), server.Client(), d)
		require.NoError(t, err)
		server.Set(func() { server.Fail = map[string]string{"Table": "the update failed"} })
		d.Params = map[string]string{"Protection": "false"}
		_, _, err = deploy(t.Context(), server.Client(), d)
		require.ErrorContains(t, err, "the update failed")

		server.Set(func() { server.Fail = map[string]string{"Topic": "somebody subscribes", "Table": "it is in use"} })
		require.Error(t, stack.Delete(t.Context(), server.Client(), found(t, server), func(stack.Event) {}))
		s := found(t, server)
		err = stack.Standing(t.Context(), server.Client(), s, false)
		require.ErrorContains(t, err, "is half deleted (DELETE_FAILED) because Table: it is in use")
		assert.NotContains(t, err.Error(), "the update failed")

		server.Set(func() { server.Fail = nil })
		err = stack.CleanUp(t.Context(), server.Client(), s, func(stack.Event) {})
		if policy == "Retain" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "the tables limits would be deleted")
		assert.Equal(t, "DELETE_FAILED", found(t, server).Status)
	}
}
