package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Row is one limit in one decision: the sums of the amounts that the write carries, and the facts of
// the limit at that instant. View.setFacts works the facts out, once; everything after reads them.
type Row struct {
	// Name is the name of the limit.
	Name string
	// Amounts are the sums of the amounts taken, adjusted and given back, in millitokens.
	bucket.Amounts
	// Late is charged to the counter only, not to the tokens, in millitokens: its use is so old that the
	// bucket has refilled it since. Below 0 it is lapsed prefetched tokens.
	Late int64
	// PassedOn is the part of the charges that a level above counts too. Passed is the change of the counter of
	// such parts: PassedOn less the same part of the give-backs and of the lapsed tokens.
	PassedOn, Passed int64
	// Window is the window from which Back was taken.
	Window bucket.WindowID
	facts
}

// facts are the properties of a limit at the instant of a decision.
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
	// ended means that the window or the life in the image ends before the write, so that all give-backs go to
	// the counter alone.
	ended bool
	// life is the life of the limit after the write.
	life uint16
	// place is the place of the limit in the image; -1 if the image does not have it.
	place int
	// to are the parameters that the write gives the limit; nil if it leaves them as they are.
	to *schema.Limit
	// state is the stored limit. If the write changes the burst of a token bucket, the smaller one counts.
	state bucket.State
	// opening is the credit since the stored instant or window, and the change of a quota's burst.
	opening bucket.Opening
	// level is the amount that a take may use before anything is given back, and most the bound of
	// that amount.
	level, most int64
	// window is the window of a quota after the write; 0 of a token bucket.
	window int64
	// was is the limit in the image; nil if the bucket does not have it. Give-backs of another window or life
	// go to the counter alone.
	was *schema.Stored
	// back is the part of the sum Back that goes to the tokens: all of it, or nothing. See GiveBack.
	back    int64
	maxDebt int64
	// reserve is the configured reserve; see bucket.Rate.ReserveOf.
	reserve int64
	// moves are the moves of the process's slots; nil unless the limit is, or becomes, one of calls in flight.
	moves *bucket.Moves
}

