package admin_test

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

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// everyScope is one of each kind.
var everyScope = []admin.Scope{
	{Everyone: true}, {Everyone: true, Resource: "gpt-4"}, {Plan: "pro"}, {Plan: "pro", Resource: "gpt-4"}, {Entity: "key-1"}, {Entity: "key-1", Resource: "gpt-4"},
}

// A configuration is read as it was stored, at every source, and its version counts.
func TestConfigsAreReadAsStored(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		for _, at := range everyScope {
			none, err := admin.New(r).Limits.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, admin.LimitConfig{}, none)
			version := int64(0)
			for _, want := range []admin.LimitConfig{
				{Limits: twoLimits, OnUnavailable: dynalimit.Local},
				{Unlimited: true, Blocked: true},
				{Blocked: true},
				{OnUnavailable: dynalimit.Allow},
				{Limits: oneLimit, Blocked: true},
			} {
				want.Version = version
				stored, err := admin.New(r).Limits.SetConfig(t.Context(), at, want)
				require.NoError(t, err, at)
				if version++; version == 1 { // made just now: from now on it counts
					version = stored.Version
					assert.Positive(t, version)
				}
				assert.Equal(t, version, stored.Version)
				got, err := admin.New(r).Limits.GetConfig(t.Context(), at)
				require.NoError(t, err)
				assert.Equal(t, stored, got)
				want.Version = version
				assert.Equal(t, want, got)
				again, err := admin.New(r).Limits.SetConfig(t.Context(), at, want)
				require.NoError(t, err)
				assert.Equal(t, version, again.Version, "nothing changed: nothing is written")
			}
			require.NoError(t, deleteConfig(t.Context(), r, at, version))
			require.NoError(t, deleteConfig(t.Context(), r, at, admin.AnyVersion), "nothing is there")
			assert.Len(t, trail(t, r, audit.Query{Target: targetOf(at)}), 6, at)
			none, err = admin.New(r).Limits.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, admin.LimitConfig{}, none)
			r = e.repository(t, nil)
		}
	})
}

func targetOf(at admin.Scope) string {
	switch {
	case at.Entity != "":
		return at.Entity
	case at.Plan != "":
		return audit.Plan(at.Plan)
	case at.Resource != "":
		return audit.Resource(at.Resource)
	}
	return audit.System
}

// Of two administrators who edit one source, one wins, and the other is shown both.
func TestOneOfTwoAdministratorsWins(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		at := admin.Scope{Entity: "key-1", Resource: "gpt-4"}
		read, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}})
		require.NoError(t, err)
		var won atomic.Int64
		var conflicts sync.Map
		var group sync.WaitGroup
		for n := range int64(8) {
			group.Go(func() {
				mine := read
				mine.Limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 100+n)}
				_, err := admin.New(r.As(fmt.Sprint("admin-", n))).Limits.SetConfig(context.WithoutCancel(t.Context()), at, mine)
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
			var c *admin.ConflictError[admin.ScopedConfig]
			assert.ErrorAs(t, err.(error), &c)
			assert.ErrorIs(t, err.(error), admin.ErrConflict)
			assert.Equal(t, at, c.Stored.Scope)
			assert.Equal(t, 100+n.(int64), c.Yours.Config.Limits[0].Capacity)
			assert.Equal(t, read.Version, c.Yours.Config.Version)
			assert.Equal(t, won.Load(), c.Stored.Config.Limits[0].Capacity)
			assert.Equal(t, read.Version+1, c.Stored.Config.Version)
			return true
		})
		assert.Equal(t, 7, lost)
		assert.Len(t, trail(t, r, audit.Query{Target: "key-1"}), 2)
		require.ErrorIs(t, deleteConfig(t.Context(), r, at, read.Version), admin.ErrConflict)
		require.ErrorIs(t, deleteConfig(t.Context(), r, at, 0), admin.ErrConflict)
		require.NoError(t, deleteConfig(t.Context(), r, at, read.Version+1))
		_, err = admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit, Version: read.Version + 1})
		require.ErrorIs(t, err, admin.ErrConflict, "removed meanwhile")
	})
}

