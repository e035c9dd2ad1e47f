package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// always is all of the events.
var always time.Time

// eventsOf are all events of a target, oldest first.
func eventsOf(t testing.TB, k *Keeper, target string) (events []audit.Event) {
	t.Helper()
	for e, err := range k.Setup().Audit(context.Background(), target, always, always) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// eventText is an event in short: who did what to which app, and the fields.
func eventText(e audit.Event) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s", e.Principal, e.Action, e.Resource)
	for _, c := range e.Changes {
		fmt.Fprintf(&text, "; %s %s -> %s", c.Field, c.Before, c.After)
	}
	return text.String()
}

// What was changed, by whom, and its fields before and after; what changes nothing has
// an empty event where it raises a version, and none elsewhere.
func TestEventsSayWhatChanged(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		ann, bob := w.a.As("ann"), w.a.As("bob")
		put := func(k *Keeper, adapt func(*Org)) {
			o := fixtureOrg()
			adapt(&o)
			_, err := k.Setup().PutOrg(ctx, o)
			require.NoError(t, err)
		}
		putApp := func(k *Keeper, a App) {
			_, err := k.Setup().PutApp(ctx, orgO, a)
			require.NoError(t, err)
		}
		put(ann, func(*Org) {})
		put(bob, func(*Org) {})
		put(bob, func(o *Org) {
			o.Name, o.NoSticky = "", true
			o.Quotas["economy"] = 3_000_000
		})
		putApp(ann, App{ID: appA})
		putApp(ann, App{ID: appA, Name: "Batch", Ordering: []string{"economy"}, TightPercent: 80, RefreshTightSecs: 30})
		putApp(bob, App{ID: appA, Name: "Batch", Ordering: []string{"economy"}, TightPercent: 80})
		until := w.clock.Now().Add(time.Hour)
		for range 2 {
			require.NoError(t, ann.Setup().Override(ctx, orgO, appA, "economy", until))
		}
		require.NoError(t, bob.Setup().Override(ctx, orgO, appA, "economy", until.Add(time.Millisecond)))
		for range 2 {
			require.NoError(t, bob.Setup().ClearOverride(ctx, orgO, appA))
		}
		require.NoError(t, ann.Setup().Override(ctx, orgO, appA, "economy", until))
		w.clock.Set(until)
		require.NoError(t, ann.Setup().ClearOverride(ctx, orgO, appA))
		require.NoError(t, ann.Setup().Override(ctx, orgO, appA, "economy", until.Add(time.Hour)))
		for _, reason := range []string{"first", "first", "second"} {
			_, err := ann.Setup().Adjust(ctx, orgO, appA, Adjustment{ID: adjustmentID, Label: "premium", DeltaMicros: -5, Reason: reason})
			require.True(t, err == nil || reason == "second", "%v", err)
		}

		var got []string
		for _, e := range eventsOf(t, w.b, orgO) {
			got = append(got, eventText(e))
			assert.Equal(t, orgO, e.Target)
		}
		assert.Equal(t, []string{
			`ann org_created ; agg_shard_count  -> 8; model_ordering  -> ["premium","standard","economy"]; ` +
				`org_name  -> "sample"; quota_scope  -> "APP"; quotas  -> {"economy":2000000,"premium":10000000,"standard":5000000}; ` +
				`refresh_interval_normal_secs  -> 300; refresh_interval_tight_secs  -> 60; sticky_fallback_enabled  -> true; ` +
				`tight_mode_threshold_pct  -> 95; timezone  -> "America/New_York"`,
			`bob org_updated `,
			`bob org_updated ; org_name "sample" -> ; ` +
				`quotas {"economy":2000000,"premium":10000000,"standard":5000000} -> {"economy":3000000,"premium":10000000,"standard":5000000}; ` +
				`sticky_fallback_enabled true -> false`,
			`ann app_created ` + appA,
			`ann app_updated ` + appA + `; app_name  -> "Batch"; model_ordering  -> ["economy"]; refresh_interval_tight_secs  -> 30; tight_mode_threshold_pct  -> 80`,
			`bob app_updated ` + appA + `; refresh_interval_tight_secs 30 -> `,
			`ann override_set ` + appA + `; label  -> "economy"; until  -> "2099-01-23T16:30:45Z"`,
			`bob override_set ` + appA + `; until "2099-01-23T16:30:45Z" -> "2099-01-23T16:30:45.001Z"`,
			`bob override_cleared ` + appA + `; label "economy" -> ; until "2099-01-23T16:30:45.001Z" -> `,
			`ann override_set ` + appA + `; label  -> "economy"; until  -> "2099-01-23T16:30:45Z"`,
			`ann override_set ` + appA + `; label  -> "economy"; until  -> "2099-01-23T17:30:45Z"`,
			`ann adjusted ` + appA + `; day  -> "20990123"; delta_micros  -> -5; id  -> "` + adjustmentID + `"; label  -> "premium"; reason  -> "first"`,
		}, got)
	})
}

