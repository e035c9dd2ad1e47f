package aggregator_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// outage is a firm whose stream loses records.
type outage struct {
	*firm
	// all are the records there were, in the order of each item, and lost those that nobody
	// delivers.
	all  []aggregator.Record
	lost map[string]bool
}

// take reads the stream, and loses what it brings, or delivers it.
func (o *outage) take(lose bool) {
	had := map[string]int{}
	for id, records := range o.stream.records {
		had[id] = len(records)
	}
	o.stream.read()
	for id, records := range o.stream.records {
		fresh := records[had[id]:]
		o.all = append(o.all, fresh...)
		if lose {
			for _, r := range fresh {
				o.lost[r.Sequence] = true
			}
			o.stream.records[id] = records[:had[id]]
		}
	}
	o.deliver(o.p)
}

// life is the counter of a limit in a bucket, from where it began to where it ended.
type life struct {
	bucket            string
	last, seen        int64 // at its end, and where a record showed it last
	born, ended, told bool  // whether its beginning and its end were delivered, and any record
	gone              bool  // whether it ended at all
	zero              bool  // whether it went back to 0 unseen
}

// lives are those of each limit, by entity, resource and limit.
func (o *outage) lives() map[spent][]*life {
	slices.SortStableFunc(o.all, func(a, b aggregator.Record) int {
		return cmp.Or(cmp.Compare(len(a.Sequence), len(b.Sequence)), strings.Compare(a.Sequence, b.Sequence))
	})
	lives := map[spent][]*life{}
	for _, r := range o.all {
		resource, isBucket := strings.CutPrefix(text(r.Keys, "SK"), "#BUCKET#")
		if !isBucket {
			continue
		}
		of := func(name string) spent {
			return spent{strings.TrimPrefix(text(r.Keys, "PK"), "ENTITY#"), resource, name, ""}
		}
		before, after := countersOf(o.t, r.Old), countersOf(o.t, r.New)
		delivered := !o.lost[r.Sequence]
		for name, n := range before {
			if _, there := after[name]; there {
				continue
			}
			all := lives[of(name)]
			l := all[len(all)-1]
			l.gone, l.ended = true, delivered && n != 0 || l.seen == 0 && n == 0
			if delivered && n != 0 {
				l.told = true
			}
		}
		for name, n := range after {
			old, was := before[name]
			if !was {
				lives[of(name)] = append(lives[of(name)], &life{bucket: string(r.New["ci"].(*types.AttributeValueMemberB).Value), born: delivered && n != 0})
			}
			all := lives[of(name)]
			l := all[len(all)-1]
			l.last = n
			if delivered && n != old {
				l.zero = l.zero || was && old == 0 && l.seen != 0
				l.seen, l.told = n, true
				l.born = l.born || old == 0
			}
		}
	}
	return lives
}

func countersOf(t *testing.T, item map[string]types.AttributeValue) map[string]int64 {
	all := map[string]int64{}
	for attr, v := range item {
		if name, is := strings.CutSuffix(strings.TrimPrefix(attr, "b_"), "_tc"); is && strings.HasPrefix(attr, "b_") {
			all[name] = number(t, v)
		}
	}
	return all
}

// truth is what can be known of a limit, and how many ends nobody saw; false where records
// cannot tell: where a counter went back to 0 unseen, or one of the same bucket began anew.
func truth(lives []*life) (known, unseen int64, ok bool) {
	var open *life // the last one that records tell of, if none shows its end
	for i, l := range lives {
		last := i == len(lives)-1 && !l.gone
		shown := l.told || last && l.last != 0 // by a record, or by the bucket
		switch {
		case l.zero, open != nil && shown && !l.born && l.bucket == open.bucket:
			return 0, 0, false
		case open != nil && shown:
			unseen++
			open = nil
		}
		switch {
		case l.ended || last:
			known += l.last
		default: // 0 where it is not told
			known += l.seen
			if l.seen != 0 {
				open = l
			}
		}
	}
	return known, unseen, true
}

// TestGapsAreRepairedToTheTruth: whatever records are lost, what is booked afterwards makes
// of all snapshots what was consumed, except before ends that nobody saw, and these are
// told; a second repair finds nothing.
func TestGapsAreRepairedToTheTruth(t *testing.T) {
	t.Parallel()
	checked, repaired, blind, untold := 0, 0, 0, int64(0)
	for seed := range uint64(max(1, histories(t)/20)) {
		synctest.Test(t, func(t *testing.T) {
			o := &outage{firm: newFirm(t, seed), lost: map[string]bool{}}
			o.bring = func() { o.take(o.rnd.IntN(3) == 0) }
			o.take(false)
			for i := range 60 {
				o.step()
				if i%7 == 6 {
					o.bring()
				}
			}
			require.NoError(t, o.limiter.Close(t.Context()))
			o.take(o.rnd.IntN(3) == 0)
			o.now.Add(int64(30 * time.Hour))
			options := aggregator.RepairOptions{Principal: "ops", From: time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC), First: true, DryRun: true}
			dry, err := o.closer.Repair(t.Context(), options)
			require.NoError(t, err)
			options.DryRun = false
			done, err := o.closer.Repair(t.Context(), options)
			require.NoError(t, err)
			assert.ElementsMatch(t, dry.Bookings, done.Bookings)
			repaired += len(done.Bookings)
			again, err := o.closer.Repair(t.Context(), options)
			require.NoError(t, err)
			require.Empty(t, again.Bookings, "seed %d", seed)
			require.ElementsMatch(t, done.Unseen, again.Unseen)

			got, unseen := map[spent]int64{}, map[spent]int64{}
			counted, _ := usage(t, o.db)
			for at, n := range counted {
				at.hour = ""
				got[at] += n
			}
			for _, g := range done.Unseen {
				unseen[spent{g.Entity, g.Resource, g.Limit, ""}] += g.Unseen
			}
			for of, lives := range o.lives() {
				known, ends, ok := truth(lives)
				if !ok {
					blind++
					continue
				}
				checked++
				untold += ends
				require.Equal(t, known, got[of], "seed %d, %v: %s", seed, of, show(lives))
				require.Equal(t, ends, unseen[of], "seed %d, %v", seed, of)
			}
		})
	}
	t.Logf("%d counters, %d bookings, %d unseen ends, %d cannot be told", checked, repaired, untold, blind)
	assert.Greater(t, checked, 100*blind)
	assert.Positive(t, repaired)
}

func show(lives []*life) string {
	var all []string
	for _, l := range lives {
		all = append(all, fmt.Sprintf("%+v", *l))
	}
	return strings.Join(all, "\n")
}
