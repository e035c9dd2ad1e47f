package budget

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Reservations that share a transaction may know different quotas of a counter, for
// one was asked before a change: the strictest holds, in whatever order they come.
func TestStrictestBoundOfATransactionHolds(t *testing.T) {
	reservation := func(id string, quota int64) *op {
		d := debit{counterRef: counterRef{"DAY#o", "premium", 1}, hard: true}
		d.cap(money.FromMicros(quota), fixtureNow)
		return &op{
			kind: opReserve, debits: []debit{d},
			hold: &holdRef{id: id, estimate: money.FromMicros(10), keys: []store.Key{{PK: "HOLD#" + id, SK: rootSK}}},
		}
	}
	for _, quotas := range [][]int64{{100, 50, 70}, {50, 100, 70}, {70, 100, 50}} {
		var ops []*op
		for i, quota := range quotas {
			ops = append(ops, reservation(string(rune('a'+i)), quota))
		}
		txn, left := compose(ops, func(int) int { return 0 })
		require.Empty(t, left)
		counter := txn.items[1]
		require.Equal(t, addCounter, counter.kind)
		assert.Equal(t, money.FromMicros(50-30), counter.room(), "%v", quotas)
	}
}
