package ledger

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const (
	// MaxClosings is how many totals one read stores at most, the newest: a read
	// of many years does not write for each of their days.
	MaxClosings = 100
	// maxClosers is how many reads' totals are being stored at a time; those of
	// further reads are left to the next.
	maxClosers = 4
)

// Closing is the total of one label's day that can be stored.
type Closing struct {
	scope, day, label string
	sum               Counter
	seen              closedDay
}

// Closings collects the totals that reads may store.
type Closings struct {
	since string    // empty days before it are not worth an item
	Found []Closing // what can be stored
}

// CollectClosings starts with found. It leaves out empty days before since.
func CollectClosings(since string, found []Closing) *Closings {
	c := &Closings{since: since}
	c.Add(found...)
	return c
}

// Add adds further totals.
func (c *Closings) Add(found ...Closing) {
	for _, f := range found {
		if f.sum.Writes == 0 && f.day < c.since {
			continue
		}
		if c.Found = append(c.Found, f); len(c.Found) >= 4*MaxClosings {
			c.Found = newestClosings(c.Found)
		}
	}
}

func newestClosings(found []Closing) []Closing {
	slices.SortFunc(found, func(a, b Closing) int {
		return cmp.Or(cmp.Compare(b.day, a.day), cmp.Compare(a.scope, b.scope), cmp.Compare(a.label, b.label))
	})
	return found[:min(len(found), MaxClosings)]
}

// CloseBehind stores the totals that a read found, after the read, which does not wait
// for it. A total that is not stored is found again by the next read.
func (l *Ledger) CloseBehind(c *Closings) {
	list := newestClosings(c.Found)
	if len(list) == 0 {
		return
	}
	select {
	case l.closers <- struct{}{}:
	default:
		return
	}
	if !l.Life.Begin(false) {
		<-l.closers
		return
	}
	l.closing.Add(1)
	go func() {
		defer l.Life.Done()
		defer l.closing.Done()
		defer func() { <-l.closers }()
		ctx, cancel := context.WithTimeout(l.Life.Context(), WriteTimeout)
		defer cancel()
		_ = l.CloseAll(ctx, list) // it is logged
	}()
}

// CloseAll stores totals, and returns the first error after all were tried. One that fails is
// found again by the next read.
func (l *Ledger) CloseAll(ctx context.Context, list []Closing) error {
	var failed atomic.Pointer[error]
	_ = store.Each(ctx, slices.Values(list), func(ctx context.Context, c Closing) error {
		if err := l.closeDay(ctx, c.scope, c.day, c.label, c.sum, c.seen); err != nil {
			failed.Store(&err)
			l.Logger.WarnContext(ctx, "budget: closing a day", "scope", c.scope, "day", c.day, "error", err)
		}
		return nil
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