// The setters of limits leave a block and a policy as they are.
func TestSettersKeepWhatTheyDoNotSpeakOf(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for _, at := range everyScope {
		first, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit, Blocked: true, OnUnavailable: dynalimit.Local})
		require.NoError(t, err)
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), at, twoLimits))
		got, err := admin.New(r).Limits.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, admin.LimitConfig{Limits: twoLimits, Blocked: true, OnUnavailable: dynalimit.Local, Version: first.Version + 1}, got)
		require.NoError(t, admin.New(r).Limits.SetUnlimited(t.Context(), at))
		got, err = admin.New(r).Limits.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, admin.LimitConfig{Unlimited: true, Blocked: true, OnUnavailable: dynalimit.Local, Version: first.Version + 2}, got)
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), at))
		got, err = admin.New(r).Limits.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, admin.LimitConfig{Blocked: true, Version: first.Version + 3}, got, "whoever removes limits lets nobody in")
		require.NoError(t, admin.New(r).Limits.SetBlocked(t.Context(), at, false))
		got, err = admin.New(r).Limits.GetConfig(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, admin.LimitConfig{}, got)
		require.NoError(t, admin.New(r).Limits.SetBlocked(t.Context(), at, false), "it says nothing already")
		require.NoError(t, admin.New(r).Limits.SetBlocked(t.Context(), at, true))
		require.NoError(t, deleteConfig(t.Context(), r, at, admin.AnyVersion))
	}
	unsorted := []dynalimit.Limit{twoLimits[1], {Name: "rpm", Capacity: 100, RefillPeriod: time.Minute}}
	require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Plan: "pro"}, unsorted))
	limits, err := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Plan: "pro"}))
	require.NoError(t, err)
	assert.Equal(t, twoLimits, limits, "sorted, defaults filled in")
	require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Plan: "pro"}))
	limits, err = limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Plan: "pro", Resource: "_default_"}))
	require.NoError(t, err)
	assert.Empty(t, limits)
}

