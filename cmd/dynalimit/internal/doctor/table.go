package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// Reasons to stop requests about the table of limits although DynamoDB answered.
const (
	noTable     = "there is no table"
	notOurs     = "the table is not one of dynalimit"
	mute        = "DynamoDB does not answer any more"
	otherLayout = "the layout of the table is refused"
)

// checkLimitsTable returns the findings of the table of limits, from v.described and further requests. It sets
// v.down if the table is missing, has another key or a refused layout, or does not answer. Without a
// description it is Unchecked.
func (v *visit) checkLimitsTable(ctx context.Context) []tables.Finding {
	if v.described == nil {
		return []tables.Finding{tables.CannotCheck("%s", v.down)}
	}
	found := v.checkDescribed(ctx, v.table, v.described)
	for _, f := range found {
		switch {
		case f.Status == tables.Wrong && f.Check == "table" && v.described.err != nil:
			v.down = noTable
		case f.Status == tables.Wrong && f.Check == "keys":
			v.down = notOurs
		}
	}
	return found
}

// checkDescribed returns the findings of a table from its description and further requests, or one finding if
// it is missing. If it could not be described, the requests are sent all the same. It sets v.down if they get
// no answer or the layout is refused.
func (v *visit) checkDescribed(ctx context.Context, p tables.Plan, facts *tableFacts) []tables.Finding {
	var found []tables.Finding
	switch causeOf(facts.err) {
	case none:
	case missing:
		return []tables.Finding{p.NoTable()}
	default:
		if v.down != "" {
			return []tables.Finding{tables.CannotCheck("%s", v.down)}
		}
		found = append(found, tables.CannotCheck("it cannot be described: %s", v.explainError(facts.err)))
	}
	state := tables.Check(ctx, v.Client, p, facts.TableDescription, func(err error) string {
		if causeOf(err) == silent {
			v.down = mute
		}
		return v.explainError(err)
	})
	if state.Refused {
		v.down = otherLayout
	}
	return append(found, state.Findings...)
}

// checkBudgetTables describes and checks the two tables of budgets, and returns their findings with the table's
// name. It returns nil if they are not part of the examination. They are Unchecked if DynamoDB cannot be asked.
func (v *visit) checkBudgetTables(ctx context.Context) []tables.Finding {
	var results []tables.Finding
	for _, p := range v.Tables[1:] {
		found := []tables.Finding{{Check: "table", Status: tables.Unchecked, Found: v.down}}
		if slices.Contains([]string{"", noTable, notOurs, otherLayout}, v.down) {
			found = v.checkDescribed(ctx, p, v.describeTable(ctx, p.Name()))
		}
		for _, f := range found {
			f.Check = strings.TrimSuffix("budget table "+p.Name()+" "+f.Check, " table")
			results = append(results, f)
		}
	}
	return results
}
