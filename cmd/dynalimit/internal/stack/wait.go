package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// poll is the time between two requests to CloudFormation.
const poll = 2 * time.Second

// Event is an event of a stack or of one of its resources.
type Event struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Logical string    `json:"logical"`
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`

	ofStack bool
}

// Failed reports by the event's status whether it is a failure or belongs to a rollback.
func (e Event) Failed() bool {
	return strings.Contains(e.Status, "FAILED") || strings.Contains(e.Status, "ROLLBACK")
}

// beginsOperation reports whether the event is of the stack itself and starts a creation, update, deletion or
// import.
func (e Event) beginsOperation() bool {
	return e.ofStack && slices.Contains([]types.ResourceStatus{
		types.ResourceStatusCreateInProgress, types.ResourceStatusUpdateInProgress, types.ResourceStatusDeleteInProgress, types.ResourceStatusImportInProgress,
	}, types.ResourceStatus(e.Status))
}

// good are the intended final states.
var good = []types.StackStatus{types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusDeleteComplete}

// EndError means that a deployment or a deletion did not end as intended.
type EndError struct {
	Stack, Status string
	// Reasons are the failures with their causes.
	Reasons []string
}

// Error returns the status in which the stack ended, its failures, and the next step.
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

// Protect turns the stack's termination protection on if yes is true, else off, by one request.
func Protect(ctx context.Context, client *cloudformation.Client, stack string, yes bool) error {
	_, err := client.UpdateTerminationProtection(ctx, &cloudformation.UpdateTerminationProtectionInput{StackName: &stack, EnableTerminationProtection: &yes})
	return requestError("change the termination protection of "+stack, stack, err)
}

// Wait polls a stack every two seconds until its current operation has ended, and returns nil if it ended as
// intended. Otherwise it returns an *EndError with the failed events. If ctx ends first, it returns the cause,
// and CloudFormation continues.
func Wait(ctx context.Context, client *cloudformation.Client, name, id string) error {
	for {
		out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &id})
		if err != nil {
			return requestError("look at the stack "+name, name, err)
		}
		if len(out.Stacks) == 0 {
			return fmt.Errorf("look at the stack %s: CloudFormation names no stack", name)
		}
		if status := out.Stacks[0].StackStatus; !isRunning(status) {
			if slices.Contains(good, status) {
				return nil
			}
			reasons, err := latestFailures(ctx, client, id)
			return errors.Join(&EndError{name, string(status), reasons}, err)
		}
		if !ddb.Sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
}

// describeFailure returns "RESOURCE: REASON" of a failure as a list of one text. It is nil for other events,
// for those of the stack itself, and for a failure that another resource caused.
func (e Event) describeFailure() []string {
	if !strings.HasSuffix(e.Status, "_FAILED") || e.ofStack || isCancelled(e) {
		return nil
	}
	return []string{e.Logical + ": " + e.Reason}
}

// isCancelled reports by its reason whether the event is a failure that another resource caused.
func isCancelled(e Event) bool {
	return strings.Contains(e.Reason, "cancelled") || strings.Contains(e.Reason, "canceled")
}

// eventOf converts a stack's event from the SDK's type, with its time in UTC. It marks an event of the stack
// itself.
func eventOf(e types.StackEvent) Event {
	return Event{
		ID: aws.ToString(e.EventId), At: aws.ToTime(e.Timestamp).UTC(), Logical: aws.ToString(e.LogicalResourceId), Type: aws.ToString(e.ResourceType),
		Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason),
		ofStack: aws.ToString(e.PhysicalResourceId) == aws.ToString(e.StackId),
	}
}

// Recent returns the newest n events of a stack, oldest first. It reads one page, so they may be fewer.
func Recent(ctx context.Context, client *cloudformation.Client, stack string, n int) ([]Event, error) {
	out, err := client.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	if err != nil {
		return nil, requestError("look at the events of "+stack, stack, err)
	}
	var events []Event
	for _, e := range out.StackEvents[:min(n, len(out.StackEvents))] {
		events = append(events, eventOf(e))
	}
	slices.Reverse(events)
	return events, nil
}

// latestFailures reads the events back to the start of the stack's latest operation and returns its failures as
// "RESOURCE: REASON", the oldest first. It leaves out the stack itself and resources that failed because of
// another.
func latestFailures(ctx context.Context, client *cloudformation.Client, stack string) ([]string, error) {
	var reasons []string
	in := &cloudformation.DescribeStackEventsInput{StackName: &stack}
	for {
		out, err := client.DescribeStackEvents(ctx, in)
		if err != nil {
			return nil, requestError("look at the events of "+stack, stack, err)
		}
		for _, described := range out.StackEvents { // newest first
			e := eventOf(described)
			reasons = append(reasons, e.describeFailure()...)
			if e.beginsOperation() {
				slices.Reverse(reasons)
				return reasons, nil
			}
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			slices.Reverse(reasons)
			return reasons, nil
		}
	}
}
