package aggregator_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// stood is where an entity stood when an hour was closed, as a naive reader of the records
// of entities has it.
type stood struct{ parent, plan string }

// firm is a world whose hours are closed while entities come, move and go.
type firm struct {
	*world
	p      *aggregator.Processor
	closer *aggregator.Closer
	// places are those of snapshots, by their entity, resource and hour.
	places map[spent]stood
	// calls are what leases consumed, by resource and limit: each call once.
	calls map[string]int64
	gaps  []aggregator.Gap
	// bring processes what the stream has.
	bring func()
}

var people = []string{"org", "team", "key-0", "key-1", "key-2"}

func newFirm(t *testing.T, seed uint64) *firm {
	t.Helper()
	f := &firm{world: newWorld(t, seed), places: map[spent]stood{}, calls: map[string]int64{}}
	f.now.Store(time.Date(2026, 3, 30, 20, 10, 0, 0, time.UTC).UnixNano())
	ctx := t.Context()
	require.NoError(t, admin.New(f.repo).Entities.Delete(ctx, "key-0"))
	for _, plan := range []string{"pro", "free"} {
		_, err := admin.New(f.repo).Limits.SetConfig(ctx, admin.Scope{Plan: plan}, admin.LimitConfig{Limits: limits(3), Only: true})
		require.NoError(t, err)
	}
	for _, e := range []admin.Entity{
		{ID: "org", Plan: "pro"},
		{ID: "team", ParentID: "org", Cascade: true},
		{ID: "key-0", ParentID: "team", Cascade: true, Plan: "pro"},
		{ID: "key-1", ParentID: "team", Cascade: true, Plan: "free"},
		{ID: "key-2", ParentID: "team", Plan: "pro"},
	} {
		require.NoError(t, admin.New(f.repo).Entities.Create(ctx, e))
	}
	f.bring = func() {
		f.stream.read()
		f.deliver(f.p)
	}
	var err error
	f.p, err = aggregator.New(f.db.Client(), "limits", &aggregator.Options{Retention: -1})
	require.NoError(t, err)
	f.closer, err = aggregator.NewCloser(f.db.Client(), "limits", &aggregator.CloserOptions{Now: f.clock, Closed: f.closed})
	require.NoError(t, err)
	return f
}

// step does something that services or administrators do.
func (f *firm) step() {
	ctx := f.t.Context()
	entity := people[f.rnd.IntN(len(people))]
	switch n := f.rnd.IntN(27); {
	case n == 24, n == 25:
		f.limit([]string{"org", "team"}[f.rnd.IntN(2)])
	case n < 14:
		f.call(entity)
	case n == 26:
		f.acrossHour(f.some(people...), func() { f.call(entity) })
	case n == 14:
		e, err := admin.New(f.repo).Entities.Get(ctx, entity)
		if err == nil && entity != "org" {
			e.ParentID, e.Cascade, e.Plan = []string{"", "org", "team"}[f.rnd.IntN(3)], f.rnd.IntN(2) == 0, []string{"", "pro", "free"}[f.rnd.IntN(3)]
			if e.ParentID == entity || entity == "team" && e.ParentID == "team" {
				e.ParentID = "org"
			}
			e.Cascade = e.Cascade && e.ParentID != ""
			_, err = admin.New(f.repo).Entities.Update(ctx, e)
			require.NoError(f.t, err)
		}
	case n == 15:
		require.NoError(f.t, admin.New(f.repo).Entities.Delete(ctx, "key-2"))
	case n == 16:
		require.NoError(f.t, admin.New(f.repo).Limits.Set(ctx, admin.Scope{Everyone: true}, limits(1+f.rnd.Int64N(4))))
		f.repo.InvalidateConfig("", "")
	case n == 17:
		require.NoError(f.t, f.db.SplitStream("limits", 1+f.rnd.IntN(2)))
	case n == 18:
		f.now.Add(f.rnd.Int64N(int64(5 * time.Hour)))
	case n < 22:
		f.now.Add(f.rnd.Int64N(int64(50 * time.Minute)))
	default:
		if f.rnd.IntN(4) > 0 { // else records are late
			f.bring()
		}
		f.closeDue()
	}
}

