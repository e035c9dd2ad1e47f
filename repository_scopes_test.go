package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// everyScope is one of each kind.
var everyScope = []Scope{
	{}, {Resource: "gpt-4"}, {Plan: "pro"}, {Plan: "pro", Resource: "gpt-4"}, {Entity: "key-1"}, {Entity: "key-1", Resource: "gpt-4"},
}

// A configuration is read as it was stored, at every level, and its version counts.
func TestConfigsAreReadAsStored(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		for _, at := range everyScope {
			none, err := r.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, LimitConfig{}, none)
			version := int64(0)
			for _, want := range []LimitConfig{
				{Limits: twoLimits, OnUnavailable: Local},
				{Unlimited: true, Blocked: true},
				{Blocked: true},
				{OnUnavailable: Allow},
				{Limits: oneLimit, Blocked: true},
			} {
				want.Version = version
				stored, err := r.SetConfig(t.Context(), at, want)
				require.NoError(t, err, at)
				if version++; version == 1 { // made just now: from now on it counts
					version = stored.Version
					assert.Positive(t, version)
				}
				assert.Equal(t, version, stored.Version)
				got, err := r.GetConfig(t.Context(), at)
				require.NoError(t, err)
				assert.Equal(t, stored, got)
				want.Version = version
				assert.Equal(t, want, got)
				again, err := r.SetConfig(t.Context(), at, want)
				require.NoError(t, err)
				assert.Equal(t, version, again.Version, "nothing changed: nothing is written")
			}
			require.NoError(t, r.DeleteConfig(t.Context(), at, version))
			require.NoError(t, r.DeleteConfig(t.Context(), at, AnyVersion), "nothing is there")
			assert.Len(t, trail(t, r, AuditQuery{Target: targetOf(at)}), 6, at)
			none, err = r.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, LimitConfig{}, none)
			r = e.repository(t, nil)
		}
	})
}

func targetOf(at Scope) string {
	switch {
	case at.Entity != "":
		return at.Entity
	case at.Plan != "":
		return AuditPlan(at.Plan)
	case at.Resource != "":
		return AuditResource(at.Resource)
	}
	return AuditSystem
}

// Of two administrators who edit one level, one wins, and the other is shown both.
func TestOneOfTwoAdministratorsWins(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		at := Scope{Entity: "key-1", Resource: "gpt-4"}
		read, err := r.SetConfig(t.Context(), at, LimitConfig{Limits: []Limit{PerMinute("rpm", 1)}})
		require.NoError(t, err)
		var won atomic.Int64
		var conflicts sync.Map
		var group sync.WaitGroup
		for n := range int64(8) {
			group.Go(func() {
				mine := read
				mine.Limits = []Limit{PerMinute("rpm", 100+n)}
				_, err := r.As(fmt.Sprint("admin-", n)).SetConfig(context.WithoutCancel(t.Context()), at, mine)
				if err == nil {
					won.Store(100 + n)
					return
				}
				conflicts.Store(n, err)
			})
		}
		group.Wait()
		lost := 0
		conflicts.Range(func(n, err any) bool {
			lost++
			var c *ConfigConflictError
			assert.ErrorAs(t, err.(error), &c)
			assert.ErrorIs(t, err.(error), ErrConflict)
			assert.Equal(t, at, c.Scope)
			assert.Equal(t, 100+n.(int64), c.Yours.Limits[0].Capacity)
			assert.Equal(t, read.Version, c.Yours.Version)
			assert.Equal(t, won.Load(), c.Stored.Limits[0].Capacity)
			assert.Equal(t, read.Version+1, c.Stored.Version)
			return true
		})
		assert.Equal(t, 7, lost)
		assert.Len(t, trail(t, r, AuditQuery{Target: "key-1"}), 2)
		require.ErrorIs(t, r.DeleteConfig(t.Context(), at, read.Version), ErrConflict)
		require.ErrorIs(t, r.DeleteConfig(t.Context(), at, 0), ErrConflict)
		require.NoError(t, r.DeleteConfig(t.Context(), at, read.Version+1))
		_, err = r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit, Version: read.Version + 1})
		require.ErrorIs(t, err, ErrConflict, "removed meanwhile")
	})
}

