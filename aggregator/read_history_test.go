package aggregator_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// readingWorld is a world whose stream is read, and whose hours are closed, at some moments.
type readingWorld struct {
	*world
	processor *aggregator.Processor
	closer    *aggregator.Closer
	began     time.Time
}

func (w *readingWorld) readStream() {
	w.stream.read()
	for _, id := range w.stream.order {
		_, err := w.processor.Process(w.t.Context(), w.stream.records[id])
		require.NoError(w.t, err)
		w.stream.records[id] = nil
	}
}

func (w *readingWorld) closeHours() {
	_, err := w.closer.CloseDue(w.t.Context())
	require.NoError(w.t, err)
}

// step does something. Before time goes on into another hour the stream is read, because
// what is pending then is told an hour late.
func (w *readingWorld) step() {
	ctx := w.t.Context()
	entity, resource := []string{"key-0", "key-1", "key-2", "key-3", "key-4", "team", "alone"}[w.rnd.IntN(7)], []string{"gpt-4", "org/claude", "gpt"}[w.rnd.IntN(3)]
	switch n := w.rnd.IntN(13); {
	case n < 6:
		w.call(entity, resource)
	case n == 12:
		w.readStream()
		w.acrossHour(w.some("key-0", "key-1", "key-3", "key-4", "team", "other"), func() { w.call(entity, resource) })
		w.readStream()
	case n == 6:
		w.readStream()
		require.NoError(w.t, admin.New(w.repo).Entities.Delete(ctx, "alone"))
		w.readStream()
	case n == 7:
		w.readStream()
	case n == 8:
		w.readStream()
		w.closeHours()
	default:
		w.readStream()
		w.now.Add(w.rnd.Int64N(int64([]time.Duration{20 * time.Minute, 5 * time.Hour, 30 * time.Hour}[n-9])))
		if w.closeHours(); w.rnd.IntN(2) == 0 {
			w.readStream()
		}
	}
}

func (w *readingWorld) call(entity, resource string) {
	amounts := dynalimit.Amounts{"rpm": 1 + w.rnd.Int64N(20)}
	if w.rnd.IntN(2) == 0 {
		amounts["ttl"] = 1 + w.rnd.Int64N(5) // parents have it too, or alone
	}
	lease, err := w.limiter.Acquire(w.t.Context(), entity, resource, amounts)
	if errors.Is(err, dynalimit.ErrLimitExceeded) {
		return
	}
	require.NoError(w.t, err)
	require.NoError(w.t, lease.Settle(w.t.Context(), dynalimit.Amounts{"rpm": w.rnd.Int64N(30)}))
}

// labels name the windows of a zone by their local dates.
var labels = map[aggregator.Window]string{aggregator.Hour: "2006-01-02T15:04Z07:00", aggregator.Day: time.DateOnly, aggregator.Month: "2006-01"}

// truth is what the ledger says of some entities, by resource and window: those that lie at
// least partly between two moments.
func (w *readingWorld) truth(entities []string, loc *time.Location, q aggregator.Query) map[string]int64 {
	within := map[string]bool{}
	for at := q.From; at.Before(q.To); at = at.Add(15 * time.Minute) {
		within[w.label(at, loc, q.Window)] = true
	}
	within[w.label(q.To.Add(-1), loc, q.Window)] = true
	sums := map[string]int64{}
	for at, n := range w.ledger {
		hour, err := time.Parse(time.RFC3339, at.hour)
		require.NoError(w.t, err)
		label := w.label(hour, loc, q.Window)
		for _, entity := range entities {
			if at.entity == entity && at.limit == "rpm" && within[label] && (q.Resource == "" || q.Resource == at.resource) {
				sums[at.resource+" "+label] += n
			}
		}
	}
	maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
	return sums
}

// label names the window of a moment; an hour by its beginning in UTC.
func (w *readingWorld) label(at time.Time, loc *time.Location, window aggregator.Window) string {
	if window == aggregator.Hour {
		return at.UTC().Truncate(time.Hour).Format(labels[window])
	}
	return at.In(loc).Format(labels[window])
}

// sumsOf is what a list says, as truth does.
func (w *readingWorld) sumsOf(list iter.Seq2[aggregator.Usage, error], loc *time.Location) map[string]int64 {
	sums := map[string]int64{}
	before := ""
	for u, err := range list {
		require.NoError(w.t, err)
		order := u.Resource + " " + u.Start.UTC().Format(time.RFC3339)
		require.Less(w.t, before, order, "in their order, each once")
		before = order
		for _, l := range u.Limits {
			if l.Limit == "rpm" {
				sums[u.Resource+" "+w.label(u.Start, loc, u.Window)] += l.Consumed
			}
		}
	}
	maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
	return sums
}

