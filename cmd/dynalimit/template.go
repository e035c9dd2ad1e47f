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

// templateFlags say what a template describes.
type templateFlags struct {
	whichTables
	Parts      []infra.Part      `help:"What to describe: tables, roles, alarms. Default: all of them." placeholder:"PART,…"`
	Aggregator bool              `help:"Add the function of AWS Lambda that adds up usage."`
	Archive    bool              `help:"Add the function of AWS Lambda that keeps what expires in a bucket of S3."`
	Tail       bool              `help:"Add the role of what follows the stream: dynalimit tail."`
	Keeper     bool              `help:"Add the role of what serves budgets over HTTP: dynalimit keeper serve."`
	Tags       map[string]string `help:"Tags of everything that can have some, KEY=VALUE." mapsep:"," placeholder:"KEY=VALUE,…"`
	Output     string            `short:"o" help:"Write into this file; - prints. Default: print." placeholder:"FILE"`
}

// model is what is to be described.
func (f templateFlags) model(g *globals) (*infra.Model, error) {
	o := infra.Options{Table: g.Table, Namespace: g.Namespace, Parts: f.Parts, Tags: f.Tags, Aggregator: f.Aggregator, Archive: f.Archive, Tail: f.Tail, Keeper: f.Keeper}
	if f.Budget {
		o.Budget = &infra.BudgetTables{Control: f.Control, Usage: f.Usage}
	}
	m, err := infra.New(o)
	if wrong, ok := errors.AsType[*infra.OptionError](err); ok {
		return nil, badInput("--%w", wrong)
	}
	return m, err
}

// template is what is printed as JSON.
type template struct {
	Format string `json:"format"`
	// Template is the text, empty if it was written into File.
	Template string `json:"template,omitempty"`
	File     string `json:"file,omitempty"`
}

// put prints a template, or writes it into a file.
func (f templateFlags) put(out *term.Output, format, text string) error {
	if f.Output == "" || f.Output == "-" {
		return out.Show(template{Format: format, Template: text}, func() { fmt.Fprint(out, text) })
	}
	if err := os.WriteFile(f.Output, []byte(text), 0o644); err != nil { //nolint:gosec // others deploy it
		return fmt.Errorf("%w; name a file that can be written with -o", err)
	}
	return out.Show(template{Format: format, File: f.Output}, func() {
		fmt.Fprintf(out, "Wrote %s: %d lines.\n", f.Output, strings.Count(text, "\n"))
	})
}

type cfnCmd struct{ templateFlags }

func (c cfnCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	m, err := c.model(g)
	if err != nil {
		return g.explain(ctx, err)
	}
	return c.put(out, "cloudformation", m.CloudFormation())
}

type terraformCmd struct{ templateFlags }

func (c terraformCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	m, err := c.model(g)
	if err != nil {
		return g.explain(ctx, err)
	}
	return c.put(out, "terraform", m.Terraform())
}
