package tests

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// shadowHistories are as many as play in ten seconds.
const shadowHistories = 20

// shadowPlay is a history: the calls of several processes while an operator changes things.
type shadowPlay struct {
	t         *testing.T
	s         *shadow
	e         *engine
	operator  *repository
	ctx       context.Context // the operator's, which meets no fault
	r         *rand.Rand
	processes []*process
	// deletes and fills mean that the operator also deletes buckets, or fills them.
	deletes, fills bool
	mu             sync.Mutex
	leases         []*dynalimit.Lease
}

func (h *shadowPlay) limit() int64 { return []int64{200, 600, 3000}[h.r.IntN(3)] }

func (h *shadowPlay) pick(of ...string) string { return of[h.r.IntN(len(of))] }

// say changes what a record says; what the shadow knows changes first.
func (h *shadowPlay) say(at admin.Scope, change func(*saying), write func() error) {
	h.s.mu.Lock()
	said := h.s.told[at]
	change(&said)
	h.s.told[at] = said
	h.s.changed()
	h.s.mu.Unlock()
	require.NoError(h.t, write())
}

func (h *shadowPlay) setLimit(at admin.Scope) {
	var bursts [2]int64
	var limits []dynalimit.Limit
	which := h.r.IntN(4) // most have both
	for i, name := range shadowLimits {
		if n := h.limit(); which != i {
			bursts[i], limits = n, append(limits, dynalimit.PerMinute(name, n))
		}
	}
	h.say(at, func(said *saying) { said.bursts, said.unlimited = bursts, false }, func() error { return h.operator.SetLimits(h.ctx, at, limits) })
}

func (h *shadowPlay) operate() {
	anything := slices.Concat(shadowModels, shadowGroups)
	limits := h.operator.admin().Limits
	switch h.r.IntN(13) {
	case 0, 1:
		at := admin.Scope{Everyone: true, Resource: h.pick(shadowModels...)}
		c, err := h.operator.GetConfig(h.ctx, at)
		require.NoError(h.t, err)
		c.Groups = [][]string{{"g0"}, {"g1"}, {"g0", "g1"}}[h.r.IntN(3)]
		if h.r.IntN(3) == 0 && (len(c.Limits) > 0 || c.Unlimited || c.Blocked) {
			c.Groups = nil
		}
		h.say(at, func(said *saying) { said.groups = c.Groups }, func() error { _, err := h.operator.SetConfig(h.ctx, at, c); return err })
	case 2:
		h.setLimit(admin.Scope{Everyone: true, Resource: h.pick(shadowGroups...)})
	case 3:
		h.setLimit(admin.Scope{Entity: h.pick(shadowChain...), Resource: h.pick(anything...)})
	case 4:
		h.setLimit(admin.Scope{Plan: "pro", Resource: h.pick(anything...)})
	case 5:
		at := admin.Scope{Entity: h.pick(shadowChain...), Resource: h.pick(anything...)}
		if h.r.IntN(2) == 0 {
			at = admin.Scope{Everyone: true, Resource: h.pick(shadowGroups...)}
		}
		h.say(at, func(said *saying) { *said = saying{blocked: said.blocked} }, func() error { return h.operator.DeleteLimits(h.ctx, at) })
	case 6:
		id := h.pick(shadowChain...)
		e, err := h.operator.GetEntity(h.ctx, id)
		require.NoError(h.t, err)
		e.Plan = h.pick("", "pro")
		h.say(admin.Scope{}, func(*saying) { h.s.plan[id] = e.Plan }, func() error { _, err := h.operator.UpdateEntity(h.ctx, e); return err })
	case 7:
		h.setLimit(admin.Scope{Everyone: true})
	case 8:
		h.setLimit(admin.Scope{Entity: h.pick(shadowChain...)})
	case 9:
		at := admin.Scope{Entity: h.pick(shadowChain...), Resource: h.pick(anything...)}
		if h.r.IntN(2) == 0 {
			at = admin.Scope{Everyone: true, Resource: h.pick(shadowGroups...)}
		}
		h.say(at, func(said *saying) { said.bursts, said.unlimited = [2]int64{}, true }, func() error { return limits.SetUnlimited(h.ctx, at) })
	case 10:
		at := admin.Scope{Entity: h.pick(shadowChain...), Resource: h.pick(anything...)}
		h.say(at, func(said *saying) { said.blocked = true }, func() error { return limits.SetBlocked(h.ctx, at, true) })
		elapse(time.Duration(h.r.IntN(10)) * time.Second)
		h.say(at, func(said *saying) { said.blocked = false }, func() error { return limits.SetBlocked(h.ctx, at, false) })
	case 11:
		if h.fills {
			h.fill(h.pick(shadowChain...), h.pick(anything...))
		}
	case 12:
		if h.deletes {
			_, err := h.e.client().DeleteItem(h.ctx, &dynamodb.DeleteItemInput{
				TableName: &h.operator.table, Key: h.operator.keys.Bucket(h.pick(shadowChain...), h.pick(anything...)).Attributes(),
			})
			require.NoError(h.t, err)
		}
	}
}

