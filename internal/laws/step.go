package laws

import (
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
)

// makeStep makes one random action: a call, a change of a lease, a stream of calls, an administrator's change
// or a fault. It often pauses before. After most actions a delayed request may land.
func (w *worker) makeStep() {
	if w.r.Float64() < .5 {
		pauses := []int64{0, 0, 1, 3, 20, 200, 900, 1100, w.r.Int64N(120_000)}
		Elapse(time.Duration(pauses[w.r.IntN(len(pauses))]) * time.Millisecond)
	}
	if w.h.quotas.meetAtWindow(w.r) {
		return
	}
	if w.h.quotas.isChangeDue(w.r) {
		(&operator{w.h, w.r}).changeQuota()
		return
	}
	if w.h.mode.ahead && w.r.Float64() < .15 {
		w.streamCalls(w.h.randomMember(w.r))
		return
	}
	switch p := w.r.Float64(); {
	case p < .055:
		(&operator{w.h, w.r}).changeTable(p)
	case p < .085 && w.h.mode.faults:
		(&operator{w.h, w.r}).causeFault(p)
	case p < .55:
		w.acquireConcurrently(w.h.randomMember(w.r), 1)
	case p < .65:
		w.acquireConcurrently(w.h.randomMember(w.r), 2+w.r.IntN(5))
	case p > .97:
		w.fillBucket()
	default:
		w.amendLease()
	}
	w.h.weather.landLate(w.r)
}

// acquireConcurrently makes the given number of concurrent calls of Acquire or Wait with random amounts and
// options, and waits for them. It records grants, and errors that must not occur, also a wait that ended too
// late.
func (w *worker) acquireConcurrently(m *member, callers int) {
	entity := w.h.entities[w.r.IntN(w.r.IntN(len(w.h.entities))+1)]
	var group sync.WaitGroup
	for range callers {
		amounts := w.h.randomAmounts(w.r, entity)
		opts, allows := w.randomOptions(amounts)
		ctx, cancel := w.callContext()
		call := m.limiter.Acquire
		if w.h.waits && w.r.Float64() < .4 {
			call = m.limiter.Wait
			ctx, cancel = w.withPatience(ctx, cancel)
		}
		ctx, own := withStake(ctx)
		group.Go(func() {
			defer cancel()
			lease, err := call(ctx, entity, resource, amounts, opts...)
			if err != nil {
				w.checkPatience(ctx, err)
				w.h.checkError(m, err)
				return
			}
			w.h.recordGrant(&grant{Lease: lease, owner: m, stake: own, entity: entity, allows: allows}, amounts)
		})
	}
	group.Wait()
}

// randomOptions draws the options of a call with these amounts: own limits, policy, charge mode, parent and
// plan. It returns true if one of them is the policy Allow.
func (w *worker) randomOptions(amounts dynalimit.Amounts) (opts []dynalimit.AcquireOption, allows bool) {
	if w.h.mode.overrides && w.r.Float64() < .1 {
		for name := range amounts {
			opts = append(opts, dynalimit.WithLimits(w.h.randomLimit(w.r, name)))
			break
		}
	}
	if allows = w.h.mode.faults && w.r.Float64() < .2; allows {
		opts = append(opts, dynalimit.WithOnUnavailable(dynalimit.Allow))
	}
	if w.r.Float64() < .2 {
		opts = append(opts, dynalimit.WithChargeMode(w.h.randomChargeMode(w.r)))
	}
	return append(opts, w.randomParentAndPlan()...), allows
}
