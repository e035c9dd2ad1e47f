package dynalimit_test

import (
	"fmt"
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

// children makes records of a parent's children.
func (s *process) children(parent string, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		require.NoError(s.t, s.repo.CreateEntity(s.t.Context(), admin.Entity{ID: id, ParentID: parent}))
	}
}

// TestParentCountsByItsOwnSources: a parent is charged the limits made for it or for its plan; those
// of resource and system, which its bucket has too, limit each child by itself.
func TestParentCountsByItsOwnSources(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 3))
		s.limits(admin.Scope{Plan: "pro"}, dynalimit.PerMinute("rpm", 5), dynalimit.PerMinute("tpm", 100))
		s.children("team", "ann", "bob", "fay", "gil")
		for _, id := range []string{"ann", "bob"} { // six calls, and the system gives an entity three
			for range 3 {
				s.acquire(id, dynalimit.Amounts{"rpm": 1})
			}
			assert.Equal(t, id, s.deny(id, dynalimit.Amounts{"rpm": 1}).Primary().EntityID)
		}
		assert.Nil(t, s.item("team"), "nothing was made for it")

		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "team", Plan: "pro"}))
		lease := s.acquire("fay", dynalimit.Amounts{"rpm": 3})
		assert.Equal(t, []string{"fay rpm", "team rpm"}, holders(lease.Statuses()))
		assert.Equal(t, "team", s.deny("gil", dynalimit.Amounts{"rpm": 3}).Primary().EntityID)
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": -2}))
		s.acquire("gil", dynalimit.Amounts{"rpm": 3})
		assert.Equal(t, int64(1), s.level("team", "rpm"))
	})
}

// TestUnchargedLimitOfAParent: where the parent's bucket also has limits of its system source, calls
// of children neither charge nor show them, nor do leases that consume, are corrected, or are
// found again after an outage.
func TestUnchargedLimitOfAParent(t *testing.T) {
	s := memProcess(t, nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 100))
	s.children("team", "ann")
	lease := s.acquire("ann", dynalimit.Amounts{"rpm": 1})
	s.limits(admin.Scope{Entity: "team"}, dynalimit.PerMinute("rpm", 100))
	s.clock.advance(3 * time.Minute)
	assert.Len(t, s.acquire("ann", dynalimit.Amounts{"rpm": 1}).Statuses(), 2)
	require.NoError(t, s.repo.DeleteLimits(t.Context(), admin.Scope{Entity: "team"}))
	s.clock.advance(3 * time.Minute)
	assert.Equal(t, []string{"ann rpm"}, holders(s.acquire("ann", dynalimit.Amounts{"rpm": 1}).Statuses()))
	require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 2}))
	require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 9}))
	assert.EqualValues(t, 1*milli, s.stored("team", "rpm").Consumed)
	report, err := s.limiter.Check(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1})
	require.NoError(t, err)
	assert.Equal(t, []string{"ann rpm"}, holders(report.Statuses))
}

// TestDetachedParentDoesNotCount, nor does one of a record from before; Cascade charges all sources.
func TestDetachedParentDoesNotCount(t *testing.T) {
	s := memProcess(t, nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 100))
	s.limits(admin.Scope{Entity: "team"}, dynalimit.PerMinute("rpm", 1))
	require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "order", ParentID: "team", Detached: true}))
	old := schema.EntityRecord{ID: "old", ParentID: "team", Detached: true}.Item(s.repo.keys, nil)
	delete(old, "parent_counts")
	put(t, s.repo, old)
	moved := schema.EntityRecord{ID: "moved", ParentID: "other"}.Item(s.repo.keys, nil)
	moved["parent_id"] = schema.String("team") // by a writer that does not know parent_counts
	put(t, s.repo, moved)
	require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "all", ParentID: "third", Cascade: true}))
	for _, id := range []string{"order", "old", "moved"} {
		s.acquire(id, dynalimit.Amounts{"rpm": 2})
		e, err := s.repo.GetEntity(t.Context(), id)
		require.NoError(t, err)
		assert.True(t, e.Detached, id)
	}
	s.acquire("all", dynalimit.Amounts{"rpm": 2})
	assert.EqualValues(t, 2*milli, s.stored("third", "rpm").Consumed, "the system's")
}

// TestBlockOfAParent: a block of the resource or the system is decided for the entity that calls,
// and of a parent only its own sources' and its plan's.
func TestBlockOfAParent(t *testing.T) {
	for _, cascade := range []bool{false, true} {
		s := memProcess(t, perMinute())
		s.limits(admin.Scope{Entity: "org"}, dynalimit.PerMinute("rpm", 10))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "acme", ParentID: "org", Cascade: cascade}))
		lease := s.acquire("acme", dynalimit.Amounts{"rpm": 1})
		s.says(schema.ConfigOwner{Entity: "org"}, schema.ConfigItem{Blocked: true})
		s.clock.advance(3 * time.Minute)
		_, err := s.limiter.Acquire(t.Context(), "acme", model, dynalimit.Amounts{"rpm": 1})
		isBlocked(t, err, "org", sources.EntityDefault)
		_, err = s.limiter.Wait(t.Context(), "acme", model, dynalimit.Amounts{"rpm": 1})
		isBlocked(t, err, "org", sources.EntityDefault)
		isBlocked(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}), "org", sources.EntityDefault)
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 1}))
	}
}

