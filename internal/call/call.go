package call

import (
	"maps"
	"runtime"
	"slices"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Call is the state of one call: the amounts requested from each bucket (child first), the buckets'
// answers, and the tokens held. A lease is a call under a lock.
type Call struct {
	desk    *Desk
	request Request
	charged
	// estimates are the amounts charged to quotas when the call began; nil without quotas.
	estimates *estimates
	// consumed is the use according to the caller. The holdings of each level record its fate in that
	// bucket.
	consumed []plan.Signed
	tops     tops
	// late are the slots that were counted before the buckets were known; nil for nearly all calls.
	late *lateSlots
}

// setConsumed sets the use of a call that is about to take its amounts to these, in millitokens, without lifted
// and skipped limits. It copies the request's amounts of a call with unknown buckets, whatever its caller does
// to them.
func (c *Call) setConsumed() {
	if c.whole {
		c.consumed = c.levels[0].asked // lists are never changed
		return
	}
	c.consumed = c.knownAmounts(SignedOf(c.request.Amounts))
	if c.IsUnlocated() { // its levels are found by them later, whatever its caller does to them
		c.request.Amounts = maps.Clone(c.request.Amounts)
	}
}

// Request returns the call's request.
func (c *Call) Request() *Request { return &c.request }

// Consumed returns the use according to the caller, in millitokens. The list never changes.
func (c *Call) Consumed() []plan.Signed { return c.consumed }

// Units returns a map from the names of limits of money to their unit; nil if the call has no limit of money.
func (c *Call) Units() (units map[string]string) {
	for i := range c.levels {
		cfg := c.levels[i].cfg
		if cfg.Money == 0 {
			continue
		}
		for k := range cfg.Limits {
			if cfg.IsMoney(k) {
				if units == nil {
					units = map[string]string{}
				}
				units[cfg.Limits[k].Name] = schema.USD
			}
		}
	}
	return units
}

// Degraded reports whether something was admitted by the policy, or corrected, without its bucket. It is true
// too while the buckets of the call are unknown.
func (c *Call) Degraded() bool {
	if c.levels == nil {
		return !c.unlimited
	}
	return slices.ContainsFunc(c.levels, func(lv level) bool { return lv.degraded })
}

// Balances calls each with the balance of every requested or held limit, as of the last answer of its level.
// used is the lease's amount of the limit, and uncharged the part of it that was counted and not charged, both
// in millitokens. each must not keep b, which the next balance overwrites. It skips levels that have not
// answered.
func (c *Call) Balances(each func(b *Balance, used, uncharged int64)) {
	var b Balance // one for all, because each may keep it from the stack
	for i := range c.levels {
		lv := &c.levels[i]
		if !lv.answered {
			continue
		}
		for _, name := range lv.names() {
			h := lv.holdingOf(name)
			b = lv.last.balance(name, 0, 0)
			each(&b, h.Used(), h.Uncharged())
		}
	}
}

// IsUnlocated reports whether the buckets of the call are not known yet, because the configuration could not
// be read.
func (c *Call) IsUnlocated() bool { return c.levels == nil && !c.unlimited }

// chargeEstimates adds the amounts that a new call holds of quotas to the process's estimates of open calls,
// and returns them; nil without such amounts. They end with removeAll, or when the garbage collector frees a
// dropped call. It also marks a call that holds slots.
func (c *Call) chargeEstimates() *estimates {
	var of []estimate
	for i := range c.levels {
		lv := &c.levels[i]
		for k := range lv.holdings {
			switch h := &lv.holdings[k]; {
			case h.Window == 0: // of a token bucket
			case h.Window.IsQuota():
				of = append(of, estimate{lane.QuotaKey{Entity: lv.lane.Entity, Resource: lv.lane.Resource, Limit: h.Name}, h.Held, h.Window})
			case h.Window.IsSlots():
				c.slots = true
			}
		}
	}
	if of == nil {
		return nil
	}
	e := &estimates{unsettled: c.desk.Lanes.Unsettled, of: of}
	e.addSigned(1)
	runtime.AddCleanup(c, (*estimates).removeAll, e)
	return e
}

// knownAmounts returns the amounts of limits that some level has, in force or hidden. It drops amounts of
// lifted limits and, if skipsUnknown is true, of unknown ones. Limits that only a parent hides pass in Acquire,
// and so also in corrections.
func (c *Call) knownAmounts(amounts []plan.Signed) []plan.Signed {
	lifting := slices.ContainsFunc(c.levels, func(lv level) bool { return len(lv.cfg.From().Lifted) > 0 })
	if !c.skipsUnknown() && !lifting {
		return amounts
	}
	named, fallback := c.request.namedLimits(c.levels.namedBuckets(), c.unlimited), c.desk.Routes.fallback
	return slices.DeleteFunc(slices.Clone(amounts), func(a plan.Signed) bool {
		switch {
		case c.levels.has(a.Name):
			return false
		case c.unlimited || named.Lifts(a.Name):
			return true
		}
		return c.skipsUnknown() && !named.Hides(a.Name) && !fallback.ReplacesOption(named, a.Name)
	})
}

// skipsUnknown reports whether to skip amounts of limits that no level has: a level is unlimited, or the call
// has WithIgnoreUnknown. It is false before the levels are known.
func (c *Call) skipsUnknown() bool {
	return c.unlimited || c.request.IgnoreUnknown && c.levels != nil
}

// HoldsSlots reports whether the call holds slots of calls in flight.
func (c *Call) HoldsSlots() bool {
	return c.slots && slices.ContainsFunc(c.consumed, func(a plan.Signed) bool { return a.Amount > 0 && c.levels.hasSlots(a.Name) })
}