// fill fills a bucket by hand.
func (h *shadowPlay) fill(entity, on string) {
	filling := func(is bool) {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		h.s.filling[entity+" "+on] = is
	}
	filling(true)
	var err error
	if h.r.IntN(2) == 0 {
		_, err = h.operator.admin().Buckets.Reset(h.ctx, entity, on, "")
	} else {
		_, err = h.operator.admin().Buckets.TopUp(h.ctx, entity, on, "", dynalimit.Amounts{"tpm": 200})
	}
	filling(false)
	var bad *dynalimit.ValidationError
	if !errors.As(err, &bad) { // a bucket without the limit
		require.NoError(h.t, err)
	}
}

// TestGroupsInTheShadow plays calls of several processes on models and groups while an operator
// changes everything, and judges every write and lease by a shadow of what the operator did. At
// the end each bucket's counter is what the leases say they use of it.
func TestGroupsInTheShadow(t *testing.T) {
	for seed := range uint64(shadowHistories) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playShadow(t, seed) })
		})
	}
}

func playShadow(t *testing.T, seed uint64) {
	r, e := rand.New(rand.NewPCG(seed, 1)), memEngine(t)
	ctx := context.WithValue(context.WithoutCancel(t.Context()), otherProcess{}, true)
	h := &shadowPlay{t: t, s: newShadow(), r: r, e: e, ctx: ctx, operator: e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now})}
	e.db.OnWrite(h.s.written)
	p := (&process{engine: e, t: t}).on(h.operator, nil)
	p.family(shadowChain...)
	h.setLimit(admin.Scope{Everyone: true})
	for range 8 {
		h.operate()
	}
	h.deletes, h.fills = r.IntN(4) == 0, r.IntN(2) == 0
	ttl := h.weather(seed)
	o, busy := h.options(), 3000
	if o.Prefetch > 0 {
		busy = 400
	}
	var calls sync.WaitGroup
	for i := range 3 {
		repo, err := openRepository(e.client(), h.operator.table, &dynalimit.RepositoryOptions{Now: time.Now, ConfigTTL: ttl, Principal: tester})
		require.NoError(t, err)
		m := p.on(repo, o)
		h.processes = append(h.processes, m)
		for k := range 3 {
			mine := rand.New(rand.NewPCG(seed, uint64(10+4*i+k)))
			calls.Go(func() {
				for range max(25, 25_000/busy) {
					elapse(time.Duration(mine.IntN(busy)) * time.Millisecond)
					h.call(m, mine)
				}
			})
		}
	}
	for range 25 {
		elapse(time.Duration(r.IntN(4000)) * time.Millisecond)
		h.operate()
	}
	calls.Wait()
	e.db.SetFaults(nil)
	elapse(2 * time.Minute)
	h.judge()
}

// weather sets the latency and the faults of a history. It returns the TTL of configuration.
func (h *shadowPlay) weather(seed uint64) time.Duration {
	ttl, s := []time.Duration{5 * time.Second, time.Minute}[h.r.IntN(2)], h.s
	s.adjusts, s.faults, s.lag = h.r.IntN(3) == 0, h.r.IntN(3) == 0, ttl+3*time.Second
	if s.faults { // a configuration that cannot be read is used for another TTL
		s.lag += ttl + 2*time.Second
	}
	var mu sync.Mutex
	luck := rand.New(rand.NewPCG(seed, 2))
	h.e.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
		mu.Lock()
		defer mu.Unlock()
		f.Before, f.After = time.Duration(luck.IntN(4))*time.Millisecond, time.Duration(luck.IntN(4))*time.Millisecond
		if !s.faults || q.Context.Value(otherProcess{}) != nil {
			return f
		}
		switch luck.IntN(60) {
		case 0:
			f.Lose = true
		case 1:
			f.Error = &ddbmem.Error{Code: "ThrottlingException"}
		case 2:
			f.Drop = true
		}
		return f
	})
	return ttl
}

// options are those of the limiters of a history.
func (h *shadowPlay) options() *dynalimit.Options {
	o := &dynalimit.Options{}
	if h.r.IntN(3) == 0 {
		o.MaxBuckets = 3
	}
	if h.r.IntN(3) == 0 {
		o.Cascade = dynalimit.CascadeTransaction
	}
	if h.r.IntN(3) == 0 {
		o.Prefetch, h.s.lapses = 2*time.Second, true
	}
	return o
}

