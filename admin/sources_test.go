package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

func limitNamed(names ...string) (limits []dynalimit.Limit) {
	for _, name := range names {
		l := dynalimit.PerMinute(name, 10)
		if name == "usd" {
			l = dynalimit.DailyMoneyQuota(name, 1_000_000, "UTC")
			l.PerModel = true
		}
		limits = append(limits, l)
	}
	return limits
}

// TestLimitsAreNotLostUnsaid: a change that takes limits out of force is refused unless it says so:
// of money each, of others those that a new list hides. What the source had hidden before is not new.
func TestLimitsAreNotLostUnsaid(t *testing.T) {
	system, resource, acme := admin.Scope{Everyone: true}, admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.Scope{Entity: "acme"}
	pro, shadow := admin.Scope{Plan: "pro"}, dynalimit.PerMinute("img", 10)
	shadow.Shadow = true
	for name, test := range map[string]struct {
		stored map[admin.Scope][]dynalimit.Limit
		change admin.ScopedConfig
		record *admin.Entity
		losses []admin.Loss
		passes bool
	}{
		"a list that hides those of a plan": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: limitNamed("rpm", "tpm", "usd")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm")}},
			losses: []admin.Loss{{Scope: acme, Name: "tpm", Source: sources.PlanDefault}, {Scope: acme, Name: "usd", Source: sources.PlanDefault, Money: true}},
		},
		"a default that hides a resource's list": {
			stored: map[admin.Scope][]dynalimit.Limit{resource: limitNamed("tpm"), system: limitNamed("rpm")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm")}},
			losses: []admin.Loss{{Scope: acme, Resource: "gpt-4", Name: "tpm", Source: sources.Resource}},
		},
		"a list that extends": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: limitNamed("rpm", "tpm", "usd")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm"), Extends: true}},
			passes: true,
		},
		"what was hidden before": {
			stored: map[admin.Scope][]dynalimit.Limit{system: limitNamed("rpm", "tpm"), acme: limitNamed("rpm")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm", "img")}},
			passes: true,
		},
		"a default that hides a plan's list on a model": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: limitNamed("rpm"), {Plan: "pro", Resource: "gpt-4"}: limitNamed("tpm")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm")}},
			losses: []admin.Loss{{Scope: acme, Resource: "gpt-4", Name: "tpm", Source: sources.Plan}},
		},
		"a limit in shadow": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: append(limitNamed("rpm"), shadow)},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm")}},
			passes: true,
		},
		"what a list that begins to extend drops": {
			stored: map[admin.Scope][]dynalimit.Limit{system: limitNamed("tpm"), pro: limitNamed("rpm"), acme: limitNamed("rpm", "tpm")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm"), Extends: true}},
			losses: []admin.Loss{{Scope: acme, Name: "tpm", Source: sources.System}},
			passes: true,
		},
		"what the list itself drops": {
			stored: map[admin.Scope][]dynalimit.Limit{system: limitNamed("rpm"), acme: limitNamed("rpm", "tpm")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Limits: limitNamed("rpm")}},
			passes: true,
		},
		"money that goes with its source": {
			stored: map[admin.Scope][]dynalimit.Limit{system: limitNamed("rpm"), pro: limitNamed("rpm", "usd")},
			change: admin.ScopedConfig{Scope: pro, Delete: true, Config: admin.LimitConfig{Version: admin.AnyVersion}},
			losses: []admin.Loss{{Scope: pro, Name: "usd", Money: true}},
		},
		"limits that go with their source": {
			stored: map[admin.Scope][]dynalimit.Limit{system: limitNamed("rpm"), pro: limitNamed("rpm", "tpm")},
			change: admin.ScopedConfig{Scope: pro, Delete: true, Config: admin.LimitConfig{Version: admin.AnyVersion}},
			passes: true,
		},
		"unlimited beside money": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: limitNamed("rpm", "usd")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Unlimited: true}},
			losses: []admin.Loss{{Scope: acme, Name: "rpm", Source: sources.PlanDefault}, {Scope: acme, Name: "usd", Source: sources.PlanDefault, Money: true}},
		},
		"money that is lifted by name": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: limitNamed("rpm", "usd")},
			change: admin.ScopedConfig{Scope: acme, Config: admin.LimitConfig{Extends: true, Lifted: []string{"usd"}}},
			losses: []admin.Loss{{Scope: acme, Name: "usd", Money: true}},
		},
		"another plan": {
			stored: map[admin.Scope][]dynalimit.Limit{pro: limitNamed("rpm", "usd"), {Plan: "free"}: limitNamed("rpm")},
			record: &admin.Entity{ID: "acme", Plan: "free"},
			losses: []admin.Loss{{Scope: acme, Name: "usd", Money: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			a := admin.New(s.repo)
			require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "acme", Plan: "pro"}))
			for at, limits := range test.stored {
				require.NoError(t, second(a.Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: limits, Only: true})))
			}
			var changes []admin.ScopedConfig
			var records []admin.Entity
			if test.record == nil {
				changes = append(changes, test.change)
			} else {
				records = append(records, *test.record)
			}
			losses, err := a.Limits.Losses(t.Context(), changes, records)
			require.NoError(t, err)
			assert.ElementsMatch(t, test.losses, losses)
			if test.record != nil {
				return
			}
			before := scan(t, s.repo)
			test.change.Config.Version = admin.AnyVersion
			_, err = a.Limits.SetConfigs(t.Context(), []admin.ScopedConfig{test.change})
			if test.passes {
				require.NoError(t, err)
				return
			}
			var wrong *fault.ValidationError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, "config.only", wrong.Field)
			assert.Equal(t, fault.AddLimits, wrong.Fix)
			assert.Equal(t, before, scan(t, s.repo))
			test.change.Config.Only = true
			errs, err := a.Limits.SetConfigs(t.Context(), []admin.ScopedConfig{test.change})
			require.NoError(t, err)
			assert.Equal(t, []error{nil}, errs)
		})
	}
}

