package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// TestItemsBelongToOneTenant: to an organisation and perhaps one of its apps, not to one
// whose id begins alike.
func TestItemsBelongToOneTenant(t *testing.T) {
	const org, other = "550e8400-e29b-41d4-a716-446655440000", "650e8400-e29b-41d4-a716-446655440000"
	whole, app := ScopeKey(ScopeOrg, org, ""), ScopeKey(ScopeApp, org, "app")
	for _, tc := range []struct {
		key  store.Key
		apps bool
	}{
		{store.Key{PK: LabelPartition(whole, "l"), SK: "DAY#20260123#SH#0"}, false},
		{store.Key{PK: whole + "#TOTAL"}, false},
		{ClosedKey(whole, "20260123", "l"), false},
		{store.Key{PK: "HOLD#" + whole}, false},
		{store.Key{PK: "EVENT#" + whole}, false},
		{store.Key{PK: LabelPartition(app, "l")}, true},
		{store.Key{PK: app + "#TOTAL"}, true},
		{store.Key{PK: TagPartition(app, "user")}, true},
		{ClosedKey(app, "20260123", "l"), true},
		{store.Key{PK: "HOLD#" + app}, true},
		{store.Key{PK: "HOLDID#" + org + "#app#x"}, true},
		{DedupKey(org, "app", "x"), true},
		{store.Key{PK: "STICKY#" + app, SK: "DAY#20260123"}, true},
		{store.Key{PK: "EVENT#" + app}, true},
		{store.Key{PK: AuditPartition(org), SK: AuditKey("app") + "x"}, true},
	} {
		assert.True(t, Belongs(tc.key, org, ""), tc.key)
		assert.Equal(t, tc.apps, Belongs(tc.key, org, "app"), tc.key)
		assert.False(t, Belongs(tc.key, other, ""), tc.key)
		for _, like := range []string{"ap", "app2", "app.", "l"} {
			assert.False(t, Belongs(tc.key, org, like), "%s is not of %s", tc.key, like)
		}
	}
}
