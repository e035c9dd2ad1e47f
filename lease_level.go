package dynalimit

import (
	"bytes"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// level is one bucket of a lease. The lease's mutex guards it.
type level struct {
	lane  *lane.Lane
	cfg   *plan.Config
	asked []plan.Signed
	// holdings are what the lease holds of each limit at this level, in name order.
	holdings []backlog.Holding
	// incarnation is the bucket in which the held amounts were debited.
	incarnation []byte
	// degraded means that the policy admitted at this level, not the bucket. unasked
	// means that it did so before any bucket was asked, and local that it took the
	// process's share.
	degraded, unasked, local bool
	// served means that the amounts were taken from what the lane debited ahead.
	// servedAt says when they were debited, by the lane's clock.
	served   bool
	servedAt int64
	// last is the last answer, for statuses. answered means that there is one.
	last     levelReading
	answered bool
}

// skipped reports whether the bucket need not be asked.
func (lv *level) skipped() bool { return lv.unasked || lv.served || len(lv.asked) == 0 }

// noteAnswer keeps an answer for statuses.
func (lv *level) noteAnswer(r lane.Result) {
	if last, ok := readingOf(lv.lane, &r); ok {
		lv.last, lv.answered = last, true
	}
}

// readingOf is what a lane's result shows of the bucket; ok is false if it shows
// nothing.
func readingOf(at *lane.Lane, r *lane.Result) (reading levelReading, ok bool) {
	if r.Err != nil || r.Config == nil {
		return reading, false
	}
	return levelReading{
		entity: at.Entity, resource: at.Resource, Reading: plan.Reading{Image: r.Image, Config: r.Config, Now: r.Now},
		precedence: r.Before, degraded: r.Degraded,
	}, true
}

// holding returns what the lease holds of a limit. It makes an entry if there is none.
func (lv *level) holding(name string) *backlog.Holding {
	i, ok := slices.BinarySearchFunc(lv.holdings, name, func(h backlog.Holding, name string) int { return strings.Compare(h.Name, name) })
	if !ok {
		lv.holdings = slices.Insert(lv.holdings, i, backlog.Holding{Name: name})
	}
	return &lv.holdings[i]
}

// noteIncarnation notes which bucket a write met. If it is not the bucket that was
// debited before, that one is gone: what was held of it stays consumed and cannot be
// given back.
func (lv *level) noteIncarnation(incarnation []byte) {
	if bytes.Equal(incarnation, lv.incarnation) {
		return
	}
	lv.incarnation = incarnation
	for i := range lv.holdings {
		lv.holdings[i].Bereave()
	}
}

// grant books the asked amounts as debited in the bucket shown.
func (lv *level) grant(image *schema.Image) {
	lv.noteIncarnation(image.Of())
	if cap(lv.holdings) < len(lv.asked) {
		lv.holdings = slices.Grow(lv.holdings, len(lv.asked))
	}
	for _, a := range lv.asked {
		lv.holding(a.Name).Charged(a.Amount)
	}
}

// resolve learns the outcomes of charges that were under way or owed.
func (lv *level) resolve() {
	for i := range lv.holdings {
		lv.holdings[i].Resolve(lv.noteIncarnation)
	}
}

// held is the amount of a limit that is surely debited; 0 for a nil level.
func (lv *level) held(name string) int64 {
	if lv == nil {
		return 0
	}
	for i := range lv.holdings {
		if lv.holdings[i].Name == name {
			return lv.holdings[i].Held
		}
	}
	return 0
}

// configs are the configurations of levels.
func configs(levels []level) []*plan.Config {
	cfgs := make([]*plan.Config, len(levels))
	for i := range levels {
		cfgs[i] = levels[i].cfg
	}
	return cfgs
}

// holds reports whether anything is surely debited.
func (lv *level) holds() bool {
	return slices.ContainsFunc(lv.holdings, func(h backlog.Holding) bool { return h.Held > 0 })
}

// has reports whether the level knows a limit.
func (lv *level) has(name string) bool {
	return lv.cfg.Index(name) >= 0 || slices.ContainsFunc(lv.holdings, func(h backlog.Holding) bool { return h.Name == name })
}

// corrections is what a level has to write to reach a target: positive amounts are
// charged, negative ones given back.
func (lv *level) corrections(target []plan.Signed, now int64) []plan.Signed {
	var out []plan.Signed
	for _, t := range target {
		if !lv.has(t.Name) {
			continue
		}
		h := lv.holding(t.Name)
		missing := h.Missing(t.Amount)
		if missing <= 0 {
			missing = -h.Lower(t.Amount, now)
			for h.Missing(t.Amount) < missing { // a charge ended since it was resolved
				h.Resolve(lv.noteIncarnation)
				missing = -h.Lower(t.Amount, now)
			}
		}
		if missing != 0 {
			out = append(out, plan.Signed{Name: t.Name, Amount: missing})
		}
	}
	return out
}

// bookWrite books the result of a correction. A charge that may have landed counts as
// consumed and is never given back. A give-back that may have landed is never repeated.
func (lv *level) bookWrite(amounts []plan.Signed, r lane.Result) {
	switch {
	case r.Err == nil:
		lv.bookLanded(amounts, r)
	case r.Unconfirmed:
		lv.bookUnconfirmed(amounts)
	default:
		for _, a := range amounts {
			lv.holding(a.Name) // known to the lease, though nothing of it is held
		}
	}
}

// bookLanded books a correction that was written.
func (lv *level) bookLanded(amounts []plan.Signed, r lane.Result) {
	for _, a := range amounts {
		if a.Amount < 0 {
			lv.holding(a.Name).GivenBack(-a.Amount)
		}
	}
	lv.noteIncarnation(r.Image.Of())
	for _, a := range amounts {
		switch h := lv.holding(a.Name); {
		case a.Amount > 0 && slices.Contains(r.Dropped, a.Name):
			h.Doubted(a.Amount) // used and not charged: it is not charged again, and never given back
		case a.Amount > 0:
			h.Charged(a.Amount)
		}
	}
}

// bookUnconfirmed books a correction for which it is not known whether it was written.
func (lv *level) bookUnconfirmed(amounts []plan.Signed) {
	for _, a := range amounts {
		h := lv.holding(a.Name)
		if a.Amount > 0 {
			h.Doubted(a.Amount)
		} else {
			h.GaveInVain(-a.Amount)
		}
	}
}

// standing is what the level holds, by limit.
func (lv *level) standing() []plan.Signed {
	var out []plan.Signed
	for i := range lv.holdings {
		out = append(out, plan.Signed{Name: lv.holdings[i].Name, Amount: lv.holdings[i].Used()})
	}
	return out
}

// withAllLimits adds to a target every limit of the level that it does not name, with
// the amount 0.
func (lv *level) withAllLimits(target []plan.Signed) []plan.Signed {
	for i := range lv.holdings {
		if _, ok := plan.AmountOf(target, lv.holdings[i].Name); !ok {
			target = plan.Plus(target, []plan.Signed{{Name: lv.holdings[i].Name, Amount: 0}})
		}
	}
	return target
}

// names are the limits that were asked for or are held, in order.
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

// used is how much of a limit counts as consumed at the level.
func (lv *level) used(name string) int64 {
	for i := range lv.holdings {
		if lv.holdings[i].Name == name {
			return lv.holdings[i].Used()
		}
	}
	return 0
}

// uncharged reports whether the policy admitted at this level and the bucket has not
// surely been charged since.
func (lv *level) uncharged() bool {
	if !lv.degraded {
		return false
	}
	lv.resolve()
	charged := false
	for i := range lv.holdings {
		h := &lv.holdings[i]
		if h.Owed() > 0 || h.Doubt > 0 {
			return true
		}
		charged = charged || h.Held > 0
	}
	return !charged
}
