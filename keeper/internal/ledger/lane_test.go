package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const latency = 5 * time.Millisecond

// sent is a transaction as the store saw it.
type sent struct {
	after   time.Duration // since the test began
	records int
	shards  []string // the counters' partitions
}

// traffic watches the transactions of a store with a latency.
type traffic struct {
	began time.Time

	mu       sync.Mutex
	sent     []sent
	flying   map[string]int // transactions on a counter now
	met      bool           // two of them were on one
	conflict map[string]int // how many transactions on a counter meet another, by its partition
}

func watched(db *ddbmem.DB) *traffic {
	w := &traffic{began: time.Now(), flying: map[string]int{}, conflict: map[string]int{}}
	db.SetFaults(w.fault)
	return w
}

func (w *traffic) fault(r *ddbmem.Request) ddbmem.Fault {
	f := ddbmem.Fault{Before: latency}
	if r.Operation != "TransactWriteItems" {
		return f
	}
	var body struct {
		TransactItems []struct {
			Put *struct {
				Item struct{ PK struct{ S string } }
			}
			Update *struct {
				Key struct{ PK struct{ S string } }
			}
		}
	}
	_ = json.Unmarshal(r.Body, &body)
	s := sent{after: time.Since(w.began)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range body.TransactItems {
		var pk string
		switch {
		case it.Update != nil:
			pk = it.Update.Key.PK.S
			s.shards = append(s.shards, pk)
		case strings.HasPrefix(it.Put.Item.PK.S, "MARK#"):
			pk = it.Put.Item.PK.S
		default:
			s.records++
			continue
		}
		if w.conflict[pk] > 0 {
			w.conflict[pk]--
			f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}}}
		}
		if w.flying[pk]++; w.flying[pk] > 1 {
			w.met = true
		}
		time.AfterFunc(latency-1, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.flying[pk]--
		})
	}
	w.sent = append(w.sent, s)
	return f
}

// counting is an account of some shards.
func counting(shards int) Account {
	a := anAccount()
	a.Shards = shards
	return a
}

func (a Account) record(id int, tags map[string]string) *Operation {
	return a.NewSubmission(Record{
		Key: DedupKey(a.Org, "app", fmt.Sprint(id)), Hash: fmt.Sprint(id), Cost: money.FromMicros(1), Expires: 2_000_000_000,
	}, tags, false)
}

// inTime runs a test of a ledger in virtual time.
func inTime(t *testing.T, linger time.Duration, test func(t *testing.T, l *Ledger, db *ddbmem.DB)) {
	synctest.Test(t, func(t *testing.T) {
		l, db := openLedger(t)
		l.Linger = linger
		test(t, l, db)
	})
}

func total(t *testing.T, l *Ledger, a Account) Counter {
	t.Helper()
	days, err := l.SumDays(t.Context(), calendar.InZone("UTC"), a.Scope, map[string]bool{a.Label: true}, aDay, aDay)
	require.NoError(t, err)
	return days.Rows[aDay][a.Label]
}

// Records that come faster than the store answers are in flight beside each other, each
// transaction on a shard of its own; what has no free one waits for the first that gets free.
// Those of one process never meet, and all that was written is read.
func TestTransactionsBesideEachOther(t *testing.T) {
	for shards, want := range map[int]int{1: 1, 3: 3, 64: maxSenders} {
		inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
			a := counting(shards)
			require.NoError(t, l.Write(t.Context(), a.record(-1, nil)), "the day is marked")
			for range 2 { // the second time readers know of the shards
				w := watched(db)
				var all sync.WaitGroup
				for n := range 20 {
					all.Go(func() {
						assert.NoError(t, l.Write(t.Context(), a.record(n+int(time.Now().UnixNano()), map[string]string{"user": "u"})))
					})
					<-time.After(10 * time.Microsecond)
				}
				all.Wait()
				assert.False(t, w.met)
				partitions := map[string]bool{}
				records := 0
				for _, s := range w.sent {
					records += s.records
					for _, pk := range s.shards {
						partitions[pk] = true
					}
				}
				assert.Equal(t, 20, records)
				assert.Len(t, partitions, 2*want, "of the label and of the tag")
			}
			assert.EqualValues(t, 41, total(t, l, a).Requests)
			told, err := l.ShardsOf(t.Context(), a.Scope, []string{a.Label, "another"}, aDay)
			require.NoError(t, err)
			assert.Len(t, told, want-1)
			var user Counter
			err = l.ReadShards(t.Context(), TagPartition(a.Scope, "user"), "DAY#", "DAY#~", told, func(_ store.Key, row Counter) { user = user.Add(row) })
			require.NoError(t, err)
			assert.EqualValues(t, 40, user.Requests)
		})
	}
}

