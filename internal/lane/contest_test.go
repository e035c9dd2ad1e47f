package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A head tries only if a write would carry it beside the heads and places before it, and a reservation. Otherwise it
// would try again at once, without end. The reservation may be of a waiter of its own process that has left.
func TestHeadsTryWhenTheyFit(t *testing.T) {
	for range 50 { // a reservation that matters is rare
		rapid.Check(t, checkThatHeadsFit)
	}
}

func checkThatHeadsFit(r *rapid.T) {
	const now = 1_000_000
	cfg := &plan.Config{Fingerprint: []byte{1}}
	for _, name := range []string{"rpm", "tpm"} {
		cfg.Limits = append(cfg.Limits, schema.Limit{Name: name, Capacity: 10 * token, Rate: bucket.Rate{Burst: 10 * token, Amount: 10 * token, Period: 60_000}})
	}
	number := func(name string, most int) int { return rapid.IntRange(0, most).Draw(r, name) }
	tokens := func(name string, most int) int64 { return token / 2 * int64(number(name, 2*most)) }
	amounts := func(name string) (all []plan.Signed) {
		for _, limit := range cfg.Names() {
			if n := tokens(name+" "+limit, 5); n > 0 {
				all = append(all, plan.Signed{Name: limit, Amount: n})
			}
		}
		return all
	}
	note := func(name string) *schema.Note {
		if number(name, 3) == 0 {
			return nil
		}
		of := uint32(number("lane", 2)) //nolint:gosec // small
		return &schema.Note{Until: now + 1 + int64(number("until", 5000)), At: now - 100, Lane: of, Needs: []int64{tokens("needs rpm", 5), tokens("needs tpm", 5)}}
	}
	x, batch := &extra{}, rapid.Bool().Draw(r, "batch")
	for _, of := range []bool{false, true}[:1+number("lines", 1)] {
		l := x.lineOf(of)
		for rank := range number("waiters", 3) {
			w := NewWaiter(uint64(2*rank), time.UnixMilli(now-int64(number("age", 1000))), of) //nolint:gosec // small
			l.Join(w)
			l.RecordDenial(w, amounts("waiter"), []string{rapid.SampledFrom(cfg.Names()).Draw(r, "scarce")}, cfg)
		}
		if l.contest.Lane = 1; of {
			l.contest.Lane = 2
		}
	}
	l := x.lineOf(batch)
	for range number("places", 2) {
		l.LeavePlace(uint64(2*number("place", 2)+1), amounts("place")) //nolint:gosec // small
	}
	image := imageOf(cfg, tokens("rpm", 10), now)
	image.Limits = append(image.Limits, schema.Stored{Rate: cfg.Limits[1].Rate, Tokens: tokens("tpm", 10)})
	image.Limits[0].Rate.Burst = token * int64(6+number("burst", 4)) // less than where places were left
	image.Notes = &schema.Notes{Interactive: note("reserved"), Batch: note("reserved for batches")}
	reading := plan.Reading{Image: image, Config: cfg, Now: now, Batch: batch}
	for _, w := range l.waiters {
		wait, known := l.due(w, image, now, now)
		require.True(r, known)
		if try, _, ok := l.nextTry(w, image, plan.Calls{}, now, now, now); !w.head || wait > 0 || ok && try > now {
			continue
		}
		all := x.claims()
		left := plan.Forecast{Limits: all.leftTo(w.Rank, nil, reading, nil)}
		if wait, fits := left.Wait(reading, w.amounts); fits && wait > 0 {
			r.Fatalf("waiter %d tries, and is denied for %d ms: %v of %v beside %v", w.Rank, wait, w.amounts, image.Limits, left.Limits)
		}
	}
}
