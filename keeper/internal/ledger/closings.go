package ledger

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const (
	// MaxClosings is the maximal number of totals that one read stores; it stores the newest.
	// So a read of many years does not write one item per day.
	MaxClosings = 100
	// maxClosers is the maximal number of reads whose totals are being stored at a time.
	// Further totals are left to the next read.
	maxClosers = 4
)

// Closing is the total of one label's day, ready to be stored.
type Closing struct {
	scope, day, label string
	sum               Counter
	seen              closedDay
}

// Closings collects the totals that reads may store.
type Closings struct {
	since string    // no item for empty days before this day
	Found []Closing // totals ready to be stored
}

// CollectClosings returns a new Closings with the found totals, as Add keeps them. It leaves out totals without
// writes of days before since.
func CollectClosings(since string, found []Closing) *Closings {
	c := &Closings{since: since}
	c.Add(found...)
	return c
}

// Add adds totals to c.Found, except those without writes of days before c.since. When c.Found reaches four
// times MaxClosings, it drops all but the newest MaxClosings.
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

// newestClosings sorts found in place, the newest day first, and returns at most its first MaxClosings
// elements. The result shares found's memory.
func newestClosings(found []Closing) []Closing {
	slices.SortFunc(found, func(a, b Closing) int {
		return cmp.Or(cmp.Compare(b.day, a.day), cmp.Compare(a.scope, b.scope), cmp.Compare(a.label, b.label))
	})
	return found[:min(len(found), MaxClosings)]
}

// StoreTotalsLater starts a background task that stores c's totals, at most the newest MaxClosings, and logs
// errors. It does nothing if four such tasks run, or after Close: the next read finds the totals again. It
// sorts c.Found.
func (l *Ledger) StoreTotalsLater(c *Closings) {
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
		_ = l.CloseAll(ctx, list) // CloseAll logs the error
	}()
}

// CloseAll stores the given totals of ended days, several at a time. It tries all, logs each error, and returns
// one of the errors or nil. A total that another write has overtaken is skipped without an error.
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
