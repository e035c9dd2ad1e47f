package budget

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

// listOf is a list with models' prices.
func listOf(t testing.TB, models ...[]prices.Price) prices.List {
	t.Helper()
	return prices.List{Name: "prices", Prices: slices.Concat(models...)}
}

// listed are a model's prices: dollars per million tokens, by class, from a day on if there
// is one.
func listed(id string, dollars ...string) []prices.Price {
	rows := make([]prices.Price, len(dollars))
	for i, text := range dollars {
		var row struct {
			From                 time.Time
			In, Out, Read, Write *float64
		}
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			panic(err)
		}
		rate := func(dollars *float64) int64 {
			switch {
			case dollars == nil:
				return 0
			case *dollars == 0:
				return prices.FreeRate
			}
			return int64(math.Round(*dollars * 1e6))
		}
		rows[i] = prices.Price{Model: id, EffectiveFrom: row.From, Rates: prices.Rates{Input: rate(row.In), Output: rate(row.Out), CacheRead: rate(row.Read), CacheWrite5m: rate(row.Write)}}
	}
	return rows
}

// importing imports a list by a keeper.
func importing(t testing.TB, k *Keeper, list prices.List, accept ...string) PriceReport {
	t.Helper()
	report, err := k.Prices().Import(t.Context(), list, PriceImport{Accept: accept})
	require.NoError(t, err)
	return report
}

// priceAt is a model's price in force.
func priceAt(t testing.TB, k *Keeper, model string, at time.Time) prices.Rates {
	t.Helper()
	stored, err := k.admin.prices.storedPrices(t.Context(), []string{model})
	require.NoError(t, err)
	layers := append(priceLayers{{layerTable, stored}}, k.admin.prices.own...)
	p, _, ok := layers.lookup(model, at)
	require.True(t, ok, model)
	return p.Rates
}

// heldReasons are what is held back, by model.
func heldReasons(report PriceReport) map[string]string {
	reasons := map[string]string{}
	for _, c := range report.Held {
		reasons[c.Model] = c.Reason
	}
	return reasons
}

func TestImportedPricesAreJudgedByThoseInForce(t *testing.T) {
	const first = `{"in":3,"out":12,"read":0.3}`
	for name, tc := range map[string]struct {
		next   string
		reason string
		class  string
	}{
		"the same":                {first, "", ""},
		"three times":             {`{"in":9,"out":36,"read":0.9}`, "", ""},
		"more than three times":   {`{"in":9.000001,"out":12,"read":0.3}`, heldDearer, "input"},
		"a third":                 {`{"in":1,"out":4,"read":0.1}`, "", ""},
		"less than a third":       {`{"in":3,"out":3.999999,"read":0.3}`, heldCheaper, "output"},
		"zero":                    {`{"in":3,"out":0,"read":0.3}`, heldZero, "output"},
		"a class of zero":         {`{"in":3,"out":12,"read":0}`, heldZero, "cache_read"},
		"a class gone":            {`{"in":3,"out":12}`, "", ""},
		"a class more":            {`{"in":3,"out":12,"read":0.3,"write":100}`, "", ""},
		"a new class of zero":     {`{"in":3,"out":12,"read":0.3,"write":0}`, heldZero, "cache_write_5m"},
		"dearer from a later day": {`{"from":"2100-03-01T00:00:00Z","in":30,"out":12,"read":0.3}`, heldDearer, "input"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			other := listed("other", `{"in":1,"out":1}`)
			report := importing(t, w.a, listOf(t, listed("m", first), other))
			require.Len(t, report.Accepted, 2)
			want := prices.Rates{Input: 3_000_000, Output: 12_000_000, CacheRead: 300_000}
			require.Equal(t, want, priceAt(t, w.a, "m", w.clock.Now()))

			w.clock.Advance(time.Hour)
			next := listOf(t, listed("m", first, tc.next), other)
			if !strings.Contains(tc.next, "from") {
				next = listOf(t, listed("m", tc.next), other)
			}
			report = importing(t, w.b, next)
			after := priceAt(t, w.a, "m", w.clock.Now())
			if tc.reason == "" {
				assert.Empty(t, report.Held)
				return
			}
			require.Len(t, report.Held, 1)
			assert.Equal(t, tc.reason, report.Held[0].Reason)
			assert.Equal(t, tc.class, report.Held[0].Class)
			assert.Equal(t, want, *report.Held[0].Before)
			assert.Equal(t, want, after, "in force as it was")
			assert.Equal(t, []string{"other"}, report.Unchanged)

			report = importing(t, w.b, next, "m")
			assert.Empty(t, report.Held, "accepted by name")
			assert.NotEmpty(t, report.Accepted)
			report = importing(t, w.b, next)
			assert.Empty(t, report.Held, "and not missed any more")
			assert.Empty(t, report.Accepted)
		})
	}
}

