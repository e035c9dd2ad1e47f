package budget

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

// Every call without a context, or of what was never made, says so.
func TestMisuseIsSaid(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	var nilCtx context.Context
	for _, test := range []struct {
		field string
		k     *Keeper
		ctx   context.Context
	}{{"ctx", w.a, nilCtx}, {"keeper", nil, ctx}, {"keeper", new(Keeper), ctx}} {
		k, ctx := test.k, test.ctx
		for name, call := range map[string]func() error{
			"Adjust":         func() error { _, err := k.Setup().Adjust(ctx, orgO, appA, Adjustment{}); return err },
			"Adjustments":    func() error { return first(k.Setup().Adjustments(ctx, orgO, appA)) },
			"Apps":           func() error { return first(k.Setup().Apps(ctx, orgO)) },
			"ClearOverride":  func() error { return k.Setup().ClearOverride(ctx, orgO, appA) },
			"Close":          func() error { return k.Close(ctx) },
			"CreateTables":   func() error { return k.Setup().CreateTables(ctx) },
			"DeleteApp":      func() error { return k.Setup().DeleteApp(ctx, orgO, appA, nil) },
			"DeleteOrg":      func() error { return k.Setup().DeleteOrg(ctx, orgO, nil) },
			"Estimate":       func() error { _, err := k.Estimate(ctx, orgO, appA, "premium", 1, 1); return err },
			"Events":         func() error { return first(k.Events(ctx, orgO, appA)) },
			"GetApp":         func() error { _, err := k.Setup().GetApp(ctx, orgO, appA); return err },
			"GetOrg":         func() error { _, err := k.Setup().GetOrg(ctx, orgO); return err },
			"History":        func() error { return first(k.History(ctx, orgO, appA, "20990122", "20990123")) },
			"ImportPrices":   func() error { _, err := k.Prices().Import(ctx, prices.List{}, PriceImport{}); return err },
			"ModelInfo":      func() error { _, err := k.Prices().Info(ctx, premiumModel); return err },
			"Orgs":           func() error { return first(k.Setup().Orgs(ctx)) },
			"Override":       func() error { return k.Setup().Override(ctx, orgO, appA, "premium", time.Now()) },
			"Prices":         func() error { _, err := k.Prices().Get(ctx, premiumModel); return err },
			"PutApp":         func() error { _, err := k.Setup().PutApp(ctx, orgO, App{ID: appA}); return err },
			"PutModelInfo":   func() error { return k.Prices().PutInfo(ctx, premiumModel, ModelInfo{}) },
			"PutOrg":         func() error { _, err := k.Setup().PutOrg(ctx, fixtureOrg()); return err },
			"PutPrices":      func() error { return k.Prices().Put(ctx, premiumModel) },
			"Recommend":      func() error { _, err := k.Recommend(ctx, orgO, appA); return err },
			"RecommendFresh": func() error { _, err := k.RecommendFresh(ctx, orgO, appA); return err },
			"Replay":         func() error { return k.Replay(ctx) },
			"ReplacePrices":  func() error { return k.Prices().Replace(ctx, premiumModel, nil) },
			"ReviewPrices":   func() error { _, err := k.Prices().Review(ctx, prices.List{}, PriceImport{}); return err },
			"Sticky":         func() error { _, err := k.Sticky(ctx, orgO, appA); return err },
			"StoredModels":   func() error { return first(k.Prices().Models(ctx)) },
			"Submit":         func() error { _, err := k.Submit(ctx, orgO, appA, call(1)); return err },
			"SubmitBatch":    func() error { _, err := k.SubmitBatch(ctx, orgO, appA, []prices.Usage{call(1)}); return err },
			"Sweep":          func() error { _, err := k.Sweep(ctx); return err },
			"TagTotals":      func() error { _, err := k.TagTotals(ctx, orgO, appA, "", "user"); return err },
			"Totals":         func() error { _, err := k.Totals(ctx, orgO, appA, ""); return err },
		} {
			requireMisuse(t, test.field, name, call)
		}
	}
	assert.Zero(t, new(Keeper).Health())
	assert.Zero(t, new(Keeper).Stats())
	assert.Zero(t, new(Keeper).Health().Spooled)
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
		var v *fault.ValidationError
		require.ErrorAs(t, call(), &v, "%s without a %s", name, field)
		require.Equal(t, field, v.Field, name)
		require.Contains(t, []string{"budget", "prices"}, v.Package)
	}, "%s without a %s", name, field)
}

// What is no metering or policy is refused, and an empty one is the default.
func TestEnumsAreKnown(t *testing.T) {
	for field, opts := range map[string]Options{
		"options.metering":                 {Metering: "loose"},
		"options.on_unavailable.recommend": {OnUnavailable: OnUnavailable{Recommend: "deny"}},
		"options.on_unavailable.submit":    {OnUnavailable: OnUnavailable{Submit: "deny"}},
	} {
		_, err := New(ddbmem.New().Client(), Tables{}, &opts)
		assert.Equal(t, field, requireCode(t, err, fault.InvalidRequest).Field)
	}
	opts := Options{}.withDefaults()
	assert.Equal(t, MeteringStrict, opts.Metering)
	assert.Equal(t, OnUnavailable{Recommend: Allow, Submit: Refuse}, opts.OnUnavailable)
}

// What a keeper cannot work with is refused when it is made.
func TestKeeperIsRefusedWhatCannotWork(t *testing.T) {
	client := ddbmem.New().Client()
	for name, test := range map[string]struct {
		field  string
		client Client
		tables Tables
		opts   Options
	}{
		"nil pointer":       {field: "client", client: (*dynamodb.Client)(nil)},
		"control's name":    {field: "tables.control", client: client, tables: Tables{Control: "con#trol"}},
		"usage's name":      {field: "tables.usage", client: client, tables: Tables{Usage: "\xff\xfe\xfd"}},
		"one table":         {field: "tables", client: client, tables: Tables{Control: "both", Usage: "both"}},
		"clock before 1970": {field: "options.now", client: client, opts: Options{Now: func() time.Time { return time.Time{} }}},
	} {
		requireMisuse(t, test.field, name, func() error { _, err := New(test.client, test.tables, &test.opts); return err })
	}
}

// DynamoDB would store other text than was given, so that what is sent again would be
// another payload.
func TestTextIsUTF8(t *testing.T) {
	const bad = "\xff\xfe"
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	named, modelled := fixtureOrg(), fixtureOrg()
	named.Name, modelled.Models = bad, map[string]string{"premium": bad}
	marked, model := call(1), call(2)
	marked.Status, model.Model = bad, bad
	for field, do := range map[string]func() error{
		"org_name":       func() error { _, err := w.a.Setup().PutOrg(ctx, named); return err },
		"models.premium": func() error { _, err := w.a.Setup().PutOrg(ctx, modelled); return err },
		"app_name":       func() error { _, err := w.a.Setup().PutApp(ctx, orgO, App{ID: appA, Name: bad}); return err },
		"model":          func() error { return w.a.Prices().Put(ctx, bad, prices.Price{Rates: prices.Rates{Input: 1}}) },
		"status":         func() error { _, err := w.a.Submit(ctx, orgO, appA, marked); return err },
		"model_id":       func() error { _, err := w.a.Submit(ctx, orgO, appA, model); return err },
		"reason": func() error {
			_, err := w.a.Setup().Adjust(ctx, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 1, Reason: bad})
			return err
		},
	} {
		requireMisuse(t, field, "text", do)
	}
	requireMisuse(t, "org_id", "Apps", func() error { return first(w.a.Setup().Apps(ctx, "no uuid")) })
}