// TestAddAndRemoveLimits: a source that has no list begins to extend, one that replaces goes on
// replacing, and the last name takes the list with it.
func TestAddAndRemoveLimits(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits := t.Context(), admin.New(s.repo).Limits
	acme, system := admin.Scope{Entity: "acme"}, admin.Scope{Everyone: true}
	says := func(at admin.Scope) string {
		c, err := limits.GetConfig(ctx, at)
		require.NoError(t, err)
		var names []string
		for _, l := range c.Limits {
			names = append(names, l.Name)
		}
		return fmt.Sprint(names, c.Lifted, c.Extends, c.Blocked)
	}
	require.NoError(t, limits.SetBlocked(ctx, acme, true))
	require.NoError(t, limits.Add(ctx, acme, limitNamed("rpm")))
	assert.Equal(t, "[rpm] [] true true", says(acme))
	require.NoError(t, limits.Lift(ctx, acme, []string{"tpm"}))
	require.NoError(t, limits.Add(ctx, acme, limitNamed("img")))
	assert.Equal(t, "[img rpm] [tpm] true true", says(acme))
	require.NoError(t, limits.Add(ctx, acme, limitNamed("tpm")))
	require.NoError(t, limits.Lift(ctx, acme, []string{"img"}))
	assert.Equal(t, "[rpm tpm] [img] true true", says(acme))
	require.NoError(t, limits.Remove(ctx, acme, []string{"img", "tpm"}))
	assert.Equal(t, "[rpm] [] true true", says(acme))
	require.NoError(t, limits.Remove(ctx, acme, []string{"rpm"}))
	assert.Equal(t, "[] [] false true", says(acme))

	require.NoError(t, limits.Set(ctx, acme, limitNamed("rpm")))
	require.NoError(t, limits.Add(ctx, acme, limitNamed("tpm")))
	assert.Equal(t, "[rpm tpm] [] false true", says(acme), "a list that replaces goes on replacing")
	require.NoError(t, limits.Add(ctx, system, limitNamed("rpm")))
	assert.Equal(t, "[rpm] [] false false", says(system), "no source is less specific")

	require.NoError(t, limits.SetUnlimited(ctx, admin.Scope{Plan: "free"}))
	require.ErrorContains(t, limits.Add(ctx, admin.Scope{Plan: "free"}, limitNamed("rpm")), "is unlimited")
	require.ErrorContains(t, limits.Lift(ctx, acme, []string{"img"}), "has a list that replaces")
	for reason, c := range map[string]admin.LimitConfig{
		"config.extends: is set without limits":           {Extends: true, Blocked: true},
		"config.lifted: is set at a source that replaces": {Limits: limitNamed("rpm"), Lifted: []string{"tpm"}},
		`config.lifted: has "rpm", which limits have too`: {Limits: limitNamed("rpm"), Extends: true, Lifted: []string{"rpm"}},
		`config.lifted: has "tpm" twice`:                  {Extends: true, Lifted: []string{"tpm", "tpm"}},
		"config.unlimited: is set together with limits":   {Limits: limitNamed("rpm"), Extends: true, Unlimited: true},
		"config.counted: is set without unlimited":        {Limits: limitNamed("rpm"), Counted: true},
	} {
		_, err := limits.SetConfig(ctx, acme, c)
		assert.ErrorContains(t, err, reason)
	}
	_, err := limits.SetConfig(ctx, system, admin.LimitConfig{Limits: limitNamed("rpm"), Extends: true})
	assert.ErrorContains(t, err, "config.extends: is set at the system")
}