// TestPricesAreComparedWithThoseOf30DaysAgo: a list that halves a price day after day is held back
// before it is a third, and again when these 30 days are over. What the list does not say of a cache
// does not stay dearer than the input.
func TestPricesAreComparedWithThoseOf30DaysAgo(t *testing.T) {
	w := newWorld(t)
	rates := func() prices.Rates { return priceAt(t, w.a, "gpt-4o", w.clock.Now()) }
	built := rates()
	halve := func(of float64, accept ...string) PriceReport {
		w.clock.Advance(24 * time.Hour)
		return importing(t, w.a, listOf(t, listed("gpt-4o", fmt.Sprintf(`{"in":%g,"out":%g}`, 2.5*of, 10*of))), accept...)
	}
	require.Len(t, halve(1./2).Accepted, 1)
	for range 4 {
		report := halve(1. / 4)
		assert.Equal(t, map[string]string{"gpt-4o": heldCheaper}, heldReasons(report))
		assert.Equal(t, built.Input/2, rates().Input)
	}
	w.clock.Advance(30 * 24 * time.Hour)
	require.Len(t, halve(1./4).Accepted, 1, "the half was in force for 30 days")
	require.Len(t, halve(1./8, "gpt-4o").Accepted, 1, "by name")
	assert.Equal(t, prices.Rates{Input: built.Input / 8, Output: built.Output / 8}, rates(), "the cache costs what the input does")
	assert.Equal(t, []string{"gpt-4o"}, halve(1./8).Unchanged)
}

// TestANewModelIsComparedWithItsFamily: with the models that are the same one under another name.
func TestANewModelIsComparedWithItsFamily(t *testing.T) {
	for model, want := range map[string]string{
		"claude-3-5-sonnet-20241022":                   heldCheaper, // of anthropic.claude-3-5-sonnet-20241022
		"us.anthropic.claude-3-5-sonnet-20250101-v3:0": heldCheaper,
		"gpt-4o-2099-01-01":                            heldCheaper,
		"gpt-4o-mini-2099-01-01":                       heldCheaper,
		"acme.unheard-of-20990101":                     "",
	} {
		w := newWorld(t)
		report := importing(t, w.a, listOf(t, listed(model, `{"in":0.001,"out":0.001}`)))
		got := ""
		for _, c := range report.Held {
			got = c.Reason
			assert.Nil(t, c.Before)
		}
		assert.Equal(t, want, got, model)
		assert.Len(t, importing(t, w.a, listOf(t, listed(model, `{"in":0.001,"out":0.001}`)), model).Held, 0)
	}
	w := newWorld(t)
	assert.Empty(t, importing(t, w.a, listOf(t, listed("claude-3-5-sonnet-20241022", `{"in":3,"out":15}`))).Held)
}