// A source whose limits cannot be understood is changed without letting anybody in, and a
// block of it comes and goes without a change of its limits.
func TestUnreadableSourcesKeepTheirBlock(t *testing.T) {
	for name, change := range map[string]struct {
		do   func(ctx context.Context, r *dynalimit.Repository, at admin.Scope) error
		want admin.LimitConfig
		bad  bool
	}{
		"limits are set": {func(ctx context.Context, r *dynalimit.Repository, at admin.Scope) error {
			return admin.New(r).Limits.Set(ctx, at, oneLimit)
		}, admin.LimitConfig{Limits: oneLimit, Blocked: true, OnUnavailable: dynalimit.Local, Version: 5}, false},
		"limits are removed": {func(ctx context.Context, r *dynalimit.Repository, at admin.Scope) error {
			return admin.New(r).Limits.Delete(ctx, at)
		}, admin.LimitConfig{Blocked: true, Version: 5}, false},
		"unlimited": {func(ctx context.Context, r *dynalimit.Repository, at admin.Scope) error {
			return admin.New(r).Limits.SetUnlimited(ctx, at)
		}, admin.LimitConfig{Unlimited: true, Blocked: true, OnUnavailable: dynalimit.Local, Version: 5}, false},
		"the block is lifted": {func(ctx context.Context, r *dynalimit.Repository, at admin.Scope) error {
			return admin.New(r).Limits.SetBlocked(ctx, at, false)
		}, admin.LimitConfig{}, true},
		"blocked and lifted": {func(ctx context.Context, r *dynalimit.Repository, at admin.Scope) error {
			return errors.Join(admin.New(r).Limits.SetBlocked(ctx, at, true), admin.New(r).Limits.SetBlocked(ctx, at, false), admin.New(r).Limits.SetBlocked(ctx, at, true), admin.New(r).Limits.SetBlocked(ctx, at, false))
		}, admin.LimitConfig{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := memEngine(t).repository(t, nil)
			for _, at := range everyScope {
				item := schema.ConfigItem{Blocked: true, OnUnavailable: "local", Version: 4}.Item(shared.Of(r).Keys, at.Owner(), nil)
				item["l_rpm_cp"] = schema.Number(5) // and no period
				put(t, r, item)
				require.NoError(t, change.do(t.Context(), r, at))
				got, err := admin.New(r).Limits.GetConfig(t.Context(), at)
				assert.Equal(t, change.want, got, at)
				if !change.bad {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "l_rpm_rp", "it admits nobody, as before")
				stored, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.Config(at.Owner()))
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
		var changes []admin.ScopedConfig
		var want []admin.Scope
		for _, name := range []string{"PK", "SK", "ttl", "GSI1PK", "GSI2SK", "GSI3PK", "GSI3SK", "entity_id", "resources", strings.Repeat("x", 256), "a.b-c_d:e@f/g"} {
			for _, at := range []admin.Scope{{Entity: "key-1", Resource: name}, {Plan: "pro", Resource: name}, {Everyone: true, Resource: name}} {
				changes, want = append(changes, admin.ScopedConfig{Scope: at, Config: admin.LimitConfig{Limits: twoLimits}}), append(want, at)
			}
		}
		errs, err := admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		for i := range errs {
			require.NoError(t, errs[i], changes[i].Scope)
		}
		listed, err := collect(admin.New(r).Limits.Scopes(t.Context()))
		require.NoError(t, err)
		assert.ElementsMatch(t, want, listed)
		for _, at := range want {
			if at.Entity != "" {
				entities, err := collect(admin.New(r).Limits.Entities(t.Context(), at.Resource))
				require.NoError(t, err)
				assert.Equal(t, []string{"key-1"}, entities, at)
				require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "key-1", Resource: at.Resource}))
			}
		}
	})
}

// As many changes as one transaction takes, each as large as can be; one that was made by
// somebody else meanwhile and one removal are among them.
func TestConfigsOfTheLargestSize(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		changes := make([]admin.ScopedConfig, 90)
		for i := range changes {
			id := fmt.Sprintf("%03d%s", i, strings.Repeat("z", 253))
			changes[i].Scope = admin.Scope{Entity: id, Resource: id}
			for n := range 20 {
				name := fmt.Sprintf("l%s%02d", strings.Repeat("y.-", 20), n)
				changes[i].Config.Limits = append(changes[i].Config.Limits, dynalimit.Limit{Name: name, Capacity: 1e12, Burst: 1e12 - 1, RefillAmount: 1e12 - 2, RefillPeriod: 24 * time.Hour})
			}
		}
		errs, err := admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		require.NoError(t, errors.Join(errs...))
		for i := range changes {
			made, err := admin.New(r).Limits.GetConfig(t.Context(), changes[i].Scope)
			require.NoError(t, err)
			changes[i].Config.Limits, changes[i].Config.Version = changes[i].Config.Limits[:10], made.Version
		}
		changes[0].Delete, changes[0].Config = true, admin.LimitConfig{Version: changes[0].Config.Version}
		changes[3].Config.Version = 7
		errs, err = admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		require.ErrorIs(t, errs[3], admin.ErrConflict)
		errs[3] = nil
		require.NoError(t, errors.Join(errs...))
		assert.Len(t, trail(t, r, audit.Query{}), 90+89)
	})
}