// setFacts works out the facts of a limit and stores them in its row. It is the only place that asks for the
// kind of a limit.
func (v View) setFacts(r *Row) {
	r.facts = facts{place: -1, reserve: noReserve}
	if as := v.Config.Index(r.Name); as >= 0 {
		l := &v.Config.Limits[as]
		r.shadow, r.maxDebt, r.reserve = v.Config.Shadow>>as&1 == 1, l.MaxDebt, l.Reserve
		r.bounded = l.MaxDebt > 0 || v.Config.Origin != nil && v.Config.Origin.Counted>>as&1 == 1 // the part beyond a counted limit is counted only
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
	r.known, r.stored, r.life, r.was = true, true, l.Life, l
	if r.state = v.Image.State(r.place); r.state.Period <= 0 || r.to != nil {
		v.setSpecialFacts(r, l)
		return
	}
	if !v.noLevels {
		v.setBucketFacts(r)
	}
}

// setBucketFacts sets the facts of a token bucket: its credit, and the level with it, at most the burst. A
// credit above MaxCredit needs a claim.
func (v View) setBucketFacts(r *Row) {
	credit, ok := r.state.Credit(v.Now)
	r.opening.Credit, r.mustClaim = credit, !ok
	if r.level, r.most = r.state.Tokens+credit, r.state.Burst; !ok {
		r.level = r.most
	}
}

// setAddedFacts sets the facts of a limit that the bucket lacks, or has as a ghost: full, a ghost less its
// charges. It sets nothing if the write brings no parameters for it; the limit then stays unknown.
func (v View) setAddedFacts(r *Row) {
	if r.to == nil {
		return
	}
	r.known, r.level, r.most = true, r.to.Rate.Burst, r.to.Rate.Burst
	switch period := r.to.Rate.Period; {
	case period == 0: // slots
		v.setAddedSlots(r)
		return
	case period < 0: // a quota
		r.window = r.to.Rate.WindowAt(v.Now)
	}
	if r.place >= 0 {
		r.level += v.Image.Limits[r.place].Tokens
	}
}

// setSpecialFacts sets the facts of a quota or slots, and of a limit with parameters that the write brings. A
// limit that changes its kind, or a quota's unit, begins a new life. Of a token bucket the smaller burst
// counts.
func (v View) setSpecialFacts(r *Row, l *schema.Stored) {
	r.quota = r.state.IsQuota()
	if r.to != nil {
		r.replaced = r.to.Rate.IsQuota() != r.quota || r.to.Rate.IsSlots() != r.state.IsSlots()
		r.begins = r.replaced || r.quota && r.to.Rate.Windows().Unit() != r.state.Windows().Unit()
	}
	if r.begins {
		r.life, r.ended = bucket.NextLife(l.Life), true
	}
	switch {
	case r.replaced:
		r.window, r.level = r.to.Rate.WindowAt(v.Now), levelAfterKindChange(r.state, r.to.Rate, v.Now)
		if r.most = r.level; r.to.Rate.IsSlots() {
			v.setAddedSlots(r)
			r.most = unbounded
		}
	case r.state.IsSlots():
		v.setSlotsFacts(r)
	case r.quota:
		v.setQuotaFacts(r)
	default:
		r.state.Burst = min(r.state.Burst, r.to.Rate.Burst)
		v.setBucketFacts(r)
	}
}

// room returns the tokens that all takes of the write may use together, give-backs included, at most r.most; in
// millitokens. It does not subtract the takes.
func (r *Row) room() int64 { return min(r.most, r.level+r.back) }

// Consumed returns the change of the limit's counter, in millitokens. Slots have no counter.
func (r *Row) Consumed() int64 {
	if r.moves != nil {
		return 0
	}
	return r.Take + r.Adjust + r.Late - r.Back
}

// AddPassed adds the part of an amount that a level above counts too to the sums of such parts.
func (r *Row) AddPassed(a Signed) {
	r.PassedOn += max(0, a.Passed)
	r.Passed += a.Passed
}

// GiveBack adds an amount to give back to a window. In a closed window, or one that ends before the write, the
// amount comes off the counter alone; slots are ignored, because the moves give them back. One write gives back
// to one window of a limit (see OfOtherWindows).
func (r *Row) GiveBack(amount int64, window bucket.WindowID) {
	switch {
	case window == 0: // of a token bucket
	case window.IsSlots(): // the moves give them back
		return
	case window.IsClosed():
		r.Late -= amount
		return
	}
	r.Back, r.Window = r.Back+amount, window
	if !r.stored || !r.ended && window == r.was.WindowID() && r.moves == nil {
		r.back = r.Back
	}
}

// isZero reports whether the write leaves the limit alone: all its sums are 0, and it moves no slots.
func (r *Row) isZero() bool {
	return r.Amounts == (bucket.Amounts{}) && r.Late == 0 && (r.moves == nil || !r.moves.ChangesHeld())
}

// GivenBack returns the change of the limit by a write that only gives back; false if it leaves tokens and
// counter alone, and for slots. seen means that the bucket was seen; it must have the limit then. Otherwise the
// write itself finds out whether the limit is there.
func (r *Row) GivenBack(seen bool) (c schema.Change, ok bool) {
	if seen && !r.stored || r.moves != nil {
		return c, false
	}
	back, late := r.back, r.Late-r.Back+r.back // an ended window's give-backs lower the counter alone
	c = schema.Change{
		Name: r.Name, Place: r.place, Quota: r.quota || !seen && r.Window.IsQuota(), SameLife: back > 0, Update: bucket.Update{Add: back},
		Consumed: late - back, Passed: r.Passed - r.PassedOn, Window: r.Window,
	}
	return c, back > 0 || late < 0
}

// change is the change of a stored limit, with the amounts of which it is made: the amount given back to the
// tokens, and the amount taken from them. kept is the credit that the change leaves out of the tokens.
type change struct {
	schema.Change
	back, out, kept int64
}

// decideChange returns the change of a stored limit by the sums of its row. w is the form and slack in which to
// write a token bucket. If the debt is bounded, an adjust gets a lower bound, so that no charge meanwhile
// deepens the debt beyond that.
func (r *Row) decideChange(w bucket.Way) change {
	if r.moves != nil {
		return r.slotsChange()
	}
	c := change{back: r.back, out: r.Take + r.Adjust}
	c.Name, c.Quota, c.Place, c.Consumed, c.Passed = r.Name, r.quota, r.place, r.Consumed(), r.Passed
	c.SameLife = r.begins || c.back > 0 && (r.quota || r.life > 0)
	a := bucket.Amounts{Back: c.back, Take: r.Take, Adjust: r.Adjust, Keep: r.Keep}
	if r.quota {
		c.Update = r.state.DecideQuota(a, r.opening)
	} else if c.Update = r.state.Decide(r.opening.Credit, a, w); !w.Move {
		c.kept = r.opening.Credit
	}
	if r.maxDebt > 0 && r.Adjust != 0 && !c.Full { // no deeper debt, even if others charge meanwhile
		c.raiseLow(c.lowestFor(r.maxDebt))
	}
	return c
}

// boundDebt adds a lower bound to a charge, so that it lands only if the bucket can store the resulting debt,
// whatever other processes charge. It does nothing for a change that takes nothing or sets a full limit's
// tokens.
func (c *change) boundDebt() {
	if c.out > 0 && !c.Full {
		c.raiseLow(c.out - c.back - MaxDebt)
	}
}

// raiseLow raises the lower bound of the change to floor, in millitokens, and never lowers it. It sets the
// bound of a change without one.
func (c *change) raiseLow(floor int64) {
	if !c.HasLow || floor > c.Low {
		c.Low, c.HasLow = floor, true
	}
}

// levelAfter returns the level that the change leaves if the bucket has the given tokens, in millitokens. It
// includes the credit that the change does not write.
func (c *change) levelAfter(tokens int64) int64 {
	if c.Full {
		return c.Put + c.kept
	}
	return tokens + c.Add + c.kept
}

// lowestFor returns the lowest number of tokens, in millitokens, from which the change leaves a debt of at most
// d.
func (c *change) lowestFor(d int64) int64 { return -c.Add - c.kept - d }

// setSlotsFacts sets the facts of a stored limit of calls in flight that stays one: the moves of the process's
// slots, and the free slots after them.
func (v View) setSlotsFacts(r *Row) {
	hold := v.Config.holdOf(r.Name)
	stored := v.Image.Epochs(r.place)
	moves := v.InFlight.occupied(r.Name, v.Image).DecideMoves(stored, hold, v.Now)
	r.moves = &moves
	r.state.Amount = max(hold, bucket.LastEnd(stored)-v.Now)
	if r.to != nil {
		r.opening.Change = r.to.Rate.Burst - r.state.Burst
	}
	r.level, r.most = r.state.Tokens+moves.Free()+r.opening.Change, unbounded
	r.window = int64(r.was.Window)
}

// setAddedSlots sets the facts of a limit of calls in flight that the write adds: the moves of the process's
// slots and the free ones.
func (v View) setAddedSlots(r *Row) {
	moves := v.InFlight.occupied(r.Name, v.Image).DecideMoves(nil, r.to.Rate.Hold(), v.Now)
	r.moves = &moves
	r.level, r.window = r.to.Rate.Burst+moves.Free(), -1
}

// slotsChange returns the change of a stored limit of calls in flight. Each amount is added, so that writes of
// different processes commute. Only takes get a lower bound, so that they land only while enough slots are
// free.
func (r *Row) slotsChange() change {
	c := change{out: r.Take + r.Adjust}
	moves := *r.moves
	moves.New = c.out
	c.Name, c.Place, c.Slots = r.Name, r.place, &moves
	c.Update = bucket.Update{Add: moves.Free() + r.opening.Change - moves.New, High: bucket.MaxTokens}
	if r.Take > 0 {
		c.Low, c.HasLow = r.Take+r.Keep-moves.Free()-r.opening.Change, true
	}
	return c
}

// Moves returns the moves of slots that a write carries, with the slots that its calls take; nil for another
// limit.
func (r *Row) Moves() *bucket.Moves {
	if r.moves == nil {
		return nil
	}
	moves := *r.moves
	moves.New = r.Take + r.Adjust
	return &moves
}

// newSlots returns the change that adds a limit of calls in flight with the moves of the process's slots.
// tokens is its number of free slots after the write, in thousandths.
func (r *Row) newSlots(tokens int64) schema.Change {
	c := schema.NewLimit(r.to, tokens, 0)
	c.Slots = r.Moves()
	return c
}

// noReserve is the reserve of a limit that is not configured.
const noReserve = -1

// kept returns the limit's reserve after the write, which a batch call leaves to others, in millitokens; 0 for
// a limit that is not configured.
func (r *Row) kept() int64 {
	if r.to != nil {
		return r.to.Rate.ReserveOf(r.reserve)
	}
	return r.state.Rate.ReserveOf(r.reserve)
}

// burst returns the burst of the limit after the write, in millitokens.
func (r *Row) burst() int64 {
	if r.to != nil {
		return r.to.Rate.Burst
	}
	return r.state.Burst
}
