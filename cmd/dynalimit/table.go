package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/connect"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// tableCmd manages the tables themselves.
type tableCmd struct {
	Create tableCreateCmd `cmd:"" help:"Make the table, or complete one that lacks something."`
	Status tableStatusCmd `cmd:"" help:"Show the state of the table, and its missing parts."`
	Delete tableDeleteCmd `cmd:"" help:"Delete the table and everything in it."`
}

// whichTables is the flags that select tables beside --table.
type whichTables struct {
	Budget  bool   `help:"The tables of budgets as well."`
	Control string `help:"Table of the configuration and prices of budgets." default:"control"`
	Usage   string `help:"Table of the counters and records of budgets." default:"usage"`
}

// tablePlans returns the library's definition (tables.Plan) of the table of limits and, with --budget, those of
// the two tables of budgets. It sends no requests. o.Namespace does not matter.
func (w whichTables) tablePlans(g *globals, o connect.Options, client *dynamodb.Client) ([]tables.Plan, error) {
	o.Namespace = "" // a namespace has no table of its own
	flags := w.sameTables(g, client.Options().Region)
	repo, err := o.WithClient(client)
	if err != nil {
		return nil, err
	}
	all := []tables.Plan{{
		Input: repo.TableInput(), TTL: "ttl", Layout: repo, Flags: flags,
		Make: func(ctx context.Context, client tables.Client) error {
			repo, err := o.WithClient(client)
			if err != nil {
				return err
			}
			return repo.CreateTable(ctx)
		},
	}}
	all[0].Flags.Budget = ""
	if !w.Budget {
		return all, nil
	}
	budgets, err := w.budgetPlans(flags)
	return append(all, budgets...), err
}

// tablesOf calls run with a client and the definitions of the selected tables, the table of limits first, and
// adds advice to the error. If changing is true, it first finds the author of the changes, and fails without
// one.
func (g *globals) tablesOf(
	ctx context.Context, out *term.Output, w whichTables, changing bool, run func(*dynamodb.Client, []tables.Plan) error,
) error {
	o := g.connectOptions(ctx)
	defer out.Watch(o.Where())()
	cfg, err := o.Config(ctx)
	if err != nil {
		return err
	}
	if changing {
		if o.Principal, err = o.Identity(ctx, cfg); err != nil {
			return g.explainError(ctx, err)
		}
	}
	client := o.ClientOf(cfg)
	plans, err := w.tablePlans(g, o, client)
	if err == nil {
		err = run(client, plans)
	}
	return g.explainError(ctx, err)
}

type tableCreateCmd struct {
	whichTables
	Existing   bool              `help:"Complete a table that is there, such as one that was restored; make none."`
	Recovery   bool              `help:"Keep 35 days to restore any moment of them." default:"true" negatable:""`
	Protection bool              `help:"Protect the table from being deleted." default:"true" negatable:""`
	Stream     bool              `help:"Open a stream of its changes." default:"true" negatable:""`
	KMSKey     string            `name:"kms-key" help:"Encrypt it under this KMS key: an ARN, an id or an alias. Default: a key of Amazon's." placeholder:"KEY"`
	Tags       map[string]string `help:"Tags of the table, KEY=VALUE." mapsep:"," placeholder:"KEY=VALUE,…"`
	changes
}

// Validate refuses tags that AWS would refuse.
func (c tableCreateCmd) Validate() error { return checkTags(c.Tags) }

// checkTags returns an error for tags that AWS would refuse: too long, empty or reserved keys, and too long
// values; else nil.
func checkTags(tags map[string]string) error {
	for key, value := range tags {
		switch {
		case key == "" || len(key) > 128 || len(value) > 256:
			return fmt.Errorf("--tags %s=%s: a key has 1 to 128 characters and a value up to 256", key, value)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return fmt.Errorf("--tags %s: keys that begin with aws: are Amazon's, choose another", key)
		}
	}
	return nil
}

// Run creates missing tables, or completes existing ones as the flags permit, and prints the steps. It stops at
// the first error, and still prints the results so far. A dry run only prints the steps.
func (c tableCreateCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	want := tables.Settings{Recovery: c.Recovery, Protection: c.Protection, Stream: c.Stream, Existing: c.Existing, KMSKey: c.KMSKey, Tags: c.Tags}
	return g.tablesOf(ctx, out, c.whichTables, true, func(client *dynamodb.Client, plans []tables.Plan) error {
		results := []tables.Result{}
		var err error
		for _, p := range plans {
			var r tables.Result
			r, err = tables.Create(ctx, client, p, want, c.DryRun, func(text string) { out.Notef("dynalimit: %s", text) })
			results = append(results, r)
			if err != nil {
				break
			}
		}
		return errors.Join(err, out.Show(results, func() {
			for _, r := range results {
				printMade(out, r, err != nil)
			}
		}))
	})
}