// Bad input names the field, and nothing is asked of the table.
func TestConfigsAreChecked(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	before := e.db.Meter()
	good := admin.LimitConfig{Limits: oneLimit}
	set := func(at admin.Scope, c admin.LimitConfig) error {
		return second(admin.New(r).Limits.SetConfig(t.Context(), at, c))
	}
	many := func(list ...admin.ScopedConfig) error {
		return second(admin.New(r).Limits.SetConfigs(t.Context(), list))
	}
	for field, err := range map[string]error{
		"scope.plan":                 set(admin.Scope{Entity: "a", Plan: "b"}, good),
		"scope.entity":               set(admin.Scope{Entity: "a#b"}, good),
		"scope.everyone":             set(admin.Scope{Everyone: true, Entity: "a"}, good),
		"scope.resource":             set(admin.Scope{Everyone: true, Resource: "a b"}, good),
		"config.limits":              set(admin.Scope{Everyone: true}, admin.LimitConfig{}),
		"config.unlimited":           set(admin.Scope{Everyone: true}, admin.LimitConfig{Limits: oneLimit, Unlimited: true}),
		"config.onUnavailable":       set(admin.Scope{Everyone: true}, admin.LimitConfig{OnUnavailable: "maybe"}),
		"config.version":             set(admin.Scope{Everyone: true}, admin.LimitConfig{Limits: oneLimit, Version: -2}),
		"changes[0].config.version":  deleteConfig(t.Context(), r, admin.Scope{Everyone: true}, -2),
		"changes[1].config.limits":   many(admin.ScopedConfig{Scope: admin.Scope{Everyone: true}, Config: good}, admin.ScopedConfig{Scope: admin.Scope{Plan: "p"}}),
		"changes[0].delete":          many(admin.ScopedConfig{Scope: admin.Scope{Everyone: true}, Config: good, Delete: true}),
		"changes[0].scope.resource":  many(admin.ScopedConfig{Scope: admin.Scope{Everyone: true, Resource: "#"}, Delete: true}),
		"changes":                    many(admin.ScopedConfig{Scope: admin.Scope{Entity: "a"}, Config: good}, admin.ScopedConfig{Scope: admin.Scope{Entity: "a", Resource: "_default_"}, Config: good}),
		"resource":                   second(collect(admin.New(r).Limits.Entities(t.Context(), "#"))),
		"limits[1].Name":             admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{oneLimit[0], dynalimit.PerMinute("9", 1)}),
		"limits":                     admin.New(r).Limits.Set(t.Context(), admin.Scope{Plan: "pro"}, nil),
		"config.limits.RefillPeriod": set(admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{{Name: "a", Capacity: 1, RefillPeriod: 1500 * time.Millisecond}}}),
	} {
		var v *dynalimit.ValidationError
		require.ErrorAs(t, err, &v, field)
		assert.Equal(t, field, v.Field)
	}
	assert.Zero(t, e.db.Meter().Sub(before).Requests())
	_, err := admin.New(r.As("")).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{{Scope: admin.Scope{Everyone: true}, Config: good}})
	require.ErrorContains(t, err, "principal")
}

// Many changes go in few transactions, which count once. One whose source was changed
// meanwhile is left out alone.
func TestManyConfigsInFewTransactions(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		const n = 2*45 + 7
		var changes []admin.ScopedConfig
		for i := range n {
			changes = append(changes, admin.ScopedConfig{Scope: admin.Scope{Entity: "key-" + strconv.Itoa(i), Resource: "gpt-4"}, Config: admin.LimitConfig{Limits: oneLimit}})
		}
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "key-3", Resource: "gpt-4"}, twoLimits))
		errs, err := admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		require.Len(t, errs, n)
		for i, err := range errs {
			if i == 3 {
				require.ErrorIs(t, err, admin.ErrConflict)
			} else {
				require.NoError(t, err)
			}
		}
		if e.db != nil {
			counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
			require.NoError(t, err)
			assert.Equal(t, schema.Number(n), counts["gpt-4"])
		}
		ids, err := collect(admin.New(r).Limits.Entities(t.Context(), "gpt-4"))
		require.NoError(t, err)
		assert.Len(t, ids, n)
		assert.Len(t, trail(t, r, audit.Query{}), n)

		for i := range changes {
			changes[i].Config, changes[i].Delete = admin.LimitConfig{Version: admin.AnyVersion}, true
		}
		changes = append(changes, admin.ScopedConfig{Scope: admin.Scope{Everyone: true, Resource: "new"}, Config: admin.LimitConfig{Limits: oneLimit}})
		errs, err = admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		assert.Equal(t, make([]error, n+1), errs)
		counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
		require.NoError(t, err)
		assert.NotContains(t, counts, "gpt-4")
	})
}