// TestSourcesThatExtendNeedAnUpgrade: in a table of an older version one extending source, or parent
// that counts by its own sources, would end every process that does not know it, or not be charged
// there. That is a step of its own.
func TestSourcesThatExtendNeedAnUpgrade(t *testing.T) {
	s := memProcess(t, nil)
	a := admin.New(s.repo)
	for _, e := range []admin.Entity{{ID: "order", ParentID: "team", Detached: true}, {ID: "all", ParentID: "team", Cascade: true}} {
		require.NoError(t, a.Entities.Create(t.Context(), e))
	}
	_, err := s.client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: new(s.repo.Table()), Key: schema.VersionKey().Attributes(), UpdateExpression: new("REMOVE kinds_min")})
	require.NoError(t, err)
	require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "child", ParentID: "team", Cascade: true}), "older versions charge it")
	before := scan(t, s.repo)
	for what, do := range map[string]func() error{
		"a source":                func() error { return a.Limits.Add(t.Context(), admin.Scope{Entity: "acme"}, limitNamed("rpm")) },
		"a block with exceptions": func() error { return a.Limits.SetBlockedExcept(t.Context(), admin.Scope{Everyone: true}) },
		"a counted source": func() error {
			return second(a.Limits.SetConfig(t.Context(), admin.Scope{Entity: "acme"}, admin.LimitConfig{Unlimited: true, Counted: true}))
		},
		"an exception": func() error { return a.Limits.SetAdmit(t.Context(), admin.Scope{Entity: "acme"}, true) },
		"a parent":     func() error { return a.Entities.Create(t.Context(), admin.Entity{ID: "key", ParentID: "team"}) },
		"a parent of many": func() error {
			return second(a.Entities.CreateMany(t.Context(), []admin.EntitySetup{{Entity: admin.Entity{ID: "key", ParentID: "team"}}}))
		},
		"a detached parent": func() error {
			return second(a.Entities.Update(t.Context(), admin.Entity{ID: "order", ParentID: "team", Version: 1}))
		},
		"a cascading parent": func() error {
			return second(errorsOf(a.Entities.UpdateMany(t.Context(), []admin.Entity{{ID: "all", ParentID: "team", Version: 1}})))
		},
	} {
		var wrong *fault.TableError
		require.ErrorAs(t, do(), &wrong, what)
		assert.Equal(t, fault.Upgrade, wrong.Fix)
		assert.Equal(t, before, scan(t, s.repo))
	}
	from, to, err := a.Upgrade(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []int64{0, schema.KnownKinds}, []int64{from, to})
	assert.Equal(t, before, scan(t, s.repo), "a dry run writes nothing")
	from, to, err = a.Upgrade(t.Context(), false)
	require.NoError(t, err)
	assert.Equal(t, []int64{0, schema.KnownKinds}, []int64{from, to})
	from, to, err = a.Upgrade(t.Context(), false)
	require.NoError(t, err)
	assert.Equal(t, []int64{schema.KnownKinds, schema.KnownKinds}, []int64{from, to})
	require.NoError(t, a.Limits.Add(t.Context(), admin.Scope{Entity: "acme"}, limitNamed("rpm")))
}

