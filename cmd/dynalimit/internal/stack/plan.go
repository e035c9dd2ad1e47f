package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

const (
	// MaxInline is the longest template that a request may carry, in bytes.
	MaxInline = 51_200
	// poll is the time between two looks at CloudFormation.
	poll = 2 * time.Second
	// cleanUp bounds what is put in order after an error.
	cleanUp = time.Minute
)

// Deployment is what is to be deployed.
type Deployment struct {
	// Stack is the stack's name.
	Stack string
	// Template is its text; TemplateURL, if set, where it lies in S3 instead.
	Template, TemplateURL string
	// Params are values of parameters. Those that are left out keep the value that they
	// have, or get their default.
	Params map[string]string
	// Tags are put on everything. Defaults to Tag alone.
	Tags map[string]string
	// RoleARN is the role that CloudFormation acts by. Defaults to whoever asks.
	RoleARN string
	// Adopt takes a stack over that was not deployed here. Defaults to refusing it.
	Adopt bool
}

// ChangeSet is what a deployment would change.
type ChangeSet struct {
	Stack string `json:"stack"`
	ID    string `json:"change_set,omitempty"`
	// New says that the stack does not exist yet.
	New     bool     `json:"new"`
	Changes []Change `json:"changes"`
	// Capabilities are what the template asks to be allowed, such as CAPABILITY_IAM, and
	// Reason why.
	Capabilities []string `json:"capabilities,omitempty"`
	Reason       string   `json:"capabilities_reason,omitempty"`

	stackID, token string
	// made says that the stack was made for the change set.
	made bool
}

// FailedError says that the stack's first creation or its deletion failed, so that it can
// only be deleted.
type FailedError struct {
	Stack, Status string
	// Reasons are what failed, and why.
	Reasons []string
}

func (e *FailedError) Error() string {
	why := ""
	if len(e.Reasons) > 0 {
		why = " because " + strings.Join(e.Reasons, "; ")
	}
	was := "was never made whole"
	if e.Status == string(types.StackStatusDeleteFailed) {
		was = "is half deleted"
	}
	return fmt.Sprintf("the stack %s %s (%s)%s: CloudFormation can only delete it; give --clean-up to have that done first", e.Stack, was, e.Status, why)
}

// dead are the states that only a deletion ends.
var dead = []types.StackStatus{
	types.StackStatusRollbackComplete, types.StackStatusRollbackFailed, types.StackStatusCreateFailed, types.StackStatusDeleteFailed,
}

// Standing says whether a stack can be deployed to: nil, a *BusyError, a *FailedError, or
// the error of a stack that is not ours.
func Standing(ctx context.Context, client *cloudformation.Client, s *Stack, adopt bool) error {
	switch {
	case s == nil || s.Status == string(types.StackStatusReviewInProgress):
		return nil
	case s.Running():
		return &BusyError{s.Name, s.Status, nil}
	case !s.Ours && !adopt:
		return fmt.Errorf("there is a stack %s that was not deployed with this command: name another, or give --adopt if that one is to become what the template says", s.Name)
	case slices.Contains(dead, types.StackStatus(s.Status)):
		reasons, err := failures(ctx, client, s.ID)
		return errors.Join(err, &FailedError{s.Name, s.Status, reasons})
	}
	return nil
}

// Propose makes a change set of a deployment and waits until it is known what it changes;
// none for a stack that is as it should be. Discard it, or execute it. What an error leaves
// behind is put away.
func Propose(ctx context.Context, client *cloudformation.Client, s *Stack, d Deployment, now time.Time) (*ChangeSet, error) {
	summary, err := summarize(ctx, client, d)
	if err != nil {
		return nil, err
	}
	params, err := parameters(summary, s, d.Params)
	if err != nil {
		return nil, err
	}
	set := &ChangeSet{
		Stack: d.Stack, New: s == nil || s.Status == string(types.StackStatusReviewInProgress), Changes: []Change{},
		Reason: aws.ToString(summary.CapabilitiesReason), made: s == nil,
	}
	for _, c := range summary.Capabilities {
		set.Capabilities = append(set.Capabilities, string(c))
	}
	set.token = "dynalimit-" + now.UTC().Format("20060102-150405-") + fmt.Sprintf("%09d", now.Nanosecond())
	in := &cloudformation.CreateChangeSetInput{
		StackName: &d.Stack, ChangeSetName: &set.token, ClientToken: &set.token,
		ChangeSetType: types.ChangeSetTypeUpdate, Capabilities: summary.Capabilities, Parameters: params, Tags: tagsOf(d.Tags),
		Description: aws.String("dynalimit stack deploy"), IncludeNestedStacks: aws.Bool(true),
	}
	if set.New {
		in.ChangeSetType = types.ChangeSetTypeCreate
	}
	if d.RoleARN != "" {
		in.RoleARN = &d.RoleARN
	}
	in.TemplateBody, in.TemplateURL = templateOf(d)
	out, err := client.CreateChangeSet(ctx, in)
	if err != nil {
		return nil, failed("make a change set of "+d.Stack, d.Stack, err)
	}
	set.ID, set.stackID = aws.ToString(out.Id), aws.ToString(out.StackId)
	nothing, err := set.await(ctx, client)
	if err == nil && !nothing {
		return set, nil
	}
	if problem := Discard(ctx, client, set); problem != nil && err == nil {
		err = problem
	}
	set.ID = ""
	return set, err
}

