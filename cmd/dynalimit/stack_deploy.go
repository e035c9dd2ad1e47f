package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/infra"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type stackDeployCmd struct {
	stackName
	templateFlags
	Param       map[string]string `help:"Values of the template's parameters, KEY=VALUE. Default: the stack's value, else the template's." mapsep:"none" placeholder:"KEY=VALUE"`
	Tags        map[string]string `help:"Tags of everything in the stack, KEY=VALUE." mapsep:"," placeholder:"KEY=VALUE,…"`
	RoleARN     string            `name:"role-arn" help:"Role that CloudFormation acts by. Default: yours." placeholder:"ARN"`
	TemplateURL string            `name:"template-url" help:"Deploy the template that lies at this address in S3 instead." placeholder:"URL"`
	Adopt       bool              `help:"Take a stack over that was not deployed with this command."`
	CleanUp     bool              `help:"First delete the rest of a failed first deployment."`
	asks
}

// Validate refuses an invalid name of the stack and tags that AWS would refuse.
func (c stackDeployCmd) Validate() error {
	return cmp.Or(c.stackName.Validate(), checkTags(c.Tags))
}

// deployed is the result of a deployment as JSON.
type deployed struct {
	Stack   string         `json:"stack"`
	Status  string         `json:"status"`
	Changed bool           `json:"changed"`
	Outputs []stack.Output `json:"outputs,omitempty"`
	// Tables are the tables that were made ready after the deployment.
	Tables []tables.Result `json:"tables,omitempty"`
	// Problem is a fault beside the deployment: a table is not ready, or the stack is not
	// protected.
	Problem string `json:"problem,omitempty"`
}

// Run creates or updates a stack after a confirmation, waits for the end, protects the stack, and prepares its
// table of limits. It prints the result. A problem of the last two steps is an error after that.
func (c stackDeployCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	d, err := c.flagDeployment(ctx, g)
	if err != nil {
		return err
	}
	return g.onFormation(ctx, out, func(client *cloudformation.Client) error {
		result := &deployed{Stack: c.Name}
		if err := c.deployStack(ctx, g, out, client, d, result); err != nil {
			return err
		}
		err := out.Show(result, func() { c.printDeployed(out, result) })
		if err == nil && result.Problem != "" {
			return errors.New(result.Problem)
		}
		return err
	})
}

// flagDeployment returns the deployment of the flags: the template and its parameters, or with --template-url
// only the URL and --param. It sends nothing. Parameters without a flag will keep the stack's values.
func (c stackDeployCmd) flagDeployment(ctx context.Context, g *globals) (stack.Deployment, error) {
	d := stack.Deployment{
		Stack: c.Name, TemplateURL: c.TemplateURL, Params: map[string]string{}, Tags: c.Tags, RoleARN: c.RoleARN, Adopt: c.Adopt,
	}
	if c.TemplateURL == "" {
		values, err := c.parameterValues(ctx, g)
		if err != nil {
			return d, err
		}
		d.Template = infra.Inline()
		maps.Copy(d.Params, values)
	}
	maps.Copy(d.Params, c.Param)
	return d, nil
}

// deployStack deploys d after a confirmation and waits for the end. Then it protects the stack and prepares its
// table of limits. It fills result; a problem of these two steps goes into result.Problem, without an error.
func (c stackDeployCmd) deployStack(ctx context.Context, g *globals, out *term.Output, client *cloudformation.Client, d stack.Deployment, result *deployed) error {
	s, err := c.findStack(ctx, out, client, d)
	if err != nil {
		return err
	}
	question := "Create the stack " + c.Name
	if s != nil {
		question = "Update the stack " + c.Name
	}
	if err := c.confirm(ctx, out, question, "yes"); err != nil {
		return err
	}
	if result.Changed, err = stack.Deploy(ctx, client, s, d, now(ctx)); err != nil {
		return explainInterrupted(ctx, c.Name, err)
	}
	return c.protectStack(ctx, g, client, result)
}

// findStack returns the stack that d names, or nil if it does not exist. It fails if the stack cannot be
// deployed to. If its first deployment failed and --clean-up is given, it deletes the rest and returns nil.
func (c stackDeployCmd) findStack(ctx context.Context, out *term.Output, client *cloudformation.Client, d stack.Deployment) (*stack.Stack, error) {
	s, err := stack.Find(ctx, client, d.Stack)
	if err != nil {
		return nil, err
	}
	err = stack.CheckDeployable(ctx, client, s, d.Adopt)
	if dead, ok := errors.AsType[*stack.FailedError](err); ok && c.CleanUp {
		out.Notef("dynalimit: deleting what is left of %s (%s)", d.Stack, dead.Status)
		return nil, explainInterrupted(ctx, d.Stack, stack.CleanUp(ctx, client, s))
	}
	return s, err
}

// protectStack turns termination protection on, unless it is on, and prepares the table of limits. It sets the
// status and outputs of result. A failure of either step goes into result.Problem; a failed read is an error.
func (c stackDeployCmd) protectStack(ctx context.Context, g *globals, client *cloudformation.Client, result *deployed) error {
	s, err := findExistingStack(ctx, client, c.Name)
	if err != nil {
		return err
	}
	result.Status, result.Outputs = s.Status, s.Outputs
	var problems []string
	if !s.Protected {
		if err := stack.Protect(ctx, client, c.Name, true); err != nil {
			problems = append(problems, err.Error())
		}
	}
	resources, err := stack.Resources(ctx, client, s.ID)
	if err != nil {
		return err
	}
	for _, r := range resources {
		if r.IsTable() && r.Logical == limitsTable {
			if err := c.prepareTable(ctx, g, r.Physical, result); err != nil {
				problems = append(problems, fmt.Sprintf("the table %s is not ready for use: %v; whoever may write it runs 'dynalimit table create --table %s'", r.Physical, err, r.Physical))
			}
		}
	}
	result.Problem = strings.Join(problems, "; ")
	return nil
}

// limitsTable is the logical id of the table of limits.
const limitsTable = "LimitsTable"

// prepareTable writes the record of the layout into the table, which CloudFormation cannot, and appends the
// steps to result.Tables, also after an error. It never creates a missing table, which would lack the
// template's settings.
func (c stackDeployCmd) prepareTable(ctx context.Context, g *globals, table string, result *deployed) error {
	of := *g
	of.Table = table
	return of.tablesOf(ctx, &term.Output{}, whichTables{}, true, func(client *dynamodb.Client, plans []tables.Plan) error {
		r, err := tables.Create(ctx, client, plans[0], tables.Settings{Existing: true}, false, func(string) {})
		result.Tables = append(result.Tables, r)
		return err
	})
}

// printDeployed prints for people whether the stack changed, the tables that became ready, and the stack's
// outputs.
func (c stackDeployCmd) printDeployed(out *term.Output, r *deployed) {
	if r.Changed {
		fmt.Fprintf(out, "The stack %s is deployed.\n", out.Bold(r.Stack))
	} else {
		fmt.Fprintf(out, "The stack %s is as it should be: nothing changes.\n", out.Bold(r.Stack))
	}
	for _, t := range r.Tables {
		if len(t.Steps) > 0 {
			fmt.Fprintf(out, "The table %s is ready for use.\n", out.Bold(t.Table))
		}
	}
	printOutputs(out, r.Outputs)
}
