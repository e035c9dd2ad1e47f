package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// FuzzFeatures sets every feature of limits and calls at random, and compares the sum of the leases'
// Consumed with the counters and balances of their buckets. A give-back that is lost, or one that lands twice,
// shows there, whichever feature hides it.
func FuzzFeatures(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			(&featureFuzz{t: t, r: rand.New(rand.NewPCG(seed, 1)), sums: map[string]dynalimit.Amounts{}}).play()
		}) //nolint:gosec // no secret
	})
}

// featureFuzz is one history with random features.
type featureFuzz struct {
	t        *testing.T
	r        *rand.Rand
	client   dynalimit.DynamoDB
	admin    *admin.Admin
	limiters []*dynalimit.RateLimiter
	options  dynalimit.Options
	loses    int // of 100 requests the answer
	doubts   *atomic.Int64
	counted  map[string]bool // entities with a counted level

	mu   sync.Mutex
	sums map[string]dynalimit.Amounts // consumed by bucket
}

const fuzzGroup = "pool"

var fuzzModels = []string{"gpt-4", "gpt-5", "embed"}

func (z *featureFuzz) chance(percent int) bool { return z.r.IntN(100) < percent }

func pickOne[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (z *featureFuzz) play() {
	db := ddbmem.New()
	defer db.Close()
	z.client = db.Client()
	repo, err := dynalimit.NewRepository(z.client, "limits", &dynalimit.RepositoryOptions{Principal: tester})
	require.NoError(z.t, err)
	require.NoError(z.t, repo.CreateTable(z.t.Context()))
	z.admin = admin.New(repo)
	z.store()
	z.openLimiters()
	var slow sync.Mutex
	latency := rand.New(rand.NewPCG(z.r.Uint64(), 2)) //nolint:gosec // no secret
	z.loses, z.doubts = pickOne(z.r, 0, 0, 3), &atomic.Int64{}
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		slow.Lock()
		defer slow.Unlock()
		return ddbmem.Fault{Before: time.Duration(latency.IntN(20)) * time.Millisecond, Lose: latency.IntN(100) < z.loses}
	})
	var callers sync.WaitGroup
	for range 1 + z.r.IntN(4) {
		caller := &featureFuzz{t: z.t, r: rand.New(rand.NewPCG(z.r.Uint64(), 3)), limiters: z.limiters, loses: z.loses, doubts: z.doubts} //nolint:gosec // no secret
		callers.Go(func() {
			for range 1 + caller.r.IntN(12) {
				caller.call(z.bookLease)
				<-time.After(time.Duration(caller.r.IntN(3_000)) * time.Millisecond)
			}
		})
	}
	callers.Wait()
	db.SetFaults(nil)
	for _, l := range z.limiters {
		require.NoError(z.t, l.Close(z.t.Context()))
	}
	if z.doubts.Load() == 0 {
		z.compare()
	}
}

// limits returns limits with some of the names, with features at random.
func (z *featureFuzz) limits() (limits []dynalimit.Limit) {
	for _, l := range []dynalimit.Limit{
		dynalimit.PerMinute("rpm", 40), dynalimit.PerMinute("tpm", 4_000), dynalimit.PerSecond("img", 3),
		dynalimit.DailyQuota("day", 60, "Europe/Berlin"),
		{Name: "hour", Capacity: 50, Window: "hour"},
	} {
		switch feature := z.r.IntN(8); {
		case feature < 3:
			continue
		case l.IsQuota(): // compare needs all that is counted on its balance
		case feature == 3:
			l = l.AsShadow()
		case feature == 4:
			l = l.WithMaxDebt(int64(z.r.IntN(5)))
		case feature == 5:
			l = l.WithBurst(l.Capacity * 2)
		}
		limits = append(limits, l)
	}
	if len(limits) == 0 {
		limits = append(limits, dynalimit.PerMinute("rpm", 40))
	}
	return limits
}

