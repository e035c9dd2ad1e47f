package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// TestDaysAreBeforeADay if they are over before it.
func TestDaysAreBeforeADay(t *testing.T) {
	const org = "550e8400-e29b-41d4-a716-446655440000"
	scope := ScopeKey(ScopeApp, org, "app")
	adjusted := func(day string) store.Item {
		item := (&Adjustment{ID: "x", App: "app", Day: day}).item(store.Key{PK: AuditPartition(org), SK: "APP#app#x"})
		return item
	}
	item := func(pk, sk string) store.Item { return store.Key{PK: pk, SK: sk}.Attributes() }
	for _, tc := range []struct {
		item store.Item
		want bool
	}{
		{item(LabelPartition(scope, "l"), "DAY#20260113#SH#3"), true},
		{item(LabelPartition(scope, "l"), "DAY#20260114#SH#3"), false},
		{item(TagPartition(scope, "user"), "DAY#20260113#u1#SH#0"), true},
		{item(closedPK(scope), "20260113#l"), true},
		{item(closedPK(scope), "20260114#l"), false},
		{adjusted("20260113"), true},
		{adjusted("20260114"), false},
		{item("EVENT#"+scope, "DAY#20260113"), false},
		{item("STICKY#"+scope, "DAY#20260113"), false},
		{item(LabelPartition(ScopeKey(ScopeOrg, "650e8400-e29b-41d4-a716-446655440000", ""), "l"), "DAY#20260113#SH#3"), false},
		{item(LabelPartition(scope, "l"), "SOMETHING"), false},
		{item(LabelPartition(scope, "l"), "DAY#2026"), false},
	} {
		assert.Equal(t, tc.want, IsBefore(tc.item, org, "20260114"), tc.item)
	}
	line, err := Line(store.Item{"PK": store.String("<a>"), "n": store.Int(3), "x": store.Bool(true)})
	require.NoError(t, err)
	assert.Equal(t, `{"PK":"<a>","n":3,"x":true}`+"\n", string(line))
}

// TestOnlyWhatIsAsItWasReadExpires: what was written to since is not in a file as it is.
func TestOnlyWhatIsAsItWasReadExpires(t *testing.T) {
	l := newLedger(t)
	key := shardKey(LabelPartition("ORG#o", "premium"), "DAY#20260101#SH#", 0)
	at := func(n int64) store.Item { // 0: no number, as of an adjustment, or of a total that was opened again
		item := key.Attributes()
		if n != 0 {
			item[AttrSeq] = store.Int(n)
		}
		return item
	}
	for _, read := range []int64{0, 4, 5, 6} {
		for _, stored := range []int64{0, 4, 5, 6} {
			require.NoError(t, l.Store.Put(t.Context(), l.Store.Usage, at(stored), "", nil, nil))
			expires, err := l.Expire(t.Context(), at(read), 99)
			require.NoError(t, err)
			assert.Equal(t, read == stored, expires, "%d, and %d was read", stored, read)
			item, err := l.Store.Get(t.Context(), l.Store.Usage, key)
			require.NoError(t, err)
			assert.Equal(t, read == stored, item[store.AttrTTL] != nil)
		}
		require.NoError(t, l.Store.Delete(t.Context(), l.Store.Usage, key))
		expires, err := l.Expire(t.Context(), at(read), 99)
		require.NoError(t, err)
		assert.False(t, expires, "nothing is made anew")
	}
}
