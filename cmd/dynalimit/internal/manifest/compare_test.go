package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const small = `
system: {limits: {rpm: 60}}
plans: {pro: {default: {limits: {rpm: 100, tpm: 10k}}}}
entities:
  team: {plan: pro}
  key: {parent: team, cascade: true, default: {limits: {rpm: 5}}}
  alone: {resources: {gpt-4: {blocked: true}}}
`

func TestPlanOfANewTable(t *testing.T) {
	w := newWorld(t, "")
	p := w.apply(t, small, Options{})
	assert.Equal(t, []string{
		"create limits of entity alone on gpt-4: blocked  -> true",
		"create limits of system: rpm  -> 60 a minute",
		"create limits of entity key: rpm  -> 5 a minute",
		"create limits of plan pro: rpm  -> 100 a minute, tpm  -> 10,000 a minute",
		"create record of entity team: plan  -> pro",
		"create record of entity key: parent  -> team, cascade  -> true",
	}, lines(p))
	_, err := admin.New(w.repo).Entities.Get(t.Context(), "alone")
	require.ErrorIs(t, err, admin.ErrNotFound, "limits need no record")
	e, err := admin.New(w.repo).Entities.Get(t.Context(), "key")
	require.NoError(t, err)
	assert.Equal(t, "manifest", e.ManagedBy)
	c, err := admin.New(w.repo).Limits.GetConfig(t.Context(), admin.Scope{Plan: "pro"})
	require.NoError(t, err)
	assert.Equal(t, "manifest", c.ManagedBy)
	events := 0
	for event, err := range admin.New(w.repo).AuditEvents(t.Context(), audit.Query{Principal: "ann"}) {
		require.NoError(t, err)
		assert.Equal(t, "ann", event.Principal)
		events++
	}
	assert.Equal(t, 6, events)
}

// A plan warns of a quota that gets shorter windows, and not where it refuses the change.
func TestPlanWarnsOfShorterWindows(t *testing.T) {
	w := newWorld(t, "")
	const month, day = "name: a\nsystem: {limits: {rpw: {capacity: 5, window: month}}}", "system: {limits: {rpw: {capacity: 5, window: day}}}"
	w.apply(t, month, Options{})
	assert.Empty(t, w.apply(t, month, Options{}).Warnings)
	assert.Empty(t, w.plan(t, parsed(t, "name: b\n"+day), Options{}).Warnings)
	assert.Equal(t, []string{
		"system: rpw is a quota of each month and becomes one of each day: the usage of the month is regained meanwhile, and a change back does not take it away",
	}, w.plan(t, parsed(t, "name: a\n"+day), Options{}).Warnings)
}

// TestPlanShowsWindowsAndZones: what of a quota changed, and a limit that becomes one.
func TestPlanShowsWindowsAndZones(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, "system: {limits: {usd: {capacity: 50M, window: day}, rpd: {capacity: 5, period: 1d}}}", Options{})
	p := w.apply(t, "system: {limits: {usd: {capacity: 50M, window: month, zone: Asia/Tokyo}, rpd: {capacity: 5, window: day}, rpw: {capacity: 9, window: week}}}", Options{})
	assert.Equal(t, []string{
		"update limits of system: rpd.period 1d -> , rpd.window  -> day, rpd.zone  -> UTC, rpw  -> 9 each week in UTC, usd.window day -> month, usd.zone UTC -> Asia/Tokyo",
	}, lines(p))
}

// TestPlanShowsMoneyInDollars: exactly, and what becomes money.
func TestPlanShowsMoneyInDollars(t *testing.T) {
	const format = "resources: {gpt-4: {groups: [all]}, all: {limits: {usd: {%s, window: day}, x: {capacity: %s, window: day}}}}"
	w := newWorld(t, "")
	w.apply(t, fmt.Sprintf(format, `capacity: "$50", unit: usd`, "5M"), Options{})
	p := w.apply(t, fmt.Sprintf(format, `capacity: 50_000_001, unit: usd, per_model: true`, `"$5", unit: usd`), Options{})
	assert.Equal(t, []string{
		"update limits of resource all: usd.capacity $50 -> $50.000001, usd.per_model  -> true, x.capacity 5000000 -> $5, x.unit  -> usd",
	}, lines(p))
}

