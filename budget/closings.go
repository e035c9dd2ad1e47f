package budget

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

const (
	// maxClosings is how many totals one read stores at most, the newest: a read
	// of many years does not write for each of their days.
	maxClosings = 100
	// maxClosers is how many reads' totals are being stored at a time; those of
	// further reads are left to the next.
	maxClosers = 4
)

// closing is the total of a day and label that can be stored.
type closing struct {
	scope, day, label string
	sum               counterRow
	seen              closedDay
}

// closings collects what a read may close.
type closings struct {
	since string // empty days before it are not worth an item
	mu    sync.Mutex
	found []closing
}

func (c *closings) add(found closing) {
	if found.sum.n == 0 && found.day < c.since {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found = append(c.found, found); len(c.found) >= 4*maxClosings {
		c.found = newestClosings(c.found)
	}
}

func newestClosings(found []closing) []closing {
	slices.SortFunc(found, func(a, b closing) int {
		return cmp.Or(cmp.Compare(b.day, a.day), cmp.Compare(a.scope, b.scope), cmp.Compare(a.label, b.label))
	})
	return found[:min(len(found), maxClosings)]
}

// closeBehind stores what a read may close, after the read: it waits for none
// of it. What is not stored, the next read finds again.
func (k *Keeper) closeBehind(c *closings) {
	list := newestClosings(c.found)
	if len(list) == 0 {
		return
	}
	select {
	case k.closers <- struct{}{}:
	default:
		return
	}
	if !k.begin(false) {
		<-k.closers
		return
	}
	k.closingDays.Add(1)
	go func() {
		defer k.tasks.Done()
		defer k.closingDays.Done()
		ctx, cancel := context.WithTimeout(k.base, writeTimeout)
		defer cancel()
		k.closeAll(ctx, list)
		<-k.closers
	}()
}

// closeAll stores totals; one that fails is found again by the next read.
func (k *Keeper) closeAll(ctx context.Context, list []closing) {
	_ = parallel(ctx, slices.Values(list), func(ctx context.Context, c closing) error {
		if err := k.closeDay(ctx, c.scope, c.day, c.label, c.sum, c.seen); err != nil {
			k.opts.Logger.WarnContext(ctx, "budget: closing a day", "scope", c.scope, "day", c.day, "error", err)
		}
		return nil
	})
}

// begin counts a background task, that Close waits for; false when the keeper
// is closed already, unless the task belongs to closing it.
func (k *Keeper) begin(atClose bool) bool {
	k.lanes.mu.Lock()
	defer k.lanes.mu.Unlock()
	if k.lanes.closed && !atClose {
		return false
	}
	k.tasks.Add(1)
	return true
}