// TestParentChangesInTraffic: a record that is made, moved or detached while calls are under way
// counts for the next calls. Leases end where they took.
func TestParentChangesInTraffic(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 100))
		for _, team := range []string{"red", "blue"} {
			s.limits(admin.Scope{Entity: team}, dynalimit.PerMinute("rpm", 1000))
		}
		began := []*dynalimit.Lease{s.acquire("ann", dynalimit.Amounts{"rpm": 1})}
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "ann", ParentID: "red"}))
		for _, next := range []admin.Entity{{ParentID: "blue"}, {ParentID: "blue", Detached: true}, {ParentID: "blue", Cascade: true}} {
			began = append(began, s.acquire("ann", dynalimit.Amounts{"rpm": 1}))
			e, err := s.repo.GetEntity(t.Context(), "ann")
			require.NoError(t, err)
			e.ParentID, e.Detached, e.Cascade = next.ParentID, next.Detached, next.Cascade
			_, err = s.repo.UpdateEntity(t.Context(), e)
			require.NoError(t, err)
		}
		began = append(began, s.acquire("ann", dynalimit.Amounts{"rpm": 1}))
		for i, want := range []string{"", "red", "blue", "", "blue"} {
			held := holders(began[i].Statuses())
			require.NoError(t, began[i].Settle(t.Context(), dynalimit.Amounts{"rpm": 3}))
			assert.Equal(t, want == "", len(held) == 1, "%d: %v", i, held)
			assert.Equal(t, want != "", len(held) == 2 && held[1] == want+" rpm", "%d: %v", i, held)
		}
		assert.EqualValues(t, 3*milli, s.stored("red", "rpm").Consumed)
		assert.EqualValues(t, 6*milli, s.stored("blue", "rpm").Consumed)
		assert.EqualValues(t, 15*milli, s.stored("ann", "rpm").Consumed)
	})
}

// TestChainThatIsTooDeep: a new call is refused if a level that is left out limits money, and only
// then. A detached link ends a chain.
func TestChainThatIsTooDeep(t *testing.T) {
	s := memProcess(t, perMinute())
	s.chain(schema.MaxDepth+1, "")
	far := "level-" + string(rune('0'+schema.MaxDepth))
	lease := s.acquire("level-0", dynalimit.Amounts{"rpm": 1})
	usd := dynalimit.DailyMoneyQuota("usd", 1_000_000, "UTC")
	usd.PerModel = true
	s.limits(admin.Scope{Entity: far, Resource: model}, usd)
	s.clock.advance(3 * time.Minute)
	_, err := s.limiter.Acquire(t.Context(), "level-0", model, dynalimit.Amounts{"rpm": 1})
	require.ErrorIs(t, err, dynalimit.ErrTooDeep)
	require.ErrorContains(t, err, far)
	require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 1}))
	put(t, s.repo, schema.EntityRecord{ID: "level-6", ParentID: "level-7", Detached: true}.Item(s.repo.keys, nil))
	s.clock.advance(3 * time.Minute)
	assert.Len(t, s.acquire("level-0", dynalimit.Amounts{"rpm": 1}).Statuses(), 7)
}