func templateOf(d Deployment) (body, url *string) {
	if d.TemplateURL != "" {
		return nil, &d.TemplateURL
	}
	return &d.Template, nil
}

// summarize has CloudFormation check the template, and say what it asks for.
func summarize(ctx context.Context, client *cloudformation.Client, d Deployment) (*cloudformation.GetTemplateSummaryOutput, error) {
	if n := len(d.Template); d.TemplateURL == "" && n > MaxInline {
		return nil, fmt.Errorf("the template has %d bytes, and CloudFormation takes %d in a request: put it into a bucket ('dynalimit template > limits.yaml', 'aws s3 cp limits.yaml s3://BUCKET/') and give its address with --template-url", n, MaxInline)
	}
	in := &cloudformation.GetTemplateSummaryInput{}
	in.TemplateBody, in.TemplateURL = templateOf(d)
	out, err := client.GetTemplateSummary(ctx, in)
	return out, failed("check the template", d.Stack, err)
}

// parameters are the values of what the template declares: those that are given, those that
// the stack has, and defaults.
func parameters(summary *cloudformation.GetTemplateSummaryOutput, s *Stack, given map[string]string) ([]types.Parameter, error) {
	var all []types.Parameter
	var declared []string
	for _, p := range summary.Parameters {
		name := aws.ToString(p.ParameterKey)
		declared = append(declared, name)
		value, ok := given[name]
		switch {
		case ok:
			all = append(all, types.Parameter{ParameterKey: &name, ParameterValue: &value})
		case s != nil && has(s.Params, name):
			all = append(all, types.Parameter{ParameterKey: &name, UsePreviousValue: aws.Bool(true)})
		}
	}
	for name := range given {
		if !slices.Contains(declared, name) {
			slices.Sort(declared)
			return nil, &ParamError{name, declared}
		}
	}
	return all, nil
}

// ParamError says that the template has no such parameter.
type ParamError struct {
	Name     string
	Declared []string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("--param %s: the template has no such parameter; it has %s", e.Name, strings.Join(e.Declared, ", "))
}

func has(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

func tagsOf(tags map[string]string) []types.Tag {
	list := []types.Tag{{Key: aws.String(Tag), Value: aws.String(TagValue)}}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if key != Tag {
			list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
		}
	}
	return list
}

// await waits until it is known what changes; nothing is true if that is nothing.
func (set *ChangeSet) await(ctx context.Context, client *cloudformation.Client) (nothing bool, err error) {
	in := &cloudformation.DescribeChangeSetInput{ChangeSetName: &set.ID, StackName: &set.stackID, IncludePropertyValues: aws.Bool(true)}
	for {
		out, err := client.DescribeChangeSet(ctx, in)
		if err != nil {
			return false, failed("look at the change set of "+set.Stack, set.Stack, err)
		}
		reason := aws.ToString(out.StatusReason)
		switch {
		case out.Status == types.ChangeSetStatusCreateComplete:
			return false, set.pages(ctx, client, in, out)
		case out.Status == types.ChangeSetStatusFailed && unchanged(reason):
			return true, nil
		case out.Status == types.ChangeSetStatusFailed:
			return false, fmt.Errorf("CloudFormation cannot make a change set of %s: %s; correct the template or its parameters", set.Stack, reason)
		}
		if !ddb.Sleep(ctx, poll) {
			return false, context.Cause(ctx)
		}
	}
}

// unchanged reports whether a change set failed because nothing changes.
func unchanged(reason string) bool {
	return strings.Contains(reason, "didn't contain changes") || strings.Contains(reason, "No updates are to be performed")
}

func (set *ChangeSet) pages(ctx context.Context, client *cloudformation.Client, in *cloudformation.DescribeChangeSetInput, out *cloudformation.DescribeChangeSetOutput) error {
	for {
		for _, c := range out.Changes {
			if change, ok := changeOf(c); ok {
				set.Changes = append(set.Changes, change)
			}
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			return nil
		}
		var err error
		if out, err = client.DescribeChangeSet(ctx, in); err != nil {
			return failed("look at the change set of "+set.Stack, set.Stack, err)
		}
	}
}

// Discard deletes a change set that is not executed, and the empty stack that was made for
// it, even if ctx has ended.
func Discard(ctx context.Context, client *cloudformation.Client, set *ChangeSet) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if _, err := client.DeleteChangeSet(ctx, &cloudformation.DeleteChangeSetInput{ChangeSetName: &set.ID, StackName: &set.stackID}); err != nil {
		return failed("delete the change set "+set.ID, set.Stack, err)
	}
	if !set.made { // another change set may need it
		return nil
	}
	s, err := Find(ctx, client, set.stackID)
	if err != nil || s == nil || s.Status != string(types.StackStatusReviewInProgress) {
		return err
	}
	_, err = client.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &set.stackID})
	return failed("delete the empty stack "+set.Stack, set.Stack, err)
}
