package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/infra"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// templateFlags selects the parts of the templates.
type templateFlags struct {
	whichTables
	Parts      []string `help:"The parts: tables, roles, alarms. Default: all of them." placeholder:"PART,…"`
	Aggregator bool     `help:"Add the function of AWS Lambda that adds up usage."`
	Archive    bool     `help:"Add the AWS Lambda function that archives expired items in a bucket of S3."`
	Tail       bool     `help:"Add the role of the follower of the stream: dynalimit tail."`
	Keeper     bool     `help:"Add the role of the server of budgets over HTTP: dynalimit keeper serve."`
}

// parameterValues returns the values of the template's parameters by name, only those that the flags change
// from the template's defaults. An invalid flag is bad input.
func (f templateFlags) parameterValues(ctx context.Context, g *globals) (map[string]string, error) {
	o := infra.Options{Table: g.Table, Namespace: g.Namespace, Parts: f.Parts, Aggregator: f.Aggregator, Archive: f.Archive, Tail: f.Tail, Keeper: f.Keeper}
	if f.Budget {
		o.Budget = &infra.BudgetTables{Control: f.Control, Usage: f.Usage}
	}
	values, err := o.Values()
	if wrong, ok := errors.AsType[*infra.OptionError](err); ok {
		return nil, badInput("--%w", wrong)
	}
	return values, g.explainError(ctx, err)
}

type templateCmd struct {
	templateFlags
	Format string `help:"cloudformation or terraform." enum:"cloudformation,terraform" default:"cloudformation"`
	Output string `short:"o" help:"Write into this file; - prints. Default: print." placeholder:"FILE"`
}

// template is the output as JSON.
type template struct {
	Format string `json:"format"`
	// Template is the text. It is empty if it was written to File.
	Template string `json:"template,omitempty"`
	File     string `json:"file,omitempty"`
}

// Run prints a template for CloudFormation or Terraform, or writes it to the file of --output and prints that.
// An existing file is overwritten. It sends no requests.
func (c templateCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	values, err := c.parameterValues(ctx, g)
	if err != nil {
		return err
	}
	text := infra.CloudFormation(values)
	if c.Format == "terraform" {
		text = infra.Terraform(values)
	}
	if c.Output == "" || c.Output == "-" {
		return out.Show(template{Format: c.Format, Template: text}, func() { fmt.Fprint(out, text) })
	}
	if err := os.WriteFile(c.Output, []byte(text), 0o644); err != nil { //nolint:gosec // other users deploy it
		return fmt.Errorf("%w; name a file that can be written with -o", err)
	}
	return out.Show(template{Format: c.Format, File: c.Output}, func() {
		fmt.Fprintf(out, "Wrote %s: %d lines.\n", c.Output, strings.Count(text, "\n"))
	})
}