// The setters of limits leave a block and a policy as they are.
func TestSettersKeepWhatTheyDoNotSpeakOf(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for _, at := range everyScope {
		first, err := r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit, Blocked: true, OnUnavailable: Local})
		require.NoError(t, err)
		require.NoError(t, r.SetLimits(t.Context(), at, twoLimits))
		got, err := r.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, LimitConfig{Limits: twoLimits, Blocked: true, OnUnavailable: Local, Version: first.Version + 1}, got)
		require.NoError(t, r.SetUnlimited(t.Context(), at))
		got, err = r.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, LimitConfig{Unlimited: true, Blocked: true, OnUnavailable: Local, Version: first.Version + 2}, got)
		require.NoError(t, r.DeleteLimits(t.Context(), at))
		got, err = r.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, LimitConfig{Blocked: true, Version: first.Version + 3}, got, "whoever removes limits lets nobody in")
		require.NoError(t, r.SetBlocked(t.Context(), at, false))
		got, err = r.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, LimitConfig{}, got)
		require.NoError(t, r.SetBlocked(t.Context(), at, false), "it says nothing already")
		require.NoError(t, r.SetBlocked(t.Context(), at, true))
		require.NoError(t, r.DeleteConfig(t.Context(), at, AnyVersion))
	}
	require.NoError(t, r.SetLimits(t.Context(), Scope{Plan: "pro"}, oneLimit))
	limits, err := limitsAt(r.GetConfig(t.Context(), Scope{Plan: "pro"}))
	require.NoError(t, err)
	assert.Equal(t, oneLimit, limits)
	require.NoError(t, r.DeleteLimits(t.Context(), Scope{Plan: "pro"}))
	limits, err = limitsAt(r.GetConfig(t.Context(), Scope{Plan: "pro", Resource: "_default_"}))
	require.NoError(t, err)
	assert.Empty(t, limits)
}

// A level whose limits cannot be understood is changed without letting anybody in, and a
// block of it comes and goes without a change of its limits.
func TestUnreadableLevelsKeepTheirBlock(t *testing.T) {
	for name, change := range map[string]struct {
		do   func(ctx context.Context, r *Repository, at Scope) error
		want LimitConfig
		bad  bool
	}{
		"limits are set":      {func(ctx context.Context, r *Repository, at Scope) error { return r.SetLimits(ctx, at, oneLimit) }, LimitConfig{Limits: oneLimit, Blocked: true, OnUnavailable: Local, Version: 5}, false},
		"limits are removed":  {func(ctx context.Context, r *Repository, at Scope) error { return r.DeleteLimits(ctx, at) }, LimitConfig{Blocked: true, Version: 5}, false},
		"unlimited":           {func(ctx context.Context, r *Repository, at Scope) error { return r.SetUnlimited(ctx, at) }, LimitConfig{Unlimited: true, Blocked: true, OnUnavailable: Local, Version: 5}, false},
		"the block is lifted": {func(ctx context.Context, r *Repository, at Scope) error { return r.SetBlocked(ctx, at, false) }, LimitConfig{}, true},
		"blocked and lifted": {func(ctx context.Context, r *Repository, at Scope) error {
			return errors.Join(r.SetBlocked(ctx, at, true), r.SetBlocked(ctx, at, false), r.SetBlocked(ctx, at, true), r.SetBlocked(ctx, at, false))
		}, LimitConfig{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := memEngine(t).repository(t, nil)
			for _, at := range everyScope {
				item := r.keys.EncodeConfig(at.owner(), nil, schema.ConfigItem{Blocked: true, OnUnavailable: "local", Version: 4})
				item["l_rpm_cp"] = schema.Number(5) // and no period
				put(t, r, item)
				require.NoError(t, change.do(t.Context(), r, at))
				got, err := r.GetConfig(t.Context(), at)
				assert.Equal(t, change.want, got, at)
				if !change.bad {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "l_rpm_rp", "it admits nobody, as before")
				stored, err := r.store.Get(t.Context(), "test", r.keys.Config(at.owner()))
				require.NoError(t, err)
				assert.Equal(t, schema.Number(5), stored["l_rpm_cp"])
				assert.Equal(t, schema.String("local"), stored["on_unavailable"])
				assert.NotContains(t, stored, "blocked")
			}
		})
	}
}