// TestToldShardsKeepTheirTimeToLive: a keeper that keeps days for less tells of a shard of its own,
// and the list goes no earlier for that.
func TestToldShardsKeepTheirTimeToLive(t *testing.T) {
	inTime(t, 0, func(t *testing.T, l *Ledger, _ *ddbmem.DB) {
		d := counting(8).record(0, nil).debits[0]
		require.NoError(t, storeAnnouncement(t.Context(), l.Store, d, 3, 2_000_000_000))
		require.NoError(t, storeAnnouncement(t.Context(), l.Store, d, 5, 1_900_000_000))
		out, err := l.Store.Client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &l.Store.Usage, Key: shardKey(d.PK, d.Prefix, 0).Attributes()})
		require.NoError(t, err)
		assert.Equal(t, store.Int(2_000_000_000), out.Item[store.AttrTTL])
		assert.ElementsMatch(t, []string{"3", "5"}, out.Item[attrShards].(*types.AttributeValueMemberNS).Value)
	})
}

// A transaction begins so long after the last one as Linger says, whether that was answered or
// not; one that nothing is in flight beside begins at once.
func TestLingerIsBetweenTheBegins(t *testing.T) {
	inTime(t, 2*time.Millisecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
		a := counting(8)
		require.NoError(t, l.Write(t.Context(), a.record(-1, nil)), "the day is marked")
		for n := range maxSenders { // so that readers know of all
			require.NoError(t, storeAnnouncement(t.Context(), l.Store, a.record(0, nil).debits[0], n, 2_000_000_000))
			l.lanes.spreadFor(a.record(0, nil).debits[0].counterKey()).announced[n] = true
		}
		w := watched(db)
		var all sync.WaitGroup
		for n := range 7 {
			all.Go(func() { assert.NoError(t, l.Write(t.Context(), a.record(n, nil))) })
			if <-time.After(time.Millisecond / 2); n > 0 {
				<-time.After(time.Millisecond / 2)
			}
		}
		all.Wait()
		<-time.After(time.Second)
		require.NoError(t, l.Write(t.Context(), a.record(8, nil)))
		var got []string
		for _, s := range w.sent {
			got = append(got, fmt.Sprint(s.records, " after ", s.after))
		}
		assert.Equal(t, []string{"1 after 0s", "2 after 2ms", "2 after 4ms", "2 after 6ms", "1 after 1.011s"}, got)
	})
}

// A transaction that meets another process's moves to another shard and stays there.
func TestAConflictMovesAway(t *testing.T) {
	inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
		a := counting(64)
		w := watched(db)
		w.conflict[LabelPartition(a.Scope, a.Label)] = 1
		for n := range 3 {
			require.NoError(t, l.Write(t.Context(), a.record(n, nil)))
		}
		require.Len(t, w.sent, 4)
		first, moved := w.sent[0].shards[0], w.sent[1].shards[0]
		assert.Equal(t, LabelPartition(a.Scope, a.Label), first)
		assert.True(t, strings.HasPrefix(moved, first+"#SH#"), moved)
		for _, s := range w.sent[2:] {
			assert.Equal(t, moved, s.shards[0])
		}
		assert.EqualValues(t, 3, total(t, l, a).Requests)
	})
}

// What readers cannot be told of is written where they read always.
func TestAShardThatCannotBeToldOf(t *testing.T) {
	inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
		a := counting(8)
		l.lanes.spreadFor(a.record(0, nil).debits[0].counterKey()).shards[0] = 5
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "UpdateItem" {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
			}
			return ddbmem.Fault{}
		})
		o := a.record(1, nil)
		require.NoError(t, l.Write(t.Context(), o))
		assert.Zero(t, o.Verdict.Stored.Shard)
		assert.EqualValues(t, 1, total(t, l, a).Requests)
		db.SetFaults(nil)
		o = a.record(2, nil)
		require.NoError(t, l.Write(t.Context(), o))
		assert.Equal(t, 5, o.Verdict.Stored.Shard)
		assert.EqualValues(t, 2, total(t, l, a).Requests)
	})
}