func TestEventsOfPrices(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		row := prices.Price{Model: premiumModel, Rates: prices.Rates{Input: 3, Output: prices.FreeRate}}
		later := prices.Price{Model: "global." + premiumModel, EffectiveFrom: fixtureNow.Add(time.Hour + time.Millisecond), Rates: prices.Rates{Input: 2, Output: 4, CacheRead: 1}}
		for _, rows := range [][]prices.Price{{row}, {row}, {row, later}, {}, nil} {
			require.NoError(t, w.a.Prices().Put(ctx, premiumModel, rows...))
		}
		got := eventsOf(t, w.b, audit.Price("us."+premiumModel))
		var texts []string
		for _, e := range got {
			texts = append(texts, eventText(e))
		}
		assert.Equal(t, []string{
			tester + ` prices_set ; prices  -> [{"input":3,"output":-1}]`,
			tester + ` prices_set ; prices [{"input":3,"output":-1}] -> [{"input":3,"output":-1},` +
				`{"cache_read":1,"effective_from":"2099-01-23T16:30:45Z","input":2,"output":4,"scope":"global"}]`,
			tester + ` prices_set ; prices [{"input":3,"output":-1},` +
				`{"cache_read":1,"effective_from":"2099-01-23T16:30:45Z","input":2,"output":4,"scope":"global"}] -> `,
		}, texts)
		require.NotEmpty(t, got)
		assert.Equal(t, "$PRICE:"+strings.TrimSuffix(premiumModel, ":0"), got[0].Target)
		assert.Empty(t, eventsOf(t, w.b, priceTarget(standardModel)))
		assert.Equal(t, "prices", requireCode(t, w.a.Prices().Put(ctx, premiumModel, make([]prices.Price, maxPrices+1)...), fault.InvalidConfig).Field)
	})
}

// The most that a configuration and a model's prices may be still has room in an event.
func TestLargestChangesHaveTheirEvents(t *testing.T) {
	w := newWorld(t)
	largest := func(mark string) Org {
		o := fixtureOrg()
		o.Models = map[string]string{}
		for i := range maxParts {
			label := fmt.Sprintf("%s-%0126d", mark, i)
			o.Models[label] = strings.Repeat(mark, maxName)
			if len(o.Quotas) < maxParts {
				o.Quotas[label] = maxQuota
			}
		}
		return o
	}
	w.org(largest("a"))
	w.org(largest("b"))
	const dearest = 1_000_000_000_000 // as Price.Validate says
	rows := func(input int64) (rows []prices.Price) {
		rates := prices.Rates{Input: input, Output: dearest, CacheRead: dearest, CacheWrite5m: dearest, CacheWrite1h: dearest}
		for i := range maxPrices {
			rows = append(rows, prices.Price{Model: premiumModel, Scope: prices.Regional, EffectiveFrom: fixtureNow.Add(time.Duration(i) * time.Second), Rates: rates})
		}
		return rows
	}
	require.NoError(t, w.a.Prices().Put(t.Context(), premiumModel, rows(dearest)...))
	require.NoError(t, w.a.Prices().Put(t.Context(), premiumModel, rows(dearest-1)...))
	assert.Len(t, eventsOf(t, w.a, orgO), 2)
	assert.Len(t, eventsOf(t, w.a, priceTarget(premiumModel)), 2)
	for field, spoil := range map[string]func(*Org){
		"quotas": func(o *Org) { o.Quotas["one-more"] = 1 },
		"models": func(o *Org) { o.Models["one-more"] = "m" },
	} {
		o := largest("a")
		spoil(&o)
		_, err := w.a.Setup().PutOrg(t.Context(), o)
		assert.Equal(t, field, requireCode(t, err, fault.InvalidConfig).Field)
	}
}

