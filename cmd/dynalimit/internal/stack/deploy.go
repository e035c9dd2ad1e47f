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
)

const (
	// MaxInline is the longest template that a request may carry, in bytes.
	MaxInline = 51_200
	// cleanUp bounds what is put in order after an error.
	cleanUp = time.Minute
)

// keepTables is the stack's policy: CloudFormation refuses an update that would replace or
// remove a table, and undoes the rest of it.
const keepTables = `{"Statement":[
{"Effect":"Allow","Action":"Update:*","Principal":"*","Resource":"*"},
{"Effect":"Deny","Action":["Update:Replace","Update:Delete"],"Principal":"*","Resource":"*",
"Condition":{"StringEquals":{"ResourceType":["AWS::DynamoDB::Table","AWS::DynamoDB::GlobalTable"]}}}]}`

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
	case s == nil:
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

// Deploy creates the stack, or updates s, and waits until CloudFormation is done. It reports
// whether anything changed. It fails with an *EndError if CloudFormation rolled back.
func Deploy(ctx context.Context, client *cloudformation.Client, s *Stack, d Deployment, now time.Time) (changed bool, err error) {
	summary, err := summarize(ctx, client, d)
	if err != nil {
		return false, err
	}
	params, err := parameters(summary, s, d.Params)
	if err != nil {
		return false, err
	}
	token := "dynalimit-" + now.UTC().Format("20060102-150405-") + fmt.Sprintf("%09d", now.Nanosecond()) // a retry does nothing twice
	var role *string
	if d.RoleARN != "" {
		role = &d.RoleARN
	}
	body, url := templateOf(d)
	var id *string
	if s == nil {
		out, err := client.CreateStack(ctx, &cloudformation.CreateStackInput{
			StackName: &d.Stack, TemplateBody: body, TemplateURL: url, Parameters: params, Capabilities: summary.Capabilities, Tags: tagsOf(d.Tags),
			RoleARN: role, ClientRequestToken: &token, StackPolicyBody: aws.String(keepTables),
		})
		if err != nil {
			return false, failed("create the stack "+d.Stack, d.Stack, err)
		}
		id = out.StackId
	} else {
		if _, err := client.SetStackPolicy(ctx, &cloudformation.SetStackPolicyInput{StackName: &d.Stack, StackPolicyBody: aws.String(keepTables)}); err != nil {
			return false, failed("protect the tables of "+d.Stack, d.Stack, err)
		}
		out, err := client.UpdateStack(ctx, &cloudformation.UpdateStackInput{
			StackName: &d.Stack, TemplateBody: body, TemplateURL: url, Parameters: params, Capabilities: summary.Capabilities, Tags: tagsOf(d.Tags),
			RoleARN: role, ClientRequestToken: &token,
		})
		if _, message := api(err); strings.Contains(message, "No updates are to be performed") {
			return false, nil
		}
		if err != nil {
			return false, failed("update the stack "+d.Stack, d.Stack, err)
		}
		id = out.StackId
	}
	return true, Wait(ctx, client, d.Stack, aws.ToString(id))
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