func (f *firm) call(entity string) {
	amounts := dynalimit.Amounts{"rpm": 1 + f.rnd.Int64N(9)}
	if f.rnd.IntN(3) == 0 {
		amounts["ttl"] = 1 + f.rnd.Int64N(5)
	}
	resource := []string{"gpt-4", "org/claude"}[f.rnd.IntN(2)]
	lease, err := f.limiter.Acquire(f.t.Context(), entity, resource, amounts)
	if _, unknown := errors.AsType[*dynalimit.ValidationError](err); unknown || errors.Is(err, dynalimit.ErrLimitExceeded) {
		return // no level of it has the limit
	}
	require.NoError(f.t, err)
	_ = lease.Settle(f.t.Context(), dynalimit.Amounts{"rpm": 1 + f.rnd.Int64N(12)})
	for limit, n := range lease.Used() {
		f.calls[resource+" "+limit] += 1000 * n
	}
}

// limit has a parent limit something else than its children, or nothing, or as all do.
func (f *firm) limit(entity string) {
	ctx, resource := f.t.Context(), []string{"gpt-4", "org/claude"}[f.rnd.IntN(2)]
	switch f.rnd.IntN(4) {
	case 0:
		require.NoError(f.t, admin.New(f.repo).Limits.SetUnlimited(ctx, admin.Scope{Entity: entity, Resource: resource}))
	case 1, 2:
		list := [][]dynalimit.Limit{limits(3), limits(1)[1:]}[f.rnd.IntN(2)]
		_, err := admin.New(f.repo).Limits.SetConfig(ctx, admin.Scope{Entity: entity, Resource: resource}, admin.LimitConfig{Limits: list, Version: admin.AnyVersion, Only: true})
		require.NoError(f.t, err)
	default:
		require.NoError(f.t, admin.New(f.repo).Limits.Delete(ctx, admin.Scope{Entity: entity, Resource: resource}))
	}
	f.repo.InvalidateConfig("", "")
}

func (f *firm) closeDue() aggregator.Closed {
	done, err := f.closer.CloseDue(f.t.Context())
	require.NoError(f.t, err)
	return done
}