// TestUsageReadIsWhatWasConsumed: at every moment, in every window and zone, what is read of
// entities, resources, plans and children is what was consumed until then, to the
// millitoken: what the stream has not brought is read from the buckets.
func TestUsageReadIsWhatWasConsumed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(max(1, histories(t)/50)) {
		synctest.Test(t, func(t *testing.T) { readHistory(t, seed) })
	}
}

func readHistory(t *testing.T, seed uint64) {
	t.Helper()
	w := &readingWorld{world: family(t, seed)}
	w.began = w.clock()
	var err error
	w.processor, err = aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(t, err)
	w.closer, err = aggregator.NewCloser(w.db.Client(), "limits", &aggregator.CloserOptions{Now: w.clock})
	require.NoError(t, err)
	w.closeHours()
	for range 20 {
		for range 1 + w.rnd.IntN(4) {
			w.step()
		}
		w.compare(seed)
	}
}

// compare reads something, and requires that it is true.
func (w *readingWorld) compare(seed uint64) {
	zone := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"}[w.rnd.IntN(4)]
	loc, err := time.LoadLocation(zone)
	require.NoError(w.t, err)
	if zone == "UTC" {
		loc = time.UTC
	}
	r, err := aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Location: loc, Now: w.clock})
	require.NoError(w.t, err)
	q := aggregator.Query{
		Window:   []aggregator.Window{aggregator.Hour, aggregator.Day, aggregator.Month}[w.rnd.IntN(3)],
		Resource: []string{"", "gpt-4", "gpt"}[w.rnd.IntN(3)],
		From:     w.began.Add(-time.Hour), To: w.clock().Add(time.Second),
	}
	if past := w.clock().Sub(w.began); past > 0 && w.rnd.IntN(2) == 0 {
		q.From = w.began.Add(time.Duration(w.rnd.Int64N(int64(past))))
		q.To = q.From.Add(1 + time.Duration(w.rnd.Int64N(int64(past))))
	}
	ctx := w.t.Context()
	said := fmt.Sprintf("seed %d, %s, %+v, at %s", seed, zone, q, w.clock())
	for _, entity := range []string{"key-1", "team", "alone"} {
		require.Equal(w.t, w.truth([]string{entity}, loc, q), w.sumsOf(r.Entity(ctx, entity, q), loc), "%s of %s", entity, said)
	}
	require.Equal(w.t, w.truth([]string{"team", "key-2", "key-3", "key-4"}, loc, q), w.sumsOf(r.Plan(ctx, "pro", q), loc), "plan of %s", said)
	require.Equal(w.t, w.truth([]string{"key-0", "key-1", "key-2"}, loc, q), w.sumsOf(r.Children(ctx, "team", q), loc), "children of %s", said)
	q.Resource = "gpt-4"
	require.Equal(w.t, w.truth([]string{"team", "key-2", "key-3", "key-4", "alone"}, loc, q), w.sumsOf(r.Resource(ctx, "gpt-4", q), loc), "resource of %s", said)
	if w.rnd.IntN(3) == 0 {
		w.readStream()
		q.Resource = ""
		w.compareEntities(r, loc, q, said)
	}
}

// compareEntities requires that what is read of all entities at once is true, and in order.
func (w *readingWorld) compareEntities(r *aggregator.Reader, loc *time.Location, q aggregator.Query, said string) {
	told := map[string]map[string]int64{}
	before := ""
	for u, err := range r.Entities(w.t.Context(), q) {
		require.NoError(w.t, err)
		order := u.Start.UTC().Format(time.RFC3339) + " " + u.Entity + " " + u.Resource
		require.Less(w.t, before, order, "%s", said)
		before = order
		if told[u.Entity] == nil {
			told[u.Entity] = map[string]int64{}
		}
		for _, l := range u.Limits {
			if l.Limit == "rpm" && l.Consumed != 0 {
				told[u.Entity][u.Resource+" "+w.label(u.Start, loc, u.Window)] += l.Consumed
			}
		}
	}
	for _, entity := range []string{"key-0", "key-1", "key-2", "key-3", "key-4", "team", "other", "alone"} {
		if truth := w.truth([]string{entity}, loc, q); len(truth)+len(told[entity]) > 0 {
			require.Equal(w.t, truth, told[entity], "%s of all entities of %s", entity, said)
		}
	}
}