// Names that the table uses for attributes and keys are names like others, also among
// many changes.
func TestConfigsOfHostileNames(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var changes []ScopedConfig
		var want []Scope
		for _, name := range []string{"PK", "SK", "ttl", "GSI1PK", "GSI2SK", "GSI3PK", "GSI3SK", "entity_id", "resources", strings.Repeat("x", 256), "a.b-c_d:e@f/g"} {
			for _, at := range []Scope{{Entity: "key-1", Resource: name}, {Plan: "pro", Resource: name}, {Resource: name}} {
				changes, want = append(changes, ScopedConfig{Scope: at, Config: LimitConfig{Limits: twoLimits}}), append(want, at)
			}
		}
		errs, err := r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		for i := range errs {
			require.NoError(t, errs[i], changes[i].Scope)
		}
		listed, err := collect(r.Scopes(t.Context()))
		require.NoError(t, err)
		assert.ElementsMatch(t, want, listed)
		for _, at := range want {
			if at.Entity != "" {
				entities, err := collect(r.EntitiesWithLimits(t.Context(), at.Resource))
				require.NoError(t, err)
				assert.Equal(t, []string{"key-1"}, entities, at)
				require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "key-1", Resource: at.Resource}))
			}
		}
	})
}

// As many changes as one transaction takes, each as large as can be; one that was made by
// somebody else meanwhile and one removal are among them.
func TestConfigsOfTheLargestSize(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		changes := make([]ScopedConfig, 90)
		for i := range changes {
			id := fmt.Sprintf("%03d%s", i, strings.Repeat("z", 253))
			changes[i].Scope = Scope{Entity: id, Resource: id}
			for n := range 20 {
				name := fmt.Sprintf("l%s%02d", strings.Repeat("y.-", 20), n)
				changes[i].Config.Limits = append(changes[i].Config.Limits, Limit{Name: name, Capacity: 1e12, Burst: 1e12 - 1, RefillAmount: 1e12 - 2, RefillPeriod: 24 * time.Hour})
			}
		}
		errs, err := r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		require.NoError(t, errors.Join(errs...))
		for i := range changes {
			made, err := r.GetConfig(t.Context(), changes[i].Scope)
			require.NoError(t, err)
			changes[i].Config.Limits, changes[i].Config.Version = changes[i].Config.Limits[:10], made.Version
		}
		changes[0].Delete, changes[0].Config = true, LimitConfig{Version: changes[0].Config.Version}
		changes[3].Config.Version = 7
		errs, err = r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		require.ErrorIs(t, errs[3], ErrConflict)
		errs[3] = nil
		require.NoError(t, errors.Join(errs...))
		assert.Len(t, trail(t, r, AuditQuery{}), 90+89)
	})
}

// Bad input names the field, and nothing is asked of the table.
func TestConfigsAreChecked(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	before := e.db.Meter()
	good := LimitConfig{Limits: oneLimit}
	set := func(at Scope, c LimitConfig) error { return second(r.SetConfig(t.Context(), at, c)) }
	many := func(list ...ScopedConfig) error { return second(r.SetConfigs(t.Context(), list)) }
	for field, err := range map[string]error{
		"scope.plan":                 set(Scope{Entity: "a", Plan: "b"}, good),
		"scope.entity":               set(Scope{Entity: "a#b"}, good),
		"scope.resource":             set(Scope{Resource: "a b"}, good),
		"config.limits":              set(Scope{}, LimitConfig{}),
		"config.unlimited":           set(Scope{}, LimitConfig{Limits: oneLimit, Unlimited: true}),
		"config.onUnavailable":       set(Scope{}, LimitConfig{OnUnavailable: "maybe"}),
		"config.version":             set(Scope{}, LimitConfig{Limits: oneLimit, Version: -2}),
		"version":                    r.DeleteConfig(t.Context(), Scope{}, -2),
		"changes[1].config.limits":   many(ScopedConfig{Config: good}, ScopedConfig{Scope: Scope{Plan: "p"}}),
		"changes[0].delete":          many(ScopedConfig{Config: good, Delete: true}),
		"changes[0].scope.resource":  many(ScopedConfig{Scope: Scope{Resource: "#"}, Delete: true}),
		"changes":                    many(ScopedConfig{Scope: Scope{Entity: "a"}, Config: good}, ScopedConfig{Scope: Scope{Entity: "a", Resource: "_default_"}, Config: good}),
		"limits":                     r.SetLimits(t.Context(), Scope{Plan: "pro"}, nil),
		"config.limits.RefillPeriod": set(Scope{}, LimitConfig{Limits: []Limit{{Name: "a", Capacity: 1, RefillPeriod: 1500 * time.Millisecond}}}),
	} {
		var v *ValidationError
		require.ErrorAs(t, err, &v, field)
		assert.Equal(t, field, v.Field)
	}
	assert.Zero(t, e.db.Meter().Sub(before).Requests())
	_, err := r.As("").SetConfigs(t.Context(), []ScopedConfig{{Config: good}})
	require.ErrorContains(t, err, "principal")
}

