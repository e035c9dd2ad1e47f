package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
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

// A settlement counts where its hold is, even if calls of that day are counted elsewhere now.
func TestASettlementCountsWhereItsHoldIs(t *testing.T) {
	l := newLedger(t)
	a := anAccount()
	a.Rule.Enforcement = calendar.Hard
	reserved := a.Reservation("app", store.NewID(), money.FromMicros(10), afterDays.Add(time.Minute), afterDays.Add(time.Hour).Unix())
	require.NoError(t, l.Write(t.Context(), reserved))
	now := a
	now.Scope += "#APP#app"
	o := now.Submission(Record{Key: DedupKey(a.Org, "app", store.NewID()), Cost: money.FromMicros(7), Expires: afterDays.Add(time.Hour).Unix()}, nil, false)
	o.Settles(reserved.Hold)
	require.NoError(t, l.Write(t.Context(), o))
	assert.Equal(t, reserved.lane, o.lane)
	known := l.Board(a.Org, a.Scope).own[LabelDay(a.Scope, a.Label, a.Day)]
	assert.Equal(t, Amount{Spend: money.FromMicros(7)}, known.since, "and this process knows it at once")
	assert.Empty(t, l.Board(a.Org, now.Scope).own)
}

// Reservations that ask together for more than a quota has are not all admitted because
// nothing was counted yet, and none is denied for the others alone.
func TestTheFirstReservationsOfADayAreBoundedTogether(t *testing.T) {
	l := newLedger(t)
	a := anAccount()
	a.Rule.Enforcement = calendar.Hard
	var ops []*Operation
	for range 3 {
		o := a.Reservation("app", store.NewID(), money.FromMicros(10), afterDays.Add(time.Minute), afterDays.Add(time.Hour).Unix())
		o.Cap(LabelDay(a.Scope, a.Label, a.Day), money.FromMicros(25), afterDays.Add(time.Hour))
		ops = append(ops, o)
	}
	admitted := 0
	for i, err := range l.WriteAll(t.Context(), ops) {
		require.NoError(t, err)
		if !ops[i].Verdict.NoRoom {
			admitted++
		}
	}
	assert.Equal(t, 2, admitted)
	sums, err := l.sumShards(t.Context(), LabelPartition(a.Scope, a.Label), a.Day, a.Day)
	require.NoError(t, err)
	assert.Equal(t, money.FromMicros(20), sums[a.Day].Used)
}