// closed notes where the entities of snapshots stand that are closed for the first time.
func (f *firm) closed(h aggregator.ClosedHour) {
	f.gaps = append(f.gaps, h.Gaps...)
	hours := map[string]bool{h.Hour.Format(time.RFC3339): true}
	if h.Hour.Hour() == 23 {
		for hour := range 24 {
			hours[h.Hour.Add(-time.Duration(hour)*time.Hour).Format(time.RFC3339)] = true
		}
	}
	var found []spent
	for _, item := range scan(f.t, f.db) {
		at := spent{text(item, "entity_id"), text(item, "resource"), "", text(item, "window_start")}
		if _, known := f.places[at]; hours[at.hour] && !known {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, func(a, b spent) int { return strings.Compare(a.hour, b.hour) })
	for _, at := range found {
		f.places[at] = f.place(at)
	}
}

func (f *firm) place(at spent) stood {
	get := func(id string) (admin.Entity, bool) {
		e, err := admin.New(f.repo).Entities.Get(f.t.Context(), id)
		if errors.Is(err, admin.ErrNotFound) {
			return e, false
		}
		require.NoError(f.t, err)
		return e, true
	}
	e, there := get(at.entity)
	if !there {
		last, place := "", stood{}
		for before, p := range f.places {
			if before.entity == at.entity && before.resource == at.resource && before.hour < at.hour && before.hour > last {
				last, place = before.hour, p
			}
		}
		return place
	}
	return stood{parent: e.ParentID, plan: e.Plan}
}

// want are the sums that a naive ledger of every hour has, by key and limit.
func (f *firm) want() map[string]int64 {
	all := map[string]int64{}
	for at, n := range f.ledger {
		p, known := f.places[spent{at.entity, at.resource, "", at.hour}]
		require.True(f.t, known || n == 0, "%v is not closed", at)
		add := func(pk, sk string, n int64) {
			all[pk+" #"+sk+"#"+at.resource+"#"+at.hour[:map[bool]int{true: 7, false: 10}[strings.HasSuffix(sk, "MONTH")]]+" "+at.limit] += n
		}
		hour := func(pk, sk string, n int64) {
			all[pk+" #"+sk+"_HOUR#"+at.resource+"#"+at.hour+" "+at.limit] += n
			add(pk, sk+"_DAY", n)
			add(pk, sk+"_MONTH", n)
		}
		add("ENTITY#"+at.entity, "USAGE_DAY", n)
		add("ENTITY#"+at.entity, "USAGE_MONTH", n)
		limit, passed := strings.CutSuffix(at.limit, "^")
		if at.limit = limit; passed {
			n = -n
		} else if p.parent != "" {
			hour("ENTITY#"+p.parent, "CHILDREN", n)
		}
		hour("RESOURCE#"+at.resource, "USAGE", n)
		if p.plan != "" {
			hour("PLAN#"+p.plan, "USAGE", n)
		}
	}
	over := func(key string) bool { // what is not has no sum
		_, rest, _ := strings.Cut(key, "_MONTH#")
		_, month, is := strings.Cut(rest, "#")
		return !is || month[:7] == "2026-03"
	}
	maps.DeleteFunc(all, func(key string, n int64) bool { return n == 0 || !over(key) })
	return all
}

// requireOnce requires that each call counts once in the total of its resource, whoever moved
// and whatever was limited meanwhile.
func (f *firm) requireOnce(seed uint64) {
	counted := map[string]int64{}
	for at, n := range f.ledger {
		limit, passed := strings.CutSuffix(at.limit, "^")
		if passed {
			n = -n
		}
		counted[at.resource+" "+limit] += n
	}
	require.Equal(f.t, f.calls, counted, "seed %d", seed)
}

// got are the sums in the table.
func (f *firm) got() map[string]int64 {
	all := map[string]int64{}
	for _, item := range summed(f.t, f.db) {
		key := text(item, "PK") + " " + text(item, "SK")
		// Months are not: their first days were never closed.
		assert.Equal(f.t, !strings.Contains(key, "_MONTH#"), item["final"].(*types.AttributeValueMemberBOOL).Value, key)
		for attr, v := range item {
			if name, field, ok := cut(attr); ok && field == "n" && number(f.t, v) != 0 {
				all[key+" "+name] = number(f.t, v)
			}
		}
	}
	return all
}

// end closes everything: the last hour is final, and the month is over.
func (f *firm) end() {
	require.NoError(f.t, f.limiter.Close(f.t.Context()))
	f.stream.read()
	f.deliver(f.p)
	last := f.clock().Add(27 * time.Hour)
	for f.clock().Before(last) || f.clock().Month() != time.April || f.clock().Day() < 3 {
		f.now.Add(int64(7 * time.Hour))
		f.closeDue()
	}
}

// TestSumsAreWhatWasConsumed: whoever comes, moves and goes, and whenever hours are closed,
// sums of every kind are those of a ledger, with the levels of a cascade counted once.
func TestSumsAreWhatWasConsumed(t *testing.T) {
	t.Parallel()
	sums := 0
	for seed := range uint64(max(1, histories(t)/20)) {
		synctest.Test(t, func(t *testing.T) {
			f := newFirm(t, seed)
			for range 70 {
				f.step()
			}
			f.end()
			want := f.want()
			f.requireOnce(seed)
			require.Equal(t, want, f.got(), "seed %d", seed)
			require.Empty(t, f.gaps, "seed %d", seed)
			sums += len(want)
			before := f.db.Meter()
			assert.Equal(t, aggregator.Closed{}, f.closeDue())
			assert.Zero(t, f.db.Meter().Sub(before).WriteUnits())
		})
	}
	assert.Greater(t, sums, 20*max(1, histories(t)/20))
}