// TestAnAcceptedPriceHoldsFromItsAcceptance: a record of a time before keeps the price of
// its time, and what was counted keeps its cost.
func TestAnAcceptedPriceHoldsFromItsAcceptance(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Models = map[string]string{"premium": "m", "standard": standardModel, "economy": economyModel}
	})
	w.org(fixtureOrg())
	importing(t, w.a, listOf(t, listed("m", `{"in":3,"out":12}`)))
	w.clock.Advance(time.Minute)
	usage := func(n int, at time.Time) prices.Usage {
		return prices.Usage{RequestID: uuid(n), Label: "premium", Tokens: prices.Tokens{Input: 1_000_000}, Time: at}
	}
	counted := w.submit(w.a, usage(1, w.clock.Now()))
	require.Equal(t, int64(3_000_000), counted.CostMicros)

	before := w.clock.Now()
	w.clock.Advance(1500 * time.Millisecond)
	report := importing(t, w.a, listOf(t, listed("m", `{"in":6,"out":12}`)))
	require.Len(t, report.Accepted, 1)
	from := report.Accepted[0].EffectiveFrom
	assert.False(t, from.Before(w.clock.Now()), "never backdated: %s", from)
	assert.Less(t, from.Sub(w.clock.Now()), time.Second)
	w.clock.Advance(time.Minute)
	assert.Equal(t, int64(3_000_000), w.submit(w.a, usage(2, before)).CostMicros, "of a time before it")
	assert.Equal(t, int64(6_000_000), w.submit(w.a, usage(3, w.clock.Now())).CostMicros)
	again := w.submit(w.a, usage(1, before))
	assert.True(t, again.Duplicate)
	assert.Equal(t, counted.PriceVersion, again.PriceVersion)
	assert.Equal(t, int64(12_000_000), w.total(appA, "premium", "").CostMicros)
}

// TestPricesOfTheCatalogThatAListHidesComeBack: a price taken now does not stand in the
// way of a later one that was announced, nor of another scope's.
func TestPricesOfTheCatalogThatAListHidesComeBack(t *testing.T) {
	later := at(t, "2100-03-01T00:00:00Z")
	own := []prices.Price{
		{Model: "global.m", Rates: prices.Rates{Input: 1_000_000, Output: 1_000_000}},
		{Model: "m", Scope: prices.Regional, Rates: prices.Rates{Input: 2_000_000, Output: 2_000_000}},
		{Model: "m", Scope: prices.Regional, EffectiveFrom: later, Rates: prices.Rates{Input: 20_000_000, Output: 2_000_000}},
	}
	book, err := prices.NewBook(own)
	require.NoError(t, err)
	w := newWorld(t)
	w.a.admin.prices.own = priceLayers{{layerCatalog, book}}
	now := w.clock.Now()
	report := importing(t, w.a, listOf(t, listed("m", `{"in":3,"out":2}`)))
	require.Len(t, report.Accepted, 1)
	assert.Equal(t, prices.Regional, report.Accepted[0].Scope, "there is another for global endpoints")
	assert.Empty(t, report.Held, "what was announced stays, for the list says nothing of then")
	for _, tc := range []struct {
		model string
		at    time.Time
		input int64
	}{
		{"m", now.Add(-1), 2_000_000},
		{"m", now, 3_000_000},
		{"m", later, 20_000_000},
		{"global.m", later, 1_000_000},
	} {
		assert.Equal(t, tc.input, priceAt(t, w.a, tc.model, tc.at).Input, "%s at %s", tc.model, tc.at)
	}
	again := importing(t, w.a, listOf(t, listed("m", `{"in":3,"out":2}`)))
	assert.Equal(t, []string{"m"}, again.Unchanged, "once")

	dated := listOf(t, listed("m", `{"in":3,"out":2}`, `{"from":"2100-04-01T00:00:00Z","in":4,"out":2}`))
	report = importing(t, w.a, dated)
	require.Len(t, report.Held, 2, "a list that has dates says something of then, and waits for somebody to look")
	assert.Equal(t, heldCheaper, report.Held[0].Reason)
	assert.Equal(t, int64(20_000_000), priceAt(t, w.a, "m", later.AddDate(0, 2, 0)).Input)
	assert.Len(t, importing(t, w.a, dated, "m").Accepted, 2)
	assert.Equal(t, int64(3_000_000), priceAt(t, w.a, "m", later).Input)
	assert.Equal(t, int64(4_000_000), priceAt(t, w.a, "m", later.AddDate(0, 2, 0)).Input)
}

