package call

import (
	"bytes"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// level is one bucket of a call. The mutex of an open lease guards it.
type level struct {
	lane  *lane.Lane
	cfg   *plan.Config
	asked []plan.Signed
	// counts is the configuration with which the lease was made. For the life of the lease it decides
	// which level counts a limit that the lease used then.
	counts *plan.Config
	// holdings are the lease's amounts of each limit at this level, in name order.
	holdings []backlog.Holding
	// model is the counter by model that the held amounts moved. Of a level before its first take it names the
	// model alone.
	model plan.Model
	// incarnation is the bucket from which the held amounts were taken.
	incarnation []byte
	// degraded means that something at this level was admitted or corrected without the bucket. unasked
	// means that the policy admitted before any bucket was asked, and local that it took the process's
	// share.
	degraded, unasked, local bool
	// batch means that the call is a batch call.
	batch bool
	// served means that the amounts were taken from the lane's stock, and answered that there is a last
	// answer. They stand here so that a lease takes no more room.
	served, answered bool
	// underWay are corrections whose outcome was unknown when the lease went on.
	underWay []*lane.Op
	// servedAt is the time of the served amounts' debit, by the lane's clock.
	servedAt int64
	// last is the last answer, for statuses.
	last Reading
}

// isSkipped reports whether the level's bucket is not asked: no amount is requested there, memory served it, or
// the policy admitted it.
func (lv *level) isSkipped() bool { return lv.unasked || lv.served || len(lv.asked) == 0 }

// noteAnswer stores an answer as the level's last one, for statuses and denials, if it shows the bucket. It
// ignores failed answers.
func (lv *level) noteAnswer(r lane.Result) {
	if r.Err != nil || r.Config == nil {
		return
	}
	lv.last, lv.answered = Reading{
		Reading: plan.Reading{Image: r.Image, Config: r.Config, Now: r.Now, Batch: lv.batch && !r.Degraded},
		lane:    lv.lane, precedence: r.Before, degraded: r.Degraded,
	}, true
}

// holding returns a pointer to the lease's holding of a limit, for changes; the next new limit makes it
// invalid. It adds an empty one if the limit is new.
func (lv *level) holding(name string) *backlog.Holding {
	i, ok := slices.BinarySearchFunc(lv.holdings, name, func(h backlog.Holding, name string) int { return strings.Compare(h.Name, name) })
	if !ok {
		lv.holdings = slices.Insert(lv.holdings, i, backlog.Holding{Name: name})
	}
	return &lv.holdings[i]
}

// noteIncarnation stores the incarnation of the bucket that a write reached. If it differs, the earlier bucket
// is gone: tokens held of that one are booked as gone, stay consumed and cannot be given back.
func (lv *level) noteIncarnation(incarnation []byte) {
	if bytes.Equal(incarnation, lv.incarnation) {
		return
	}
	lv.incarnation = incarnation
	for i := range lv.holdings {
		lv.holdings[i].BucketDeleted()
	}
}

// bookServed books the requested amounts as taken from the stock, from the bucket of the lane's last
// image. The level holds nothing yet.
func (lv *level) bookServed() {
	lv.incarnation = lv.last.Image.IncarnationID()
	for _, a := range lv.asked {
		lv.holdings = append(lv.holdings, backlog.Holding{Name: a.Name, Held: a.Amount, Window: plan.WindowOf(lv.last.Image, a.Name)})
	}
}

// bookGrant books the requested amounts as taken from the bucket of a write's answer, with their windows, and
// stores its incarnation. The part that a limit in shadow did not cover is booked as counted. It also stores
// the counter by model that the take moved. The level holds nothing yet. It returns true if amounts may have a window:
// of a quota, or of slots.
func (lv *level) bookGrant(r *lane.Result) (windows bool) {
	lv.incarnation = r.Image.IncarnationID()
	if lv.model = (plan.Model{Name: r.Model.Name, Limit: r.Model.Limit}); lv.model.Limit == "" {
		lv.model.Name = "" // later amounts of the lease are not counted either
	}
	if cap(lv.holdings) < len(lv.asked) {
		lv.holdings = slices.Grow(lv.holdings, len(lv.asked))
	}
	windows = len(r.LandedIn) > 0 || r.Image != nil && !r.Image.Plain
	for _, a := range lv.asked {
		h := backlog.Holding{Name: a.Name, Held: a.Amount}
		if windows {
			h.Window = r.Window(a.Name)
		}
		if len(r.Down) > 0 {
			down, _ := plan.AmountOf(r.Down, a.Name)
			h.Held -= down
			h.WriteDown(down)
			if down > 0 && lv.cfg.Origin != nil && lv.cfg.Origin.Alerts != nil {
				markShadow(lv.lane, lv.cfg, a, h.Window)
			}
		}
		lv.holdings = append(lv.holdings, h)
	}
	return windows
}

// countAmounts books signed amounts as used without the bucket, or beyond a limit in shadow, and queues the
// counter update. A decrease comes first off amounts that a write of the bucket counted. without is the part to
// apply to the process's share; kept is false, and nothing is booked, if the limiter is closed.
func (lv *level) countAmounts(lanes *lane.Registry, observer *observe.Observer, amounts []plan.Signed) (without []plan.Signed, kept bool) {
	var counts, off []plan.Signed
	beside := lane.BesideOf(lv.lane)
	now := beside.SlotsNow()
	for _, a := range amounts {
		h, rest := lv.holdingOf(a.Name), a.Amount
		if a.Amount < 0 {
			written, slots := h.Uncount(-a.Amount)
			rest += written + slots
			off = appendPart(off, a, -written)
			counts = appendPart(counts, withWindow(a, h.CountedSince()), -slots)
		} else if lv.cfg.IsSlots(a.Name) {
			a = withWindow(a, now)
		}
		counts = appendPart(counts, a, rest)
		if a.Amount < 0 || !lv.isBeyondShadow(&h) {
			without = appendPart(without, a, rest)
		}
	}
	if !lanes.Count(lv.lane, counts, lv.cfg) || !lanes.GiveBackLater(lv.lane, lane.Uncounted(plan.Negated(off)), lv.incarnation, lv.model, lv.cfg) {
		return nil, false
	}
	for _, a := range amounts {
		switch h := lv.holding(a.Name); {
		case a.Amount <= 0:
			h.Uncount(-a.Amount)
		case lv.cfg.IsSlots(a.Name):
			h.CountSlots(a.Amount, now)
			lv.degraded = true
		case lv.isBeyondShadow(h):
			h.WriteDown(a.Amount)
			lv.reportOverrun(observer, a.Name, a.Amount)
		default:
			h.Counted += a.Amount
			lv.degraded = true
		}
	}
	return without, true
}

// withWindow returns a copy of the amount in another window.
func withWindow(a plan.Signed, window bucket.WindowID) plan.Signed {
	a.Window = window
	return a
}

// appendPart returns the list with a appended, with part as its amount; the list unchanged if part is 0. If a
// passes on its amount, it passes on part.
func appendPart(list []plan.Signed, a plan.Signed, part int64) []plan.Signed {
	if part == 0 {
		return list
	}
	if a.Amount = part; a.Passed != 0 { // all or nothing is
		a.Passed = part
	}
	return append(list, a)
}

// isBeyondShadow reports whether h's limit is in shadow and part of the lease's use exceeded it. That part was
// counted and not charged (h.Uncharged), and further use is too.
func (lv *level) isBeyondShadow(h *backlog.Holding) bool {
	return h.Uncharged() > 0 && lv.cfg.InShadow(h.Name)
}

// changeLocally takes changes above 0 from the process's share of the level's limits, and gives back those
// below 0, at now in Unix ms. It never denies.
func (lv *level) changeLocally(changes []plan.Signed, share float64, now int64) {
	beside := lane.BesideOf(lv.lane)
	beside.ChangeLocally(changes, lv.cfg, share, now)
}

// holdingOf returns the lease's holding of a limit at this level, zero if it has none.
func (lv *level) holdingOf(name string) (h backlog.Holding) {
	for i := range lv.holdings {
		if lv.holdings[i].Name == name {
			return lv.holdings[i]
		}
	}
	return h
}

// heldOf returns the amount of a limit that is surely debited, in millitokens.
func (lv *level) heldOf(name string) int64 { return lv.holdingOf(name).Held }

// hasWritten reports whether anything was surely written: debited, or counted beyond a limit in shadow.
func (lv *level) hasWritten() bool {
	return slices.ContainsFunc(lv.holdings, func(h backlog.Holding) bool { return h.Held > 0 || h.Uncharged() > 0 })
}

// has reports whether the level's configuration charges a limit, or the lease has used the limit there.
func (lv *level) has(name string) bool {
	return lv.cfg.Charges(name) || lv.hasUsed(name)
}

// placeOf returns the place of the level's bucket: its entity, resource and group, for a look-up of the
// configuration.
func (lv *level) placeOf(r *Request) place {
	at := r.placeAt(lv.lane.Entity, lv.cfg.Parent)
	at.Resource, at.Group = lv.lane.Resource, lv.cfg.OfGroup()
	return at
}

// hasUsed reports whether the lease used a limit at this level at some time, even if it holds nothing of it
// now.
func (lv *level) hasUsed(name string) bool {
	return slices.ContainsFunc(lv.holdings, func(h backlog.Holding) bool { return h.Name == name })
}

// corrections returns the changes at a level that reach a target, passed on if passes is true for the limit. A
// limit that the target lacks is given back. writes are for the bucket, above 0 charged and below 0 given back.
// uncounts are changes of counted amounts; givenUp, which it books, are amounts of writes in flight that now stay
// in doubt.
func (lv *level) corrections(target []plan.Signed, passes func(limit string) bool) (writes, uncounts, givenUp []plan.Signed) {
	signed := func(name string, amount int64) plan.Signed {
		s := plan.Signed{Name: name, Amount: amount}
		if passes(name) {
			s.Passed = amount
		}
		return s
	}
	for _, t := range target {
		if lv.cfg.Charges(t.Name) {
			lv.holding(t.Name)
		}
	}
	for i := range lv.holdings {
		h := &lv.holdings[i]
		amount, _ := plan.AmountOf(target, h.Name)
		c := h.CorrectTo(amount)
		if lv.cfg.Shadow != 0 && lv.isBeyondShadow(h) {
			c.Charge, c.Uncount = 0, c.Uncount-c.Charge
		}
		if change := c.Charge - c.Back; change != 0 {
			s := signed(h.Name, change)
			if change < 0 {
				s.Window = h.Window
			}
			writes = append(writes, s)
		}
		if c.Uncount != 0 {
			uncounts = append(uncounts, signed(h.Name, -c.Uncount))
		}
		if c.GiveUp > 0 {
			h.GiveUp(c.GiveUp)
			givenUp = append(givenUp, plan.Signed{Name: h.Name, Amount: c.GiveUp})
		}
	}
	if len(lv.underWay) == 0 {
		givenUp = nil // it is in doubt already
	}
	return writes, uncounts, givenUp
}

// resolveUnderWay books the known outcomes of corrections that were in flight when the lease went on, and drops
// these from the list. Unconfirmed ones stay booked as in doubt. Charged amounts of a bucket that has been
// replaced since count as in doubt, and uncharged amounts are reported to the observer.
func (lv *level) resolveUnderWay(lanes *lane.Registry, o *observe.Observer) {
	lv.underWay = slices.DeleteFunc(lv.underWay, func(op *lane.Op) bool {
		r, known := op.Outcome()
		if !known || r.Unconfirmed {
			return known
		}
		since := lv.hasWritten() && !bytes.Equal(lv.incarnation, op.Incarnation)
		if r.Err == nil && since && !bytes.Equal(lv.incarnation, r.Image.IncarnationID()) {
			lanes.Doubt(op.Amounts) // another bucket was charged since, so this cannot be given back
			return true
		}
		if r.Err == nil {
			lv.noteIncarnation(r.Image.IncarnationID())
		}
		for _, a := range op.Amounts {
			switch h := lv.holding(a.Name); {
			case a.Amount < 0 || slices.Contains(r.Dropped, a.Name):
			case r.Err == nil:
				down, _ := plan.AmountOf(r.Down, a.Name)
				h.Landed(a.Amount-down, r.Window(a.Name))
				h.LandedDown(down)
				lv.reportOverrun(o, a.Name, down)
			default:
				h.Unwritten(a.Amount)
			}
		}
		return true
	})
}

// markShadow marks that a quota in shadow would have denied an amount in a window, if it may have an alert of that. An
// amount above the whole quota says nothing of its use.
func markShadow(l *lane.Lane, cfg *plan.Config, a plan.Signed, window bucket.WindowID) {
	if i := cfg.Index(a.Name); cfg.InShadow(a.Name) && window.IsQuota() && a.Amount <= cfg.Limits[i].Rate.Burst {
		beside := lane.BesideOf(l)
		beside.MarkDenial(a.Name, window.Ordinal(), true)
	}
}

// reportOverrun reports to the observer an amount of a limit, in millitokens, that the bucket was not
// charged. It ignores 0.
func (lv *level) reportOverrun(o *observe.Observer, limit string, amount int64) {
	if o.Overran != nil && amount > 0 {
		o.Overran(observe.Overrun{EntityID: lv.lane.Entity, Resource: lv.lane.Resource, Limit: limit, Amount: amount / milli, Unit: lv.cfg.UnitOf(limit), Shadow: lv.cfg.InShadow(limit)})
	}
}

// bookLanded books a correction that was written in the lease's holdings. Charges that the bucket could not
// take are booked as gone or counted.
func (lv *level) bookLanded(amounts []plan.Signed, r *lane.Result) {
	for _, a := range amounts {
		if a.Amount < 0 {
			lv.holding(a.Name).Held += a.Amount
		}
	}
	lv.noteIncarnation(r.Image.IncarnationID())
	for _, a := range amounts {
		switch h := lv.holding(a.Name); {
		case a.Amount > 0 && slices.Contains(r.Dropped, a.Name):
			h.Gone += a.Amount // used and not charged: it is not charged again, and never given back
		case a.Amount > 0:
			down, _ := plan.AmountOf(r.Down, a.Name)
			h.Take(a.Amount-down, r.Window(a.Name))
			h.WriteDown(down)
		}
	}
}

// bookUnconfirmed books a correction with an unknown outcome. A charge counts as consumed and is never
// given back; a give-back is never repeated.
func (lv *level) bookUnconfirmed(amounts []plan.Signed) {
	for _, a := range amounts {
		h := lv.holding(a.Name)
		if a.Amount > 0 {
			h.Doubt += a.Amount
		} else {
			h.GiveInVain(-a.Amount)
		}
	}
}

// unconfirmed returns the error, with the cause err, for amounts that were not written at the level. Unless
// notWritten is set, they may have been written.
func (lv *level) unconfirmed(amounts []plan.Signed, err error, notWritten bool) *Unconfirmed {
	return &Unconfirmed{Entity: lv.lane.Entity, Resource: lv.lane.Resource, Amounts: amounts, Err: err, NotWritten: notWritten}
}

// names returns the names of the requested or held limits, each once, in order.
func (lv *level) names() []string {
	names := make([]string, 0, len(lv.holdings))
	for i := range lv.holdings {
		names = append(names, lv.holdings[i].Name)
	}
	for _, a := range lv.asked {
		if i, ok := slices.BinarySearch(names, a.Name); !ok {
			names = slices.Insert(names, i, a.Name)
		}
	}
	return names
}

// usedOf returns the consumed amount of a limit at the level, in millitokens.
func (lv *level) usedOf(name string) int64 {
	h := lv.holdingOf(name)
	return h.Used()
}

// addTake adds the amounts of more, a further take at the same level, to the holdings, and takes over its last
// answer. It takes over its counter by model if nothing was written before, or if the bucket differs.
func (lv *level) addTake(more *level) {
	if more.hasWritten() {
		if !lv.hasWritten() || !bytes.Equal(lv.incarnation, more.incarnation) {
			lv.model = more.model
		}
		lv.noteIncarnation(more.incarnation)
	}
	for i := range more.holdings {
		lv.holding(more.holdings[i].Name).AddHolding(&more.holdings[i])
	}
	lv.degraded = lv.degraded || more.degraded
	if more.answered {
		lv.last, lv.answered = more.last, true
	}
}

// policyOf returns the policy for an outage of the level's bucket. call is the call's policy. It is
// always Allow at a bucket that only counts.
func (lv *level) policyOf(call Policy) Policy {
	if lv.onlyCounts() {
		return Allow
	}
	return call
}

// onlyCounts reports whether the bucket only counts the requested amounts and denies nothing, because a source
// is unlimited.
func (lv *level) onlyCounts() bool { return lv.cfg.OnlyCounts(lv.asked) }