// Many changes go in few transactions, which count once. One whose level was changed
// meanwhile is left out alone.
func TestManyConfigsInFewTransactions(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		const n = 2*45 + 7
		var changes []ScopedConfig
		for i := range n {
			changes = append(changes, ScopedConfig{Scope: Scope{Entity: "key-" + strconv.Itoa(i), Resource: "gpt-4"}, Config: LimitConfig{Limits: oneLimit}})
		}
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "key-3", Resource: "gpt-4"}, twoLimits))
		errs, err := r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		require.Len(t, errs, n)
		for i, err := range errs {
			if i == 3 {
				require.ErrorIs(t, err, ErrConflict)
			} else {
				require.NoError(t, err)
			}
		}
		if e.db != nil {
			counts, err := r.store.Get(t.Context(), "test", r.keys.EntityResources())
			require.NoError(t, err)
			assert.Equal(t, schema.Number(n), counts["gpt-4"])
		}
		ids, err := collect(r.EntitiesWithLimits(t.Context(), "gpt-4"))
		require.NoError(t, err)
		assert.Len(t, ids, n)
		assert.Len(t, trail(t, r, AuditQuery{}), n)

		for i := range changes {
			changes[i].Config, changes[i].Delete = LimitConfig{Version: AnyVersion}, true
		}
		changes = append(changes, ScopedConfig{Scope: Scope{Resource: "new"}, Config: LimitConfig{Limits: oneLimit}})
		errs, err = r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		assert.Equal(t, make([]error, n+1), errs)
		counts, err := r.store.Get(t.Context(), "test", r.keys.EntityResources())
		require.NoError(t, err)
		assert.NotContains(t, counts, "gpt-4")
	})
}

// A resource that is removed beside another that is set leaves the list all the same.
func TestResourcesAreListedAndUnlistedTogether(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	require.NoError(t, r.SetLimits(t.Context(), Scope{Resource: "old"}, oneLimit))
	require.NoError(t, r.SetLimits(t.Context(), Scope{Resource: "older"}, oneLimit))
	errs, err := r.SetConfigs(t.Context(), []ScopedConfig{
		{Scope: Scope{Resource: "old"}, Delete: true, Config: LimitConfig{Version: AnyVersion}},
		{Scope: Scope{Resource: "new"}, Config: LimitConfig{Blocked: true}},
	})
	require.NoError(t, err)
	assert.Equal(t, []error{nil, nil}, errs)
	names, err := collect(r.Resources(t.Context()))
	require.NoError(t, err)
	assert.Equal(t, []string{"new", "older"}, names)
}