func TestWhatAnOperatorSetIsKept(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Prices = []prices.Price{{Model: "mine", Rates: prices.Rates{Input: 7, Output: 7}}} })
	info := ModelInfo{Tier: "premium", Family: "claude-3.5", Description: "The best that there is"}
	require.NoError(t, w.a.Prices().PutInfo(t.Context(), "m", info))
	require.NoError(t, w.a.Prices().Put(t.Context(), "hand", prices.Price{Model: "hand", Rates: prices.Rates{Input: 3_000_000, Output: 1}}))
	list := func(price string) prices.List {
		return listOf(t, listed("m", price), listed("hand", price), listed("mine", price))
	}
	for _, price := range []string{`{"in":3,"out":12}`, `{"in":4,"out":12}`} {
		report := importing(t, w.a, list(price))
		assert.Equal(t, map[string]string{"hand": heldByHand, "mine": heldByHand}, heldReasons(report))
		require.Len(t, report.Accepted, 1)
		w.clock.Advance(time.Minute)
	}
	stored, err := w.a.Prices().Get(t.Context(), "m")
	require.NoError(t, err)
	require.Len(t, stored, 2, "each price with its time")
	assert.Equal(t, "prices", stored[1].List)
	require.NoError(t, w.a.Prices().Put(t.Context(), "m", stored[1]))
	kept, err := w.b.Prices().Info(t.Context(), "us.m")
	require.NoError(t, err)
	assert.Equal(t, info, kept)

	other, err := w.a.Prices().Import(t.Context(), list(`{"in":5,"out":12}`), PriceImport{List: "ours", Accept: []string{"hand"}})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"mine": heldByHand}, heldReasons(other))
	for _, model := range []string{"m", "hand"} {
		assert.Equal(t, int64(5_000_000), priceAt(t, w.a, model, w.clock.Now()).Input)
	}
}

func TestImportsThatCannotBeAreRefused(t *testing.T) {
	w := newWorld(t)
	list := listOf(t, listed("m", `{"in":3,"out":12}`))
	for field, try := range map[string]func() error{
		"prices": func() error { _, err := w.a.Prices().Import(t.Context(), listOf(t), PriceImport{}); return err },
		"list":   func() error { _, err := w.a.Prices().Import(t.Context(), list, PriceImport{List: "a#b"}); return err },
		"accept": func() error {
			_, err := w.a.Prices().Import(t.Context(), list, PriceImport{Accept: []string{"m", "unheard-of"}})
			return err
		},
		"tier": func() error { return w.a.Prices().PutInfo(t.Context(), "m", ModelInfo{Tier: strings.Repeat("x", 257)}) },
	} {
		var v *fault.ValidationError
		require.ErrorAs(t, try(), &v, field)
		assert.Equal(t, field, v.Field)
	}
	_, err := w.a.Prices().Import(t.Context(), prices.List{Prices: []prices.Price{{Model: "m", Rates: prices.Rates{Input: -5}}}, Name: "prices"}, PriceImport{})
	requireCode(t, err, fault.InvalidConfig)
	stored, err := w.a.Prices().Get(t.Context(), "m")
	require.NoError(t, err)
	assert.Empty(t, stored)
}

// TestOnlyPricesThatNobodyNeedsAreDropped once there are more than fit.
func TestOnlyPricesThatNobodyNeedsAreDropped(t *testing.T) {
	w := newWorld(t)
	rows := make([]prices.Price, maxPrices)
	for i := range rows {
		rows[i] = prices.Price{Model: "m", List: "prices", EffectiveFrom: w.clock.Now().Add(-time.Duration(i+1) * time.Minute), Rates: prices.Rates{Input: 3_000_000, Output: 1}}
	}
	require.NoError(t, w.a.Prices().Put(t.Context(), "m", rows...))
	list := listOf(t, listed("m", `{"in":4,"out":0.000001}`))
	report := importing(t, w.a, list)
	require.Len(t, report.Skipped, 1)
	assert.Contains(t, report.Skipped[0].Reason, "calls by each may still come")
	w.clock.Advance(80 * time.Hour)
	assert.Len(t, importing(t, w.a, list).Accepted, 1)
	stored, err := w.a.Prices().Get(t.Context(), "m")
	require.NoError(t, err)
	assert.Len(t, stored, maxPrices)
}

