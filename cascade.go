package dynalimit

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// cascade is the buckets of one call: those of its entity and of the parents that count, child first. A
// denial from memory needs nothing else, so the cascade lies on the caller's stack. A lease is made
// from it only when it is needed.
type cascade struct {
	rungs []rung
	// unlimited means that a level is unlimited: it is charged nothing and has every
	// limit.
	unlimited bool
	// asked are the requested amounts of all rungs, one after the other.
	asked []plan.Signed
}

// rung is one bucket of a cascade, before a lease has been made.
type rung struct {
	lane *lane.Lane
	cfg  *plan.Config
	// from and to delimit its part of the cascade's asked.
	from, to int
	// served means that the amounts were taken from the lane's stock. shown is the last image of the
	// bucket, as of now. servedAt is the time of the prefetch, by the lane's clock.
	served   bool
	servedAt int64
	shown    *schema.Image
	now      int64
}

// with returns the cascade with one more bucket, and with the amounts that its configuration charges.
func (c cascade) with(at *lane.Lane, cfg *plan.Config, amounts Amounts) cascade {
	from := len(c.asked)
	c.asked = appendAmounts(c.asked, cfg, amounts)
	c.rungs = append(c.rungs, rung{lane: at, cfg: cfg, from: from, to: len(c.asked)})
	return c
}

// above reports whether a parent of a rung's entity has a limit on the same resource.
func (c *cascade) above(i int, limit string) bool {
	for k := range c.rungs[i+1:] {
		if r := &c.rungs[i+1+k]; r.lane.Resource == c.rungs[i].lane.Resource && r.has(limit) {
			return true
		}
	}
	return false
}

// passOn sets Passed of the amounts for which passes is true: another level counts them too. The
// bucket's second counter counts these amounts alone, so that totals can count them once.
func (c *cascade) passOn(passes func(level int, limit string) bool) {
	for i := range c.rungs {
		asked := c.askedOf(i)
		for k := range asked {
			if a := &asked[k]; passes(i, a.Name) {
				a.Passed = a.Amount
			}
		}
	}
}

// askedOf returns the requested amounts of a rung.
func (c *cascade) askedOf(i int) []plan.Signed {
	return c.asked[c.rungs[i].from:c.rungs[i].to:c.rungs[i].to]
}

// levels makes the levels of a lease from the rungs, nil if there are no rungs. It uses the arrays of
// room and asked if they are large enough.
func (c *cascade) levels(room []level, asked []plan.Signed) []level {
	if len(c.rungs) == 0 {
		return nil
	}
	asked = append(asked, c.asked...) // a copy that keeps the cascade on the stack
	for i := range c.rungs {
		r := &c.rungs[i]
		room = append(room, level{lane: r.lane, cfg: r.cfg, counts: r.cfg, asked: asked[r.from:r.to:r.to], served: r.served, servedAt: r.servedAt})
		if r.served {
			room[i].noteAnswer(lane.Result{Image: r.shown, Now: r.now, Config: r.cfg})
		}
	}
	return room
}

// has reports whether a limit is charged at the rung.
func (r *rung) has(name string) bool { return r.cfg.Charges(name) }

// amountsAt returns the amounts above 0 of limits that a configuration charges, in millitokens and name
// order.
func amountsAt(cfg *plan.Config, amounts Amounts) []plan.Signed {
	return appendAmounts(make([]plan.Signed, 0, len(amounts)), cfg, amounts)
}

func appendAmounts(out []plan.Signed, cfg *plan.Config, amounts Amounts) []plan.Signed {
	for i := range cfg.Limits {
		if n := amounts[cfg.Limits[i].Name]; n > 0 && cfg.Uncharged>>i&1 == 0 {
			out = append(out, plan.Signed{Name: cfg.Limits[i].Name, Amount: n * milli})
		}
	}
	return out
}

// serve takes the amounts from the lanes' stocks. It returns true if every level had enough.
func (c *cascade) serve(ctx context.Context) bool {
	some, all := false, true
	for i := range c.rungs {
		at := &c.rungs[i]
		if at.from == at.to {
			continue
		}
		if at.lane.Ahead == nil { // no prefetch for this resource
			all = false
			continue
		}
		var shown lane.Result
		shown, at.servedAt, at.served = at.lane.Ahead.Serve(ctx, c.askedOf(i), at.cfg)
		at.shown, at.now = shown.Image, shown.Now
		some, all = some || at.served, all && at.served
	}
	return some && all
}

// putBack returns the served amounts of a call that memory denies to the stocks.
func (c *cascade) putBack(ctx context.Context) {
	for i := range c.rungs {
		if at := &c.rungs[i]; at.served {
			at.served = false
			at.lane.Ahead.PutBack(ctx, slices.Clone(c.askedOf(i)), plan.Reading{Image: at.shown, Config: at.cfg, Now: at.now}, at.servedAt)
		}
	}
}
