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
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type stackDeployCmd struct {
	stackName
	templateFlags
	Param       map[string]string `help:"Values of the template's parameters, KEY=VALUE. Default: what the stack has, else the template's." mapsep:"none" placeholder:"KEY=VALUE"`
	Tags        map[string]string `help:"Tags of everything in the stack, KEY=VALUE." mapsep:"," placeholder:"KEY=VALUE,…"`
	RoleARN     string            `name:"role-arn" help:"Role that CloudFormation acts by. Default: yours." placeholder:"ARN"`
	TemplateURL string            `name:"template-url" help:"Deploy the template that lies at this address in S3 instead." placeholder:"URL"`
	Adopt       bool              `help:"Take a stack over that was not deployed with this command."`
	CleanUp     bool              `help:"Delete what is left of a first deployment that failed, before."`
	destroys
}

func (c stackDeployCmd) Validate() error {
	return cmp.Or(c.stackName.Validate(), checkTags(c.Tags))
}

// deployed is what a deployment did, for programs.
type deployed struct {
	*stack.ChangeSet
	Status   string         `json:"status"`
	Executed bool           `json:"executed"`
	DryRun   bool           `json:"dry_run"`
	Events   []stack.Event  `json:"events,omitempty"`
	Outputs  []stack.Output `json:"outputs,omitempty"`
	// Tables are those that were made ready for use after the stack was.
	Tables []tables.Result `json:"tables,omitempty"`
	// Problem is what is not as it should be, though the stack is deployed: why a table is
	// not ready, or the stack not protected.
	Problem string `json:"problem,omitempty"`
}

func (c stackDeployCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	d, err := c.deployment(ctx, g)
	if err != nil {
		return err
	}
	return g.formation(ctx, out, func(client *cloudformation.Client) error {
		result := &deployed{DryRun: c.DryRun}
		if err := c.deploy(ctx, g, out, client, d, result); err != nil {
			return err
		}
		err := out.Show(result, func() { c.printDeployed(out, result) })
		if err == nil && result.Problem != "" {
			return errors.New(result.Problem)
		}
		return err
	})
}

// deployment is what the flags ask for: the template, and the values of its parameters. A stack
// keeps the values that it has of those that no flag names.
func (c stackDeployCmd) deployment(ctx context.Context, g *globals) (stack.Deployment, error) {
	d := stack.Deployment{
		Stack: c.Name, TemplateURL: c.TemplateURL, Params: map[string]string{}, Tags: c.Tags, RoleARN: c.RoleARN, Adopt: c.Adopt,
	}
	if c.TemplateURL == "" {
		values, err := c.values(ctx, g)
		if err != nil {
			return d, err
		}
		d.Template = infra.Inline()
		maps.Copy(d.Params, values)
	}
	maps.Copy(d.Params, c.Param)
	return d, nil
}

func (c stackDeployCmd) deploy(ctx context.Context, g *globals, out *term.Output, client *cloudformation.Client, d stack.Deployment, result *deployed) error {
	s, err := c.standing(ctx, out, client, d)
	if err != nil {
		return err
	}
	set, err := stack.Propose(ctx, client, s, d, now(ctx))
	if err != nil {
		return err
	}
	result.ChangeSet = set
	if set.ID != "" {
		if !out.JSON {
			printChanges(out, set)
		}
		if err := c.agree(ctx, out, set); err != nil || c.DryRun {
			result.Status = "not deployed"
			return errors.Join(err, stack.Discard(ctx, client, set))
		}
		if err := c.execute(ctx, out, client, set, result); err != nil {
			return err
		}
	}
	if c.DryRun {
		if s != nil {
			result.Status = s.Status
		}
		return nil
	}
	return c.finish(ctx, g, client, result)
}

// standing finds the stack, and puts away what is left of one that failed, if that was
// asked for.
func (c stackDeployCmd) standing(ctx context.Context, out *term.Output, client *cloudformation.Client, d stack.Deployment) (*stack.Stack, error) {
	s, err := stack.Find(ctx, client, d.Stack)
	if err != nil {
		return nil, err
	}
	err = stack.Standing(ctx, client, s, d.Adopt)
	if dead, ok := errors.AsType[*stack.FailedError](err); ok && c.CleanUp && !c.DryRun {
		out.Notef("dynalimit: deleting what is left of %s (%s)", d.Stack, dead.Status)
		var events []stack.Event
		return nil, goesOn(ctx, d.Stack, stack.CleanUp(ctx, client, s, telling(out, &events)))
	}
	return s, err
}