// A resource that is removed beside another that is set leaves the list all the same.
func TestResourcesAreListedAndUnlistedTogether(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "old"}, oneLimit))
	require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "older"}, oneLimit))
	errs, err := admin.New(r).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{
		{Scope: admin.Scope{Everyone: true, Resource: "old"}, Delete: true, Config: admin.LimitConfig{Version: admin.AnyVersion}},
		{Scope: admin.Scope{Everyone: true, Resource: "new"}, Config: admin.LimitConfig{Blocked: true}},
	})
	require.NoError(t, err)
	assert.Equal(t, []error{nil, nil}, errs)
	names, err := collect(admin.New(r).Limits.Resources(t.Context()))
	require.NoError(t, err)
	assert.Equal(t, []string{"new", "older"}, names)
}

// A process that dies between two requests leaves the list as it is to be, or is repeated.
func TestResourcesAreUnlistedWithTheirLimits(t *testing.T) {
	changes := []admin.ScopedConfig{
		{Scope: admin.Scope{Everyone: true, Resource: "old"}, Delete: true, Config: admin.LimitConfig{Version: admin.AnyVersion, Only: true}},
		{Scope: admin.Scope{Everyone: true, Resource: "new"}, Config: admin.LimitConfig{Blocked: true, Version: admin.AnyVersion, Only: true}},
	}
	for dies := 1; ; dies++ {
		synctest.Test(t, func(t *testing.T) {
			e := memEngine(t)
			r := e.repository(t, nil)
			require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "old"}, oneLimit))
			var requests atomic.Int64
			e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				return ddbmem.Fault{Drop: requests.Add(1) >= int64(dies)}
			})
			errs, err := admin.New(r).Limits.SetConfigs(t.Context(), changes)
			require.NoError(t, err)
			if requests.Load() < int64(dies) {
				assert.Equal(t, []error{nil, nil}, errs)
				dies = -1
			}
			e.db.SetFaults(nil)
			_, err = admin.New(r).Limits.SetConfigs(t.Context(), changes)
			require.NoError(t, err)
			names, err := collect(admin.New(r).Limits.Resources(t.Context()))
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
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: id, Resource: "gpt-4"}, oneLimit))
	}
	e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "UpdateItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "u", Resource: "gpt-4"}))
	gone := admin.ScopedConfig{Scope: admin.Scope{Entity: "v", Resource: "gpt-4"}, Config: admin.LimitConfig{Version: admin.AnyVersion}, Delete: true}
	errs, err := admin.New(r).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{gone})
	require.NoError(t, errors.Join(append(errs, err)...))
	require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "w"))
	e.db.SetFaults(nil)
	for at, err := range admin.New(r).Limits.Scopes(t.Context()) {
		require.NoError(t, err)
		assert.Fail(t, "is listed", at)
	}
}

