// Package doctor examines what a limiter needs: the endpoint, credentials, the table and
// its settings, the clock, the layout, permissions, the configuration. It writes nothing:
// what may be written is asked under conditions that cannot hold.
package doctor

import (
	"context"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// check examines one thing. What it needs of others is in the visit.
type check struct {
	name, doing string
	run         func(*visit, context.Context) []tables.Finding
}

// checks are all of them, in an order in which each knows what it needs.
var checks = []check{
	{"region", "finding the region", one((*visit).region)},
	{"credentials", "asking who the credentials are", one((*visit).credentials)},
	{"endpoint", "asking the endpoint", one((*visit).endpoint)},
	{"clock", "comparing clocks", one((*visit).clock)},
	{"table", "looking at the table", (*visit).limitsTable},
	{"permissions", "trying what is permitted", (*visit).permissions},
	{"namespace", "reading the namespace", one((*visit).namespace)},
	{"configuration", "reading every level of the configuration", (*visit).configuration},
	{"names", "looking for plans, parents and groups that are nowhere", one((*visit).names)},
	{"system limits", "reading the system's limits", one((*visit).systemLimits)},
	{"usage", "looking how far usage is summed up", one((*visit).usage)},
	{"budget tables", "looking at the tables of budgets", (*visit).budgetTables},
}

func one(run func(*visit, context.Context) tables.Finding) func(*visit, context.Context) []tables.Finding {
	return func(v *visit, ctx context.Context) []tables.Finding { return []tables.Finding{run(v, ctx)} }
}

// Examine runs every check, and says before each what it is doing. It goes on after what is
// wrong; a check that hangs ends with its timeout, and what depends on it is Unchecked. It
// stops when ctx ends.
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

// Worst is the worst status of results.
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