// Events are listed by time, a page at a time, until enough are seen or ctx ends.
func TestEventsAreListedByTime(t *testing.T) {
	w := newWorld(t)
	const n = 60
	o := fixtureOrg()
	for i := range n {
		o.Name = fmt.Sprint(i)
		o.Models = map[string]string{}
		for j := range maxParts { // so that they fill several pages
			o.Models[fmt.Sprint("m", j)] = strings.Repeat(string(rune('a'+i%2)), maxName)
		}
		w.org(o)
		w.clock.Advance(time.Minute)
	}
	names := func(list iter.Seq2[audit.Event, error], most int) (names []string) {
		for e, err := range list {
			require.NoError(t, err)
			for _, c := range e.Changes {
				if c.Field == "org_name" {
					var name string
					require.NoError(t, json.Unmarshal(c.After, &name))
					names = append(names, name)
				}
			}
			if len(names) == most {
				break
			}
		}
		return names
	}
	at := func(minute int) time.Time { return fixtureNow.Add(time.Duration(minute) * time.Minute) }
	ctx := t.Context()
	var all []string
	pages := w.spentOn(func() { all = names(w.b.Setup().Audit(ctx, orgO, always, always), -1) }).Requests()
	assert.Len(t, all, n)
	assert.Equal(t, []string{"0", "59"}, []string{all[0], all[n-1]})
	assert.Greater(t, pages, int64(2))
	assert.Equal(t, int64(1), w.spentOn(func() { names(w.b.Setup().Audit(ctx, orgO, always, always), 3) }).Requests(), "no page that nobody asks for")
	assert.Equal(t, []string{"57", "58", "59"}, names(w.b.Setup().Audit(ctx, orgO, at(57), always), -1))
	assert.Equal(t, []string{"0", "1"}, names(w.b.Setup().Audit(ctx, orgO, always, at(2)), -1), "before the end")
	assert.Equal(t, []string{"7"}, names(w.b.Setup().Audit(ctx, orgO, at(7), at(8)), -1))
	for _, minute := range []int{7, 8} {
		assert.Zero(t, w.spentOn(func() { assert.Empty(t, names(w.b.Setup().Audit(ctx, orgO, at(8), at(minute)), -1)) }).Requests())
	}

	ending, end := context.WithCancel(ctx)
	defer end()
	seen := 0
	var last error
	for _, err := range w.b.Setup().Audit(ending, orgO, always, always) {
		if last = err; err == nil {
			seen++
			end()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	assert.Less(t, seen, n)
	for _, target := range []string{"", "acme", "$PRICE:", "$SYSTEM", strings.ToUpper(orgO)} {
		requireMisuse(t, "target", "Audit", func() error { return first(w.b.Setup().Audit(ctx, target, always, always)) })
	}
}

// everyChange is each change that an administrator makes, as it is called.
func everyChange(ctx context.Context, now time.Time) map[string]func(*Keeper) error {
	return map[string]func(*Keeper) error{
		"PutOrg":        func(k *Keeper) error { _, err := k.Setup().PutOrg(ctx, fixtureOrg()); return err },
		"PutApp":        func(k *Keeper) error { _, err := k.Setup().PutApp(ctx, orgO, App{ID: appA, Name: "x"}); return err },
		"Override":      func(k *Keeper) error { return k.Setup().Override(ctx, orgO, appA, "economy", now.Add(time.Hour)) },
		"ClearOverride": func(k *Keeper) error { return k.Setup().ClearOverride(ctx, orgO, appA) },
		"PutPrices":     func(k *Keeper) error { return k.Prices().Put(ctx, microModel, prices.Price{Model: microModel}) },
		"ReplacePrices": func(k *Keeper) error {
			return k.Prices().Replace(ctx, "unpriced", nil, prices.Price{Model: "unpriced"})
		},
		"PutModelInfo": func(k *Keeper) error { return k.Prices().PutInfo(ctx, microModel, ModelInfo{Tier: "x"}) },
		"ImportPrices": func(k *Keeper) error { _, err := k.Prices().Import(ctx, microList(), PriceImport{}); return err },
		"Adjust": func(k *Keeper) error {
			return adjust(ctx, k, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 1, Reason: "x"})
		},
	}
}

// Who makes a change is asked before anything else: nothing is read or written.
func TestChangesNeedAPrincipal(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	require.NoError(t, w.a.Setup().Override(t.Context(), orgO, appA, "economy", w.clock.Now().Add(time.Minute)))
	nobody, err := New(w.client, w.tables, &Options{AllowUnknownApps: true, Now: w.clock.Now})
	require.NoError(t, err)
	keepers := map[string]*Keeper{"nobody": nobody}
	for _, name := range []string{"", "a\nb", "\xff", "\u202eann", strings.Repeat("x", 257)} {
		keepers[name] = w.a.As(name)
	}
	for name, k := range keepers {
		for what, change := range everyChange(t.Context(), w.clock.Now()) {
			m := w.spentOn(func() { requireMisuse(t, "principal", what, func() error { return change(k) }) })
			assert.Zero(t, m.Requests(), "%s as %q", what, name)
		}
	}
	assert.Len(t, eventsOf(t, w.a, orgO), 2)
	require.NoError(t, nobody.Close(t.Context()))
	requireMisuse(t, "options.principal", "New", func() error {
		_, err := New(w.client, w.tables, &Options{AllowUnknownApps: true, Principal: "a\tb"})
		return err
	})
	assert.ErrorContains(t, everyChange(t.Context(), w.clock.Now())["PutOrg"](w.a.As("")), "keeper.As(name)", "it says what to do")

	anonymous, err := New(w.client, w.tables, &Options{AllowUnknownApps: true, Now: w.clock.Now, Models: fixtureModels, AllowAnonymous: true})
	require.NoError(t, err)
	for what, change := range everyChange(t.Context(), w.clock.Now()) {
		require.NoError(t, change(anonymous), what)
		requireMisuse(t, "principal", what, func() error { return change(anonymous.As("a\nb")) })
	}
	require.NoError(t, anonymous.Close(t.Context()))
	who := map[string]int{}
	for _, e := range eventsOf(t, w.a, orgO) {
		who[e.Principal]++
	}
	delete(who, tester)
	assert.Equal(t, []string{""}, slicesOf(maps.Keys(who)))
}

func slicesOf[T any](list iter.Seq[T]) (all []T) {
	for v := range list {
		all = append(all, v)
	}
	return all
}

// A keeper of another name is the same keeper: what one writes the other knows, and one
// Close is enough.
func TestAsIsTheSameKeeper(t *testing.T) {
	w := newWorld(t)
	k, err := New(w.client, w.tables, &Options{AllowUnknownApps: true, Now: w.clock.Now, Principal: "deploy", Models: fixtureModels})
	require.NoError(t, err)
	ann := k.As("ann")
	o := fixtureOrg()
	_, err = k.Setup().PutOrg(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, "premium", w.recommend(k, appA).Label)
	o.Ordering = []string{"economy"}
	_, err = ann.As("bob").Setup().PutOrg(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, "economy", w.recommend(k, appA).Label, "its cache is theirs")
	require.NoError(t, adjust(t.Context(), ann, orgO, appA, Adjustment{Label: "economy", DeltaMicros: 7, Reason: "x"}))
	assert.Zero(t, w.spentOn(func() { assert.Equal(t, int64(7), w.recommend(k, appA).Labels[0].SpendMicros) }).Requests())
	var who []string
	for _, e := range eventsOf(t, ann, orgO) {
		who = append(who, e.Principal)
	}
	assert.Equal(t, []string{"deploy", "bob", "ann"}, who)

	require.NoError(t, ann.Close(t.Context()))
	require.NoError(t, k.Close(t.Context()))
	assert.False(t, k.Health().Ready)
	require.ErrorIs(t, adjust(t.Context(), k, orgO, appA, Adjustment{Label: "economy", DeltaMicros: 7, Reason: "x"}), ErrClosed)
	for _, none := range []*Keeper{(*Keeper)(nil).As("ann"), new(Keeper).As("ann")} {
		requireMisuse(t, "keeper", "As", func() error { _, err := none.Setup().PutOrg(t.Context(), o); return err })
	}
}

// Events go when their time is over, and the configuration stays.
func TestEventsAreKeptForTheirTime(t *testing.T) {
	for retention, want := range map[time.Duration]time.Duration{0: 90 * 24 * time.Hour, time.Hour: time.Hour, -1: 0} {
		w := newWorld(t, func(o *Options) { o.AuditRetention = retention })
		w.org(fixtureOrg())
		require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 7, Reason: "x"}))
		kept := eventsOf(t, w.b, orgO)
		require.Len(t, kept, 2)
		var d store.Decoder
		for _, e := range kept {
			item, err := w.a.store.Get(t.Context(), w.tables.Control, store.Key{PK: "AUDIT#" + orgO, SK: trail.SortPrefix + e.ID})
			require.NoError(t, err)
			require.NotNil(t, item)
			if want == 0 {
				assert.NotContains(t, item, store.AttrTTL)
				continue
			}
			assert.Equal(t, fixtureNow.Add(want).Unix(), d.Int(item, store.AttrTTL))
		}
		require.NoError(t, d.Err)
		w.clock.Advance(91 * 24 * time.Hour)
		w.db.ExpireNow()
		left := 0
		if want == 0 {
			left = 2
		}
		assert.Len(t, eventsOf(t, w.b, orgO), left)
		got, err := w.b.Setup().GetOrg(t.Context(), orgO)
		require.NoError(t, err)
		assert.Equal(t, int64(1), got.Version)
		assert.NoError(t, firstError(w.b.Setup().Adjustments(t.Context(), orgO, appA)))
	}
}
