package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// mostTold is how many names that stand nowhere are told.
const mostTold = 3

// names looks whether the plans and parents that records name, and the groups that resources
// name, are there: a misspelt one is accepted, as it may be stored later. It looks at the chains of
// parents too.
func (v *visit) names(ctx context.Context) tables.Finding {
	if v.down != "" {
		return tables.Unseen("%s", v.down)
	}
	if v.plans == nil {
		return tables.Unseen("not every level was read")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readingTimes*v.Timeout, errSlow)
	defer cancel()
	var records []admin.Entity
	there := map[string]bool{"": true}
	for e, err := range admin.New(v.Limits).Entities.List(ctx) {
		if err != nil {
			return tables.Unseen("%s; %s were read", v.why(err), notation.Many(len(records), "record"))
		}
		records, there[e.ID] = append(records, e), true
		if len(records) == mostLevels {
			break
		}
	}
	var failing, wrong []string
	first, detached := "", 0
	plans := map[string]string{}
	for _, e := range records {
		plans[e.ID] = e.Plan
	}
	chains := chainsOf(records)
	told := map[string]bool{"": true}
	for _, e := range records {
		before := len(wrong) + len(failing)
		if e.Plan != "" && !v.plans[e.Plan] {
			wrong = append(wrong, fmt.Sprintf("the plan %q of %s has no limits", e.Plan, e.ID))
		}
		if !there[e.ParentID] && len(records) < mostLevels {
			wrong = append(wrong, fmt.Sprintf("the parent %q of %s has no record", e.ParentID, e.ID))
		}
		counts, plan := !e.Cascade && !e.Detached && !told[e.ParentID], plans[e.ParentID]
		if counts && there[e.ParentID] && !v.owners[e.ParentID] && (plan == "" || !v.plans[plan]) {
			told[e.ParentID] = true
			wrong = append(wrong, fmt.Sprintf("the parent %q of %s has no limits of its own and no plan with limits, so nothing is charged to it", e.ParentID, e.ID))
		}
		if why := chains.fault(e); why != "" {
			failing = append(failing, why)
		}
		if e.Detached && e.ParentID != "" {
			detached++
		}
		if first == "" && len(wrong)+len(failing) > before {
			first = e.ID
		}
	}
	fix := "entity show " + first
	for _, group := range slices.Sorted(maps.Keys(v.groups)) {
		if resource := v.groups[group]; !v.resources[group] {
			wrong = append(wrong, fmt.Sprintf("the group %q of %s has no limits", group, resource))
			if first == "" {
				first, fix = resource, "resource show "+resource
			}
		}
	}
	if wrong = append(failing, wrong...); len(wrong) == 0 {
		found := notation.Many(len(records), "record")
		if detached > 0 {
			found += fmt.Sprintf(", %d with a parent that does not count (detached)", detached)
		}
		return tables.Fine("%s; the plans, parents and groups that are named are there", found)
	}
	found := strings.Join(wrong[:min(len(wrong), mostTold)], "; ")
	if more := len(wrong) - mostTold; more > 0 {
		found += fmt.Sprintf("; and %d more", more)
	}
	return tables.Finding{Status: tables.Warning, Found: found, Means: "a misspelt name is accepted, and less specific levels decide", Fix: v.command(fix)}
}