// store stores configuration with features at random.
func (z *featureFuzz) store() {
	ctx := z.t.Context()
	set := func(at admin.Scope, c admin.LimitConfig) {
		c.Version, c.Only = admin.AnyVersion, true
		_, err := z.admin.Limits.SetConfig(ctx, at, c)
		require.NoError(z.t, err)
	}
	set(admin.Scope{Everyone: true}, admin.LimitConfig{Limits: z.limits()})
	if z.chance(50) {
		set(admin.Scope{Plan: "gold"}, admin.LimitConfig{Limits: z.limits(), Extends: z.chance(50)})
	}
	for _, model := range fuzzModels[:2] {
		if z.chance(40) {
			set(admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{fuzzGroup}})
		}
	}
	if z.chance(70) {
		money := dynalimit.DailyMoneyQuota(dynalimit.USD, 5_000, "")
		money.PerModel = true
		set(admin.Scope{Everyone: true, Resource: fuzzGroup}, admin.LimitConfig{Limits: append(z.limits(), money)})
	}
	z.counted = map[string]bool{}
	for _, id := range []string{"key", "team", "org"} {
		e := admin.Entity{ID: id}
		if z.chance(50) {
			e.Plan = "gold"
		}
		if id != "org" && z.chance(60) {
			e.ParentID = map[string]string{"key": "team", "team": "org"}[id]
			switch z.r.IntN(4) {
			case 0:
				e.Cascade = true
			case 1:
				e.Detached = true
			}
		}
		if z.chance(80) || e.ParentID != "" || id == "team" {
			err := z.admin.Entities.Create(ctx, e)
			require.NoError(z.t, err)
		}
		for _, at := range []admin.Scope{{Entity: id}, {Entity: id, Resource: fuzzModels[0]}} {
			switch z.r.IntN(6) {
			case 0, 1:
				set(at, admin.LimitConfig{Limits: z.limits(), Extends: z.chance(60)})
			case 2:
				set(at, admin.LimitConfig{Unlimited: true, Counted: true})
				z.counted[id] = true
			}
		}
	}
	if z.chance(40) { // a raise that ends in the middle
		// It is refused where the limit is not in force.
		_ = z.admin.Limits.Raise(ctx, admin.Scope{Entity: pickOne(z.r, "key", "team", "org")}, "rpm", 400, time.Now().Add(time.Duration(5+z.r.IntN(20))*time.Second))
	}
}

// openLimiters opens limiters with options at random.
func (z *featureFuzz) openLimiters() {
	z.options = dynalimit.Options{ChargeMode: pickOne(z.r, dynalimit.ChargeParallel, dynalimit.ChargeTransaction)}
	if z.chance(25) {
		z.options.Prefetch = time.Second
	}
	if z.chance(20) {
		z.options.MaxBuckets = 2
	}
	if z.chance(20) {
		z.options.OnUnavailable = dynalimit.Allow
	}
	for slot := range 1 + z.r.IntN(2) {
		repo, err := dynalimit.NewRepository(z.client, "limits", &dynalimit.RepositoryOptions{Principal: tester, ConfigTTL: time.Duration(1+z.r.IntN(20)) * time.Second})
		require.NoError(z.t, err)
		l, err := dynalimit.New(repo, &z.options)
		require.NoError(z.t, err)
		l.Desk().Lanes.IDs.Slot = slot // a take without an answer may land twice if another client of its slot wrote
		z.limiters = append(z.limiters, l)
	}
}

func (z *featureFuzz) amounts(most int) dynalimit.Amounts {
	amounts := dynalimit.Amounts{}
	for _, name := range []string{"rpm", "tpm", "img", "day", "hour", dynalimit.USD} {
		if z.chance(70) {
			amounts[name] = int64(z.r.IntN(most))
		}
	}
	if len(amounts) == 0 {
		amounts["rpm"] = 1
	}
	return amounts
}