// TestMoneyIsOfAGroupThatHasModels: in one apply with its first model, however many sources there
// are; without a model it stays, with a warning, and cannot be set.
func TestMoneyIsOfAGroupThatHasModels(t *testing.T) {
	const of50, of60 = `all: {limits: {usd: {capacity: "$50", unit: usd, window: day}}}`, `all: {limits: {usd: {capacity: "$60", unit: usd, window: day}}}`
	many := strings.Builder{}
	for i := range 2 * batch {
		fmt.Fprintf(&many, "m%d: {groups: [all]}, ", i)
	}
	for _, models := range []string{"gpt-4: {groups: [all]}, ", many.String()} {
		w := newWorld(t, "")
		w.apply(t, "{name: other, resources: {x: {limits: {rpm: 1}}}}", Options{})
		w.apply(t, "resources: {"+models+of50+"}", Options{})
		w.apply(t, "resources: {"+models+of60+"}", Options{})

		p := w.apply(t, "resources: {"+of60+"}", Options{})
		assert.Equal(t, p.Count(Delete), len(p.Changes))
		assert.Equal(t, []string{`resource all: the money of "usd" limits no model, because no model is in the group "all" and it is in none: write 'groups: [all]' at the models, or 'per_model: true' beside it`}, p.Warnings)
		p = w.plan(t, parsed(t, "resources: {"+of50+"}"), Options{})
		require.Equal(t, 1, p.Count(Refuse))
		assert.Contains(t, p.Changes[0].Note, "write 'groups: [all]' at the models")
		w.apply(t, "{name: other, resources: {x: {groups: [all]}}}", Options{})
		w.apply(t, "resources: {"+of50+"}", Options{})
	}
	w := newWorld(t, "")
	w.apply(t, "resources: {gpt-4: {groups: [all]}, all: {blocked: true, limits: {usd: {capacity: 5, unit: usd, window: day}}}}", Options{})
}

func TestPlanShowsChangesOfTheFileAndByHandAlike(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, small, Options{})
	require.NoError(t, admin.New(w.repo).Limits.Set(t.Context(), admin.Scope{Plan: "pro"}, []dynalimit.Limit{dynalimit.PerHour("rpm", 200), dynalimit.PerMinute("x", 1)}))
	require.NoError(t, admin.New(w.repo).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "key"}, true))
	e, err := admin.New(w.repo).Entities.Get(t.Context(), "team")
	require.NoError(t, err)
	e.Name, e.Plan, e.Metadata = "by hand", "", []byte(`{"b": 1, "a": 2}`)
	_, err = admin.New(w.repo).Entities.Update(t.Context(), e)
	require.NoError(t, err)
	require.NoError(t, admin.New(w.repo).Limits.Delete(t.Context(), admin.Scope{Everyone: true}))

	changed := `
plans: {pro: {default: {limits: {rpm: 100, tpm: 10k}}}}
resources: {gpt-4: {unlimited: true, on_unavailable: allow}}
entities:
  team: {plan: pro, metadata: {a: 2, b: 1.0}}
  key: {parent: team, default: {limits: {rpm: {capacity: 5, burst: 7, refill: 3, period: 90s}}}}
  alone: {plan: pro}
`
	kept := w.plan(t, parsed(t, changed), Options{})
	assert.Equal(t, []string{
		"entity alone on gpt-4 is blocked, and the file does not block it: it stays blocked; --lift-blocks lifts it",
		"entity key is blocked, and the file does not block it: it stays blocked; --lift-blocks lifts it",
	}, kept.Warnings)
	assert.Contains(t, lines(kept), "update limits of entity key: rpm.burst 5 -> 7, rpm.refill 5 -> 3, rpm.period 1m -> 1m30s")
	assert.NotContains(t, strings.Join(lines(kept), " "), "blocked")

	p := w.apply(t, changed, Options{LiftBlocks: true})
	assert.Equal(t, []string{
		"entity alone on gpt-4 is blocked, and the file does not block it: the block is lifted",
		"entity key is blocked, and the file does not block it: the block is lifted",
	}, p.Warnings)
	assert.Equal(t, []string{
		"create limits of resource gpt-4: unlimited  -> true, on_unavailable  -> allow",
		"update limits of plan pro: rpm.capacity 200 -> 100, rpm.period 1h -> 1m, tpm  -> 10,000 a minute, x 1 a minute -> ",
		"create record of entity alone: plan  -> pro",
		`update record of entity team: name "by hand" -> , plan  -> pro`,
		"update record of entity key: cascade true -> , detached  -> true",
		"delete limits of entity alone on gpt-4: blocked true -> ",
		"update limits of entity key: rpm.burst 5 -> 7, rpm.refill 5 -> 3, rpm.period 1m -> 1m30s, blocked true -> ",
	}, lines(p))
}

