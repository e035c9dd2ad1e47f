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
	// MaxInline is the maximal length of a template in a request, in bytes.
	MaxInline = 51_200
	// cleanUp bounds the cleaning up after an error.
	cleanUp = time.Minute
)

// keepTables is the stack's policy: CloudFormation refuses an update that would replace or
// remove a table, and rolls the update back.
const keepTables = `{"Statement":[
{"Effect":"Allow","Action":"Update:*","Principal":"*","Resource":"*"},
{"Effect":"Deny","Action":["Update:Replace","Update:Delete"],"Principal":"*","Resource":"*",
"Condition":{"StringEquals":{"ResourceType":["AWS::DynamoDB::Table","AWS::DynamoDB::GlobalTable"]}}}]}`

// Deployment is the input of a deployment.
type Deployment struct {
	// Stack is the stack's name.
	Stack string
	// Template is the template's text. TemplateURL, if set, is its URL in S3 instead.
	Template, TemplateURL string
	// Params are values of parameters. Missing ones keep their value, or get their default.
	Params map[string]string
	// Tags are the tags of all resources. Defaults to Tag only.
	Tags map[string]string
	// RoleARN is the role of CloudFormation. Defaults to the caller's credentials.
	RoleARN string
	// Adopt permits a stack that was not deployed here. Defaults to false.
	Adopt bool
}

// FailedError means that the stack's first creation or its deletion failed, so that it can only
// be deleted.
type FailedError struct {
	Stack, Status string
	// Reasons are the failures with their causes.
	Reasons []string
}

// Error returns the reasons that the stack can only be deleted, and the command that deletes it.
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

// dead are the states in which a stack can only be deleted.
var dead = []types.StackStatus{
	types.StackStatusRollbackComplete, types.StackStatusRollbackFailed, types.StackStatusCreateFailed, types.StackStatusDeleteFailed,
}

// CheckDeployable returns nil if a stack can be deployed to: if it does not exist (s is nil) or is usable.
// Otherwise it returns a *BusyError, or a *FailedError with the reasons. A stack of another program is an error
// unless adopt is true.
func CheckDeployable(ctx context.Context, client *cloudformation.Client, s *Stack, adopt bool) error {
	switch {
	case s == nil:
		return nil
	case s.Running():
		return &BusyError{s.Name, s.Status, nil}
	case !s.Ours && !adopt:
		return fmt.Errorf("there is a stack %s that was not deployed with this command: name another, or give --adopt to update it to the template", s.Name)
	case slices.Contains(dead, types.StackStatus(s.Status)):
		reasons, err := latestFailures(ctx, client, s.ID)
		return errors.Join(err, &FailedError{s.Name, s.Status, reasons})
	}
	return nil
}

// Deploy creates the stack if s is nil, else updates it, and waits for the end. It also sets the policy that
// protects the stack's tables. It returns false if nothing was to be updated, and an *EndError if the stack did
// not end as intended; now makes the request's token.
func Deploy(ctx context.Context, client *cloudformation.Client, s *Stack, d Deployment, now time.Time) (changed bool, err error) {
	summary, err := summarizeTemplate(ctx, client, d)
	if err != nil {
		return false, err
	}
	params, err := parameterValues(summary, s, d.Params)
	if err != nil {
		return false, err
	}
	token := "dynalimit-" + now.UTC().Format("20060102-150405-") + fmt.Sprintf("%09d", now.Nanosecond()) // makes a retry harmless
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
			return false, requestError("create the stack "+d.Stack, d.Stack, err)
		}
		id = out.StackId
	} else {
		if _, err := client.SetStackPolicy(ctx, &cloudformation.SetStackPolicyInput{StackName: &d.Stack, StackPolicyBody: aws.String(keepTables)}); err != nil {
			return false, requestError("protect the tables of "+d.Stack, d.Stack, err)
		}
		out, err := client.UpdateStack(ctx, &cloudformation.UpdateStackInput{
			StackName: &d.Stack, TemplateBody: body, TemplateURL: url, Parameters: params, Capabilities: summary.Capabilities, Tags: tagsOf(d.Tags),
			RoleARN: role, ClientRequestToken: &token,
		})
		if _, message := apiError(err); strings.Contains(message, "No updates are to be performed") {
			return false, nil
		}
		if err != nil {
			return false, requestError("update the stack "+d.Stack, d.Stack, err)
		}
		id = out.StackId
	}
	return true, Wait(ctx, client, d.Stack, aws.ToString(id))
}

// templateOf returns the template for a request: its text, or its URL if it has one. The other is
// nil.
func templateOf(d Deployment) (body, url *string) {
	if d.TemplateURL != "" {
		return nil, &d.TemplateURL
	}
	return &d.Template, nil
}

// summarizeTemplate makes CloudFormation validate the template of d, and returns its declared parameters and
// required capabilities. It refuses a template that is too long for a request, without sending it.
func summarizeTemplate(ctx context.Context, client *cloudformation.Client, d Deployment) (*cloudformation.GetTemplateSummaryOutput, error) {
	if n := len(d.Template); d.TemplateURL == "" && n > MaxInline {
		return nil, fmt.Errorf("the template has %d bytes, and CloudFormation takes %d in a request: put it into a bucket ('dynalimit template > limits.yaml', 'aws s3 cp limits.yaml s3://BUCKET/') and give its address with --template-url", n, MaxInline)
	}
	in := &cloudformation.GetTemplateSummaryInput{}
	in.TemplateBody, in.TemplateURL = templateOf(d)
	out, err := client.GetTemplateSummary(ctx, in)
	return out, requestError("check the template", d.Stack, err)
}

// parameterValues returns the parameters of a request: given values, else a mark to keep the value of the stack
// s, which may be nil. A declared parameter with neither is left out and gets its default. Given but undeclared
// ones are a *ParamError.
func parameterValues(summary *cloudformation.GetTemplateSummaryOutput, s *Stack, given map[string]string) ([]types.Parameter, error) {
	var all []types.Parameter
	var declared []string
	for _, p := range summary.Parameters {
		name := aws.ToString(p.ParameterKey)
		declared = append(declared, name)
		value, ok := given[name]
		switch {
		case ok:
			all = append(all, types.Parameter{ParameterKey: &name, ParameterValue: &value})
		case s != nil && hasKey(s.Params, name):
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

// ParamError means that the template does not declare a parameter.
type ParamError struct {
	Name     string
	Declared []string
}

// Error names the unknown parameter and those that the template declares.
func (e *ParamError) Error() string {
	return fmt.Sprintf("--param %s: the template has no such parameter; it has %s", e.Name, strings.Join(e.Declared, ", "))
}

// hasKey reports whether the map has the key.
func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// tagsOf returns tags for a request, sorted by key, after the tag of stacks that this command deployed. A given
// value of that tag is ignored.
func tagsOf(tags map[string]string) []types.Tag {
	list := []types.Tag{{Key: aws.String(Tag), Value: aws.String(TagValue)}}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if key != Tag {
			list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
		}
	}
	return list
}
