package aggregator

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

const (
	// keepFor is how long parts of sums are kept for the call that goes on from them.
	keepFor = 7 * 24 * time.Hour
	// keepEvery is how often they are kept while a call goes on: it may be killed.
	keepEvery = time.Minute
	// lastStep is how long the first step of a call goes on after the call's end, so that each
	// call comes further, and keepWithin how long it takes to keep what was summed.
	lastStep   = 2 * time.Second
	keepWithin = 2 * time.Second
)

// usageWindows are the windows that may end with an hour, in the order in which they are summed.
var usageWindows = []schema.UsageWindow{schema.UsageHourly, schema.UsageDaily, schema.UsageMonthly}

// course is how far the closing of an hour came, and what it summed. A call that ends before
// keeps it in the table, and the next call goes on from there.
type course struct {
	store *usageStore
	clock *ddb.Clock
	// hour is the one that is closed; zero where a day or a month is summed anew.
	hour  time.Time
	final bool
	// noted says that what was summed is kept where the call ends before the closing.
	noted bool
	// made is when reading began, in milliseconds since 1970.
	made int64
	// later is when sums seem to have been read that were not replaced, at most.
	later atomic.Int64
	// at is how far it came, and from where it began in this call. kept is when that was kept.
	at, from schema.UsageCourse
	kept     time.Time
	// groups are the sums of the window that at is in, but those of entities.
	groups *usage.Sums
	// named are the groups that the window before has sums of: the index may lack them yet.
	named map[schema.UsageSeries]bool
}

// newCourse begins to read now.
func newCourse(store *usageStore, clock *ddb.Clock, hour time.Time, final bool) *course {
	now := clock.Now()
	return &course{store: store, clock: clock, hour: hour, final: final, made: now.UnixMilli(), kept: now}
}

// steps does something with units of a shard, so many at once, in the order of their names
// and after those that were done before.
func steps[T any](ctx context.Context, c *course, units []T, name func(T) string, do func(context.Context, []T) error) error {
	slices.SortFunc(units, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	units = slices.DeleteFunc(units, func(u T) bool { return c.at.Done > 0 && name(u) <= c.at.Last })
	for chunk := range slices.Chunk(units, table.PageSize) {
		if err := c.step(ctx, func(ctx context.Context) error { return do(ctx, chunk) }); err != nil {
			return err
		}
		c.at.Done += len(chunk)
		c.at.Last = name(chunk[len(chunk)-1])
		c.keepNow(ctx)
	}
	return nil
}

// step does something that is done whole or not at all. The first step of a call ends although
// the call is over.
func (c *course) step(ctx context.Context, do func(context.Context) error) error {
	if !c.noted || c.at != c.from {
		return do(ctx)
	}
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if ddb.Sleep(within, lastStep) {
			cancel()
		}
	})
	defer stop()
	return do(within)
}

// enter begins a shard of a window.
func (c *course) enter(window, shard int) {
	c.at.Window, c.at.Shard, c.at.Done, c.at.Last = window, shard, 0, ""
}

// resume goes on where a closing of the same hour ended, if there is one and all its parts are
// still there; else it begins anew.
func (c *course) resume(ctx context.Context, cursor schema.UsageCursor) error {
	i := slices.IndexFunc(cursor.Courses, func(kept schema.UsageCourse) bool {
		return kept.Final == c.final && kept.Hour.Equal(c.hour) && kept.Window < len(usageWindows)
	})
	if i < 0 {
		return nil
	}
	kept := cursor.Courses[i]
	parts, err := c.parts(ctx, kept)
	if err != nil {
		return err
	}
	if len(parts) != kept.Parts {
		c.made = max(c.made, kept.Made+1) // so that what is noted next counts as further
		return nil
	}
	w := usageWindows[kept.Window]
	c.groups = usage.NewSums(w, w.Floor(c.hour))
	c.groups.Resume(parts)
	c.named = c.groups.Names()
	c.made, c.at, c.from = kept.Made, kept, kept
	c.later.Store(kept.Later)
	return nil
}

// parts are those that a course kept, as far as they are there and can be read.
func (c *course) parts(ctx context.Context, kept schema.UsageCourse) ([]schema.UsagePart, error) {
	items, err := c.store.whole(ctx, c.store.keys.UsageKept(kept.Kept, 0), c.store.keys.UsageKept(kept.Kept, kept.Parts))
	var parts []schema.UsagePart
	for _, item := range items {
		if part, ok := schema.DecodeUsagePart(item); ok {
			parts = append(parts, part)
		}
	}
	return parts, err
}

// keepNow keeps what was summed so far, now and then.
func (c *course) keepNow(ctx context.Context) {
	if c.noted && c.clock.Now().Sub(c.kept) >= keepEvery {
		_ = c.keep(ctx) // what was not kept is summed again
	}
}

// keep keeps what was summed so far, and notes where that is: the next call goes on from there.
// Parts are written before their note and never changed, so that a note and its parts are of
// one closing, whoever else closes the same hour.
func (c *course) keep(ctx context.Context) error {
	if c.at == c.from || c.groups == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	parts := c.groups.Parts()
	at := c.at
	at.Hour, at.Final, at.Made, at.Later = c.hour, c.final, c.made, c.later.Load()
	at.Kept, at.Parts = rand.Text(), len(parts)
	group, within := guard.WithContext(ctx)
	group.SetLimit(c.store.atOnce)
	for i, part := range parts {
		item := part.Item(c.store.keys.UsageKept(at.Kept, i), c.clock.Now().Add(keepFor).Unix())
		group.Go(func() error { return c.store.putItem(within, item) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if _, err := c.store.update(ctx, c.store.keys.UsageClosed(), at.Note()); err != nil {
		return err
	}
	c.kept = c.clock.Now()
	return nil
}

// begin begins a window.
func (c *course) begin(w schema.UsageWindow, start time.Time) {
	c.enter(c.at.Window, 0)
	c.groups = usage.NewSums(w, start)
	if w == schema.UsageMonthly {
		for series := range c.named {
			c.groups.Expect(series)
		}
	}
}
