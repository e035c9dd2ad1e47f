package outside

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/laws"
)

// fault decides what goes wrong with a request.
func (h *history) fault(q *ddbmem.Request) (f ddbmem.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calm || laws.IsQuiet(q) {
		return f
	}
	if h.latency > 0 {
		f.Before, f.After = time.Duration(h.luck.Int64N(int64(h.latency))), time.Duration(h.luck.Int64N(int64(h.latency)))
	}
	if time.Now().Before(h.silent) && h.hits(q) {
		h.hit[h.sick] = time.Now()
		switch {
		case h.outage == ofReads && h.luck.IntN(2) == 0:
			f.Error = laws.Throttled
		case h.luck.IntN(3) == 0:
			f.Lose = true
		default:
			f.Before = time.Minute
		}
		return f
	}
	if !h.faults {
		return f
	}
	switch p := h.luck.Float64(); {
	case p < .05:
		f.Lose = true
	case p < .08:
		f.Drop = true
	case p < .11:
		f.Error = laws.Throttled
	case p < .13:
		f.Error = &ddbmem.Error{Code: "InternalServerError"}
	case p < .15:
		f.After = 3 * time.Second // it lands, and nobody waits for its answer
	}
	return f
}

// hits reports whether the outage is of what a request asks for. h.mu must be held.
func (h *history) hits(q *ddbmem.Request) bool {
	switch h.outage {
	case ofReads:
		return q.Operation == "BatchGetItem"
	case ofEntity:
		return bytes.Contains(q.Body, []byte(`"ENTITY#`+h.sick+`"`))
	default:
		return true
	}
}

// step is one thing that a worker does.
func (h *history) step(r *rand.Rand) {
	if r.IntN(2) == 0 {
		pauses := []int64{0, 1, 20, 900, 1100, r.Int64N(70_000)}
		laws.Elapse(time.Duration(pauses[r.IntN(len(pauses))]) * time.Millisecond)
	}
	m := h.member(r)
	switch p := r.Float64(); {
	case p < .04 && h.outage != "":
		h.mu.Lock()
		h.silent, h.sick = time.Now().Add(time.Duration(r.Int64N(90_000))*time.Millisecond), h.entities[r.IntN(len(h.entities))]
		h.mu.Unlock()
	case p < .08 && h.steps:
		m.mu.Lock()
		m.behind = time.Duration(r.Int64N(int64(h.behind)))
		m.mu.Unlock()
	case p < .12 && h.changes:
		h.change(r)
	case p < .14 && h.closes:
		h.restart(r)
	case p < .18 && h.byHand:
		h.operate(r)
	case p < .6:
		h.acquire(r, m)
	default:
		h.amend(r)
	}
}

// member is one of the processes.
func (h *history) member(r *rand.Rand) *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[r.IntN(len(h.members))]
}

// restart ends a process, whose leases go on, and begins another in its place.
func (h *history) restart(r *rand.Rand) {
	h.mu.Lock()
	i := r.IntN(len(h.members))
	old, repo := h.members[i], (*dynalimit.Repository)(nil)
	if h.shared {
		repo = old.repo
	}
	h.members[i] = h.process(r, repo)
	h.closed = append(h.closed, old)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(r.Int64N(20_000))*time.Millisecond)
	defer cancel()
	h.hearError(old.limiter.Close(ctx))
	h.oracle.count("closed")
}

