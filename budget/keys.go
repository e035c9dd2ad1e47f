package budget

import (
	"fmt"
	"strconv"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
)

// itemKey is a primary key. Every table has PK and SK.
type itemKey struct{ pk, sk string }

const (
	rootSK     = "#" // a sort key must not be empty
	appPrefix  = "APP#"
	overPrefix = "OVERRIDE#"
)

// The control table.

func orgKey(org string) itemKey           { return itemKey{"ORG#" + org, rootSK} }
func appKey(org, app string) itemKey      { return itemKey{"ORG#" + org, appPrefix + app} }
func overrideKey(org, app string) itemKey { return itemKey{"ORG#" + org, overPrefix + app} }
func priceKey(name string) itemKey        { return itemKey{"PRICE#" + name, rootSK} }

// The usage table.

// scopeKey names whose spend is counted together.
func scopeKey(s Scope, org, app string) string {
	if s == ScopeOrg {
		return "ORG#" + org
	}
	return "ORG#" + org + "#APP#" + app
}

// labelPK is the partition of one label's counters: every shard of a day in
// one query, several days in a range.
func labelPK(scope, label string) string { return scope + "#LABEL#" + label }

// totalPK is the partition of the counters of all labels together.
func totalPK(scope string) string { return scope + "#TOTAL" }

func tagPK(scope, tag string) string { return scope + "#TAG#" + tag }

// shardPrefix begins the sort keys of one period's shards.
func shardPrefix(p Period, day string) string { return calendar.PeriodKey(p, day) + "#SH#" }

func tagPrefix(day, value string) string { return "DAY#" + day + "#" + value + "#SH#" }

func shardKey(pk, prefix string, shard int) itemKey {
	return itemKey{pk, prefix + strconv.Itoa(shard)}
}

func dedupKey(org, app, request string) itemKey {
	return itemKey{"DEDUP#" + org + "#" + app + "#" + request, rootSK}
}

// closedPK holds the closed totals of a scope, by day and label.
func closedPK(scope string) string { return "T#" + scope }

func closedKey(scope, day, label string) itemKey {
	return itemKey{closedPK(scope), day + "#" + label}
}

func stickyKey(org, app, day string) itemKey {
	return itemKey{"STICKY#" + scopeKey(ScopeApp, org, app), "DAY#" + day}
}

func holdPK(scope string) string { return "HOLD#" + scope }

// holdKey sorts a scope's holds by expiry.
func holdKey(scope string, expiresMs int64, id string) itemKey {
	return itemKey{holdPK(scope), fmt.Sprintf("%013d#%s", expiresMs, id)}
}

func eventPK(scope string) string { return "EVENT#" + scope }

// auditPK holds the adjustments of an organisation, by app and id: a day's
// scope does not matter, so that one sent again after midnight is found.
func auditPK(org string) string { return "AUDIT#ORG#" + org }

func auditSK(app string) string { return appPrefix + app + "#" }
