package dynalimit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

var counted = schema.ConfigItem{Unlimited: true, Counted: true}

// TestCountedSource: the limits that would be in force otherwise count and deny nothing, whoever has
// them. What fits is charged, so that no debt is left once they are enforced again. A name that no
// less specific source has passes. Limits of parents and groups stay.
func TestCountedSource(t *testing.T) {
	day := []schema.ConfigLimit{{Name: "rpm", Capacity: 10, Burst: 10, RefillAmount: 10, RefillPeriod: 24 * time.Hour}}
	for name, test := range map[string]struct {
		at   schema.ConfigOwner
		opts dynalimit.Options
		says map[schema.ConfigOwner]schema.ConfigItem
	}{
		"of the system":  {at: ofEntity, says: map[schema.ConfigOwner]schema.ConfigItem{ofSystem: {Limits: day}}},
		"of Options":     {at: ofEntity, opts: dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 10)}}},
		"of a plan":      {at: ofEntityDefault, says: map[schema.ConfigOwner]schema.ConfigItem{ofPlan: {Limits: day}, ofSystem: limited(dynalimit.Amounts{"img": 5})}},
		"of two sources": {at: ofPlan, says: map[schema.ConfigOwner]schema.ConfigItem{ofResource: {Extends: true, Limits: day}, ofSystem: limited(dynalimit.Amounts{"rpm": 1, "tpm": 5})}},
		"before another": {at: ofEntity, says: map[schema.ConfigOwner]schema.ConfigItem{ofEntityDefault: counted, ofPlan: {Limits: day}}},
	} {
		for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				test.opts.ChargeMode = mode
				s := memProcess(t, &test.opts)
				ctx := t.Context()
				s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro", ParentID: "org"})
				s.says(schema.ConfigOwner{Entity: "org"}, limited(dynalimit.Amounts{"rpm": 100}))
				for owner, c := range test.says {
					s.says(owner, c)
				}
				s.says(test.at, counted)
				s.acquire("user-1", dynalimit.Amounts{"rpm": 6})
				lease, err := s.limiter.Wait(ctx, "user-1", model, dynalimit.Amounts{"rpm": 20, "img": 1})
				require.NoError(t, err)
				assert.False(t, lease.Degraded())
				own, parent := lease.Statuses()[0], lease.Statuses()[1]
				assert.True(t, own.Unlimited)
				assert.True(t, own.WouldDeny)
				assert.False(t, parent.Unlimited)
				require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 30}))
				require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": 51}))
				report, err := s.limiter.Check(ctx, "user-1", model, dynalimit.Amounts{"rpm": 7})
				require.NoError(t, err)
				assert.True(t, report.Allowed)
				assert.False(t, report.Unlimited, "the parent limits")
				assert.Equal(t, "org", s.deny("user-1", dynalimit.Amounts{"rpm": 44}).Primary().EntityID)
				require.NoError(t, s.limiter.Close(ctx))
				assert.EqualValues(t, 57*milli, s.stored("user-1", "rpm").Consumed)
				assert.EqualValues(t, 4, s.level("user-1", "rpm"))

				s = s.peer(&test.opts)
				s.says(test.at, schema.ConfigItem{Admit: true}) // nothing of limits
				s.says(ofEntityDefault, schema.ConfigItem{Admit: true})
				before := s.imageOn("user-1", model).Fingerprint
				s.acquire("user-1", dynalimit.Amounts{"rpm": 4})
				assert.Equal(t, before, s.imageOn("user-1", model).Fingerprint, "nothing has to be claimed")
				assert.Equal(t, "user-1", s.deny("user-1", dynalimit.Amounts{"rpm": 1}).Primary().EntityID)
			})
		}
	}
}

// TestCountedSourceIsCheckedAsUnlimited where no other entity limits the call, and a source that cannot
// be read limits nothing there.
func TestCountedSourceIsCheckedAsUnlimited(t *testing.T) {
	s := memProcess(t, nil)
	s.says(ofSystem, limited(dynalimit.Amounts{"rpm": 1}))
	s.says(ofEntity, counted)
	report, err := s.limiter.Check(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 5})
	require.NoError(t, err)
	assert.True(t, report.Unlimited)
	assert.Empty(t, report.Available())
	assert.True(t, report.Statuses[0].Unlimited)
	resolved, err := s.repo.ResolveLimits(t.Context(), "user-1", model)
	require.NoError(t, err)
	assert.True(t, resolved.Unlimited)
	assert.Equal(t, []sources.Source{sources.Entity, sources.System}, []sources.Source{resolved.Counted, resolved.From[0]})

	item := limited(dynalimit.Amounts{"rpm": 1}).Item(s.repo.keys, ofSystem, nil)
	item["l_rpm_cp"] = schema.String("many")
	put(t, s.repo, item)
	s = s.peer(nil)
	s.acquire("user-1", dynalimit.Amounts{"rpm": 5})
}