// change changes limits, a plan, a parent or a policy.
func (h *history) change(r *rand.Rand) {
	ctx := laws.Quietly(h.t.Context())
	entity := h.entities[r.IntN(len(h.entities))]
	var err error
	switch r.IntN(6) {
	case 0:
		err = h.setLimits(ctx, admin.Scope{Entity: entity}, h.otherLimits(r))
	case 1:
		err = admin.New(h.operator).Limits.Delete(ctx, admin.Scope{Entity: entity})
	case 2:
		err = h.setLimits(ctx, admin.Scope{Plan: "pro"}, h.otherLimits(r))
	case 3:
		err = h.setLimits(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, h.otherLimits(r))
	case 4:
		policies := []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local}
		_, err = admin.New(h.operator).Limits.SetConfig(ctx, admin.Scope{Everyone: true}, admin.LimitConfig{Limits: h.otherLimits(r), OnUnavailable: policies[r.IntN(3)], Version: admin.AnyVersion})
	default:
		i := r.IntN(len(h.entities))
		e, getErr := admin.New(h.operator).Entities.Get(ctx, h.entities[i])
		next := laws.Link(h.entities, i, r)
		next.Version, next.Plan, next.CreatedAt = e.Version, []string{"", "pro"}[r.IntN(2)], e.CreatedAt
		if r.IntN(3) == 0 {
			next.ParentID, next.Cascade, next.Detached = "", false, false
		}
		_, err = admin.New(h.operator).Entities.Update(ctx, next)
		err = errors.Join(getErr, err)
	}
	if conflict := (*admin.ConflictError[admin.Entity])(nil); err != nil && !errors.As(err, &conflict) && !errors.Is(err, admin.ErrNotFound) {
		h.oracle.fail("a change failed: %v", err)
	}
}

// operate refills a bucket by hand, or blocks an entity until somebody lifts it.
func (h *history) operate(r *rand.Rand) {
	ctx := laws.Quietly(h.t.Context())
	entity := h.entities[r.IntN(len(h.entities))]
	a := admin.New(h.operator)
	var err error
	switch r.IntN(4) {
	case 0:
		h.oracle.refill(entity, 1<<40)
		_, err = a.Buckets.Reset(ctx, entity, "gpt-4", "")
	case 1:
		n := 1 + r.Int64N(50)
		h.oracle.refill(entity, n)
		_, err = a.Buckets.TopUp(ctx, entity, "gpt-4", "", dynalimit.Amounts{"rpm": n})
	case 2:
		err = a.Limits.SetBlocked(ctx, admin.Scope{Entity: entity}, true)
	default:
		err = a.Limits.SetBlocked(ctx, admin.Scope{Entity: entity}, false)
	}
	var wrong *dynalimit.ValidationError
	if err != nil && !errors.As(err, &wrong) && !errors.Is(err, admin.ErrNotFound) {
		h.oracle.fail("by hand: %v", err)
	}
	h.oracle.count("by hand")
}

// context is one that may end at any time, where callers cancel.
func (h *history) context(r *rand.Rand) (context.Context, context.CancelFunc) {
	if h.cancels && r.Float64() < .15 {
		return context.WithTimeout(h.t.Context(), time.Duration(r.Int64N(100))*time.Millisecond)
	}
	return context.WithTimeout(h.t.Context(), time.Minute)
}