func TestOnlyWhatIsManagedChanges(t *testing.T) {
	w := newWorld(t, "")
	set(t, w.repo, admin.Scope{Everyone: true}, rpm(60))
	set(t, w.repo, admin.Scope{Everyone: true, Resource: "by-hand"}, rpm(1))
	set(t, w.repo, admin.Scope{Plan: "pro"}, rpm(1))
	other := rpm(5)
	other.ManagedBy = "other"
	set(t, w.repo, admin.Scope{Entity: "key"}, other)
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "team", Name: "by hand"}))
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "alone", Name: "by hand"}))
	m := parsed(t, small)

	p := w.plan(t, m, Options{})
	assert.Equal(t, []string{
		"create limits of entity alone on gpt-4: blocked  -> true",
		"create record of entity key: parent  -> team, cascade  -> true",
		"refuse limits of plan pro: rpm.capacity 1 -> 100, tpm  -> 10,000 a minute; no manifest manages it: --adopt takes it over, or take it out of the file",
		`refuse limits of entity key; manifest "other" manages it: take it out of one of the two files, or take it over with --adopt-from other`,
		`refuse record of entity team: name "by hand" -> , plan  -> pro; no manifest manages it: --adopt takes it over, or take it out of the file`,
	}, lines(p))
	assert.Equal(t, 1, p.Unmanaged, "the system says what the file says")

	p = w.apply(t, small, Options{Adopt: true, AdoptFrom: "other"})
	assert.Equal(t, []string{
		"create limits of entity alone on gpt-4: blocked  -> true",
		"adopt limits of system",
		"adopt limits of entity key",
		"update limits of plan pro: rpm.capacity 1 -> 100, tpm  -> 10,000 a minute, managed_by  -> manifest",
		"create record of entity key: parent  -> team, cascade  -> true",
		`update record of entity team: name "by hand" -> , plan  -> pro, managed_by  -> manifest`,
	}, lines(p))
	byHand, err := admin.New(w.repo).Entities.Get(t.Context(), "alone")
	require.NoError(t, err)
	assert.Equal(t, "by hand", byHand.Name, "a file with limits alone says nothing about a record")

	p = w.plan(t, parsed(t, "name: second\nresources: {x: {groups: [nowhere, y]}, y: {blocked: true}}"), Options{})
	assert.Equal(t, []string{"resource x: its group \"nowhere\" has limits neither in the file nor in the table"}, p.Warnings)
	p = w.apply(t, "name: second\nresources: {x: {blocked: true}}", Options{})
	assert.Equal(t, []string{"create limits of resource x: blocked  -> true"}, lines(p), "two manifests keep apart")
	w.settled(t, m, Options{})
	p = w.apply(t, "name: second\nversion: 1", Options{})
	assert.Empty(t, lines(p))
	assert.Len(t, p.Warnings, 1)
	p = w.apply(t, "name: second\nversion: 1", Options{LiftBlocks: true})
	assert.Equal(t, []string{"delete limits of resource x: blocked true -> "}, lines(p))
	p = w.apply(t, "version: 1", Options{})
	assert.Equal(t, []string{"delete limits of system: rpm 60 a minute -> ", "delete limits of plan pro: rpm 100 a minute -> , tpm 10,000 a minute -> "}, lines(p))
	assert.Equal(t, 3, p.LeftOut)
	_, err = admin.New(w.repo).Limits.GetConfig(t.Context(), admin.Scope{Everyone: true, Resource: "by-hand"})
	require.NoError(t, err)
}

