package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Reservations that share a transaction may know different quotas of a counter, for
// one was asked before a change: the strictest holds, in whatever order they come.
func TestStrictestBoundOfATransactionHolds(t *testing.T) {
	reservation := func(id string, quota int64) *Operation {
		d := Debit{CounterRef: CounterRef{"DAY#o", "premium", 1}, Hard: true}
		d.cap(money.FromMicros(quota), time.Now())
		return &Operation{
			kind: opReserve, debits: []Debit{d},
			Hold: &Hold{ID: id, Estimate: money.FromMicros(10), Keys: []store.Key{{PK: "HOLD#" + id, SK: RootSK}}},
		}
	}
	for _, quotas := range [][]int64{{100, 50, 70}, {50, 100, 70}, {70, 100, 50}} {
		var ops []*Operation
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
