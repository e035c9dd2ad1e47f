package ledger

import (
	"strings"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Belongs reports whether an item of the usage table is of an organisation, or of one of its
// apps. What all apps share is of no app. Versions that held money left HOLD# and HOLDID#.
func Belongs(key store.Key, org, app string) bool {
	if app == "" {
		return belongsTo(key.PK, org)
	}
	scope := ScopeKey(ScopeApp, org, app)
	switch key.PK {
	case closedPK(scope), "HOLD#" + scope, "STICKY#" + scope, "EVENT#" + scope:
		return true
	case AuditPartition(org):
		return strings.HasPrefix(key.SK, AuditKey(app))
	}
	for _, prefix := range []string{scope + "#", "DEDUP#" + org + "#" + app + "#", "HOLDID#" + org + "#" + app + "#"} {
		if strings.HasPrefix(key.PK, prefix) {
			return true
		}
	}
	return false
}

// belongsTo reports whether a partition is an organisation's, whatever its kind. Ids have
// one length, so that none begins another.
func belongsTo(pk, org string) bool {
	for _, kind := range []string{"ORG#", "T#ORG#", "HOLD#ORG#", "STICKY#ORG#", "EVENT#ORG#", "AUDIT#ORG#", "DEDUP#", "HOLDID#"} {
		if strings.HasPrefix(pk, kind+org) {
			return true
		}
	}
	return false
}
