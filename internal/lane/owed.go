package lane

import (
	"context"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

const (
	// flushPause is the least time between two writes of what is owed that
	// nothing but the backlog asks for: 50 a second and process.
	flushPause = 20 * time.Millisecond
	// flushDelay is how long what is owed waits for company while the table
	// answers, and between two attempts.
	flushDelay = time.Second
)

// owed is everything that this process owes to buckets.
type owed struct {
	lanes *Registry

	mu       sync.Mutex
	byKey    map[bucketKey]*owing
	flushing bool
}

// refundOrDoubt owes a give-back that no caller waits for. If it cannot be kept, its
// amounts stay consumed and are counted as in doubt.
func (d *owed) refundOrDoubt(l *Lane, amounts []plan.Signed, incarnation []byte, cfg *plan.Config) {
	if !d.addRefund(l, amounts, incarnation, cfg) {
		d.lanes.tally.doubt(amounts)
	}
}

// Owe has amounts charged to the bucket later. It returns nil if too many buckets are
// owed something already.
func (l *Lane) Owe(amounts []plan.Signed, cfg *plan.Config) *backlog.Charge {
	return l.owner.owed.charge(l, amounts, cfg)
}

// OweBack has amounts given back later to one incarnation of the bucket. It returns
// false if too many buckets are owed something already.
func (l *Lane) OweBack(amounts []plan.Signed, incarnation []byte, cfg *plan.Config) bool {
	return l.owner.owed.addRefund(l, amounts, incarnation, cfg)
}

// charge owes amounts to a bucket. It returns nil if too many buckets are owed something
// already.
func (d *owed) charge(l *Lane, amounts []plan.Signed, cfg *plan.Config) *backlog.Charge {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.owing(l)
	if w == nil {
		return nil
	}
	return w.add(amounts, cfg, l.incarnation(), d.lanes.NowMS())
}

// addRefund owes a give-back to one incarnation of a bucket. It returns false if too
// many buckets are owed something already.
func (d *owed) addRefund(l *Lane, amounts []plan.Signed, incarnation []byte, cfg *plan.Config) bool {
	if len(amounts) == 0 {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.owing(l)
	if w == nil {
		return false
	}
	w.addRefund(amounts, incarnation, cfg)
	return true
}

// takeOver owes again what a write carried that was surely not written. It drops the
// amounts if too many buckets are owed something already.
func (d *owed) takeOver(l *Lane, c *backlog.Charge, amounts []plan.Signed, cfg *plan.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.owing(l)
	if w == nil {
		c.Dropped()
		d.lanes.noteDropped(bucketKey{l.Entity, l.Resource}, amounts, "too many buckets are owed, or the limiter is closed")
		return
	}
	w.add(nil, cfg, l.incarnation(), d.lanes.NowMS())
	w.takeOver(c, d.lanes.NowMS())
}

// owing returns the entry of a bucket and makes one if there is none; nil if there are
// too many. The backlog is written in the background. d.mu must be held.
func (d *owed) owing(l *Lane) *owing {
	key := bucketKey{l.Entity, l.Resource}
	w := d.byKey[key]
	if w == nil {
		if len(d.byKey) >= maxOwingBuckets || d.lanes.isClosing() {
			return nil
		}
		w = &owing{lane: key, charge: backlog.NewCharge()}
		if d.byKey == nil {
			d.byKey = map[bucketKey]*owing{}
		}
		d.byKey[key] = w
	}
	l.owing.Store(w)
	if !d.flushing {
		d.flushing = true
		d.lanes.Started()
		go d.flush()
	}
	return w
}

// forget removes the entry of a bucket that is not owed anything any more.
func (d *owed) forget(w *owing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.empty() && d.byKey[w.lane] == w {
		delete(d.byKey, w.lane)
	}
}

// buckets lists the entries that have something to write. done means that no bucket is
// owed anything.
func (d *owed) buckets() (list []*owing, done bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, w := range d.byKey {
		switch {
		case w.pending():
			list = append(list, w)
		case w.empty():
			delete(d.byKey, key)
		}
	}
	if len(d.byKey) == 0 {
		d.flushing = false
	}
	return list, len(d.byKey) == 0
}

// flush writes what is owed, bucket by bucket, while the table answers. A lane that is
// used meanwhile writes what its bucket is owed before its own takes.
func (d *owed) flush() {
	defer d.lanes.Stopped()
	life, table := d.lanes.life, d.lanes.Table
	for pause := flushDelay; ddb.Sleep(life, pause); pause = flushDelay {
		if table.Open() {
			select {
			case <-table.Closed():
			case <-life.Done():
				return
			}
		}
		list, done := d.buckets()
		if done {
			return
		}
		for _, w := range list {
			if table.Open() || !ddb.Sleep(life, flushPause) {
				break
			}
			d.wake(w)
		}
	}
}

// drain writes what is owed before the limiter ends, until ctx ends, if the table
// answers. What is not written then is lost.
func (d *owed) drain(ctx context.Context) {
	for !d.lanes.Table.Open() {
		list, done := d.buckets()
		if done {
			return
		}
		for _, w := range list {
			d.wake(w)
		}
		if !ddb.Sleep(ctx, flushPause) {
			return
		}
	}
}

// wake makes a bucket's lane write what the bucket is owed. The lane is made again if it
// was forgotten meanwhile.
func (d *owed) wake(w *owing) {
	l := d.lanes.Of(w.lane.entity, w.lane.resource)
	l.owing.Store(w)
	l.wake()
}

// total is the number of buckets that are owed something, and the sum of the charges.
func (d *owed) total() (buckets int, amounts []plan.Signed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.byKey {
		if !w.empty() {
			buckets++
			amounts = plan.Plus(amounts, w.due(d.lanes.NowMS()))
		}
	}
	return buckets, amounts
}