// acquire takes with one caller, or several at once.
func (h *history) acquire(r *rand.Rand, m *member) {
	level := r.IntN(len(h.entities))
	entity := h.entities[level]
	var callers sync.WaitGroup
	for range 1 + r.IntN(2)*r.IntN(h.crowd) {
		amounts := dynalimit.Amounts{"rpm": []int64{1, 1, 3, 10, 33, 100}[r.IntN(6)]}
		ctx, cancel := h.context(r)
		call, opts := m.limiter.Acquire, []dynalimit.AcquireOption(nil)
		if h.waits && r.IntN(3) == 0 {
			call = m.limiter.Wait
		}
		if h.together && r.IntN(3) == 0 {
			opts = append(opts, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
		}
		if h.overrides && r.IntN(3) == 0 {
			opts = append(opts, dynalimit.WithLimits(h.limitsOf(r, "rpm")...))
		}
		open, known := m.limiter.Health().Open, h.oracle.knows(m, entity)
		callers.Go(func() {
			defer cancel()
			lease, err := call(ctx, entity, "gpt-4", amounts, opts...)
			h.hearError(err)
			if err != nil {
				if ctx.Err() != nil {
					h.oracle.leave(h.entities[level:], amounts["rpm"])
				}
				return
			}
			one := &held{Lease: lease, of: m, most: amounts["rpm"], chain: h.charged(level), taken: map[string]int64{}, local: map[string]int64{}}
			h.oracle.admit(one, amounts["rpm"], nil)
			h.mu.Lock()
			hit := maps.Clone(h.hit)
			h.leases = append(h.leases, one)
			h.mu.Unlock()
			if h.faults || open || m.limiter.Health().Open {
				return // what was never seen of a bucket that is away shows nothing
			}
			switch h.outage {
			case ofEntity:
				h.oracle.degradedHealthy(one, hit)
			case ofReads:
				h.oracle.levelled(one, entity, known)
			}
		})
	}
	callers.Wait()
}

// charged are an entity and its parents that a call may charge: of those that nobody changes, the
// ones that count.
func (h *history) charged(i int) []string {
	if h.changes {
		return h.entities[i:]
	}
	charged := []string{h.entities[i]}
	for ; i+1 < len(h.entities) && !h.records[h.entities[i]].Detached; i++ {
		if parent := h.entities[i+1]; h.records[h.entities[i]].Cascade || h.own[parent] {
			charged = append(charged, parent)
		}
	}
	return charged
}

// amend corrects a lease, or ends it.
func (h *history) amend(r *rand.Rand) {
	h.mu.Lock()
	if len(h.leases) == 0 {
		h.mu.Unlock()
		return
	}
	one := h.leases[r.IntN(len(h.leases))]
	h.mu.Unlock()
	if one.busy.Swap(true) { // one correction at a time, so that it is known what it gave back
		return
	}
	defer one.busy.Store(false)
	ctx, cancel := h.context(r)
	defer cancel()
	before, consumed := one.stands(), one.Used()["rpm"]
	var err error
	switch r.IntN(5) {
	case 0:
		more := r.Int64N(40)
		err = h.oracle.corrected(one, 0, func() error { return one.Adjust(ctx, dynalimit.Amounts{"rpm": more}) })
	case 1:
		less := r.Int64N(consumed + 1)
		err = h.oracle.corrected(one, less, func() error { return one.Adjust(ctx, dynalimit.Amounts{"rpm": -less}) })
	case 2:
		more := 1 + r.Int64N(5)
		if err = one.Consume(ctx, dynalimit.Amounts{"rpm": more}); err == nil {
			h.oracle.admit(one, more, before)
		}
	case 3:
		total := r.Int64N(2*consumed + 1)
		err = h.oracle.corrected(one, max(0, consumed-total), func() error { return one.Settle(ctx, dynalimit.Amounts{"rpm": total}) })
	default:
		err = h.oracle.corrected(one, consumed, func() error { return one.Rollback(ctx) })
	}
	one.most = max(one.most, one.Used()["rpm"])
	h.hearError(err)
}

// hearError notes an error: one that this history cannot explain is a violation.
func (h *history) hearError(err error) {
	var wrong *dynalimit.ValidationError
	var denied *dynalimit.LimitExceededError
	switch {
	case err == nil:
	case errors.Is(err, dynalimit.ErrUnconfirmed):
		h.oracle.unconfirmed(err)
	case h.byHand && errors.Is(err, dynalimit.ErrBlocked):
		h.oracle.count("blocked")
	case errors.As(err, &denied):
		h.oracle.count("denied")
		if denied.RetryAfter <= 0 || !denied.Primary().Exceeded {
			h.oracle.fail("a denial for nothing: %v", err)
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, dynalimit.ErrLeaseEnded):
	case h.closes && errors.Is(err, dynalimit.ErrClosed):
	case errors.As(err, &wrong) && (h.changes || strings.Contains(err.Error(), "lease holds")):
	case (h.faults || h.outage != "") && errors.Is(err, dynalimit.ErrUnavailable), errors.Is(err, dynalimit.ErrContended):
		h.oracle.count("unavailable")
	default:
		h.oracle.fail("unexpected: %v", err)
	}
}

// setLimits replaces the limits of a source, whatever they hide.
func (h *history) setLimits(ctx context.Context, at admin.Scope, limits []dynalimit.Limit) error {
	_, err := admin.New(h.operator).Limits.SetConfig(ctx, at, admin.LimitConfig{Limits: limits, Version: admin.AnyVersion, Only: true})
	return err
}
