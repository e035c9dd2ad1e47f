package call

import (
	"context"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// levelList are the levels of a call, child first.
type levelList []level

// tops are the levels that count limits which a lease began to use later, one for each resource; nil without
// such limits.
type tops map[column]int

// column is one limit on one resource: the entity and its parents count it.
type column struct{ resource, limit string }

// isCountedAbove reports whether a level above level i charges a limit on the same resource.
func (ls levelList) isCountedAbove(i int, limit string) bool {
	resource := ls[i].lane.Resource
	return slices.ContainsFunc(ls[i+1:], func(lv level) bool { return lv.lane.Resource == resource && lv.cfg.Charges(limit) })
}

// passOn sets Passed of the requested amounts for which passes is true, in place: another level counts them
// too. The bucket's second counter counts these amounts alone, so that totals can count them once.
func (ls levelList) passOn(passes func(level int, limit string) bool) {
	for i := range ls {
		for k := range ls[i].asked {
			if a := &ls[i].asked[k]; passes(i, a.Name) {
				a.Passed = a.Amount
			}
		}
	}
}

// longestPause returns the reason of the longest pause of the buckets; nil if no bucket is paused at the
// limiter's time.
func (ls levelList) longestPause(nowMS func() int64) *Paused {
	var longest *lane.Lane
	for i := range ls {
		if l := ls[i].lane; l.Pause.Until() > 0 && (longest == nil || l.Pause.Until() > longest.Pause.Until()) {
			longest = l
		}
	}
	if longest == nil { // the usual case does not look at the clock
		return nil
	}
	left := longest.Pause.Until() - nowMS()
	if left <= 0 {
		return nil
	}
	return &Paused{Entity: longest.Entity, Resource: longest.Resource, RetryAfter: Duration(left)}
}

// has reports whether some level's configuration charges a limit, or the lease has used the limit there.
func (ls levelList) has(name string) bool {
	for i := range ls {
		if ls[i].has(name) {
			return true
		}
	}
	return false
}

// countsAbove reports whether another level than at, the top of its resource, counts a limit's use, so that
// totals count it only there. The top is the one in known, else the highest level with the limit by the lease's
// first configuration, else by the present one.
func (ls levelList) countsAbove(known tops, at int, limit string) bool {
	in := column{ls[at].lane.Resource, limit}
	top, ok := known[in]
	if !ok {
		top = ls.highestLevel(in, func(lv *level) *plan.Config { return lv.counts })
	}
	if top < 0 {
		top = ls.highestLevel(in, func(lv *level) *plan.Config { return lv.cfg })
	}
	return top >= 0 && at != top
}

// hasSlots reports whether some level limits calls in flight by a limit, or did when the lease used it.
func (ls levelList) hasSlots(name string) bool {
	for i := range ls {
		if h := ls[i].holdingOf(name); ls[i].cfg.IsSlots(name) || h.HasSlots() {
			return true
		}
	}
	return false
}

// placeCounts adds to known, in place, the level that counts each limit of the amounts, and returns known, or a
// new map if it is nil. That is the highest level with the limit, -1 without one. It skips amounts of 0, and
// limits that the lease has used already.
func (ls levelList) placeCounts(known tops, amounts []plan.Signed) tops {
	for _, a := range amounts {
		if a.Amount == 0 {
			continue
		}
		for i := range ls {
			in := column{ls[i].lane.Resource, a.Name}
			if slices.ContainsFunc(ls, func(lv level) bool { return lv.lane.Resource == in.resource && lv.hasUsed(a.Name) }) {
				continue
			}
			if known == nil {
				known = tops{}
			}
			known[in] = ls.highestLevel(in, func(lv *level) *plan.Config { return lv.cfg })
		}
	}
	return known
}

// highestLevel returns the index of the highest level of a column that charges its limit, by the
// configuration that by returns; -1 if no level does.
func (ls levelList) highestLevel(in column, by func(*level) *plan.Config) int {
	for i := len(ls) - 1; i >= 0; i-- {
		if lv := &ls[i]; lv.lane.Resource == in.resource && by(lv).Charges(in.limit) {
			return i
		}
	}
	return -1
}

// countAsked returns the number of levels that must ask their bucket.
func (ls levelList) countAsked() int {
	n := 0
	for i := range ls {
		if !ls[i].isSkipped() {
			n++
		}
	}
	return n
}

// denial returns the reason of an acquire that did not fit, and changes nothing. It has the balances of the
// requested limits of every level that answered, at the last level's decision and with the grants given back.
func (ls levelList) denial(r *Request) *Denied {
	decided := int64(0) // when the last level did
	for i := range ls {
		if lv := &ls[i]; lv.answered {
			decided = max(decided, lv.last.Now)
		}
	}
	e := &Denied{Entity: r.Entity, Resource: r.Resource, batch: r.Batch}
	e.Balances = e.room[:0]
	for i := range ls {
		lv := &ls[i]
		if !lv.answered {
			continue
		}
		for _, a := range lv.asked {
			back := int64(0)
			if len(lv.holdings) > 0 {
				back = lv.heldOf(a.Name)
			}
			b := lv.last.balance(a.Name, a.Amount, back)
			if age := decided - lv.last.Now; age > 0 {
				b.age(age)
			}
			if b.Exceeded {
				e.RetryAfter = max(e.RetryAfter, Duration(b.Wait))
			}
			e.special = e.special || b.Behind || b.Rate.Period < 0 // a quota
			e.Balances = append(e.Balances, b)
		}
	}
	return e
}

// namedBuckets returns the levels with limits, for the look-up of limit names.
func (ls levelList) namedBuckets() []config.NamedBucket {
	in := make([]config.NamedBucket, 0, len(ls))
	for i := range ls {
		if cfg := ls[i].cfg; len(cfg.Limits) > 0 {
			in = append(in, config.NamedBucket{Entity: ls[i].lane.Entity, Config: cfg})
		}
	}
	return in
}

// serve takes the amounts of each level from its lane's stock, and returns true if every level with amounts had
// enough. It returns false without a prefetch, for slots, and without amounts. The levels with enough stay
// served then, and putBackServed undoes them.
func (ls levelList) serve(ctx context.Context) bool {
	some, all := false, true
	for i := range ls {
		lv := &ls[i]
		if len(lv.asked) == 0 {
			continue
		}
		ahead := lane.AheadOf(lv.lane)
		if ahead == nil || lv.cfg.NamesSlots(lv.asked) { // no prefetch for this resource, and slots are written
			all = false
			continue
		}
		var shown lane.Result
		shown, lv.servedAt, lv.served = ahead.Serve(ctx, lv.asked, lv.cfg)
		if lv.served {
			lv.noteAnswer(lane.Result{Image: shown.Image, Now: shown.Now, Config: lv.cfg})
		}
		some, all = some || lv.served, all && lv.served
	}
	return some && all
}

// bookServed books the amounts of the levels that were served from stocks as granted, and unmarks these levels
// as served.
func (ls levelList) bookServed() {
	for i := range ls {
		if lv := &ls[i]; lv.served {
			lv.served = false
			lv.bookServed()
		}
	}
}

// putBackServed returns the served amounts of a call that failed as a whole to the stocks, and unmarks their
// levels as served.
func (ls levelList) putBackServed(ctx context.Context) {
	for i := range ls {
		if lv := &ls[i]; lv.served {
			lv.served = false
			lane.AheadOf(lv.lane).PutBack(ctx, lv.asked, lv.last.Reading, lv.servedAt)
		}
	}
}

// charged are the buckets that a call charges, as routes find them.
type charged struct {
	// levels are nil if not even the configuration could be read, or if nothing limits the call.
	levels levelList
	// policy is the outage policy of the call.
	policy Policy
	// unlimited means that a level is unlimited. That level is not in levels: it is charged nothing and has
	// every limit.
	unlimited bool
	// whole means that one bucket has all that is asked, and each limit that the lease uses.
	whole bool
	// slots means that some limit is one of calls in flight.
	slots bool
	// renewed means that a level's configuration is not the lease's first one. It stands here so that a lease takes
	// no more room.
	renewed bool

	// room is the memory that suffices for most calls: one level, and the requested amounts and
	// holdings of a limit or two.
	room struct {
		levels   [1]level
		asked    [2]plan.Signed
		holdings [2]backlog.Holding
	}
}

// addLevel adds a bucket as a level, with the amounts that its configuration charges. It updates whole and
// slots.
func (c *charged) addLevel(at *lane.Lane, cfg *plan.Config, amounts map[string]int64) {
	lv := level{lane: at, cfg: cfg, counts: cfg}
	c.slots = c.slots || cfg.Slots
	if c.levels == nil {
		c.levels, lv.holdings = c.room.levels[:0], c.room.holdings[:0]
		lv.asked = appendAmounts(c.room.asked[:0], cfg, amounts)
	} else {
		lv.asked = amountsAt(cfg, amounts)
	}
	c.levels = append(c.levels, lv)
	c.whole = len(c.levels) == 1 && len(lv.asked) == len(amounts)
}

// amountsAt returns the amounts above 0 of limits that a configuration charges, in millitokens and name
// order.
func amountsAt(cfg *plan.Config, amounts map[string]int64) []plan.Signed {
	return appendAmounts(make([]plan.Signed, 0, len(amounts)), cfg, amounts)
}

// appendAmounts appends the amounts above 0 of limits that a configuration charges to out, in millitokens and
// name order.
func appendAmounts(out []plan.Signed, cfg *plan.Config, amounts map[string]int64) []plan.Signed {
	for i := range cfg.Limits {
		if n := amounts[cfg.Limits[i].Name]; n > 0 && cfg.Uncharged>>i&1 == 0 {
			out = append(out, plan.Signed{Name: cfg.Limits[i].Name, Amount: n * milli})
		}
	}
	return out
}

// SignedOf converts amounts from whole tokens to millitokens, in name order.
func SignedOf(amounts map[string]int64) []plan.Signed {
	out := make([]plan.Signed, 0, len(amounts))
	for name, n := range amounts {
		out = append(out, plan.Signed{Name: name, Amount: n * milli})
	}
	slices.SortFunc(out, func(a, b plan.Signed) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// changeSlots returns a target with the slots of the lease: none if it ends, else all of them. It copies the
// list if it names slots. It returns a *config.Invalid if the lease goes on and the target changes its slots.
func (ls levelList) changeSlots(consumed, target []plan.Signed, ends bool) ([]plan.Signed, error) {
	if !slices.ContainsFunc(target, func(a plan.Signed) bool { return ls.hasSlots(a.Name) }) {
		return target, nil
	}
	target = slices.Clone(target)
	for i := range target {
		a := &target[i]
		if !ls.hasSlots(a.Name) {
			continue
		}
		if held, _ := plan.AmountOf(consumed, a.Name); !ends && a.Amount != held {
			return nil, invalid("amounts["+a.Name+"]", "are calls in flight, which a lease holds until it ends; take more with Consume, or end the lease with Settle or Rollback")
		}
		if ends {
			a.Amount = 0
		}
	}
	return target, nil
}