// TestAnAnnouncedPriceStays for as long as a list without dates is imported, also where it
// is near enough to the list's to be taken.
func TestAnAnnouncedPriceStays(t *testing.T) {
	later := at(t, "2100-03-01T00:00:00Z")
	announced := []prices.Price{{Model: "m", Rates: prices.Rates{Input: 2_000_000, Output: 1}}, {Model: "m", EffectiveFrom: later, Rates: prices.Rates{Input: 4_000_000, Output: 1}}}
	for layer, after := range map[string]string{layerCatalog: "", layerOptions: heldByHand} {
		t.Run(layer, func(t *testing.T) {
			w := newWorld(t)
			book, err := prices.NewBook(announced)
			require.NoError(t, err)
			w.a.admin.prices.own = priceLayers{{layer, book}}
			for range 3 {
				importing(t, w.a, listOf(t, listed("m", `{"in":3,"out":0.000001}`)), "m")
				w.clock.Advance(time.Hour)
			}
			assert.Equal(t, int64(3_000_000), priceAt(t, w.a, "m", w.clock.Now()).Input)
			assert.Equal(t, int64(4_000_000), priceAt(t, w.a, "m", later).Input)
			w.clock.Set(later)
			report := importing(t, w.a, listOf(t, listed("m", `{"in":5,"out":0.000001}`)))
			assert.Equal(t, after, heldReasons(report)["m"], "whose it is did not change")
		})
	}
}

// TestAVersionKeepsItsPrice when the model without one, whose price it had, gets another.
func TestAVersionKeepsItsPrice(t *testing.T) {
	const three, six, thirty = `{"in":3,"out":12}`, `{"in":6,"out":12}`, `{"in":30,"out":12}`
	w := newWorld(t)
	book, err := prices.NewBook([]prices.Price{{Model: "m", Rates: prices.Rates{Input: 3_000_000, Output: 12_000_000}}})
	require.NoError(t, err)
	w.a.admin.prices.own = priceLayers{{layerCatalog, book}}
	list := listOf(t, listed("m", six), listed("m-v1:0", three), listed("m-v2:0", thirty), listed("m-v3:0", six),
		listed("m-v4:0", three), listed("m-v4:0", thirty))
	for range 2 {
		report := importing(t, w.a, list)
		assert.Equal(t, map[string]string{"m-v2": heldDearer}, heldReasons(report))
		require.Len(t, report.Skipped, 1)
		assert.Equal(t, "m-v4", report.Skipped[0].Model)
		for model, input := range map[string]int64{
			"m": 6_000_000, "m-v1": 3_000_000, "m-v2": 3_000_000, "m-v3": 6_000_000, "m-v4": 3_000_000, "m-v5": 6_000_000,
		} {
			assert.Equal(t, input, priceAt(t, w.a, model, w.clock.Now()).Input, model)
		}
	}
	assert.Equal(t, []string{"m", "m-v1", "m-v3"}, importing(t, w.a, list).Unchanged)
}

// TestAClockThatGoesBackHidesNoPrice: what was stored by a clock ahead is replaced, too.
func TestAClockThatGoesBackHidesNoPrice(t *testing.T) {
	w := newWorld(t)
	now := w.clock.Now()
	importing(t, w.a, listOf(t, listed("m", `{"in":3,"out":12}`)))
	w.clock.Set(now.Add(time.Hour))
	importing(t, w.a, listOf(t, listed("m", `{"in":4,"out":12}`)))
	w.clock.Set(now.Add(time.Minute))
	list := listOf(t, listed("m", `{"in":5,"out":12}`))
	importing(t, w.a, list)
	for after, input := range map[time.Duration]int64{0: 3_000_000, time.Minute: 5_000_000, time.Hour: 5_000_000} {
		assert.Equal(t, input, priceAt(t, w.a, "m", now.Add(after)).Input, after)
	}
	assert.Equal(t, []string{"m"}, importing(t, w.b, list).Unchanged)
}

