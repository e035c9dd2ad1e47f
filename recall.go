package dynalimit

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// recall denies from memory, as of now, if the last image of any level does; it then returns served
// amounts to the stocks. memory is false if another level had to be read. A denial's wait is the
// longest of all levels, and a read costs less than a grant and its give-back. recall skips the level
// of at.lane, where the caller's turn has come.
func (c *cascade) recall(ctx context.Context, r *request, at position, now int64) (memory bool, err error) {
	results := make([]lane.Result, 0, 1) // room for most, on the stack
	denied, memory := false, true
	for i := range c.rungs {
		result, recent := lane.Result{}, true
		if c.remembers(i, at) {
			result, recent = c.rungs[i].lane.Memory.Recall(c.askedOf(i), c.rungs[i].cfg, at.rank(), now)
		}
		results = append(results, result)
		denied, memory = denied || result.Denied, memory && recent
	}
	if !denied {
		return false, nil
	}
	for i := range results {
		if c.remembers(i, at) && results[i].Config == nil && !c.rungs[i].lane.Contact.Away() {
			var ok bool
			if results[i], ok = inspect(ctx, c.rungs[i].lane, c.rungs[i].cfg, c.askedOf(i), at.rank()); !ok {
				return false, nil // the lanes will find the reason, and make its error
			}
		}
	}
	err = c.denial(r, results)
	c.putBack(ctx)
	return memory, err
}

// remembers reports whether the memory of a rung may deny: the rung has requested amounts, and the
// caller's turn has not come in its line.
func (c *cascade) remembers(i int, at position) bool {
	return c.rungs[i].to > c.rungs[i].from && !c.rungs[i].served && c.rungs[i].lane != at.lane
}

// denial is the error of a request that memory denied, with the statuses of every rung
// that answered.
func (c *cascade) denial(r *request, answers []lane.Result) *LimitExceededError {
	decided := int64(0) // when the last rung did
	for i := range answers {
		decided = max(decided, answers[i].Now)
	}
	e := emptyDenial(r.entity, r.resource)
	for i := range answers {
		if reading, ok := readingOf(c.rungs[i].lane, &answers[i]); ok {
			e.show(&reading, c.askedOf(i), nil, decided)
		}
	}
	return e.concluded()
}

// inspect reads a level's bucket for a denial. ok is false if the lane must decide: the bucket could
// not be read, lacks a limit, or must be claimed for a newer configuration, even with a denial.
func inspect(ctx context.Context, at *lane.Lane, cfg *plan.Config, asked []plan.Signed, rank uint64) (r lane.Result, ok bool) {
	beside := lane.BesideOf(at)
	v, err := beside.Inspect(ctx, cfg, nil)
	if err != nil || v.Missing(asked) != "" || v.Adopt && v.Image != nil {
		return r, false
	}
	reading := v.Reading()
	reading.Image = v.Projected()
	r = lane.Result{Image: reading.Image, Now: v.Now, Config: v.Config}
	if at.Line.Waited() {
		r.Before.Left = at.Line.LeftTo(rank, reading)
	}
	return r, true
}