// agree refuses what would lose a table, and asks.
func (c stackDeployCmd) agree(ctx context.Context, out *term.Output, set *stack.ChangeSet) error {
	if err := stack.Refuse(set.Changes); err != nil || c.DryRun {
		return err
	}
	return c.confirm(ctx, out, fmt.Sprintf("Make these %s in the stack %s", notation.Many(len(set.Changes), "change"), set.Stack), "yes")
}

func (c stackDeployCmd) execute(ctx context.Context, out *term.Output, client *cloudformation.Client, set *stack.ChangeSet, result *deployed) error {
	mark, err := stack.Execute(ctx, client, set)
	if err != nil {
		return errors.Join(err, stack.Discard(ctx, client, set))
	}
	result.Executed = true
	return goesOn(ctx, set.Stack, stack.Follow(ctx, client, set.Stack, set.StackID(), mark, telling(out, &result.Events)))
}

// finish protects the stack and makes its tables ready for use.
func (c stackDeployCmd) finish(ctx context.Context, g *globals, client *cloudformation.Client, result *deployed) error {
	s, err := mustFind(ctx, client, c.Name)
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
			if err := c.prepare(ctx, g, r.Physical, result); err != nil {
				problems = append(problems, fmt.Sprintf("the table %s is not ready for use: %v; whoever may write it runs 'dynalimit table create --table %s'", r.Physical, err, r.Physical))
			}
		}
	}
	result.Problem = strings.Join(problems, "; ")
	return nil
}

// limitsTable is the table of limits in the template.
const limitsTable = "LimitsTable"

// prepare writes into a new table what CloudFormation cannot: the record of its layout. It
// makes no table in the place of one that is gone: that would have none of its settings.
func (c stackDeployCmd) prepare(ctx context.Context, g *globals, table string, result *deployed) error {
	of := *g
	of.Table = table
	return of.tablesOf(ctx, &term.Output{}, whichTables{}, true, func(client *dynamodb.Client, plans []tables.Plan) error {
		r, err := tables.Create(ctx, client, plans[0], tables.Settings{Existing: true}, false, func(string) {})
		result.Tables = append(result.Tables, r)
		return err
	})
}

// printChanges shows what a change set does to a person.
func printChanges(out *term.Output, set *stack.ChangeSet) {
	what := "changes"
	if set.New {
		what = "is new"
	}
	fmt.Fprintf(out, "%s %s\n", out.Bold("The stack "+set.Stack), what)
	for _, c := range set.Changes {
		printStackChange(out, c)
	}
	for _, capability := range set.Capabilities {
		fmt.Fprintf(out, "  It is allowed %s: %s\n", capability, term.Plain(set.Reason))
	}
}

func printStackChange(out *term.Output, c stack.Change) {
	line := fmt.Sprintf("%s  %s", c.Logical, c.Type)
	if c.Physical != "" {
		line += "  " + c.Physical
	}
	switch c.Replacement {
	case "True":
		line += "  REPLACED"
	case "Conditional":
		line += "  may be replaced"
	}
	switch {
	case c.Action == "Add" || c.Action == "Import":
		line = out.Green("+ " + line)
	case c.Action == "Remove":
		line = out.Red("- " + line)
	case c.Replacement == "True":
		line = out.Red("± " + line)
	default:
		line = out.Yellow("~ " + line)
	}
	fmt.Fprintln(out, "  "+line)
	for _, d := range c.Details {
		if d.Before == "" && d.After == "" {
			fmt.Fprintf(out, "      %s\n", d.Property)
			continue
		}
		fmt.Fprintf(out, "      %s  %s → %s\n", d.Property, short(d.Before), short(d.After))
	}
}

// short cuts a value that fills more than a line.
func short(value string) string {
	const most = 60
	if runes := []rune(term.Plain(value)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return orDash(term.Plain(value))
}

func (c stackDeployCmd) printDeployed(out *term.Output, r *deployed) {
	switch {
	case c.DryRun && len(r.Changes) > 0:
		fmt.Fprintln(out, "Dry run: nothing was deployed, and the change set is deleted.")
		return
	case !r.Executed:
		fmt.Fprintf(out, "The stack %s is as it should be: nothing changes.\n", out.Bold(r.Stack))
	default:
		fmt.Fprintf(out, "The stack %s is deployed.\n", out.Bold(r.Stack))
	}
	for _, t := range r.Tables {
		if len(t.Steps) > 0 {
			fmt.Fprintf(out, "The table %s is ready for use.\n", out.Bold(t.Table))
		}
	}
	printOutputs(out, r.Outputs)
}