// A process that dies between two requests leaves the list as it is to be, or is repeated.
func TestResourcesAreUnlistedWithTheirLimits(t *testing.T) {
	changes := []ScopedConfig{
		{Scope: Scope{Resource: "old"}, Delete: true, Config: LimitConfig{Version: AnyVersion}},
		{Scope: Scope{Resource: "new"}, Config: LimitConfig{Blocked: true, Version: AnyVersion}},
	}
	for dies := 1; ; dies++ {
		synctest.Test(t, func(t *testing.T) {
			e := memEngine(t)
			r := e.repository(t, nil)
			require.NoError(t, r.SetLimits(t.Context(), Scope{Resource: "old"}, oneLimit))
			var requests atomic.Int64
			e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				return ddbmem.Fault{Drop: requests.Add(1) >= int64(dies)}
			})
			errs, err := r.SetConfigs(t.Context(), changes)
			require.NoError(t, err)
			if requests.Load() < int64(dies) {
				assert.Equal(t, []error{nil, nil}, errs)
				dies = -1
			}
			e.db.SetFaults(nil)
			_, err = r.SetConfigs(t.Context(), changes)
			require.NoError(t, err)
			names, err := collect(r.Resources(t.Context()))
			require.NoError(t, err)
			assert.Equal(t, []string{"new"}, names)
		})
		if dies < 0 {
			break
		}
	}
}

// What is tidied up after a change says nothing of the change: it was made.
func TestAChangeIsMadeAlsoIfCountsAreNotTidied(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	for _, id := range []string{"u", "v", "w"} {
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: id, Resource: "gpt-4"}, oneLimit))
	}
	e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "UpdateItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "u", Resource: "gpt-4"}))
	errs, err := r.SetConfigs(t.Context(), []ScopedConfig{{Scope: Scope{Entity: "v", Resource: "gpt-4"}, Config: LimitConfig{Version: AnyVersion}, Delete: true}})
	require.NoError(t, errors.Join(append(errs, err)...))
	require.NoError(t, r.DeleteEntity(t.Context(), "w"))
	e.db.SetFaults(nil)
	for at, err := range r.Scopes(t.Context()) {
		require.NoError(t, err)
		assert.Fail(t, "is listed", at)
	}
}

// The lists of resources with limits end at 400 KB: the error says what is full, and what to do.
func TestAFullListOfResourcesIsSaid(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for name, at := range map[string]Scope{"resources": {}, "entities": {Entity: "u"}} {
		t.Run(name, func(t *testing.T) {
			var failed error
			for i := 0; i < 1800 && failed == nil; i += 90 {
				changes := make([]ScopedConfig, 90)
				for j := range changes {
					at.Resource = fmt.Sprintf("r%05d", i+j) + strings.Repeat("x", 250)
					changes[j] = ScopedConfig{Scope: at, Config: LimitConfig{Limits: oneLimit}}
				}
				errs, err := r.SetConfigs(t.Context(), changes)
				require.NoError(t, err)
				failed = errors.Join(errs...)
			}
			require.ErrorIs(t, failed, ErrTable)
			assert.ErrorContains(t, failed, "more than the 400 KB that DynamoDB takes in one item, which lists the resources with limits; delete limits of resources that nobody uses any more")
		})
	}
}

// Every level that says anything is listed.
func TestScopesAreListed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		none, err := collect(r.Scopes(t.Context()))
		require.NoError(t, err)
		assert.Empty(t, none)
		want := append([]Scope{}, everyScope...)
		want = append(want, Scope{Plan: "free"}, Scope{Entity: "key-2"})
		for _, at := range want {
			_, err := r.SetConfig(t.Context(), at, LimitConfig{Blocked: true})
			require.NoError(t, err)
		}
		got, err := collect(r.Scopes(t.Context()))
		require.NoError(t, err)
		assert.ElementsMatch(t, want, got)
		plans, err := collect(r.Plans(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []string{"free", "pro"}, plans)
	})
}

// A level whose item cannot be understood is said to be so, and can be replaced.
func TestMalformedConfigIsReplaced(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	item := r.keys.EncodeConfig(schema.ConfigOwner{Resource: "gpt-4"}, nil, schema.ConfigItem{Version: 7})
	item["l_rpm_cp"] = schema.String("many")
	_, err := r.store.Transact(t.Context(), single(r.store.Put(item, schema.Statement{})))
	require.NoError(t, err)
	at := Scope{Resource: "gpt-4"}
	_, err = r.GetConfig(t.Context(), at)
	require.ErrorContains(t, err, "stored limits of level resource")
	_, err = r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit})
	var c *ConfigConflictError
	require.ErrorAs(t, err, &c)
	assert.Equal(t, int64(7), c.Stored.Version)
	_, err = r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit, Version: 7})
	require.NoError(t, err)
}

func single[T any](v T) []T { return []T{v} }