// call makes one call, corrects its lease at random, and books what the lease holds at last.
func (z *featureFuzz) call(book func(*dynalimit.Lease)) {
	ctx, l := z.t.Context(), pickOne(z.r, z.limiters...)
	entity, model := pickOne(z.r, "key", "key", "team", "org", "guest"), pickOne(z.r, fuzzModels...)
	options := []dynalimit.AcquireOption{dynalimit.WithIgnoreUnknown()}
	if z.chance(30) {
		options = append(options, dynalimit.WithChargeMode(pickOne(z.r, dynalimit.ChargeParallel, dynalimit.ChargeTransaction)))
	}
	if z.chance(20) {
		options = append(options, dynalimit.WithOnUnavailable(dynalimit.Allow))
	}
	if entity == "guest" { // has no record
		options = append(options, dynalimit.WithParent("team"), dynalimit.WithPlan("gold"))
	}
	acquire := l.Acquire
	if z.chance(30) {
		acquire = l.Wait
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(z.r.IntN(5_000))*time.Millisecond)
		defer cancel()
	}
	amounts := z.amounts(15)
	lease, err := acquire(ctx, entity, model, amounts, options...)
	for invalid := (*dynalimit.ValidationError)(nil); errors.As(err, &invalid); lease, err = acquire(ctx, entity, model, amounts, options...) {
		name := strings.TrimSuffix(strings.TrimPrefix(invalid.Field, "amounts["), "]")
		require.Contains(z.t, amounts, name, "%v", err) // a less specific source has the limit
		if delete(amounts, name); len(amounts) == 0 {
			return
		}
	}
	if err != nil {
		z.hear(err)
		return
	}
	for range z.r.IntN(4) {
		change := z.amounts(12)
		maps.DeleteFunc(change, func(name string, _ int64) bool { _, asked := amounts[name]; return !asked })
		if len(change) == 0 {
			break
		}
		switch z.r.IntN(3) {
		case 0:
			err = lease.Consume(ctx, change)
		case 1:
			if name := slices.Sorted(maps.Keys(change))[0]; z.chance(50) {
				change[name] = -min(change[name], lease.Used()[name])
			}
			err = lease.Adjust(ctx, change)
		case 2:
			<-time.After(time.Duration(z.r.IntN(400)) * time.Millisecond)
		}
		z.hear(err)
	}
	err = nil
	after := context.WithoutCancel(ctx)
	switch z.r.IntN(4) {
	case 0:
		err = lease.Rollback(after)
	case 1, 2:
		used := z.amounts(20)
		maps.DeleteFunc(used, func(name string, _ int64) bool { _, asked := amounts[name]; return !asked })
		err = lease.Settle(after, used)
	}
	z.hear(err)
	book(lease)
}

// hear takes an error that is no denial for one after which a bucket may count more than its leases
// hold. Only lost answers and the ends of contexts make one.
func (z *featureFuzz) hear(err error) {
	if err == nil || errors.Is(err, dynalimit.ErrLimitExceeded) {
		return
	}
	var invalid *dynalimit.ValidationError
	assert.False(z.t, errors.As(err, &invalid), "%v", err)
	if !errors.Is(err, context.DeadlineExceeded) {
		z.doubts.Add(1)
		assert.NotZero(z.t, z.loses, "%v", err)
	}
}

// bookLease adds the amounts of a lease to each limit that it charges.
func (z *featureFuzz) bookLease(lease *dynalimit.Lease) {
	z.mu.Lock()
	defer z.mu.Unlock()
	consumed := lease.Used()
	for _, s := range lease.Statuses() {
		key := s.EntityID + " " + s.Resource
		if z.sums[key] == nil {
			z.sums[key] = dynalimit.Amounts{}
		}
		z.sums[key][s.Limit.Name] += consumed[s.Limit.Name]
	}
}

// compare compares the counters of every bucket with the sums of its leases, and the balances of its quotas
// with its counters.
func (z *featureFuzz) compare() {
	for _, id := range []string{"key", "team", "org", "guest"} {
		for b, err := range z.admin.Buckets.List(z.t.Context(), id) {
			require.NoError(z.t, err)
			sum := z.sums[fmt.Sprint(b.EntityID, " ", b.Resource)]
			for _, s := range b.Limits { // no window ends in a history
				if s.Limit.IsQuota() && z.options.Prefetch == 0 && !z.counted[id] {
					assert.Equal(z.t, s.Limit.Capacity-b.Consumed[s.Limit.Name], s.Remaining, "balance of %s of %s on %s", s.Limit.Name, b.EntityID, b.Resource)
				}
			}
			for name, counter := range b.Consumed {
				if z.options.Prefetch > 0 { // prefetched tokens that were not used in time are counted too
					assert.GreaterOrEqual(z.t, counter, sum[name], "%s of %s on %s", name, b.EntityID, b.Resource)
					continue
				}
				assert.Equal(z.t, sum[name], counter, "%s of %s on %s", name, b.EntityID, b.Resource)
			}
		}
	}
}
