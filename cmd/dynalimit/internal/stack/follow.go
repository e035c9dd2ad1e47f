package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Event is something that happened to a resource of a stack, or to the stack.
type Event struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Logical string    `json:"logical"`
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`

	ofStack bool
}

// Failed reports whether it is a failure.
func (e Event) Failed() bool {
	return strings.Contains(e.Status, "FAILED") || strings.Contains(e.Status, "ROLLBACK")
}

// final reports whether nothing more happens to the stack.
func (e Event) final() bool { return e.ofStack && !strings.HasSuffix(e.Status, "_IN_PROGRESS") }

// begins reports whether somebody asked something new of the stack.
func (e Event) begins() bool {
	return e.ofStack && slices.Contains([]types.ResourceStatus{
		types.ResourceStatusCreateInProgress, types.ResourceStatusUpdateInProgress, types.ResourceStatusDeleteInProgress, types.ResourceStatusImportInProgress,
	}, types.ResourceStatus(e.Status))
}

// good are the ends that were asked for.
var good = []types.StackStatus{types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusDeleteComplete}

// EndError says that a deployment or a deletion ended otherwise than was asked for.
type EndError struct {
	Stack, Status string
	// Reasons are what failed, and why.
	Reasons []string
}

func (e *EndError) Error() string {
	text := fmt.Sprintf("the stack %s ended as %s", e.Stack, e.Status)
	if len(e.Reasons) > 0 {
		text += ": " + strings.Join(e.Reasons, "; ")
	}
	switch types.StackStatus(e.Status) {
	case types.StackStatusRollbackComplete, types.StackStatusRollbackFailed:
		return text + "; correct that, then 'dynalimit stack deploy --clean-up' deletes what is left and tries again"
	case types.StackStatusUpdateRollbackComplete:
		return text + "; everything is as it was before: correct that and deploy again"
	case types.StackStatusUpdateRollbackFailed:
		return text + "; correct that, then run 'aws cloudformation continue-update-rollback --stack-name " + e.Stack + "'"
	case types.StackStatusDeleteFailed:
		return text + "; correct that and delete it again"
	}
	return text + "; see 'dynalimit stack status " + e.Stack + "'"
}

// Execute carries a change set out; Follow tells how that goes from the mark on.
func Execute(ctx context.Context, client *cloudformation.Client, set *ChangeSet) (mark string, err error) {
	if mark, err = lastEvent(ctx, client, set.stackID); err != nil {
		return "", err
	}
	_, err = client.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{
		ChangeSetName: &set.ID, StackName: &set.stackID, ClientRequestToken: &set.token, // a retry executes nothing twice
	})
	return mark, failed("execute the change set of "+set.Stack, set.Stack, err)
}

// StackID is the stack's unique name, which finds it after it was deleted too.
func (set *ChangeSet) StackID() string { return set.stackID }

// Protect turns the stack's termination protection on or off.
func Protect(ctx context.Context, client *cloudformation.Client, stack string, yes bool) error {
	_, err := client.UpdateTerminationProtection(ctx, &cloudformation.UpdateTerminationProtectionInput{StackName: &stack, EnableTerminationProtection: &yes})
	return failed("change the termination protection of "+stack, stack, err)
}

// Follow tells every event after the mark once, oldest first, until the stack is done. It
// fails with an *EndError if that is not what was asked for.
func Follow(ctx context.Context, client *cloudformation.Client, name, id, mark string, tell func(Event)) error {
	var reasons []string
	for {
		events, err := eventsAfter(ctx, client, id, mark)
		if err != nil {
			return failed("follow the stack "+name, name, err)
		}
		for _, e := range events {
			tell(e)
			mark = e.ID
			reasons = append(reasons, e.failure()...)
			if e.final() {
				return ended(name, e.Status, reasons)
			}
		}
		if !ddb.Sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
}

// ended is nil for an end that was asked for.
func ended(name, status string, reasons []string) error {
	if slices.Contains(good, types.StackStatus(status)) {
		return nil
	}
	return &EndError{name, status, reasons}
}

// failure is what failed and why; none for anything else, and for what failed only because
// another resource did.
func (e Event) failure() []string {
	if !strings.HasSuffix(e.Status, "_FAILED") || e.ofStack || cancelled(e) {
		return nil
	}
	return []string{e.Logical + ": " + e.Reason}
}

// cancelled reports whether a failure is only that of another resource.
func cancelled(e Event) bool {
	return strings.Contains(e.Reason, "cancelled") || strings.Contains(e.Reason, "canceled")
}

// eventsAfter are the events after the one with the id mark, oldest first; all if it is "".
func eventsAfter(ctx context.Context, client *cloudformation.Client, stack, mark string) ([]Event, error) {
	var events []Event
	in := &cloudformation.DescribeStackEventsInput{StackName: &stack}
	for {
		out, err := client.DescribeStackEvents(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, e := range out.StackEvents { // the newest first
			if mark != "" && aws.ToString(e.EventId) == mark {
				slices.Reverse(events)
				return events, nil
			}
			events = append(events, eventOf(e))
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			slices.Reverse(events)
			return events, nil
		}
	}
}

func eventOf(e types.StackEvent) Event {
	return Event{
		ID: aws.ToString(e.EventId), At: aws.ToTime(e.Timestamp).UTC(), Logical: aws.ToString(e.LogicalResourceId), Type: aws.ToString(e.ResourceType),
		Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason),
		ofStack: aws.ToString(e.PhysicalResourceId) == aws.ToString(e.StackId),
	}
}

// lastEvent is the id of a stack's newest event, "" for none.
func lastEvent(ctx context.Context, client *cloudformation.Client, stack string) (string, error) {
	out, err := client.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	switch {
	case absent(err):
		return "", nil
	case err != nil:
		return "", failed("look at the events of "+stack, stack, err)
	case len(out.StackEvents) == 0:
		return "", nil
	}
	return aws.ToString(out.StackEvents[0].EventId), nil
}

// Recent are the newest events of a stack, at most n, oldest first.
func Recent(ctx context.Context, client *cloudformation.Client, stack string, n int) ([]Event, error) {
	out, err := client.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	if err != nil {
		return nil, failed("look at the events of "+stack, stack, err)
	}
	var events []Event
	for _, e := range out.StackEvents[:min(n, len(out.StackEvents))] {
		events = append(events, eventOf(e))
	}
	slices.Reverse(events)
	return events, nil
}

// failures are what failed in the stack's latest attempt, and why.
func failures(ctx context.Context, client *cloudformation.Client, stack string) ([]string, error) {
	events, err := eventsAfter(ctx, client, stack, "")
	if err != nil {
		return nil, failed("look at the events of "+stack, stack, err)
	}
	var reasons []string
	for _, e := range events {
		if e.begins() {
			reasons = nil
		}
		reasons = append(reasons, e.failure()...)
	}
	return reasons, nil
}
