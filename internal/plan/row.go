package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Row is one limit in one decision: the sums of the amounts that the write carries, and the facts of
// the limit at that instant. View.setFacts works the facts out, once; everything after reads them.
type Row struct {
	// Name is the limit's.
	Name string
	// Amounts are the sums of the amounts taken, adjusted and given back, in millitokens.
	bucket.Amounts
	// Late is charged to the counter only, not to the tokens, in millitokens: it was
	// used so long ago that the bucket has refilled it since. If it is below 0, it was
	// debited ahead of calls and has lapsed.
	Late int64
	// PassedOn and PassedBack are the parts of what is charged, and of what is given back
	// or has lapsed, that a level above counts too.
	PassedOn, PassedBack int64
	// Window is the one from which Back was taken.
	Window bucket.WindowID
	facts
}

// facts are those of a limit at the instant of a decision.
type facts struct {
	// known means that the bucket has the limit, or that the write adds it. stored means that the
	// bucket has it, and not as a ghost.
	known, stored bool
	// shadow means that the limit denies nothing.
	shadow bool
	// bounded means that adjusts may take the limit maxDebt below 0, and no further.
	bounded bool
	// quota means that the stored limit is a quota, replaced that the write makes it one of the other
	// kind, and begins that it begins a new life with that, or with windows of another unit.
	quota, replaced, begins bool
	// mustClaim means that a spend cannot carry the limit: it has to open a window of a quota, or the
	// credit is more than a write carries.
	mustClaim bool
	// life is the life of the limit after the write.
	life uint16
	// place is the place of the limit in the image; -1 if the image does not have it.
	place int
	// to are the parameters that the write gives the limit; nil if it leaves them as they are.
	to *Limit
	// state is the stored limit. If the write changes the burst of a token bucket, the smaller one counts.
	state bucket.State
	// opening is the credit since the stored instant or window, and the change of a quota's burst.
	opening bucket.Opening
	// level is the amount that a take may use before anything is given back, and most the bound of
	// that amount.
	level, most int64
	// window is the window of a quota after the write; 0 of a token bucket.
	window int64
	// refundable is the window whose give-backs go to the tokens. Those of other windows, and of other
	// lives of the limit, go to the counter alone: that window has ended.
	refundable bucket.WindowID
	maxDebt    int64
}

// setFacts works out the facts of a limit. It is the only place that asks for the kind of a limit.
func (v View) setFacts(r *Row) {
	r.facts = facts{place: -1}
	if as := v.Config.Index(r.Name); as >= 0 {
		l := &v.Config.Limits[as]
		r.shadow, r.maxDebt = v.Config.Shadow>>as&1 == 1, l.MaxDebt
		r.bounded = l.MaxDebt > 0 || v.Config.Origin != nil && v.Config.Origin.Counted>>as&1 == 1 // what does not fit a counted limit is counted only
		if v.Adopt || v.Image == nil {
			r.to = l
		}
	}
	if v.Image != nil {
		r.place = v.Image.Set.Index(r.Name)
	}
	if r.place < 0 || v.Image.Limits[r.place].Ghost {
		v.setAddedFacts(r)
		return
	}
	l := &v.Image.Limits[r.place]
	r.known, r.stored, r.life, r.refundable = true, true, l.Life, l.WindowID()
	if r.state = v.Image.State(r.place); r.state.IsQuota() || r.to != nil {
		v.setSpecialFacts(r, l)
		return
	}
	v.setBucketFacts(r)
}

// setBucketFacts are those of a token bucket.
func (v View) setBucketFacts(r *Row) {
	credit, ok := r.state.Credit(v.Now)
	r.opening.Credit, r.mustClaim = credit, !ok
	if r.level, r.most = r.state.Tokens+credit, r.state.Burst; !ok {
		r.level = r.most
	}
}

// setAddedFacts are those of a limit that the bucket does not have, or has as a ghost. A ghost has what
// it was charged, from full.
func (v View) setAddedFacts(r *Row) {
	if r.to == nil {
		return
	}
	r.known, r.level, r.most = true, r.to.Rate.Burst, r.to.Rate.Burst
	r.window = r.to.Rate.WindowAt(v.Now)
	if r.place >= 0 {
		r.level += v.Image.Limits[r.place].Tokens
	}
}

