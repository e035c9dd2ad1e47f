package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// untold is the pending updates of one bucket: amounts counted without it, and give-backs. It may
// outlive the bucket's lane. The mutex of told guards it.
type untold struct {
	key toldKey
	// counts are added to the bucket's counters; decreases may make them fall below 0. backs are the
	// give-backs, above 0.
	counts []plan.Signed
	backs  []back
	// charged is the part of the counted amounts that quotas are to be charged, in the windows of its
	// use. ended are the amounts of ended leases, if the buckets are not known: those of slots come back.
	charged, ended []plan.Signed
	// cfg is the last known configuration: a bucket that is gone is made with it.
	cfg *plan.Config
	// sent is the part in flight, and under the configuration at its start.
	sent  part
	under *plan.Config
}

// Uncounted returns the give-backs in the closed window: they come off the counter of the bucket that counted
// them, and add no tokens.
func Uncounted(amounts []plan.Signed) []plan.Signed {
	return plan.InWindows(amounts, func(string) bucket.WindowID { return bucket.Closed })
}

// back is the give-back to one incarnation of a bucket.
type back struct {
	amounts     []plan.Signed
	incarnation []byte
	// model is the counter by model that the take moved.
	model plan.Model
}

// part is the content of one write.
type part struct {
	counts, charged, ended []plan.Signed
	back
}

// sizes returns the absolute change of each counter by a part, in millitokens.
func (p *part) sizes() []plan.Signed {
	return withoutZeros(plan.Plus(plan.Absolute(p.counts), plan.Absolute(p.amounts)))
}

// isEmpty reports whether a part has nothing to write.
func (p *part) isEmpty() bool { return len(p.sizes()) == 0 && len(withoutZeros(p.ended)) == 0 }

// withoutZeros returns a copy of the amounts without those of 0.
func withoutZeros(amounts []plan.Signed) []plan.Signed {
	return slices.DeleteFunc(slices.Clone(amounts), func(a plan.Signed) bool { return a.Amount == 0 })
}

// isEmpty reports whether no update is pending or in flight.
func (w *untold) isEmpty() bool {
	return len(w.sizes()) == 0 && len(withoutZeros(plan.Plus(w.ended, w.sent.ended))) == 0
}

// sizes returns the absolute pending amounts, with those in flight, in millitokens.
func (w *untold) sizes() []plan.Signed {
	sum := plan.Plus(plan.Absolute(w.counts), w.sent.sizes())
	for _, b := range w.backs {
		sum = plan.Plus(sum, b.amounts)
	}
	return withoutZeros(sum)
}

// addCounts adds signed amounts to the pending counts, by limit. It returns the amounts that would exceed one
// write, which it does not add.
func (w *untold) addCounts(amounts []plan.Signed) (left []plan.Signed) {
	for _, a := range amounts {
		one := []plan.Signed{a}
		if sum := plan.Plus(w.counts, one); plan.IsCarriable(plan.Absolute(sum)) {
			w.counts = sum
		} else {
			left = plan.Plus(left, one)
		}
	}
	return left
}

// giveBack adds a give-back to one incarnation of the bucket. It joins a waiting one with the same windows and
// counter by model, if one write can carry both.
func (w *untold) giveBack(b back) {
	for i := range w.backs {
		if string(w.backs[i].incarnation) != string(b.incarnation) || w.backs[i].model != b.model || !plan.SameWindows(w.backs[i].amounts, b.amounts) {
			continue
		}
		if sum := plan.Plus(w.backs[i].amounts, b.amounts); plan.IsCarriable(sum) {
			w.backs[i].amounts = sum
			return
		}
	}
	w.backs = append(w.backs, b)
}