// judge ends a history: counters are what leases use, give or take what is in doubt, and totals
// count it once.
func (h *shadowPlay) judge() {
	doubt := dynalimit.Amounts{}
	for _, m := range h.processes {
		assert.Zero(h.t, m.limiter.Health().WaitingBuckets)
		require.NoError(h.t, m.limiter.Close(h.ctx)) // what was debited ahead lapses
		for _, limit := range shadowLimits {
			health := m.limiter.Health()
			doubt[limit] += health.Doubt[limit] + health.Dropped[limit]
		}
	}
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Empty(h.t, s.wrong)
	if h.deletes {
		return
	}
	used, least, most := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, lease := range h.leases {
		once := map[string][]int64{} // the levels may have read their groups at different times
		for _, st := range lease.Statuses() {
			of := st.Resource + " " + st.Limit.Name
			used[st.EntityID+" "+of] += st.Requested
			once[of] = append(once[of], st.Requested)
		}
		for of, all := range once {
			least[of] += slices.Min(all)
			most[of] += slices.Max(all)
		}
	}
	once, off := map[string]int64{}, dynalimit.Amounts{}
	for name, stored := range s.stored {
		_, of, _ := strings.Cut(name, " ")
		_, limit, _ := strings.Cut(of, " ")
		once[of] += (stored.Consumed - stored.Passed) / milli
		if d := used[name] - stored.Consumed/milli; !s.gone[name] {
			off[limit] += max(d, -d)
		}
	}
	for _, limit := range shadowLimits {
		assert.LessOrEqual(h.t, off[limit], doubt[limit], "counters of %s differ from what leases say", limit)
	}
	if s.faults || len(s.gone) > 0 {
		return
	}
	assert.Zero(h.t, doubt[shadowLimits[0]]+doubt[shadowLimits[1]])
	for of, v := range once {
		assert.True(h.t, least[of] <= v && v <= most[of], "totals of %s: %d, used %d to %d", of, v, least[of], most[of])
	}
}

// call is one call, and perhaps corrections of its lease.
func (h *shadowPlay) call(p *process, r *rand.Rand) {
	ctx := context.WithoutCancel(h.t.Context())
	entity, on := shadowChain[r.IntN(2)], shadowModels[r.IntN(3)]
	amounts := dynalimit.Amounts{"tpm": 1 + r.Int64N(60)}
	if r.IntN(2) == 0 {
		amounts["rpm"] = 1 + r.Int64N(20)
	}
	var opts []dynalimit.AcquireOption
	call, began := p.limiter.Acquire, time.Now()
	if r.IntN(4) == 0 {
		call = p.limiter.Wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
	}
	lease, err := call(ctx, entity, on, amounts, opts...)
	var bad *dynalimit.ValidationError
	var block *dynalimit.BlockedError
	switch {
	case err == nil:
		if !lease.Degraded() {
			h.s.leased(entity, on, amounts, nil, lease.Statuses(), began)
		}
		h.correct(lease, r)
	case errors.As(err, &block):
		h.s.blocks(block, began)
	case errors.Is(err, dynalimit.ErrLimitExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, dynalimit.ErrContended):
	case errors.Is(err, dynalimit.ErrUnavailable) && h.s.faults:
	case errors.As(err, &bad): // a limit that is not in force
	default:
		assert.NoError(h.t, err)
	}
}

// correct corrects a lease some times, and keeps it.
func (h *shadowPlay) correct(lease *dynalimit.Lease, r *rand.Rand) {
	ctx := context.WithoutCancel(h.t.Context())
	for range r.IntN(3) {
		elapse(time.Duration(r.IntN(r.IntN(15_000)+1)) * time.Millisecond)
		limit := shadowLimits[r.IntN(2)]
		held, more := lease.Consumed()[limit], int64(0)
		if h.s.adjusts {
			more = 40
		}
		var err error
		switch r.IntN(6) {
		case 0:
			err = lease.Adjust(ctx, dynalimit.Amounts{limit: -r.Int64N(held + 1)})
		case 1:
			err = lease.Settle(ctx, dynalimit.Amounts{limit: r.Int64N(held + more + 1)})
		case 2:
			err = lease.Rollback(ctx)
		case 3:
			n := 1 + r.Int64N(20)
			h.s.consume(1)
			_ = lease.Consume(ctx, dynalimit.Amounts{limit: n})
			h.s.consume(-1)
		case 4:
			err = lease.Adjust(ctx, dynalimit.Amounts{limit: r.Int64N(more + 1)})
		}
		var bad *dynalimit.ValidationError
		if err != nil && !h.s.faults && !errors.Is(err, dynalimit.ErrLeaseEnded) && !errors.As(err, &bad) {
			assert.NoError(h.t, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases = append(h.leases, lease)
}