// What versions before wrote, all shards in one partition, is read with what is written now.
func TestShardsInOnePartitionAreRead(t *testing.T) {
	inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, _ *ddbmem.DB) {
		a := counting(8)
		pk := LabelPartition(a.Scope, a.Label)
		for shard := range 8 {
			item := store.Key{PK: pk, SK: fmt.Sprint(dayPrefix(aDay), shard)}.Attributes()
			item[AttrSeq], item[attrRequests], item[attrCost] = store.Int(3), store.Int(3), store.Picos(money.FromMicros(3))
			require.NoError(t, l.Store.Put(t.Context(), l.Store.Usage, item, "", nil, nil))
		}
		l.lanes.spreadFor(a.record(0, nil).debits[0].counterKey()).shards[0] = 7
		require.NoError(t, l.Write(t.Context(), a.record(1, nil)))
		sum := total(t, l, a)
		assert.Equal(t, Counter{Writes: 25, Requests: 25, Cost: money.FromMicros(25)}, sum)
		b := l.Board(a.Scope)
		require.NoError(t, b.EnsureFresh(t.Context(), NeedOf(aDay, []string{a.Label}), false))
		assert.Equal(t, []money.Picos{money.FromMicros(25)}, b.SpendOf(aDay, true, []string{a.Label}))
	})
}

// Who sent a record that others follow may leave while it waits for a second transaction; the
// others are answered all the same.
func TestFollowersOfOneThatLeaves(t *testing.T) {
	inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
		watched(db)
		a := counting(1)
		var all sync.WaitGroup
		write := func(ctx context.Context, ops ...*Operation) {
			all.Go(func() {
				for _, err := range l.WriteAll(ctx, ops) {
					assert.True(t, err == nil || ctx.Err() != nil, err)
				}
			})
			synctest.Wait()
		}
		write(t.Context(), a.record(0, nil))
		full := make([]*Operation, 99)
		for n := range full {
			full[n] = a.record(n+1, nil)
		}
		leaves, ends := context.WithCancel(t.Context())
		write(t.Context(), full...)
		write(leaves, a.record(1000, nil))
		write(t.Context(), a.record(1000, nil))
		<-time.After(latency + time.Millisecond)
		ends()
		all.Wait()
		assert.EqualValues(t, 101, total(t, l, a).Requests)
	})
}

// What is counted is marked for sweeps, whatever else fails: a full transaction has room for the
// mark, and every transaction has it until one has landed.
func TestWhatIsCountedIsMarked(t *testing.T) {
	marked := func(t *testing.T, l *Ledger, a Account) (found bool) {
		require.NoError(t, l.EachMark(t.Context(), aDay, func(m Mark) {
			assert.Equal(t, Mark{a.Org, a.Scope, a.Label}, m)
			found = true
		}))
		return found
	}
	for _, n := range []int{1, maxTxnItems - 2, maxTxnItems - 1, maxTxnItems} {
		inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, _ *ddbmem.DB) {
			a, ops := counting(8), make([]*Operation, n)
			for i := range ops {
				ops[i] = a.record(i, nil)
			}
			for _, err := range l.WriteAll(t.Context(), ops) {
				require.NoError(t, err)
			}
			assert.EqualValues(t, n, total(t, l, a).Requests)
			assert.True(t, marked(t, l, a), n)
		})
	}
	for name, first := range map[string]ddbmem.Fault{
		"never arrives": {Drop: true}, "fails": {Error: &ddbmem.Error{Code: "ValidationException"}}, "is slow": {Before: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, time.Nanosecond, func(t *testing.T, l *Ledger, db *ddbmem.DB) {
				a := counting(8)
				db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if r.Operation == "TransactWriteItems" && strings.Contains(string(r.Body), `#app#0"`) {
						return first
					}
					return ddbmem.Fault{}
				})
				var all sync.WaitGroup
				for n := range 3 {
					all.Go(func() { _ = l.Write(t.Context(), a.record(n, nil)) })
					<-time.After(time.Millisecond)
				}
				for range 30 {
					<-time.After(time.Second / 2)
					assert.Equal(t, total(t, l, a).Requests > 0, marked(t, l, a), "at each moment")
				}
				all.Wait()
			})
		})
	}
}
