package stack

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// Tag marks the stacks that were deployed here.
const (
	Tag      = "deployed-by"
	TagValue = "dynalimit"
)

// isTable reports whether a resource type is a table, in one region or several.
func isTable(kind string) bool {
	return kind == "AWS::DynamoDB::Table" || kind == "AWS::DynamoDB::GlobalTable"
}

// Stack is CloudFormation's description of a stack.
type Stack struct {
	Name   string `json:"stack"`
	ID     string `json:"id"`
	Status string `json:"status"`
	// Reason is the reason of the status, or "".
	Reason  string     `json:"reason,omitempty"`
	About   string     `json:"about,omitempty"`
	Created time.Time  `json:"created"`
	Updated *time.Time `json:"updated,omitempty"`
	// Ours is true if this command deployed the stack.
	Ours bool `json:"ours"`
	// Protected is true if termination protection is on.
	Protected bool `json:"termination_protection"`
	// Drift is CloudFormation's last finding, and DriftChecked its time.
	Drift        string     `json:"drift"`
	DriftChecked *time.Time `json:"drift_checked,omitempty"`
	// RoleARN is the role of CloudFormation, or "" for the caller's credentials.
	RoleARN string            `json:"role_arn,omitempty"`
	Params  map[string]string `json:"parameters,omitempty"`
	Outputs []Output          `json:"outputs,omitempty"`
}

// Output is an output value of a stack.
type Output struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	About string `json:"about,omitempty"`
}

// Ready reports whether the stack's last operation left it usable. It is false for nil.
func (s *Stack) Ready() bool {
	return s != nil && slices.Contains([]types.StackStatus{
		types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateCompleteCleanupInProgress,
		types.StackStatusUpdateRollbackComplete, types.StackStatusImportComplete,
	}, types.StackStatus(s.Status))
}

// Running reports whether CloudFormation is changing the stack. It is false for nil.
func (s *Stack) Running() bool { return s != nil && isRunning(types.StackStatus(s.Status)) }

// Find requests the description of a stack by its name or id. It returns nil without an error if the stack does
// not exist or is deleted.
func Find(ctx context.Context, client *cloudformation.Client, name string) (*Stack, error) {
	out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	switch {
	case isMissing(err):
		return nil, nil //nolint:nilnil // nil means absent
	case err != nil:
		return nil, requestError("describe the stack "+name, name, err)
	case len(out.Stacks) == 0 || out.Stacks[0].StackStatus == types.StackStatusDeleteComplete:
		return nil, nil //nolint:nilnil // nil means absent
	}
	return stackOf(out.Stacks[0]), nil
}

// List returns the stacks of the region with this program's tag, over all pages, without deleted ones. It is
// empty but not nil without any.
func List(ctx context.Context, client *cloudformation.Client) ([]*Stack, error) {
	all := []*Stack{}
	in := &cloudformation.DescribeStacksInput{}
	for {
		out, err := client.DescribeStacks(ctx, in)
		if err != nil {
			return nil, requestError("list the stacks", "", err)
		}
		for _, s := range out.Stacks {
			if found := stackOf(s); found.Ours && s.StackStatus != types.StackStatusDeleteComplete {
				all = append(all, found)
			}
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			return all, nil
		}
	}
}

// stackOf converts the SDK's description of a stack, with times in UTC. Ours is set if the stack has this
// program's tag.
func stackOf(s types.Stack) *Stack {
	found := &Stack{
		Name: aws.ToString(s.StackName), ID: aws.ToString(s.StackId), Status: string(s.StackStatus), Reason: aws.ToString(s.StackStatusReason),
		About: aws.ToString(s.Description), Created: aws.ToTime(s.CreationTime).UTC(), Protected: aws.ToBool(s.EnableTerminationProtection),
		RoleARN: aws.ToString(s.RoleARN), Drift: string(types.StackDriftStatusNotChecked), Params: map[string]string{},
	}
	if s.LastUpdatedTime != nil {
		at := s.LastUpdatedTime.UTC()
		found.Updated = &at
	}
	for _, tag := range s.Tags {
		found.Ours = found.Ours || aws.ToString(tag.Key) == Tag && aws.ToString(tag.Value) == TagValue
	}
	if d := s.DriftInformation; d != nil {
		found.Drift = string(d.StackDriftStatus)
		if d.LastCheckTimestamp != nil {
			at := d.LastCheckTimestamp.UTC()
			found.DriftChecked = &at
		}
	}
	for _, p := range s.Parameters {
		found.Params[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	for _, o := range s.Outputs {
		found.Outputs = append(found.Outputs, Output{aws.ToString(o.OutputKey), aws.ToString(o.OutputValue), aws.ToString(o.Description)})
	}
	return found
}

// Resource is a resource of a stack.
type Resource struct {
	Logical  string `json:"logical"`
	Physical string `json:"physical,omitempty"`
	Type     string `json:"type"`
	Status   string `json:"status"`
}

// Resources returns the resources of a stack, named by name or id, over all pages. Deleted ones may be among
// them.
func Resources(ctx context.Context, client *cloudformation.Client, stack string) ([]Resource, error) {
	var all []Resource
	in := &cloudformation.ListStackResourcesInput{StackName: &stack}
	for {
		out, err := client.ListStackResources(ctx, in)
		if err != nil {
			return nil, requestError("list the resources of "+stack, stack, err)
		}
		for _, r := range out.StackResourceSummaries {
			all = append(all, Resource{aws.ToString(r.LogicalResourceId), aws.ToString(r.PhysicalResourceId), aws.ToString(r.ResourceType), string(r.ResourceStatus)})
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			return all, nil
		}
	}
}

// IsTable reports whether the resource is a table.
func (r Resource) IsTable() bool { return isTable(r.Type) }