// TestAnImportSurvivesThrottlesAndLostAnswers: each price is stored once, with one event.
func TestAnImportSurvivesThrottlesAndLostAnswers(t *testing.T) {
	w := newWorld(t)
	models := strings.Fields("a b c d e f")
	var rows [][]prices.Price
	for _, model := range models {
		rows = append(rows, listed(model, `{"in":3,"out":12}`))
	}
	w.db.SetFaults(onTransactions(func(n int) ddbmem.Fault {
		switch n % 3 {
		case 0:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		case 1:
			return ddbmem.Fault{Lose: true}
		}
		return ddbmem.Fault{}
	}))
	report := importing(t, w.a, listOf(t, rows...))
	w.db.SetFaults(nil)
	assert.Len(t, report.Accepted, len(models))
	for _, model := range models {
		stored, err := w.a.Prices().Get(t.Context(), model)
		require.NoError(t, err)
		assert.Len(t, stored, 1)
		assert.Len(t, eventsOf(t, w.a, priceTarget(model)), 1)
	}
	assert.Equal(t, models, importing(t, w.b, listOf(t, rows...)).Unchanged)
}

// cheaperUntil2027 has another price at LiteLLM, whose list is three weeks older.
const cheaperUntil2027 = "gemini-3.6-flash"

// publicList is an extract of LiteLLM's list.
func publicList(t testing.TB) prices.List {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "prices", "testdata", "litellm.json"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	list, err := prices.Load(f)
	require.NoError(t, err)
	return list
}

// TestAnImportOfTheListChangesLittle: the catalog is of their day.
func TestAnImportOfTheListChangesLittle(t *testing.T) {
	w := newWorld(t)
	w.clock.Set(at(t, "2026-08-21T12:00:00Z"))
	report := importing(t, w.a, publicList(t))
	for _, c := range report.Accepted {
		if c.Before != nil && c.Model != cheaperUntil2027 {
			for _, class := range tokenClasses {
				if x, y := *class.Rate(c.Before), *class.Rate(c.After); x != 0 && y != 0 {
					assert.Equal(t, x, y, "%s: %s", c.Model, class.Name)
				}
			}
		}
	}
	assert.NotEmpty(t, report.Unchanged)
	again := importing(t, w.a, publicList(t))
	assert.Empty(t, again.Accepted)
	assert.Equal(t, report.Held, again.Held)
}

// FuzzReview checks what becomes of any list: prices that a keeper takes, none of them backdated or
// free, and once.
func FuzzReview(f *testing.F) {
	for _, number := range []string{"1", "-1", "8.75e-9", "null", "1e-40", "3E-06"} {
		f.Add(`[{"model_id":"global.m","input_usd_micros_per_1m":` + number + `,"output_usd_micros_per_1m":2},
			{"model_id":"m","effective_from":"2026-09-01T00:00:00Z","input_usd_micros_per_1m":1,"output_usd_micros_per_1m":` + number + `}]`)
		f.Add(`{"m":{"litellm_provider":"openai","input_cost_per_token":` + number + `,"output_cost_per_token":1e-6,"cache_read_input_token_cost":` + number + `},
			"azure/m":{"input_cost_per_token":2e-6,"output_cost_per_token":` + number + `},"us.m":{"input_cost_per_token":1e-6,"output_cost_per_token":1e-6}}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := prices.Load(strings.NewReader(text))
		if err != nil {
			return
		}
		byName, err := prices.NewBook(list.Prices)
		require.NoError(t, err)
		now := fixtureNow
		for name := range byName {
			l := newListing(name, "list", byName[name], nil, priceLayers{{layerTable, prices.Book{}}}, now)
			r := l.reviewList(now)
			for _, p := range r.stored {
				require.NoError(t, p.Validate())
				require.False(t, p.EffectiveFrom.Before(now), "backdated")
				require.NotZero(t, max(p.Input, 0), "free")
			}
			again := newListing(name, "list", byName[name], r.stored, priceLayers{{layerTable, prices.Book{name: r.stored}}}, now)
			require.Empty(t, again.reviewList(now).accepted, "once")
		}
	})
}