// TestMoneyIsNotLostByNameUnsaid: money goes out of force also by a change of an extending source, by a
// limit of its name that is no money or in shadow, and at a group below a default of the entity.
func TestMoneyIsNotLostByNameUnsaid(t *testing.T) {
	system, acme, all := admin.Scope{Everyone: true}, admin.Scope{Entity: "acme"}, admin.Scope{Entity: "acme", Resource: "all"}
	model, group := admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.Scope{Everyone: true, Resource: "all"}
	shadow, tokens := limitNamed("usd"), []dynalimit.Limit{dynalimit.PerMinute("usd", 1_000_000)}
	shadow[0].Shadow = true
	for name, test := range map[string]struct {
		stored map[admin.Scope]admin.LimitConfig
		do     func(ctx context.Context, l admin.Limits) error
	}{
		"money that is counted alone": {
			map[admin.Scope]admin.LimitConfig{system: {Limits: limitNamed("rpm", "usd")}},
			func(ctx context.Context, l admin.Limits) error {
				return second(l.SetConfig(ctx, acme, admin.LimitConfig{Version: admin.AnyVersion, Unlimited: true, Counted: true}))
			},
		},
		"own money of an extending source, removed": {
			map[admin.Scope]admin.LimitConfig{acme: {Extends: true, Limits: limitNamed("rpm", "usd")}},
			func(ctx context.Context, l admin.Limits) error { return l.Remove(ctx, acme, []string{"usd"}) },
		},
		"own money of an extending source, replaced": {
			map[admin.Scope]admin.LimitConfig{acme: {Extends: true, Limits: limitNamed("rpm", "usd")}},
			func(ctx context.Context, l admin.Limits) error {
				return second(l.SetConfig(ctx, acme, admin.LimitConfig{Version: admin.AnyVersion, Extends: true, Limits: limitNamed("rpm")}))
			},
		},
		"shadow": {
			map[admin.Scope]admin.LimitConfig{system: {Limits: limitNamed("usd")}},
			func(ctx context.Context, l admin.Limits) error { return l.Add(ctx, acme, shadow) },
		},
		"no money": {
			map[admin.Scope]admin.LimitConfig{system: {Limits: limitNamed("usd")}},
			func(ctx context.Context, l admin.Limits) error { return l.Set(ctx, acme, tokens) },
		},
		"a resource that leaves its group": {
			map[admin.Scope]admin.LimitConfig{model: {Groups: []string{"all"}}, group: {Limits: limitNamed("usd")}},
			func(ctx context.Context, l admin.Limits) error {
				return second(l.SetConfig(ctx, model, admin.LimitConfig{Version: admin.AnyVersion, Groups: []string{"small"}}))
			},
		},
		"a resource that is deleted and was in a group": {
			map[admin.Scope]admin.LimitConfig{model: {Groups: []string{"all"}}, all: {Limits: limitNamed("usd")}},
			func(ctx context.Context, l admin.Limits) error { return l.Delete(ctx, model) },
		},
		"a group below a default": {
			map[admin.Scope]admin.LimitConfig{
				{Everyone: true, Resource: "gpt-4"}: {Groups: []string{"all"}}, {Everyone: true, Resource: "all"}: {Limits: limitNamed("usd")},
				acme: {Limits: limitNamed("rpm"), Only: true},
			},
			func(ctx context.Context, l admin.Limits) error { return l.Set(ctx, all, limitNamed("rpm")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			limits := admin.New(s.repo).Limits
			for at, c := range test.stored {
				c.Only = true
				require.NoError(t, second(limits.SetConfig(t.Context(), at, c)))
			}
			before := scan(t, s.repo)
			var wrong *fault.ValidationError
			require.ErrorAs(t, test.do(t.Context(), limits), &wrong)
			assert.Equal(t, "config.only", wrong.Field)
			assert.Contains(t, wrong.Error(), "usd")
			assert.Equal(t, before, scan(t, s.repo))
		})
	}
}

// TestAddedLimitsAreOfTheirSource: a limit is not added to a source as if it extended where it may not,
// nor as one of more than a bucket holds.
func TestAddedLimitsAreOfTheirSource(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits := t.Context(), admin.New(s.repo).Limits
	acme := admin.Scope{Entity: "acme"}
	var many []dynalimit.Limit
	for i := range 20 {
		many = append(many, dynalimit.PerMinute(fmt.Sprint("r", i), 1))
	}
	require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true}, many))
	require.ErrorContains(t, limits.Add(ctx, acme, limitNamed("rpm")), "make 21 with those of less specific sources for entity acme")
	require.NoError(t, limits.Lift(ctx, acme, []string{"r1"}))
	require.NoError(t, limits.Add(ctx, acme, limitNamed("rpm")))
	require.ErrorContains(t, limits.Remove(ctx, acme, []string{"r1"}), "make 21 with those of less specific sources for entity acme")
	require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true}, append(many[2:], limitNamed("img", "tpm")...)))
	require.NoError(t, limits.Add(ctx, acme, limitNamed("rpm")), "there were too many before")
	require.NoError(t, limits.SetUnlimited(ctx, acme))
	require.ErrorContains(t, limits.Lift(ctx, acme, []string{"r1"}), "is unlimited")

	compatible := memEngine(t).repository(t, &dynalimit.RepositoryOptions{Compatible: true})
	require.ErrorContains(t, admin.New(compatible).Limits.Add(ctx, acme, limitNamed("rpm")), "zae-limiter would read the source as the whole list")
	require.ErrorContains(t, admin.New(compatible).Entities.Create(ctx, admin.Entity{ID: "key", ParentID: "team"}), "zae-limiter does not charge")
}

