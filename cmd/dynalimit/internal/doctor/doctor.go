// Package doctor examines the requirements of a limiter: the endpoint, credentials, the table
// and its settings, the clock, the layout, permissions, and the configuration. It writes
// nothing: its test writes have conditions that never hold.
package doctor

import (
	"context"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// check examines one requirement. It finds the results of earlier checks in the visit.
type check struct {
	name, doing string
	run         func(*visit, context.Context) []tables.Finding
}

// checks are all checks, each after those that it depends on.
var checks = []check{
	{"region", "finding the region", singleFinding((*visit).checkRegion)},
	{"credentials", "asking who the credentials are", singleFinding((*visit).checkCredentials)},
	{"endpoint", "asking the endpoint", singleFinding((*visit).checkEndpoint)},
	{"clock", "comparing clocks", singleFinding((*visit).checkClock)},
	{"table", "looking at the table", (*visit).checkLimitsTable},
	{"permissions", "trying what is permitted", (*visit).checkPermissions},
	{"namespace", "reading the namespace", singleFinding((*visit).checkNamespace)},
	{"configuration", "reading every source of the configuration", (*visit).checkConfiguration},
	{"names", "looking for missing plans, parents and groups", singleFinding((*visit).checkNames)},
	{"system limits", "reading the system's limits", singleFinding((*visit).checkSystemLimits)},
	{"usage", "looking for unclosed hours of usage", singleFinding((*visit).checkUsage)},
	{"alerts", "looking for who delivers alerts", (*visit).checkAlerts},
	{"budget tables", "looking at the tables of budgets", (*visit).checkBudgetTables},
}

// singleFinding wraps a check with one finding in a function that returns it in a slice, the form of checks
// with several.
func singleFinding(run func(*visit, context.Context) tables.Finding) func(*visit, context.Context) []tables.Finding {
	return func(v *visit, ctx context.Context) []tables.Finding { return []tables.Finding{run(v, ctx)} }
}

// Examine runs every check in order, calls doing with its description before each, and returns all findings. A
// fault does not stop it: dependent checks are Unchecked, and a check that hangs ends with its timeout. If ctx
// ends, it returns the findings so far and the cause.
func Examine(ctx context.Context, p Patient, doing func(string)) ([]tables.Finding, error) {
	v := &visit{Patient: p, table: p.Tables[0]}
	var all []tables.Finding
	for _, c := range checks {
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		doing(c.doing)
		for _, r := range c.run(v, ctx) {
			if r.Check == "" {
				r.Check = c.name
			}
			all = append(all, r)
		}
	}
	if ctx.Err() != nil { // the last check was cut short
		return all, context.Cause(ctx)
	}
	return all, nil
}

// Worst returns the worst status of the results, in the order Wrong, Warning, Unchecked, Hint, OK. It is OK
// without results.
func Worst(results []tables.Finding) tables.Status {
	rank := map[tables.Status]int{tables.OK: 0, tables.Hint: 1, tables.Unchecked: 2, tables.Warning: 3, tables.Wrong: 4}
	worst := tables.OK
	for _, r := range results {
		if rank[r.Status] > rank[worst] {
			worst = r.Status
		}
	}
	return worst
}
