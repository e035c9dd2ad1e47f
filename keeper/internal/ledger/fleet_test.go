package ledger

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// before is a process of a version before: it has all shards in a label's own partition, and sees
// no other.
type before struct{ *Ledger }

// write counts a record, once.
func (p before) write(t *testing.T, a Account, id int) {
	transaction, _ := composeTransaction([]*Operation{a.record(id, nil)}, func(shards int) int { return id % shards }, false)
	for i := range transaction.items {
		if it := &transaction.items[i]; it.kind == addCounter {
			it.key.PK = LabelPartition(a.Scope, a.Label)
		}
	}
	err := transaction.sendOnce(t.Context(), p.Store, store.NewID(), p.Now().Unix())
	assert.Contains(t, []ddb.Verdict{ddb.Landed, ddb.Refused}, store.Diagnose(err), err)
}

func (p before) requests(t *testing.T, a Account) (n int64) {
	t.Helper()
	pk, day := LabelPartition(a.Scope, a.Label), "DAY#"+a.Day
	require.NoError(t, p.Store.Query(t.Context(), p.Store.Usage, pk, day, day+"~", func(item store.Item) error {
		row, err := DecodeCounter(item)
		n += row.Requests
		return err
	}))
	return n
}

// The way to upgrade that docs/design/budget.md tells, and the way back: while processes of both
// forms write, all see all of it, and a record that was sent to both counts once.
func TestFleetOfBothForms(t *testing.T) {
	inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
		watched(db)
		old, id := before{l}, 0
		send := func(writers ...func(id int)) {
			var all sync.WaitGroup
			for range 40 {
				for _, write := range writers {
					record := id
					all.Go(func() { write(record) })
				}
				id++
				<-time.After(10 * time.Microsecond) // so that they are not one transaction
			}
			all.Wait()
		}
		now := func(a Account) int64 {
			days, err := l.SumDays(t.Context(), calendar.InZone("UTC"), a.Scope, map[string]bool{a.Label: true}, a.Day, a.Day)
			require.NoError(t, err)
			return days.Rows[a.Day][a.Label].Requests
		}
		byOld := func(a Account) func(int) { return func(id int) { old.write(t, a, id) } }
		byNew := func(a Account) func(int) {
			return func(id int) { assert.NoError(t, l.Write(t.Context(), a.record(id, nil))) }
		}
		same := func(want int64, a Account) {
			t.Helper()
			assert.Equal(t, []int64{want, want}, []int64{old.requests(t, a), now(a)})
		}
		many, one := counting(8), counting(1)
		l.lanes.spreadFor(many.record(0, nil).debits[0].counterKey()).marked = true // else the first transaction goes alone
		send(byOld(many))
		same(40, many)
		send(byOld(one), byNew(one)) // each record to both
		same(80, one)
		send(byOld(many), byNew(one)) // which has not heard yet
		same(120, one)
		send(byNew(many)) // rolled
		assert.EqualValues(t, 160, now(many))
		assert.Less(t, old.requests(t, many), int64(160), "so there is none any more, nor again on this day")

		one.Day = "20990124"
		send(byNew(one), byOld(one))
		same(40, one)
	})
}
