package lane

import (
	"bytes"
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// telling writes the pending updates of buckets, outside their lanes' own work.
type telling struct {
	lanes *Registry
	told  *told
}

// silent reports whether a bucket is known not to answer. It is false for a bucket without a lane, and sends
// nothing.
func (d telling) silent(key BucketKey) bool {
	l := d.lanes.byKey.GetUncounted(key)
	return l != nil && l.Contact.silent()
}

// answers probes a bucket once, and reports whether it answers. It writes nothing, but makes the bucket's lane
// if there was none.
func (d telling) answers(ctx context.Context, key BucketKey) bool {
	return d.lanes.Of(key.Entity, key.Resource).site().AnswersNow(ctx)
}

// mostTells bounds how often a part is decided again because its write was refused.
const mostTells = 4

// writeUpdates writes the pending updates in w.sent to their bucket, and creates it if it is gone. It drops
// amounts that the bucket cannot store. It returns false if the table should be left alone for a while. The
// updates are then kept, or in doubt if they may have landed.
func (d telling) writeUpdates(ctx context.Context, w *untold) bool {
	if w.key.unlocated {
		return d.locateBuckets(ctx, w)
	}
	l, p, gone := d.lanes.Of(w.key.Entity, w.key.Resource), w.sent, false
	quotas := plan.Quotas{Config: w.under}
	for try := range mostTells {
		if try > 0 && !p.isEmpty() && !d.lanes.Turns.wait(ctx) {
			break
		}
		if gone {
			p = d.partForNew(l, w.under, p)
		}
		if p.isEmpty() {
			d.told.clearSent(w)
			return true
		}
		asked := d.lanes.Ask()
		quotas.Now = d.lanes.SureMS()
		a := d.sendPart(ctx, l, quotas, p, gone)
		switch a.Verdict {
		case ddb.Landed:
			d.learnWrite(l, a, asked, p)
			d.told.clearSent(w)
			return true
		case ddb.Refused:
			if gone, quotas.Image = a.Image == nil, a.Image; !gone {
				p = d.adaptPart(l, p, a.Image)
			}
			continue
		case ddb.Unconfirmed:
			d.lanes.Doubt(p.sizes())
			d.told.clearSent(w)
		default:
			d.told.keepAgain(w, p)
		}
		if silent(a.Err) {
			l.Trip(a.Err)
		}
		return false
	}
	d.told.keepAgain(w, p)
	return false
}

// adaptPart returns a copy of a part for the refusing bucket that image shows. It leaves out limits that the
// bucket lacks, slots, and give-backs to another incarnation, and counts and logs them as dropped. Give-backs
// of an ended window then come off the counter only.
func (d telling) adaptPart(l *Lane, p part, image *schema.Image) part {
	rest, gone := p.splitKnown(func(name string) bool { return image.HasLimit(name) && image.SlotsOf(name) == nil })
	if len(rest.amounts) > 0 && !bytes.Equal(rest.incarnation, image.IncarnationID()) {
		gone, rest.back = plan.Plus(gone, rest.amounts), back{}
	}
	rest.countPast(image)
	d.told.noteDropped(*l.BucketKey, gone, "the bucket lacks these limits or counters of them, or was created again")
	return rest
}

// partForNew returns a part without the amounts that a new bucket cannot start with: give-backs, decreases of
// counters, slots, and limits that are not configured. It counts and logs those as dropped.
func (d telling) partForNew(l *Lane, cfg *plan.Config, p part) part {
	rest, gone := p.splitKnown(func(name string) bool {
		amount, _ := plan.AmountOf(p.counts, name)
		return amount > 0 && cfg.Index(name) >= 0 && !cfg.IsSlots(name)
	})
	gone, rest.back = plan.Plus(gone, rest.amounts), back{}
	d.told.noteDropped(*l.BucketKey, gone, "the bucket is gone")
	return rest
}

// sendPart sends a part once, and returns the answer. If gone is set, it makes a full bucket with the counted
// amounts on its counters. If the role refuses counters by model, it sends the part again without them.
func (d telling) sendPart(ctx context.Context, l *Lane, quotas plan.Quotas, p part, gone bool) Answer {
	if !gone {
		if d.lanes.Models.areForbidden() {
			p.model = plan.Model{}
		}
		return d.sendOnce(ctx, l, plan.Tell, 0, p.sums(), func(ctx context.Context) Answer {
			a := d.lanes.Store.Update(ctx, l.Key(), p.statement(quotas), nil, d.lanes.IDs.Slot)
			if a.Err != nil && p.model.Limit != "" && ddb.DeniesAccess(a.Err) {
				p.model = plan.Model{}
				a = d.lanes.Store.Update(ctx, l.Key(), p.statement(quotas), nil, d.lanes.IDs.Slot)
				d.lanes.Models.learnRefusal(a)
			}
			return a
		})
	}
	c := plan.View{Config: quotas.Config, Adopt: true, Now: plan.Unopened(nil, quotas.Config, quotas.Now, d.lanes.NowMS())}.Plan(p.sums(), plan.Rules{}).Create
	operation := d.lanes.IDs.Last.Add(1)
	c.Keys, c.Entity, c.Resource, c.OpID = d.lanes.Keys, l.Entity, l.Resource, OpID(operation, 0)
	return d.sendOnce(ctx, l, plan.Create, operation, p.sums(), func(ctx context.Context) Answer {
		return d.lanes.Store.Create(ctx, c, nil, d.lanes.IDs.Slot)
	})
}

// sendOnce calls write, which sends a write outside the lane's own work, once, and returns its answer. It
// reports the write, with the sums s, to OnTell before, and its begin and end to the trace. operation is 0 for
// a write that leaves no id.
func (d telling) sendOnce(ctx context.Context, l *Lane, kind plan.Kind, operation uint64, s plan.Rows, write func(context.Context) Answer) Answer {
	if d.lanes.OnTell != nil {
		d.lanes.OnTell(l, operation, s)
	}
	if d.lanes.Trace == nil {
		return write(ctx)
	}
	w := Writing{Entity: l.Entity, Resource: l.Resource, Kind: kind}
	if kind == plan.Tell {
		w.Before = l.Memory.lastImage()
	}
	ctx, end := d.lanes.Trace.Begin(ctx, w)
	a := write(ctx)
	a.Tries = 1
	end(a)
	return a
}

// locateBuckets finds the buckets of an unlocated update, and queues its counts for them; slots of ended calls
// come back. It counts and logs amounts of limits that no level has as dropped. It returns false, and keeps the
// update, if the configuration cannot be read.
func (d telling) locateBuckets(ctx context.Context, w *untold) bool {
	p := w.sent
	found, err := d.lanes.Locate(ctx, w.key.Entity, w.key.Resource, w.key.given)
	if err != nil {
		d.told.keepAgain(w, p)
		return false
	}
	unknown := p.counts
	for i, f := range found {
		mine, _ := p.splitKnown(f.Config.Charges)
		for k := range mine.counts {
			c := &mine.counts[k]
			if slices.ContainsFunc(found[i+1:], func(above Located) bool {
				return above.Lane.Resource == f.Lane.Resource && above.Config.Charges(c.Name)
			}) {
				c.Passed = c.Amount
			}
		}
		slots, counts := f.Config.SplitSlots(mine.counts)
		if len(slots) > 0 {
			d.lanes.SlotsOf(f.Lane).countLate(slots, f.Config)
		}
		if f.Lane.extra.holdsSlots() {
			d.lanes.SlotsOf(f.Lane).endLate(p.ended)
		}
		if !d.lanes.Count(f.Lane, counts, f.Config) {
			d.told.noteDropped(*f.Lane.BucketKey, plan.Absolute(counts), "the limiter was closed")
		}
		rest := part{counts: unknown}
		rest, _ = rest.splitKnown(func(name string) bool { return !f.Config.Charges(name) })
		unknown = rest.counts
	}
	d.told.noteDropped(w.key.BucketKey, plan.Absolute(unknown), "no bucket has limits of these names")
	d.told.clearSent(w)
	return true
}

// learnWrite notes that the bucket answers a landed write of pending updates, and gives its image to a resting
// lane. asked is the instant and order of the request. The lane's pacing does not count the write as traffic.
func (d telling) learnWrite(l *Lane, a Answer, asked Asked, p part) {
	l.Contact.NoteAnswer()
	if !a.Seen {
		return
	}
	if x := l.extra.Load(); x != nil {
		x.noteMaintenance(p.sums())
	}
	l.Memory.Observe(a.Image, asked)
}