// An id that somebody forgot changes nobody's limits: whatever takes a scope wants to know
// whose it is, before anything is asked.
func TestAScopeSaysWhoseItIs(t *testing.T) {
	e := memEngine(t)
	l, ctx := admin.New(e.repository(t, nil)).Limits, t.Context()
	before := e.db.Meter()
	for _, at := range []admin.Scope{{}, {Resource: "gpt-4"}} {
		for what, err := range map[string]error{
			"GetConfig":    second(l.GetConfig(ctx, at)),
			"SetConfig":    second(l.SetConfig(ctx, at, admin.LimitConfig{Limits: oneLimit})),
			"SetBlocked":   l.SetBlocked(ctx, at, true),
			"SetUnlimited": l.SetUnlimited(ctx, at),
			"Set":          l.Set(ctx, at, oneLimit),
			"Delete":       l.Delete(ctx, at),
		} {
			require.Error(t, err, what)
			assert.ErrorContains(t, err, "scope.entity: is empty", what)
			assert.ErrorContains(t, err, "Everyone", what)
		}
		assert.ErrorContains(t, second(l.GetConfigs(ctx, []admin.Scope{at})), "scopes[0].entity: is empty")
		assert.ErrorContains(t, second(l.SetConfigs(ctx, []admin.ScopedConfig{{Scope: at, Delete: true}})), "changes[0].scope.entity: is empty")
	}
	assert.Zero(t, e.db.Meter().Sub(before).Requests())
}

// The lists of resources with limits end at 400 KB: the error says what is full, and what to do.
func TestAFullListOfResourcesIsSaid(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for name, at := range map[string]admin.Scope{"resources": {Everyone: true}, "entities": {Entity: "u"}} {
		t.Run(name, func(t *testing.T) {
			var failed error
			for i := 0; i < 1800 && failed == nil; i += 90 {
				changes := make([]admin.ScopedConfig, 90)
				for j := range changes {
					at.Resource = fmt.Sprintf("r%05d", i+j) + strings.Repeat("x", 250)
					changes[j] = admin.ScopedConfig{Scope: at, Config: admin.LimitConfig{Limits: oneLimit}}
				}
				errs, err := admin.New(r).Limits.SetConfigs(t.Context(), changes)
				require.NoError(t, err)
				failed = errors.Join(errs...)
			}
			require.ErrorIs(t, failed, fault.ErrTable)
			assert.ErrorContains(t, failed, "more than the 400 KB that DynamoDB takes in one item, which lists the resources with limits; delete limits of resources that nobody uses any more")
		})
	}
}

// Every source that says anything is listed.
func TestScopesAreListed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		none, err := collect(admin.New(r).Limits.Scopes(t.Context()))
		require.NoError(t, err)
		assert.Empty(t, none)
		want := append([]admin.Scope{}, everyScope...)
		want = append(want, admin.Scope{Plan: "free"}, admin.Scope{Entity: "key-2"})
		for _, at := range want {
			_, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Blocked: true})
			require.NoError(t, err)
		}
		got, err := collect(admin.New(r).Limits.Scopes(t.Context()))
		require.NoError(t, err)
		assert.ElementsMatch(t, want, got)
		plans, err := collect(admin.New(r).Limits.Plans(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []string{"free", "pro"}, plans)
	})
}

// A source whose item cannot be understood is said to be so, and can be replaced.
func TestMalformedConfigIsReplaced(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	item := schema.ConfigItem{Version: 7}.Item(shared.Of(r).Keys, schema.ConfigOwner{Resource: "gpt-4"}, nil)
	item["l_rpm_cp"] = schema.String("many")
	put := shared.Of(r).Table.PutPart(item, schema.Statement{})
	_, err := shared.Of(r).Table.Client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: single(put)})
	require.NoError(t, err)
	at := admin.Scope{Everyone: true, Resource: "gpt-4"}
	_, err = admin.New(r).Limits.GetConfig(t.Context(), at)
	require.ErrorContains(t, err, "stored limits of source resource")
	_, err = admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit})
	var c *admin.ConflictError[admin.ScopedConfig]
	require.ErrorAs(t, err, &c)
	assert.Equal(t, int64(7), c.Stored.Config.Version)
	_, err = admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit, Version: 7})
	require.NoError(t, err)
}

func single[T any](v T) []T { return []T{v} }

