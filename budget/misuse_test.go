package budget

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every call without a context, or of what was never made, says so.
func TestMisuseIsSaid(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	var nilCtx context.Context
	hold, err := reserveFor(t, w.a, "premium", 1, time.Minute)
	require.NoError(t, err)
	for _, test := range []struct {
		field string
		k     *Keeper
		ctx   context.Context
	}{{"ctx", w.a, nilCtx}, {"keeper", nil, ctx}, {"keeper", new(Keeper), ctx}} {
		k, ctx := test.k, test.ctx
		for name, call := range map[string]func() error{
			"Adjust":         func() error { _, err := k.Adjust(ctx, orgO, appA, Adjustment{}); return err },
			"Adjustments":    func() error { return first(k.Adjustments(ctx, orgO, appA)) },
			"Apps":           func() error { return first(k.Apps(ctx, orgO)) },
			"ClearOverride":  func() error { return k.ClearOverride(ctx, orgO, appA) },
			"Close":          func() error { return k.Close(ctx) },
			"CreateTables":   func() error { return k.CreateTables(ctx) },
			"Estimate":       func() error { _, err := k.Estimate(ctx, orgO, appA, "premium", 1, 1); return err },
			"Events":         func() error { return first(k.Events(ctx, orgO, appA)) },
			"GetApp":         func() error { _, err := k.GetApp(ctx, orgO, appA); return err },
			"GetOrg":         func() error { _, err := k.GetOrg(ctx, orgO); return err },
			"History":        func() error { return first(k.History(ctx, orgO, appA, "20260122", "20260123")) },
			"Orgs":           func() error { return first(k.Orgs(ctx)) },
			"Override":       func() error { return k.Override(ctx, orgO, appA, "premium", time.Now()) },
			"Prices":         func() error { _, err := k.Prices(ctx, premiumModel); return err },
			"PutApp":         func() error { _, err := k.PutApp(ctx, orgO, App{ID: appA}); return err },
			"PutOrg":         func() error { _, err := k.PutOrg(ctx, fixtureOrg()); return err },
			"PutPrices":      func() error { return k.PutPrices(ctx, premiumModel) },
			"Recommend":      func() error { _, err := k.Recommend(ctx, orgO, appA); return err },
			"RecommendFresh": func() error { _, err := k.RecommendFresh(ctx, orgO, appA); return err },
			"Replay":         func() error { return k.Replay(ctx) },
			"Reserve":        func() error { _, err := k.Reserve(ctx, orgO, appA, "premium", 1, time.Minute); return err },
			"Sticky":         func() error { _, err := k.Sticky(ctx, orgO, appA); return err },
			"Submit":         func() error { _, err := k.Submit(ctx, orgO, appA, call(1)); return err },
			"SubmitBatch":    func() error { _, err := k.SubmitBatch(ctx, orgO, appA, []Usage{call(1)}); return err },
			"Sweep":          func() error { _, err := k.Sweep(ctx); return err },
			"TagTotals":      func() error { _, err := k.TagTotals(ctx, orgO, appA, "", "user"); return err },
			"Totals":         func() error { _, err := k.Totals(ctx, orgO, appA, ""); return err },
		} {
			requireMisuse(t, test.field, name, call)
		}
	}
	for _, test := range []struct {
		field string
		h     *Hold
		ctx   context.Context
	}{{"ctx", hold, nilCtx}, {"hold", nil, ctx}, {"hold", new(Hold), ctx}} {
		for name, call := range map[string]func() error{
			"Settle":  func() error { _, err := test.h.Settle(test.ctx, call(1)); return err },
			"Release": func() error { return test.h.Release(test.ctx) },
			"Extend":  func() error { return test.h.Extend(test.ctx, time.Minute) },
		} {
			requireMisuse(t, test.field, name, call)
		}
	}
	assert.Zero(t, (*Hold)(nil).ExpiresAt())
	assert.Zero(t, new(Keeper).Health())
	assert.Zero(t, new(Keeper).Spooled())
	require.NoError(t, hold.Release(ctx), "the hold is as it was")
}

func first[T any](list iter.Seq2[T, error]) (err error) {
	for _, err = range list {
		break
	}
	return err
}

func requireMisuse(t *testing.T, field, name string, call func() error) {
	t.Helper()
	require.NotPanics(t, func() {
		var v *ValidationError
		require.ErrorAs(t, call(), &v, "%s without a %s", name, field)
		require.Equal(t, field, v.Field, name)
		require.Equal(t, "budget", v.Package)
	}, "%s without a %s", name, field)
}

// Enums are written by name, and what is no name is refused.
func TestEnumsAreWrittenByName(t *testing.T) {
	type config struct {
		Metering Metering
		Policy   Policy
	}
	for text, want := range map[string]config{
		`{"Metering":"strict","Policy":"default"}`: {},
		`{"Metering":"batch","Policy":"refuse"}`:   {MeteringBatch, Refuse},
		`{"Metering":"window","Policy":"allow"}`:   {MeteringWindow, Allow},
		`{"Metering":"none","Policy":"allow"}`:     {MeteringNone, Allow},
	} {
		var got config
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		assert.Equal(t, want, got)
		back, err := json.Marshal(got)
		require.NoError(t, err)
		assert.Equal(t, text, string(back))
	}
	var got config
	require.NoError(t, json.Unmarshal([]byte(`{"Metering":"","Policy":""}`), &got))
	assert.Zero(t, got)
	for _, text := range []string{`{"Metering":"loose"}`, `{"Policy":"deny"}`} {
		requireCode(t, json.Unmarshal([]byte(text), &got), CodeInvalidRequest)
	}
	assert.Equal(t, "Metering(9)", Metering(9).String())
	for want, got := range map[string]interface{ String() string }{
		"ORG": ScopeOrg, "HARD": Hard, "week": Week, "TIGHT": ModeTight, "EXCEEDED": StatusExceeded,
		"flip": EventFlip, "global": Global, "INVALID_CONFIG": CodeInvalidConfig,
	} {
		assert.Equal(t, want, got.String())
	}
}