// TestAddKeepsConcurrentChanges: somebody adds a limit between the read and the write of another.
func TestAddKeepsConcurrentChanges(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits := t.Context(), admin.New(s.repo).Limits
	acme, others := admin.Scope{Entity: "acme"}, false
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && !others {
			others = true
			assert.NoError(t, limits.Add(ctx, acme, limitNamed("tpm")))
		}
		return ddbmem.Fault{}
	})
	require.NoError(t, limits.Add(ctx, acme, limitNamed("rpm")))
	s.db.SetFaults(nil)
	config, err := limits.GetConfig(ctx, acme)
	require.NoError(t, err)
	require.Len(t, config.Limits, 2)
	assert.Equal(t, "tpm", config.Limits[1].Name)
}

// TestMoneyIsNotLostByARecordUnsaid: another plan, and a parent that calls charge no more, take money
// out of force only if the change says so. A change that keeps the money needs no word.
func TestMoneyIsNotLostByARecordUnsaid(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*admin.Entity)
		lost   string
	}{
		"another plan":                         {func(e *admin.Entity) { e.Plan = "free" }, "usd for entity key"},
		"a plan that has the money too":        {func(e *admin.Entity) { e.Plan = "gold" }, ""},
		"no parent":                            {func(e *admin.Entity) { e.ParentID = "" }, "usd of parent team for entity key on all, usd of parent org for entity key"},
		"a parent for order alone":             {func(e *admin.Entity) { e.Detached = true }, "usd of parent team for entity key on all, usd of parent org for entity key"},
		"a parent below the same organisation": {func(e *admin.Entity) { e.ParentID = "other" }, "usd of parent team for entity key on all"},
		"another parent with the money":        {func(e *admin.Entity) { e.ParentID = "twin" }, ""},
		"a name":                               {func(e *admin.Entity) { e.Name = "n" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			ctx, a := t.Context(), admin.New(s.repo)
			for at, limits := range map[admin.Scope][]dynalimit.Limit{
				{Plan: "pro"}: limitNamed("rpm", "usd"), {Plan: "gold"}: limitNamed("usd"), {Plan: "free"}: limitNamed("rpm"),
				{Entity: "team", Resource: "all"}: limitNamed("usd"), {Entity: "twin", Resource: "all"}: limitNamed("usd"), {Entity: "org"}: limitNamed("usd"),
			} {
				require.NoError(t, second(a.Limits.SetConfig(ctx, at, admin.LimitConfig{Limits: limits, Only: true})))
			}
			require.NoError(t, second(a.Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.LimitConfig{Groups: []string{"all"}})))
			for _, e := range []admin.Entity{{ID: "team", ParentID: "org"}, {ID: "twin", ParentID: "org"}, {ID: "other", ParentID: "org"}, {ID: "key", ParentID: "team", Plan: "pro"}} {
				require.NoError(t, a.Entities.Create(ctx, e))
			}
			e, err := a.Entities.Get(ctx, "key")
			require.NoError(t, err)
			test.change(&e)
			bystander := admin.Entity{ID: "other", ParentID: "org", Name: "changed", Version: 1}
			errs, err := a.Entities.UpdateMany(ctx, []admin.Entity{e, bystander})
			require.NoError(t, err)
			require.NoError(t, errs[1])
			if test.lost == "" {
				require.NoError(t, errs[0])
				return
			}
			_, one := a.Entities.Update(ctx, e)
			for _, err := range []error{errs[0], one} {
				var wrong *fault.ValidationError
				require.ErrorAs(t, err, &wrong)
				assert.Equal(t, "entity.Only", wrong.Field)
				assert.Contains(t, err.Error(), ": "+test.lost+";")
			}
			e.Only = true
			require.NoError(t, second(a.Entities.Update(ctx, e)))
		})
	}
}