// Once the store does not serve, the rest of many changes is not tried; each says whether
// it was made, and a repeat makes the rest.
func TestManyConfigsAreResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		var changes []ScopedConfig
		for i := range 300 {
			changes = append(changes, ScopedConfig{Scope: Scope{Entity: "key-" + strconv.Itoa(i)}, Config: LimitConfig{Limits: oneLimit}})
		}
		var writes atomic.Int64
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Drop: q.Operation == "TransactWriteItems" && writes.Add(1) > 3}
		})
		errs, err := r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else {
				require.ErrorIs(t, err, ErrUnavailable)
			}
		}
		assert.Equal(t, 3*45, made)
		assert.LessOrEqual(t, writes.Load(), int64(3+4), "the tries of one transaction more")
		e.db.SetFaults(nil)
		assert.Len(t, trail(t, r, AuditQuery{}), made)
		for i := range changes {
			changes[i].Config.Version = AnyVersion
		}
		errs, err = r.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		assert.Equal(t, make([]error, len(changes)), errs)
		assert.Len(t, trail(t, r, AuditQuery{}), len(changes), "what is stored already is not written again")
	})
}

// What is made anew after it was removed has another version: a change that was planned on
// what was removed does not land on it.
func TestWhatIsMadeAnewHasAnotherVersion(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		clock := newHandClock()
		r := e.repository(t, &RepositoryOptions{Now: clock.now})
		at := Scope{Entity: "key-1"}
		read, err := r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit})
		require.NoError(t, err)
		clock.advance(time.Minute)
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "key-1"}))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "key-1"}, twoLimits))
		read.Blocked = true
		var c *ConfigConflictError
		require.ErrorAs(t, second(r.SetConfig(t.Context(), at, read)), &c)
		assert.Equal(t, twoLimits, c.Stored.Limits)
	})
}

// What Validate refuses without a table is what SetConfigs refuses, in the same words.
func TestValidateRefusesWhatSetConfigsRefuses(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	writes := e.db.Meter()
	for name, c := range map[string]ScopedConfig{
		"two owners":            {Scope: Scope{Entity: "a", Plan: "b"}, Delete: true},
		"delete, and limits":    {Scope: Scope{Entity: "a"}, Config: LimitConfig{Limits: oneLimit}, Delete: true},
		"delete, and a manager": {Scope: Scope{Entity: "a"}, Config: LimitConfig{ManagedBy: "x"}, Delete: true},
		"delete a version":      {Scope: Scope{Entity: "a"}, Config: LimitConfig{Version: -2}, Delete: true},
		"no such version":       {Scope: Scope{Entity: "a"}, Config: LimitConfig{Limits: oneLimit, Version: -2}},
		"nothing":               {Scope: Scope{Entity: "a"}},
		"both":                  {Scope: Scope{Entity: "a"}, Config: LimitConfig{Limits: oneLimit, Unlimited: true}},
		"a manager":             {Scope: Scope{Entity: "a"}, Config: LimitConfig{Limits: oneLimit, ManagedBy: "a b"}},
	} {
		alone := c.Validate()
		require.ErrorAs(t, alone, new(*ValidationError), name)
		_, err := r.SetConfigs(t.Context(), []ScopedConfig{c})
		require.ErrorAs(t, err, new(*ValidationError), name)
		assert.Equal(t, strings.Replace(err.Error(), "changes[0].", "", 1), alone.Error(), name)
	}
	assert.Equal(t, writes.WriteUnits(), e.db.Meter().WriteUnits())
	require.NoError(t, ScopedConfig{Scope: Scope{Entity: "a"}, Config: LimitConfig{Version: AnyVersion}, Delete: true}.Validate())
}

// A level that zae-limiter refuses can be removed by a repository that keeps to what it
// takes.
func TestCompatibleRepositoriesRemoveWhatOthersRefuse(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	at := Scope{Resource: "org:gpt-4"}
	_, err := r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit})
	require.NoError(t, err)
	errs, err := e.open(t, r.table, &RepositoryOptions{Compatible: true}).SetConfigs(t.Context(), []ScopedConfig{{Scope: at, Config: LimitConfig{Version: AnyVersion}, Delete: true}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}
