package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/logging"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/connect"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/doctor"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// doctorCmd diagnoses faults.
type doctorCmd struct {
	Role doctor.Role `help:"The role to test: acquire, read, admin, or service, which is acquire and read." enum:"service,acquire,read,admin" default:"service"`
	whichTables
	Timeout time.Duration `help:"How long one request may take." default:"5s"`
}

// Validate refuses a --timeout that is not positive.
func (c doctorCmd) Validate() error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--timeout is %v: give more than 0, such as 5s", c.Timeout)
	}
	return nil
}

// findings is the doctor's result as JSON.
type findings struct {
	Status  tables.Status    `json:"status"`
	Results []tables.Finding `json:"results"`
}

// Run runs all checks of the role and prints the findings. After that it returns errNo if one of them is Wrong.
func (c doctorCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	results, err := c.runChecks(ctx, g, out)
	if err != nil {
		return g.explainError(ctx, err)
	}
	f := findings{doctor.Worst(results), results}
	if err := out.Show(f, func() { printFindings(out, f) }); err != nil {
		return err
	}
	if f.Status == tables.Wrong {
		return errNo
	}
	return nil
}

// runChecks runs all checks for the role and returns their findings; out gets notes about long waits. If the
// AWS configuration cannot be loaded, that is the only finding. Invalid flags are an error.
func (c doctorCmd) runChecks(ctx context.Context, g *globals, out *term.Output) ([]tables.Finding, error) {
	o := g.connectOptions(ctx)
	if err := o.Check(); err != nil {
		return nil, badInput("%w", err)
	}
	over := out.Watch("the AWS configuration")
	defer func() { over() }()
	cfg, err := o.Config(ctx)
	if err != nil {
		return []tables.Finding{{
			Check: "configuration of AWS", Status: tables.Wrong, Found: err.Error(), Means: "nothing can be asked", Fix: "aws configure list",
		}}, nil
	}
	cfg.Logger = logging.Nop{}                                   // findings report the faults
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // each request must show its own error
	patient, err := c.newPatient(g, o, cfg)
	if err != nil {
		return nil, err
	}
	return doctor.Examine(ctx, patient, func(doing string) {
		over()
		over = out.Watch(o.Where() + ", " + doing)
	})
}

// newPatient returns the client, tables, identity and clock that the checks examine, from the flags and the AWS
// configuration. It leaves out the identity for an engine, and the credentials for one on this machine. It
// sends no requests.
func (c doctorCmd) newPatient(g *globals, o connect.Options, cfg aws.Config) (doctor.Patient, error) {
	o.Timeout = c.Timeout
	client := o.ClientOf(cfg)
	repo, err := o.WithClient(client)
	if err != nil {
		return doctor.Patient{}, err
	}
	plans, err := c.tablePlans(g, o, client)
	if err != nil {
		return doctor.Patient{}, err
	}
	p := doctor.Patient{
		Client: client, Limits: repo, Namespace: o.Namespace, Tables: plans, Region: cfg.Region, Where: o.Where(), Engine: o.UsesEngine(),
		Profile: o.Profile, Role: c.Role, Now: time.Now, Timeout: c.Timeout,
	}
	if o.Now != nil {
		p.Now = o.Now
	}
	if !o.OnThisMachine() {
		p.Credentials = cfg.Credentials
	}
	if !o.UsesEngine() {
		p.Identity = func(ctx context.Context) (string, error) { return o.CallerOf(ctx, cfg) }
	}
	if port := o.Port(); port != 0 && o.Endpoint != "" {
		p.LocalFlags = fmt.Sprintf(" --port %d", port)
	}
	return p, nil
}

// sameTables returns the flags with which advised commands reach the same tables: Ours for dynalimit, AWS for
// the AWS CLI, Budget for the budget tables. Each begins with a space, is quoted for a shell, and is omitted if
// default.
func (w whichTables) sameTables(g *globals, region string) tables.Flags {
	f := tables.Flags{Table: g.Table, Region: region}
	add := func(to *string, flag, value, unless string) {
		if value != unless {
			*to += " " + flag + " " + shellWord(value)
		}
	}
	if g.Local {
		f.Ours, f.AWS = " --local", " --endpoint-url "+connect.LocalEndpoint
	}
	add(&f.Ours, "--endpoint", g.Endpoint, "")
	add(&f.AWS, "--endpoint-url", g.Endpoint, "")
	for _, to := range []*string{&f.Ours, &f.AWS} {
		add(to, "--region", g.Region, "")
		add(to, "--profile", g.Profile, "")
	}
	add(&f.Ours, "--table", g.Table, "limits")
	add(&f.Ours, "--namespace", g.Namespace, "")
	f.Budget = " --budget"
	add(&f.Budget, "--control", w.Control, "control")
	add(&f.Budget, "--usage", w.Usage, "usage")
	return f
}

// shellWord returns s as one word for a shell: in single quotes if it is empty or has special characters, else
// as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_./:@-", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// mergeUnchecked returns the findings with consecutive skipped checks of the same reason merged into one. That
// one counts the checks and names them in Means. It does not change results.
func mergeUnchecked(results []tables.Finding) []tables.Finding {
	var lines []tables.Finding
	for i := 0; i < len(results); {
		r, to := results[i], i+1
		for to < len(results) && r.Status == tables.Unchecked && results[to].Status == r.Status && results[to].Found == r.Found {
			r.Means += ", " + results[to].Check
			to++
		}
		if to > i+1 {
			r.Means, r.Check = r.Check+r.Means, fmt.Sprintf("%d checks", to-i)
		}
		lines, i = append(lines, r), to
	}
	return lines
}

// printFindings prints each finding with its meaning and a command that repairs it, then the number of findings
// of each status except OK. It merges skipped checks. If all are OK it prints that all is well.
func printFindings(out *term.Output, f findings) {
	colours := map[tables.Status]func(string) string{
		tables.OK: out.Green, tables.Hint: out.Cyan, tables.Warning: out.Yellow, tables.Wrong: out.Red, tables.Unchecked: out.Dim,
	}
	width, count := 0, map[tables.Status]int{}
	for _, r := range f.Results {
		count[r.Status]++
	}
	results := mergeUnchecked(f.Results)
	for _, r := range results {
		width = max(width, len(r.Check))
	}
	for _, r := range results {
		fmt.Fprintf(out, "%s %-*s  %s\n", colours[r.Status](fmt.Sprintf("%-9s", r.Status)), width, term.Plain(r.Check), term.Plain(r.Found))
		if r.Means != "" {
			fmt.Fprintf(out, "%*s  %s\n", width+10, "", term.Plain(r.Means))
		}
		if r.Fix != "" {
			fmt.Fprintf(out, "%*s  %s\n", width+10, "", out.Cyan("$ "+term.Plain(r.Fix)))
		}
	}
	var parts []string
	for _, s := range []tables.Status{tables.Wrong, tables.Warning, tables.Unchecked, tables.Hint} {
		if n := count[s]; n > 0 {
			parts = append(parts, colours[s](fmt.Sprintf("%d %s", n, s)))
		}
	}
	if len(parts) == 0 {
		parts = []string{out.Green("All is well.")}
	}
	fmt.Fprintf(out, "\n%s\n", strings.Join(parts, ", "))
}