func TestEntitiesGoOnlyWhenTheyArePruned(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, small, Options{})
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "child", ParentID: "key"}))
	set(t, w.repo, admin.Scope{Entity: "key", Resource: "by-hand"}, rpm(1))
	before := w.says(t)

	without := "system: {limits: {rpm: 60}}\nplans: {pro: {default: {limits: {rpm: 100, tpm: 10k}}}}"
	p := w.apply(t, without, Options{})
	assert.Empty(t, p.Changes)
	assert.Equal(t, 3, p.LeftOut)
	assert.Equal(t, before, w.says(t))

	p = w.plan(t, parsed(t, without), Options{Prune: true, LiftBlocks: true})
	assert.Equal(t, []string{
		"delete limits of entity alone on gpt-4: blocked true -> ",
		"refuse record of entity team: plan pro -> ; it is the parent of 1 others that stay: name it in the file, or give them another parent",
		"refuse record of entity key: parent team -> , cascade true -> ; it is the parent of 1 others that stay: name it in the file, or give them another parent",
	}, lines(p))

	require.NoError(t, admin.New(w.repo).Entities.Delete(t.Context(), "child"))
	p = w.plan(t, parsed(t, without), Options{Prune: true, LiftBlocks: true})
	assert.Equal(t, "refuse record of entity key: parent team -> , cascade true -> ; 1 of its sources are not the manifest's, and would go with it: remove them first, or take them over with --adopt, or --adopt-from for those of another manifest", lines(p)[2])
	p = w.apply(t, without, Options{Prune: true, Adopt: true, LiftBlocks: true})
	assert.Equal(t, []string{
		"delete limits of entity alone on gpt-4: blocked true -> ",
		"delete record of entity key: parent team -> , cascade true -> ; with its limits and buckets",
		"delete record of entity team: plan pro -> ; with its limits and buckets",
	}, lines(p))
	for e, err := range admin.New(w.repo).Entities.List(t.Context()) {
		require.NoError(t, err)
		assert.Fail(t, "is there still", e.ID)
	}
}

func TestChainsAreCheckedInTheEnd(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, "entities: {a: {parent: b}, b: {parent: c}, c: {}}", Options{})
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "hand", ParentID: "a"}))

	p := w.plan(t, parsed(t, "entities: {a: {parent: b}, b: {parent: c}, c: {parent: hand}}"), Options{})
	require.Len(t, p.Changes, 1)
	assert.Equal(t, "its parent makes a cycle (c -> hand -> a -> b -> c): take one of them out of it", p.Changes[0].Note)

	p = w.apply(t, "entities: {a: {}, b: {parent: a}, c: {parent: b}}", Options{}) // upside down
	assert.Equal(t, 3, p.Count(Update))
}

// Parents that no list has, because another tool made them, are read by their names.
func TestParentsThatAreNotListedAreRead(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, "entities: {x: {}}", Options{})
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "p", ParentID: "x"}))
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "c", ParentID: "p"}))
	for _, id := range []string{"p", "c"} {
		w.raw(t, schema.NewKeys("").Meta(id), "GSI3PK", &types.AttributeValueMemberS{Value: "elsewhere"})
	}
	p := w.plan(t, parsed(t, "entities: {x: {}, y: {parent: c}}"), Options{})
	assert.Empty(t, p.Warnings)
	p = w.plan(t, parsed(t, "entities: {x: {parent: c}}"), Options{})
	require.Len(t, p.Changes, 1)
	assert.Equal(t, "its parent makes a cycle (x -> c -> p -> x): take one of them out of it", p.Changes[0].Note)
}

func TestMovesThatHinderEachOtherAreMadeInTheEnd(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, `entities: {r1: {}, r2: {parent: r1}, r3: {parent: r2}, r4: {parent: r3}, x: {}, d1: {parent: x}, d2: {parent: d1}, d3: {parent: d2}, d4: {parent: d3}}`, Options{})
	w.apply(t, `entities: {r1: {}, r2: {parent: r1}, r3: {parent: r2}, r4: {parent: r3}, x: {parent: r4}, y: {parent: r4}, d1: {parent: x}, d2: {parent: d1}, d3: {parent: y}, d4: {parent: d3}}`, Options{})
}

