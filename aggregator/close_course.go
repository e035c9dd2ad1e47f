package aggregator

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/ddb"
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

// steps does something with units of a shard, so many at once, in the order of their names
// and after those that were done before.
func steps[T any](ctx context.Context, k *closing, units []T, name func(T) string, do func(context.Context, []T) error) error {
	slices.SortFunc(units, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	units = slices.DeleteFunc(units, func(u T) bool { return k.at.Done > 0 && name(u) <= k.at.Last })
	for chunk := range slices.Chunk(units, table.PageSize) {
		if err := k.step(ctx, func(ctx context.Context) error { return do(ctx, chunk) }); err != nil {
			return err
		}
		k.at.Done += len(chunk)
		k.at.Last = name(chunk[len(chunk)-1])
		k.keepNow(ctx)
	}
	return nil
}

// step does something that is done whole or not at all. The first step of a call ends although
// the call is over.
func (k *closing) step(ctx context.Context, do func(context.Context) error) error {
	if !k.noted || k.at != k.from {
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
func (k *closing) enter(window, shard int) {
	k.at.Window, k.at.Shard, k.at.Done, k.at.Last = window, shard, 0, ""
}

// resume goes on where a closing of the same hour ended, if there is one and all its parts are
// still there; else it begins anew.
func (k *closing) resume(ctx context.Context, cursor schema.UsageCursor) error {
	i := slices.IndexFunc(cursor.Courses, func(c schema.UsageCourse) bool {
		return c.Final == k.final && c.Hour.Equal(k.done.Hour) && c.Window < len(usageWindows)
	})
	if i < 0 {
		return nil
	}
	course := cursor.Courses[i]
	parts, err := k.parts(ctx, course)
	if err != nil {
		return err
	}
	if len(parts) != course.Parts {
		k.made = max(k.made, course.Made+1) // so that what is noted next counts as further
		return nil
	}
	w := usageWindows[course.Window]
	k.groups = usage.NewSums(w, w.Floor(k.done.Hour))
	k.groups.Resume(parts)
	k.named = k.groups.Names()
	k.made, k.at, k.from = course.Made, course, course
	k.later.Store(course.Later)
	return nil
}

// parts are those that a course kept, as far as they are there and can be read.
func (k *closing) parts(ctx context.Context, course schema.UsageCourse) ([]schema.UsagePart, error) {
	items, err := k.whole(ctx, k.keys.UsageKept(course.Kept, 0), k.keys.UsageKept(course.Kept, course.Parts))
	var parts []schema.UsagePart
	for _, item := range items {
		if part, ok := schema.DecodeUsagePart(item); ok {
			parts = append(parts, part)
		}
	}
	return parts, err
}

// keepNow keeps what was summed so far, now and then.
func (k *closing) keepNow(ctx context.Context) {
	if k.noted && k.clock.Now().Sub(k.kept) >= keepEvery {
		_ = k.keep(ctx) // what was not kept is summed again
	}
}

// keep keeps what was summed so far, and notes where that is: the next call goes on from there.
// Parts are written before their note and never changed, so that a note and its parts are of
// one closing, whoever else closes the same hour.
func (k *closing) keep(ctx context.Context) error {
	if k.at == k.from || k.groups == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	parts := k.groups.Parts()
	at := k.at
	at.Hour, at.Final, at.Made, at.Later = k.done.Hour, k.final, k.made, k.later.Load()
	at.Kept, at.Parts = rand.Text(), len(parts)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(k.options.Writers)
	for i, part := range parts {
		item := k.keys.EncodeUsagePart(k.keys.UsageKept(at.Kept, i), part, k.clock.Now().Add(keepFor).Unix())
		group.Go(func() error {
			_, err := k.write(within, func() error {
				_, err := k.store.PutItem(within, &dynamodb.PutItemInput{TableName: &k.table.Name, Item: item}, ddb.WithoutRetries)
				return err
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if _, err := k.update(ctx, k.keys.UsageClosed(), at.Note()); err != nil {
		return err
	}
	k.kept = k.clock.Now()
	return nil
}
