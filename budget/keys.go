package budget

import (
	"fmt"
	"strconv"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

const (
	rootSK     = "#" // a sort key must not be empty
	appPrefix  = "APP#"
	overPrefix = "OVERRIDE#"
)

// The control table.

func orgKey(org string) store.Key           { return store.Key{PK: "ORG#" + org, SK: rootSK} }
func appKey(org, app string) store.Key      { return store.Key{PK: "ORG#" + org, SK: appPrefix + app} }
func overrideKey(org, app string) store.Key { return store.Key{PK: "ORG#" + org, SK: overPrefix + app} }
func priceKey(name string) store.Key        { return store.Key{PK: "PRICE#" + name, SK: rootSK} }

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

func shardKey(pk, prefix string, shard int) store.Key {
	return store.Key{PK: pk, SK: prefix + strconv.Itoa(shard)}
}

func dedupKey(org, app, request string) store.Key {
	return store.Key{PK: "DEDUP#" + org + "#" + app + "#" + request, SK: rootSK}
}

// closedPK holds the closed totals of a scope, by day and label.
func closedPK(scope string) string { return "T#" + scope }

func closedKey(scope, day, label string) store.Key {
	return store.Key{PK: closedPK(scope), SK: day + "#" + label}
}

func stickyKey(org, app, day string) store.Key {
	return store.Key{PK: "STICKY#" + scopeKey(ScopeApp, org, app), SK: "DAY#" + day}
}

func holdPK(scope string) string { return "HOLD#" + scope }

// holdKey sorts a scope's holds by expiry.
func holdKey(scope string, expiresMs int64, id string) store.Key {
	return store.Key{PK: holdPK(scope), SK: fmt.Sprintf("%013d#%s", expiresMs, id)}
}

func eventPK(scope string) string { return "EVENT#" + scope }

// auditPK holds the adjustments of an organisation, by app and id: a day's
// scope does not matter, so that one sent again after midnight is found.
func auditPK(org string) string { return "AUDIT#ORG#" + org }

func auditSK(app string) string { return appPrefix + app + "#" }
