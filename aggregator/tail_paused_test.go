package aggregator_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// fleet is a firm whose stream is followed by tails that stand still at times, under a lease
// that ends meanwhile, and go on with what they have in hand.
type fleet struct {
	*firm
	h      *harbor
	tails  []*tailer
	all    []*tailer
	paused int
	// still is for how long what is processed next stands still before and in the middle.
	still atomic.Int64
	// repeated are the records that one who stood still had in hand and others had counted.
	repeated atomic.Int64
	// read is when all that there was had been read.
	read time.Time
	// late are the writes of checkpoints that come through only at the end.
	late chan struct{}
}

func newFleet(t *testing.T, seed uint64) *fleet {
	t.Helper()
	f := &fleet{firm: newFirm(t, seed), late: make(chan struct{})}
	f.h = &harbor{t, f.db, f.repo, f.limiter}
	f.read = f.clock()
	f.bring = f.catchUp
	for range 3 {
		f.tails = append(f.tails, f.start())
	}
	return f
}

// start starts a tail with a clock and a pace of its own.
func (f *fleet) start() *tailer {
	skew := time.Duration(f.rnd.IntN(9)-4) * time.Second
	x := f.h.tail(aggregator.TailOptions{
		Now:       func() time.Time { return f.clock().Add(skew) },
		FoldEvery: []time.Duration{-1, 5 * time.Second, time.Minute}[f.rnd.IntN(3)], MaxRecords: []int{0, 7}[f.rnd.IntN(2)],
		Poll: []time.Duration{0, 7 * time.Second}[f.rnd.IntN(2)],
	}, f.process)
	f.all = append(f.all, x)
	return x
}

// process is that of a process that may be stopped between any two instructions: it goes on
// although its lease is over.
func (f *fleet) process(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
	still := time.Duration(f.still.Swap(0))
	if still == 0 {
		return f.p.Process(ctx, records)
	}
	ctx = context.WithoutCancel(ctx)
	half := len(records) / 2
	<-time.After(still)
	first, _ := f.p.Process(ctx, records[:half])
	<-time.After(still)
	second, err := f.p.Process(ctx, records[half:])
	f.repeated.Add(int64(second.Repeated))
	first.Counted += second.Counted
	first.Repeated += second.Repeated
	first.Failures = append(first.Failures, second.Failures...)
	first.Gaps = append(first.Gaps, second.Gaps...)
	return first, err
}

// catchUp lets the tails read and process all that there is.
func (f *fleet) catchUp() {
	f.after(5 * time.Minute)
	f.read = f.clock()
}

// trouble is what happens to tails and the stream.
func (f *fleet) trouble(seed uint64) {
	i := f.rnd.IntN(len(f.tails))
	switch f.rnd.IntN(14) {
	case 0:
		f.tails[i].kill()
		f.tails[i] = f.start()
	case 1, 2, 3:
		f.still.Store(int64(f.rnd.IntN(90)) * int64(time.Second))
		f.paused++
	case 4:
		f.db.SetFaults(busy(seed + f.rnd.Uint64N(100)))
		f.after(time.Duration(f.rnd.IntN(90)) * time.Second)
	case 5: // down for longer than the lease
		f.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		f.after(time.Duration(f.rnd.IntN(300)) * time.Second)
	case 6:
		f.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "UpdateItem" && q.Seq%3 == 0 && strings.Contains(string(q.Body), "#CHECKPOINT#") {
				return ddbmem.Fault{Late: f.late}
			}
			return ddbmem.Fault{}
		})
		f.after(time.Duration(f.rnd.IntN(90)) * time.Second)
	case 7:
		if f.rnd.IntN(3) == 0 {
			f.replaceStream()
		}
	case 8:
		require.NoError(f.t, f.db.SplitStream("limits", 1))
	}
	f.db.SetFaults(nil)
}

// replaceStream turns the stream off and on again, once somebody reads the last one.
func (f *fleet) replaceStream() {
	f.catchUp()
	f.h.stream(false)
	f.h.stream(true)
}

// TestTailsThatStandStill: several tails of different pace, whose clocks differ, stand still
// with records in hand until others have taken over and are far beyond, and go on; DynamoDB
// is down for longer than the lease, checkpoints are written late, shards split and streams are
// replaced, while hours are closed. Snapshots are what was consumed, in the hour
// of the write, sums those of a ledger, and nothing is said to be missing.
func TestTailsThatStandStill(t *testing.T) {
	n := max(1, histories(t)/250)
	paused, repeated := 0, int64(0)
	for seed := range uint64(n) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, seed+1<<20)
			for range 40 {
				if f.clock().Sub(f.read) > 12*time.Hour { // the stream keeps a day
					f.catchUp()
				}
				f.trouble(seed)
				f.step()
				f.after(time.Duration(f.rnd.IntN(5000)) * time.Millisecond)
			}
			f.catchUp()
			close(f.late)
			f.db.Wait()
			require.NoError(t, f.limiter.Close(t.Context()))
			f.catchUp()
			for _, x := range f.tails {
				x.end(t)
			}
			want := map[spent]int64{}
			for at, n := range f.ledger {
				if n != 0 {
					want[at] = n
				}
			}
			got, missing := usage(t, f.db)
			require.Equal(t, want, got, "seed %d", seed)
			require.Empty(t, missing, "seed %d", seed)
			f.end()
			require.Equal(t, f.want(), f.got(), "seed %d", seed)
			for _, x := range f.all {
				require.Empty(t, x.gaps, "seed %d", seed)
				require.Empty(t, x.skipped, "seed %d", seed)
				require.Empty(t, x.trimmed, "seed %d", seed)
			}
			repeated += f.repeated.Load()
			paused += f.paused
		})
	}
	t.Logf("%d histories, stood still %d times, %d records in hand that others counted", n, paused, repeated)
	assert.Positive(t, paused)
	if n > 3 { // not every history meets it
		assert.Positive(t, repeated, "what was in hand of one that stood still was counted by another")
	}
}