func TestWhatIsBeingDeletedOrUnreadableIsRefused(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, small, Options{})
	w.raw(t, schema.NewKeys("").Meta("key"), "deleting", &types.AttributeValueMemberBOOL{Value: true})
	w.raw(t, schema.NewKeys("").PlanConfig("pro", ""), "l_rpm_cp", &types.AttributeValueMemberS{Value: "many"})
	p := w.plan(t, parsed(t, small), Options{})
	for _, line := range lines(p) {
		t.Log(line)
	}
	assert.Equal(t, 2, p.Count(Refuse))
	assert.Len(t, p.Changes, 2)
}

// TestBlocksSetByHandStay: whatever an apply changes besides, and until it is told to lift
// them.
func TestBlocksSetByHandStay(t *testing.T) {
	w := newWorld(t, "")
	pro := admin.Scope{Plan: "pro"}
	w.apply(t, "plans: {pro: {default: {limits: {rpm: 10}}}}", Options{})
	require.NoError(t, admin.New(w.repo).Limits.SetBlocked(t.Context(), pro, true))
	blocked := func() bool {
		c, err := admin.New(w.repo).Limits.GetConfig(t.Context(), pro)
		require.NoError(t, err)
		return c.Blocked
	}
	for _, file := range []string{"plans: {pro: {default: {limits: {rpm: 10}}}}", "plans: {pro: {default: {limits: {rpm: 20}}}}", "version: 1", "plans: {pro: {default: {limits: {rpm: 10}}}}"} {
		p := w.apply(t, file, Options{})
		assert.Len(t, p.Warnings, 1, file)
		assert.True(t, blocked(), file)
		w.settled(t, parsed(t, file), Options{})
	}
	w.apply(t, "plans: {pro: {default: {limits: {rpm: 10}, blocked_except: true}}}", Options{})
	assert.True(t, blocked(), "the file says less")
	w.apply(t, "plans: {pro: {default: {limits: {rpm: 10}, admit: true}}}", Options{})
	assert.True(t, blocked(), "the file says the opposite")
	w.apply(t, "plans: {pro: {default: {limits: {rpm: 10}, blocked: true}}}", Options{LiftBlocks: true})
	assert.True(t, blocked(), "the file says so")
	w.apply(t, "plans: {pro: {default: {limits: {rpm: 10}}}}", Options{LiftBlocks: true})
	assert.False(t, blocked())
}

// TestPlanShowsSourcesByHandOfTheFilesEntitiesAndPlans: also where the file has no such source.
// Sources of other manifests, of other entities and of everybody are no drift.
func TestPlanShowsSourcesByHandOfTheFilesEntitiesAndPlans(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, small, Options{})
	m := parsed(t, small)
	other := rpm(7)
	other.ManagedBy, other.Only = "other", true
	set(t, w.repo, admin.Scope{Entity: "team", Resource: "gpt-4"}, other)
	set(t, w.repo, admin.Scope{Entity: "stranger"}, rpm(7))
	set(t, w.repo, admin.Scope{Everyone: true, Resource: "gpt-4"}, rpm(7))
	require.False(t, w.plan(t, m, Options{}).Drifts())

	byHand := rpm(7)
	byHand.Only = true
	set(t, w.repo, admin.Scope{Plan: "pro", Resource: "gpt-4"}, byHand)
	set(t, w.repo, admin.Scope{Entity: "team"}, admin.LimitConfig{Blocked: true})
	p := w.apply(t, small, Options{Adopt: true})
	require.True(t, p.Drifts())
	assert.Equal(t, []ByHand{
		{admin.Scope{Entity: "team"}, []Field{{Name: "blocked", To: "true"}}},
		{admin.Scope{Plan: "pro", Resource: "gpt-4"}, []Field{{Name: "rpm", To: "7 a minute"}}},
	}, p.ByHand)
}