// takePart moves the part of the next write to w.sent, and returns it: all counts, and the give-backs to one
// incarnation. A charge to a quota goes without give-backs, because it has its own window. It stores the
// present configuration in w.under.
func (w *untold) takePart() part {
	w.sent, w.under = part{counts: w.counts, charged: w.charged, ended: w.ended}, w.cfg
	w.counts, w.charged, w.ended = nil, nil, nil
	if len(w.backs) > 0 && len(w.sent.charged) == 0 { // another window needs another write
		w.sent.back = w.backs[0]
		w.backs = slices.Delete(w.backs, 0, 1)
	}
	return w.sent
}

// restorePart puts back a part that was surely not written, and clears w.sent. It returns the counts that would
// exceed one write, which are not put back.
func (w *untold) restorePart(p part) (left []plan.Signed) {
	w.sent, w.ended = part{}, plan.Plus(w.ended, p.ended)
	if len(p.amounts) > 0 {
		w.giveBack(p.back)
	}
	for _, c := range p.charged {
		w.charged = plan.AddCharge(w.charged, c)
	}
	return w.addCounts(p.counts)
}

// statement returns the DynamoDB statement that writes a part to a bucket. It charges a quota the counted
// amounts of its current window, if the part has some; otherwise it changes only the counter.
func (p *part) statement(to plan.Quotas) schema.Statement {
	t := schema.Tell{Incarnation: p.incarnation, Backs: len(p.amounts) > 0, Seen: to.Image}
	sums := p.sums()
	for i := range sums {
		t.Limits = append(t.Limits, to.UpdateChange(&sums[i], p.charged))
	}
	if m := p.moneyPart(); m != nil {
		return m.AddTo(t.Statement())
	}
	return t.Statement()
}

// moneyPart returns the part of a write about limits of money: give-backs come off the counter by model of
// their take. It is nil if that take moved no such counter.
func (p *part) moneyPart() *schema.Money {
	if p.model.Limit == "" {
		return nil
	}
	var m schema.Money
	for _, a := range p.amounts {
		if a.Name == p.model.Limit {
			m.Add(schema.ModelCounter(a.Name, p.model.Name, a.Passed != 0), -a.Amount)
		}
	}
	return &m
}

// sums returns rows without facts with the effect of a part on each limit: its counts as late amounts, and its
// give-backs. A limit with a charge to a quota has the window of that.
func (p *part) sums() (s plan.Rows) {
	for _, a := range p.counts {
		at := s.At(a.Name)
		at.Late += a.Amount
		at.AddPassed(a)
	}
	for i := range s {
		if k := slices.IndexFunc(p.charged, func(c plan.Signed) bool { return c.Name == s[i].Name }); k >= 0 {
			s[i].Window = p.charged[k].Window
		}
	}
	for _, a := range plan.Negated(p.amounts) {
		at := s.At(a.Name)
		at.AddPassed(a)
		at.GiveBack(-a.Amount, a.Window)
	}
	return s
}

// splitKnown returns a part without the limits for which has is false, and the absolute amounts left out, in
// millitokens. The amounts of ended leases are left out, too. The part itself stays.
func (p *part) splitKnown(has func(name string) bool) (rest part, gone []plan.Signed) {
	rest.incarnation, rest.model, rest.charged = p.incarnation, p.model, p.charged
	split := func(all []plan.Signed) (kept []plan.Signed) {
		for _, a := range all {
			if has(a.Name) {
				kept = append(kept, a)
			} else {
				gone = plan.Plus(gone, plan.Absolute([]plan.Signed{a}))
			}
		}
		return kept
	}
	rest.counts, rest.amounts = split(p.counts), split(p.amounts)
	return rest, gone
}

// countPast marks give-backs of an ended window, so that they come off the counter only. It replaces p.amounts
// with a copy.
func (p *part) countPast(image *schema.Image) {
	p.amounts = slices.Clone(p.amounts)
	for i := range p.amounts {
		if a := &p.amounts[i]; a.Window != plan.WindowOf(image, a.Name) {
			a.Window = bucket.Closed
		}
	}
}