// Once the store does not serve, the rest of many changes is not tried; each says whether
// it was made, and a repeat makes the rest.
func TestManyConfigsAreResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		var changes []admin.ScopedConfig
		for i := range 300 {
			changes = append(changes, admin.ScopedConfig{Scope: admin.Scope{Entity: "key-" + strconv.Itoa(i)}, Config: admin.LimitConfig{Limits: oneLimit}})
		}
		var writes atomic.Int64
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Drop: q.Operation == "TransactWriteItems" && writes.Add(1) > 3}
		})
		errs, err := admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else {
				require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			}
		}
		assert.Equal(t, 3*45, made)
		assert.LessOrEqual(t, writes.Load(), int64(3+4), "the tries of one transaction more")
		e.db.SetFaults(nil)
		assert.Len(t, trail(t, r, audit.Query{}), made)
		for i := range changes {
			changes[i].Config.Version = admin.AnyVersion
		}
		errs, err = admin.New(r).Limits.SetConfigs(t.Context(), changes)
		require.NoError(t, err)
		assert.Equal(t, make([]error, len(changes)), errs)
		assert.Len(t, trail(t, r, audit.Query{}), len(changes), "what is stored already is not written again")
	})
}

// What is made anew after it was removed has another version: a change that was planned on
// what was removed does not land on it.
func TestWhatIsMadeAnewHasAnotherVersion(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		clock := newHandClock()
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
		at := admin.Scope{Entity: "key-1"}
		read, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit})
		require.NoError(t, err)
		clock.advance(time.Minute)
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "key-1"}))
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "key-1"}, twoLimits))
		read.Blocked = true
		var c *admin.ConflictError[admin.ScopedConfig]
		require.ErrorAs(t, second(admin.New(r).Limits.SetConfig(t.Context(), at, read)), &c)
		assert.Equal(t, twoLimits, c.Stored.Config.Limits)
	})
}

// What Validate refuses without a table is what SetConfigs refuses, in the same words.
func TestValidateRefusesWhatSetConfigsRefuses(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	writes := e.db.Meter()
	for name, c := range map[string]admin.ScopedConfig{
		"two owners":            {Scope: admin.Scope{Entity: "a", Plan: "b"}, Delete: true},
		"delete, and limits":    {Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{Limits: oneLimit}, Delete: true},
		"delete, and a manager": {Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{ManagedBy: "x"}, Delete: true},
		"delete a version":      {Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{Version: -2}, Delete: true},
		"no such version":       {Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{Limits: oneLimit, Version: -2}},
		"nothing":               {Scope: admin.Scope{Entity: "a"}},
		"both":                  {Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{Limits: oneLimit, Unlimited: true}},
		"a manager":             {Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{Limits: oneLimit, ManagedBy: "a b"}},
	} {
		alone := c.Validate()
		require.ErrorAs(t, alone, new(*dynalimit.ValidationError), name)
		_, err := admin.New(r).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{c})
		require.ErrorAs(t, err, new(*dynalimit.ValidationError), name)
		assert.Equal(t, strings.Replace(err.Error(), "changes[0].", "", 1), alone.Error(), name)
	}
	assert.Equal(t, writes.WriteUnits(), e.db.Meter().WriteUnits())
	require.NoError(t, admin.ScopedConfig{Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{Version: admin.AnyVersion}, Delete: true}.Validate())
}

// A source that zae-limiter refuses can be removed by a repository that keeps to what it
// takes.
func TestCompatibleRepositoriesRemoveWhatOthersRefuse(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	at := admin.Scope{Everyone: true, Resource: "org:gpt-4"}
	_, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit})
	require.NoError(t, err)
	errs, err := admin.New(e.open(t, r.Table(), &dynalimit.RepositoryOptions{Compatible: true})).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{{Scope: at, Config: admin.LimitConfig{Version: admin.AnyVersion}, Delete: true}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}
