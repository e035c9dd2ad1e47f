package call

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// denyFromMemory denies from memory, as of now, if the last image of any level does; it then returns served
// amounts to the stocks. memory is false if another level had to be read. A denial's wait is the
// longest of all levels, and a read costs less than a grant and its give-back. It skips a level where the
// caller's turn has come.
func (t *taking) denyFromMemory(ctx context.Context, now int64) (denied *Denied, memory bool) {
	rank := t.rank
	results := make([]lane.Result, 0, 1) // room for most, on the stack
	denies, memory := false, true
	for i := range t.levels {
		lv, result, recent := &t.levels[i], lane.Result{}, true
		if t.mayDeny(lv) {
			result, recent = lv.lane.Memory.Recall(lv.asked, lv.cfg, rank, now)
		}
		results = append(results, result)
		denies, memory = denies || result.Denied, memory && recent
	}
	if !denies {
		return nil, false
	}
	for i := range results {
		if lv := &t.levels[i]; !memory && t.mayDeny(lv) && results[i].Config == nil && !lv.lane.Contact.Away() {
			var ok bool
			if results[i], ok = inspect(ctx, lv.lane, lv.cfg, lv.asked, rank); !ok {
				return nil, false // the lanes will find the reason, and make its error
			}
		}
	}
	for i := range results {
		t.levels[i].answered = false // served amounts are put back
		t.levels[i].noteAnswer(results[i])
	}
	denied = t.levels.denial(t.request)
	if t.desk.Lanes.Horizon != nil {
		t.levels.putBackServed(ctx)
	}
	return denied, memory
}

// mayDeny reports whether the memory of a level may deny: the level has requested amounts, and the
// caller's turn has not come in its line.
func (t *taking) mayDeny(lv *level) bool {
	return len(lv.asked) > 0 && !lv.served && (t.at == nil || lv.lane != t.at.lane)
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
	r.Before.Left = at.Memory.LeftTo(rank, reading)
	return r, true
}