// TestLeaseChargesWhatWasMadeForTheParent: a lease whose parent's bucket has limits of the system too
// takes none of those further, whatever becomes of the parent's level meanwhile.
func TestLeaseChargesWhatWasMadeForTheParent(t *testing.T) {
	s := memProcess(t, nil)
	ctx := t.Context()
	made := func(name string) {
		_, err := s.repo.SetConfig(ctx, admin.Scope{Entity: "team"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute(name, 5)}, Extends: true, Version: admin.AnyVersion})
		require.NoError(t, err)
	}
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 100))
	_, err := s.repo.SetConfig(ctx, admin.Scope{Entity: "ann"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, Only: true})
	require.NoError(t, err)
	made("rpm")
	s.children("team", "ann", "bob")
	s.acquire("team", dynalimit.Amounts{"tpm": 100})

	ann := s.acquire("ann", dynalimit.Amounts{"rpm": 1})
	for _, err := range []error{ann.Consume(ctx, dynalimit.Amounts{"tpm": 1}), ann.Adjust(ctx, dynalimit.Amounts{"tpm": 1})} {
		requireInvalid(t, err, "amounts[tpm]")
		assert.ErrorContains(t, err, `the limits are ["rpm"]`)
	}
	bob := s.acquire("bob", dynalimit.Amounts{"rpm": 1, "tpm": 1})
	require.NoError(t, bob.Consume(ctx, dynalimit.Amounts{"tpm": 2}))
	assert.EqualValues(t, 100*milli, s.stored("team", "tpm").Consumed)
	assert.EqualValues(t, 3*milli, s.stored("bob", "tpm").Consumed)
	assert.Zero(t, s.stored("bob", "tpm").Passed, "the parent does not count it")
	assert.EqualValues(t, 1*milli, s.stored("bob", "rpm").Passed)

	made("img")
	require.NoError(t, bob.Consume(ctx, dynalimit.Amounts{"rpm": 10}), "the parent's five are gone")
	assert.EqualValues(t, 12*milli, s.stored("team", "rpm").Consumed, "what the lease uses of it is counted where it began")
	_, err = s.repo.SetConfig(ctx, admin.Scope{Entity: "bob"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 100)}, Only: true})
	require.NoError(t, err)
	requireInvalid(t, bob.Consume(ctx, dynalimit.Amounts{"rpm": 1}), "amounts[rpm]")
	require.NoError(t, s.repo.DeleteLimits(ctx, admin.Scope{Entity: "team"}))
	requireInvalid(t, bob.Consume(ctx, dynalimit.Amounts{"img": 1}), "amounts[img]")
	for range 2 {
		require.NoError(t, bob.Consume(ctx, dynalimit.Amounts{"tpm": 2}))
	}
	assert.EqualValues(t, 100*milli, s.stored("team", "tpm").Consumed)
}

// TestUnlimitedSystemAboveAParent: that the system is unlimited means nothing for a parent, so that a
// misspelt name of a child with limits is refused.
func TestUnlimitedSystemAboveAParent(t *testing.T) {
	s := memProcess(t, nil)
	s.says(ofSystem, unlimited)
	s.limits(admin.Scope{Entity: "ann"}, dynalimit.PerMinute("rpm", 100))
	s.children("team", "ann")
	_, err := s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1, "rmp": 1})
	requireInvalid(t, err, "amounts[rmp]")
}

// TestMoneyBehindAChainThatIsTooDeep: any level that is left out refuses calls if it would charge
// money, and so does a chain without an end.
func TestMoneyBehindAChainThatIsTooDeep(t *testing.T) {
	usd := schema.ConfigLimit{Name: "usd", Capacity: 1_000_000, Burst: 1_000_000, RefillAmount: 1_000_000, Window: "day", Zone: "UTC", Unit: "usd", PerModel: true}
	shadow, later := usd, usd
	shadow.Shadow, later.Window = true, "eon"
	farther := schema.ConfigOwner{Entity: "level-9"}
	for name, test := range map[string]struct {
		at      schema.ConfigOwner
		limit   schema.ConfigLimit
		links   int
		own     bool
		refused string
	}{
		"a level farther up":                      {farther, usd, 10, true, "level-9, which is above those of level-0, limits money"},
		"money in shadow":                         {farther, shadow, 10, true, ""},
		"the system's, of parents with all":       {ofSystem, usd, 10, false, "limits money"},
		"the system's, of parents with their own": {ofSystem, usd, 10, true, ""},
		"a level that cannot be read":             {farther, later, 10, true, "usd is of a kind that this version does not know"},
		"a chain that is twice as deep":           {farther, shadow, 20, true, "is above the levels that are read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, perMinute())
			s.chain(test.links, "")
			if test.own {
				for i := range test.links - 1 {
					s.enrols(schema.EntityRecord{ID: fmt.Sprintf("level-%d", i), ParentID: fmt.Sprintf("level-%d", i+1)})
				}
			}
			own := limited(dynalimit.Amounts{"rpm": 10})
			own.Extends = true
			s.says(schema.ConfigOwner{Entity: "level-8"}, own)
			s.says(test.at, schema.ConfigItem{Limits: []schema.ConfigLimit{test.limit}})
			s.says(schema.ConfigOwner{Entity: "level-0"}, limited(dynalimit.Amounts{"rpm": 10}))
			_, err := s.limiter.Acquire(t.Context(), "level-0", model, dynalimit.Amounts{"rpm": 1})
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.refused)
		})
	}
}

// TestLeaseBelowAChainThatIsTooDeep: a lease that was admitted in an outage is charged at the nearest
// levels, although new calls are refused.
func TestLeaseBelowAChainThatIsTooDeep(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.chain(schema.MaxDepth+1, "")
		usd := dynalimit.DailyMoneyQuota("usd", 1_000_000, "UTC")
		usd.PerModel = true
		s.limits(admin.Scope{Entity: fmt.Sprint("level-", schema.MaxDepth), Resource: model}, usd)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 100))
		s.down(ddbmem.Fault{Drop: true})
		p := s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow})
		lease := p.acquire("level-0", dynalimit.Amounts{"rpm": 1})
		p.recovers()
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 3}))
		assert.EqualValues(t, 3*milli, s.stored("level-0", "rpm").Consumed)
	})
}