// setSpecialFacts are those of a quota, and of a limit whose parameters the write changes.
func (v View) setSpecialFacts(r *Row, l *schema.Stored) {
	r.quota = r.state.IsQuota()
	if r.to != nil {
		r.replaced = r.to.Rate.IsQuota() != r.quota
		r.begins = r.replaced || r.quota && r.to.Rate.Windows().Unit() != r.state.Windows().Unit()
	}
	if r.begins {
		r.life, r.refundable = bucket.NextLife(l.Life), bucket.Closed
	}
	switch {
	case r.replaced:
		r.window, r.level = r.to.Rate.WindowAt(v.Now), replacement(r.state, r.to.Rate, v.Now)
		r.most = r.level
	case r.quota:
		v.setQuotaFacts(r)
	default:
		r.state.Burst = min(r.state.Burst, r.to.Rate.Burst)
		v.setBucketFacts(r)
	}
}

// lapses reports whether what is given back goes to the counter alone.
func (r *Row) lapses() bool { return r.stored && r.Window != r.refundable }

// back is what is given back to the tokens, and late what goes to the counter only.
func (r *Row) back() int64 {
	if r.Back == 0 || r.lapses() {
		return 0
	}
	return r.Back
}

func (r *Row) late() int64 { return r.Late - r.Back + r.back() }

// room is the amount that takes may use together.
func (r *Row) room() int64 { return min(r.most, r.level+r.back()) }

// out is the amount that the write takes from the tokens.
func (r *Row) out() int64 { return r.Take + r.Adjust }

// Consumed is the change of the limit's counter, in millitokens.
func (r *Row) Consumed() int64 { return r.Take + r.Adjust + r.Late - r.Back }

// Passed is the change of the part of the counter that a level above counts too.
func (r *Row) Passed() int64 { return r.PassedOn - r.PassedBack }

// Pass adds the part of an amount that a level above counts too.
func (r *Row) Pass(a Signed) {
	r.PassedOn += max(0, a.Passed)
	r.PassedBack += max(0, -a.Passed)
}

// GiveBack adds what was taken in a window. One write gives back to one window of a limit (see
// OfOtherWindows). Of a closed window it comes off the counter alone.
func (r *Row) GiveBack(amount int64, window bucket.WindowID) {
	if window.IsClosed() {
		r.Late -= amount
		return
	}
	r.Back, r.Window = r.Back+amount, window
}

// isZero reports whether the write does nothing to the limit.
func (r *Row) isZero() bool { return r.Amounts == (bucket.Amounts{}) && r.Late == 0 }

// GivenBack is what a write that only gives back does to the limit; false for nothing. If the bucket was
// not seen, the write itself finds out whether the limit is there.
func (r *Row) GivenBack(seen bool) (l schema.GiveBackLimit, ok bool) {
	if seen && !r.stored {
		return l, false
	}
	back, late := r.back(), r.late()
	quota := r.quota || !seen && r.Window.IsQuota()
	return schema.GiveBackLimit{Name: r.Name, Amount: back, Lapsed: -late, Passed: r.PassedBack, Quota: quota, Window: r.Window}, back > 0 || late < 0
}

// change is the update of a stored limit, beside the credit that it leaves out of the tokens.
type change struct {
	bucket.Update
	kept int64
}

// decide decides the update of a stored limit.
func (r *Row) decide(w bucket.Way) (c change) {
	a := r.Amounts
	if a.Back = r.back(); r.quota {
		c.Update = r.state.DecideQuota(a, r.opening)
	} else if c.Update = r.state.Decide(r.opening.Credit, a, w); !w.Move {
		c.kept = r.opening.Credit
	}
	if r.maxDebt > 0 && r.Adjust != 0 && !c.Full { // no deeper debt, whoever else charges meanwhile
		c.raiseLow(c.lowestFor(r.maxDebt))
	}
	return c
}

// boundDebt lets a charge that goes deep into debt, more than half of MaxDebt, land only if the bucket
// can store the result, whoever else charges meanwhile.
func (r *Row) boundDebt(c *change) {
	if out := r.out(); out > 0 && !c.Full {
		c.raiseLow(out - r.back() - MaxDebt)
	}
}

// raiseLow raises the lower bound to floor, if it is lower.
func (c *change) raiseLow(floor int64) {
	if !c.HasLow || floor > c.Low {
		c.Low, c.HasLow = floor, true
	}
}

// levelAfter is the level that the change leaves if the bucket has the given tokens.
func (c *change) levelAfter(tokens int64) int64 {
	if c.Full {
		return c.Put + c.kept
	}
	return tokens + c.Add + c.kept
}

// debt is the deepest debt that the change can leave, given its lower bound.
func (c *change) debt() int64 { return max(0, -c.levelAfter(c.Low)) }

// lowestFor is the lowest number of tokens from which the change leaves a debt of at
// most d.
func (c *change) lowestFor(d int64) int64 { return -c.Add - c.kept - d }

// impossible reports whether no number of tokens is within the bounds of the change.
func (c *change) impossible() bool { return c.HasLow && !c.Full && c.Low > c.High }