// TestAnUnreadableSourceHidesNoLoss: a source of the older layout that nobody can read does not end the
// comparison of the other sources of an entity's default.
func TestAnUnreadableSourceHidesNoLoss(t *testing.T) {
	r := legacyTable(t, memEngine(t), "0.6", nil)
	limits := admin.New(r).Limits
	acme := admin.Scope{Entity: "acme"}
	require.NoError(t, limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, limitNamed("rpm")))
	broken := schema.Item{
		"PK": schema.String("ENTITY#acme"), "SK": schema.String("#LIMIT#gpt-4#tpm"), "entity_id": schema.String("acme"), "resource": schema.String("gpt-4"),
		"limit_name": schema.String("tpm"), "capacity": schema.String("many"),
	}
	put(t, r, broken)
	_, err := limits.GetConfig(t.Context(), admin.Scope{Entity: "acme", Resource: "gpt-4"})
	require.ErrorContains(t, err, "cannot be read")
	require.NoError(t, second(limits.SetConfig(t.Context(), acme, admin.LimitConfig{Limits: limitNamed("rpm", "usd")})))
	require.ErrorContains(t, limits.Set(t.Context(), acme, limitNamed("rpm")), "usd for entity acme")
	require.NoError(t, limits.Set(t.Context(), admin.Scope{Entity: "acme", Resource: "gpt-4"}, limitNamed("rpm")))
}