// printMade prints the steps of a table: done, skipped with the reason, or not done. Unless failed is set, it
// adds whether the table is usable.
func printMade(out *term.Output, r tables.Result, failed bool) {
	fmt.Fprintln(out, out.Bold(r.Table))
	for _, step := range r.Steps {
		switch {
		case step.Skipped != "":
			fmt.Fprintln(out, out.Yellow("  ! "+step.About+": "+step.Skipped))
		case step.Done || r.DryRun:
			fmt.Fprintln(out, out.Green("  + "+step.About))
		default:
			fmt.Fprintln(out, "  - "+step.About+": not done")
		}
	}
	if !failed {
		printUsable(out, r)
	}
}

// printUsable prints that a table is usable after its creation, that a dry run made nothing, or the faults that
// this command cannot repair.
func printUsable(out *term.Output, r tables.Result) {
	switch {
	case r.DryRun && len(r.Steps) > 0:
		fmt.Fprintln(out, "Dry run: nothing was made.")
	case len(r.Steps) == 0 && r.State.Ready:
		fmt.Fprintln(out, "It is as it should be.")
	case !r.State.Ready: // this command cannot repair the fault
		printFaults(out, r.State)
	default:
		fmt.Fprintln(out, "It can be used.")
	}
}

type tableStatusCmd struct{ whichTables }

// tablesStatus is the state of tables as JSON.
type tablesStatus struct {
	Ready  bool           `json:"ready"`
	Tables []tables.State `json:"tables"`
}

// Run prints the state and the faults of the tables. Unless all are ready, it returns errNo after that. A table
// that cannot be read is an error.
func (c tableStatusCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.tablesOf(ctx, out, c.whichTables, false, func(client *dynamodb.Client, plans []tables.Plan) error {
		status := tablesStatus{Ready: true}
		for _, p := range plans {
			s, err := tables.Look(ctx, client, p)
			if err != nil {
				return err
			}
			status.Ready = status.Ready && s.Ready
			status.Tables = append(status.Tables, s)
		}
		err := out.Show(status, func() {
			for _, s := range status.Tables {
				printState(out, s)
			}
		})
		if err == nil && !status.Ready {
			return errNo
		}
		return err
	})
}

// printState prints the state, settings, size and faults of a table for people.
func printState(out *term.Output, s tables.State) {
	if !s.Exists() {
		fmt.Fprintf(out, "%s  %s\n", out.Bold(s.Name), out.Red("there is no such table"))
		printFaults(out, s)
		return
	}
	ready := out.Green("ready")
	if !s.Ready {
		ready = out.Red("not ready")
	}
	fmt.Fprintf(out, "%s  %s, %s\n", out.Bold(s.Name), s.Status, ready)
	recovery := string(s.Recovery)
	if s.Recovery == tables.Yes && s.Earliest != nil {
		recovery += ", back to " + s.Earliest.Format("2006-01-02 15:04 MST")
	}
	printFields(out, "layout", s.Layout, "indexes", indexText(s.Indexes), "expiry", orNone(s.TTL, "by the attribute "+s.TTL), "stream", orNone(s.Stream, s.Stream),
		"recovery", recovery, "protection", string(s.Protection), "encryption", s.KMSKey, "tags", tagText(s.Tags),
		"size", fmt.Sprintf("%s, %s; DynamoDB counts every 6 hours", bytesText(s.Bytes), notation.CountText(s.Items, "item")))
	printFaults(out, s)
}

// printFaults prints the findings of a table that are faults, warnings or hints, each with a command that
// repairs it. It leaves out those that are OK or unchecked.
func printFaults(out *term.Output, s tables.State) {
	for _, f := range s.Findings {
		text := f.Check + ": " + f.Found
		if f.Means != "" {
			text += "; " + f.Means
		}
		switch text = term.Plain(text); f.Status {
		case tables.Wrong:
			fmt.Fprintln(out, "  "+out.Red("✗ "+text))
		case tables.Warning, tables.Hint:
			fmt.Fprintln(out, "  "+out.Yellow("! "+text))
		default:
			continue
		}
		fmt.Fprintln(out, "    "+out.Cyan("$ "+term.Plain(f.Fix)))
	}
}

// indexText returns the names of indexes, each with its status, separated by commas.
func indexText(indexes []tables.Index) string {
	parts := make([]string, len(indexes))
	for i, x := range indexes {
		parts[i] = x.Name + " " + x.Status
	}
	return strings.Join(parts, ", ")
}

// tagText returns tags as key=value, sorted by key and separated by commas.
func tagText(tags map[string]string) string {
	var parts []string
	for _, key := range sortedKeys(tags) {
		parts = append(parts, key+"="+tags[key])
	}
	return strings.Join(parts, ", ")
}

// orNone returns text, or "none" if the first argument is empty.
func orNone(is, text string) string {
	if is == "" {
		return "none"
	}
	return text
}

// bytesText formats a size in bytes, kB, MB or GB, rounded down.
func bytesText(n int64) string {
	switch {
	case n < 10_000:
		return notation.CountText(n, "byte")
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	case n < 10_000_000_000:
		return fmt.Sprintf("%d MB", n/1_000_000)
	}
	return fmt.Sprintf("%d GB", n/1_000_000_000)
}
