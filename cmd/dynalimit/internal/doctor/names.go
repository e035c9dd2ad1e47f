package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// mostTold is the maximal number of reported unknown names.
const mostTold = 3

// checkNames warns if plans, parents or groups named in records and resources have no limits or no record,
// because misspelt names can be stored. It also checks the chains of parents. It describes at most three
// faults, and is Unchecked unless all sources were read.
func (v *visit) checkNames(ctx context.Context) tables.Finding {
	if v.down != "" {
		return tables.CannotCheck("%s", v.down)
	}
	if v.plans == nil {
		return tables.CannotCheck("not every source was read")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readingTimes*v.Timeout, errSlow)
	defer cancel()
	var records []admin.Entity
	there := map[string]bool{"": true}
	for e, err := range admin.New(v.Limits).Entities.List(ctx) {
		if err != nil {
			return tables.CannotCheck("%s; %s were read", v.explainError(err), notation.CountText(len(records), "record"))
		}
		records, there[e.ID] = append(records, e), true
		if len(records) == mostSources {
			break
		}
	}
	failing, wrong, first, detached := v.checkEntityNames(records, there)
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
		found := notation.CountText(len(records), "record")
		if detached > 0 {
			found += fmt.Sprintf(", %d with a parent that does not count (detached)", detached)
		}
		return tables.Fine("%s; all named plans, parents and groups exist", found)
	}
	found := strings.Join(wrong[:min(len(wrong), mostTold)], "; ")
	if more := len(wrong) - mostTold; more > 0 {
		found += fmt.Sprintf("; and %d more", more)
	}
	return tables.Finding{Status: tables.Warning, Found: found, Means: "a misspelt name is accepted, and less specific sources decide", Fix: v.tableCommand(fix)}
}

// checkEntityNames checks the plans and parents named in records; there has the ids with a record. failing
// describes invalid chains, and wrong unknown names and parents without limits. first is the first entity with
// a fault, detached the number of entities with a detached parent.
func (v *visit) checkEntityNames(records []admin.Entity, there map[string]bool) (failing, wrong []string, first string, detached int) {
	plans := map[string]string{}
	for _, e := range records {
		plans[e.ID] = e.Plan
	}
	chains := chainsOf(records)
	told := map[string]bool{"": true}
	for _, e := range records {
		before := len(wrong) + len(failing)
		wrong = append(wrong, v.unknownNames(e, there[e.ParentID] || len(records) == mostSources)...)
		counts, plan := !e.Cascade && !e.Detached && !told[e.ParentID], plans[e.ParentID]
		if counts && there[e.ParentID] && !v.owners[e.ParentID] && (plan == "" || !v.plans[plan]) {
			told[e.ParentID] = true
			wrong = append(wrong, fmt.Sprintf("the parent %q of %s has no limits of its own and no plan with limits, so nothing is charged to it", e.ParentID, e.ID))
		}
		if why := chains.chainFault(e); why != "" {
			failing = append(failing, why)
		}
		if e.Detached && e.ParentID != "" {
			detached++
		}
		if first == "" && len(wrong)+len(failing) > before {
			first = e.ID
		}
	}
	return failing, wrong, first, detached
}

// unknownNames returns a sentence if the entity's plan has no limits, and another if its parent has no record,
// which parent says. It is nil without a fault.
func (v *visit) unknownNames(e admin.Entity, parent bool) (wrong []string) {
	if e.Plan != "" && !v.plans[e.Plan] {
		wrong = append(wrong, fmt.Sprintf("the plan %q of %s has no limits", e.Plan, e.ID))
	}
	if !parent {
		wrong = append(wrong, fmt.Sprintf("the parent %q of %s has no record", e.ParentID, e.ID))
	}
	return wrong
}