// TestMoneyOfACountedGroupIsEnforced: a counted source of a model says nothing of its groups, and one
// that is made for the group does.
func TestMoneyOfACountedGroupIsEnforced(t *testing.T) {
	s := memProcess(t, nil)
	s.ofGroup(model)
	s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.DailyQuota("usd", 10, ""))
	s.says(ofEntity, counted)
	assert.Equal(t, group, s.deny("user-1", dynalimit.Amounts{"usd": 11}).Primary().Resource)
	s.says(schema.ConfigOwner{Entity: "user-1", Resource: group}, counted)
	s = s.peer(nil)
	assert.Equal(t, []bool{true}, []bool{s.acquire("user-1", dynalimit.Amounts{"usd": 11}).Statuses()[0].Unlimited})
}

// TestCountedSourceInAnOutage: while its bucket does not answer, or is throttled, a call passes,
// whatever the policy, and its bucket is told afterwards. A limit that is enforced, of the entity or
// of its parent, goes by the policy.
func TestCountedSourceInAnOutage(t *testing.T) {
	faults := map[string]func(*ddbmem.Request) ddbmem.Fault{"throttled": func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "UpdateItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}
		}
		return ddbmem.Fault{}
	}}
	for name, silent := range silences {
		faults[name] = silent
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			virtual(t, perDay(100), func(t *testing.T, s *process) {
				user := userOf(0)
				s.says(schema.ConfigOwner{Entity: user}, schema.ConfigItem{Extends: true, Limits: limited(dynalimit.Amounts{"rpm": 1000}).Limits})
				s.says(schema.ConfigOwner{Resource: model}, counted)
				s.says(ofSystem, schema.ConfigItem{Limits: []schema.ConfigLimit{{Name: "tpm", Capacity: 100, Burst: 100, RefillAmount: 100, RefillPeriod: 24 * time.Hour}}})
				s.children("org", "child")
				s.says(schema.ConfigOwner{Entity: "org"}, limited(dynalimit.Amounts{"tpm": 1000}))
				s.acquire(user, dynalimit.Amounts{"rpm": 1, "tpm": 1})
				s.acquire("child", dynalimit.Amounts{"tpm": 1})
				s.db.SetFaults(fault)
				used := int64(1)
				for range 3 {
					out := s.together(8, 1, dynalimit.Amounts{"tpm": 20})
					require.Empty(t, out.errs)
					assert.LessOrEqual(t, slices.Max(out.took), 6*time.Second)
					assert.True(t, slices.ContainsFunc(out.leases, (*dynalimit.Lease).Degraded))
					for _, lease := range out.leases {
						used += 20
						if name != "throttled" { // where a correction can be repeated
							require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 25}))
							used += 5
						}
					}
					elapse(time.Second)
				}
				for _, enforced := range []func() error{
					func() error {
						_, err := s.limiter.Acquire(t.Context(), user, model, dynalimit.Amounts{"rpm": 1, "tpm": 1})
						return err
					},
					func() error {
						_, err := s.limiter.Acquire(t.Context(), "child", model, dynalimit.Amounts{"tpm": 1})
						return err
					},
				} {
					require.ErrorIs(t, enforced(), dynalimit.ErrUnavailable)
				}
				s.recovers()
				require.NoError(t, s.limiter.Close(t.Context()))
				assert.InDelta(t, used, s.stored(user, "tpm").Consumed/milli, float64(s.limiter.Health().Doubt["tpm"]))
				assert.GreaterOrEqual(t, s.level(user, "tpm"), int64(0))
			})
		})
	}
}

// TestCountedSourceLeavesNoDebt: what calls cost above their estimates while a source is counted is no
// debt once it is limited again.
func TestCountedSourceLeavesNoDebt(t *testing.T) {
	s := memProcess(t, nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.MonthlyQuota("tpm", 1000, "UTC"))
	s.says(ofEntity, counted)
	lease := s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
	require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 50_000}))
	assert.EqualValues(t, 50_000*milli, s.stored("user-1", "tpm").Consumed)
	assert.GreaterOrEqual(t, s.stored("user-1", "tpm").Tokens, int64(0))
}
