package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
	"github.com/dynalimit/dynalimit/prices"
)

// TestCostOfOperations is the price list, in requests and capacity units.
func TestCostOfOperations(t *testing.T) {
	type cost struct {
		requests      int64
		writes, reads float64
	}
	costOf := func(w *world, f func()) cost {
		m := w.spentOn(f)
		return cost{m.Requests(), m.WriteUnits(), m.ReadUnits()}
	}
	ctx := t.Context()
	for _, tc := range []struct {
		name     string
		metering Metering
		org      Org
		call     func(w *world) func()
		want     cost
	}{
		{"recommend, warm", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.recommend(w.a, appA)
			return func() { w.recommend(w.a, appA) }
		}, cost{}},
		{"recommend, cold", MeteringStrict, fixtureOrg(), func(w *world) func() {
			return func() { w.recommend(w.b, appA) }
		}, cost{6, 0, 14}},
		{"recommend of 64 labels, cold", MeteringStrict, manyLabels(64), func(w *world) func() {
			return func() { w.recommend(w.b, appA) }
		}, cost{67, 0, 75}},
		{"recommend of 64 labels, spend older than 5 s", MeteringStrict, manyLabels(64), func(w *world) func() {
			w.recommend(w.a, appA)
			w.clock.Advance(6 * time.Second)
			return func() { w.recommend(w.a, appA) }
		}, cost{64, 0, 64}},
		{"put an organisation of 64 labels", MeteringStrict, fixtureOrg(), func(w *world) func() {
			return func() { w.org(manyLabels(64)) }
		}, cost{3, 72, 2}},
		{"recommend, spend older than 5 s", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.recommend(w.a, appA)
			w.clock.Advance(6 * time.Second)
			return func() { w.recommend(w.a, appA) }
		}, cost{3, 0, 3}},
		{"submit strict, warm", MeteringStrict, fixtureOrg(), submitWarm, cost{1, 4, 0}},
		{"submit batch, alone", MeteringBatch, fixtureOrg(), submitWarm, cost{1, 4, 0}},
		{"submit with two tags", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			return func() {
				u := call(2)
				u.Tags = map[string]string{"user": "u1", "feature": "chat"}
				w.submit(w.a, u)
			}
		}, cost{1, 8, 0}},
		{"submit a duplicate", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			return func() { assert.True(t, w.submit(w.a, call(1)).Duplicate) }
		}, cost{1, 4, 0}},
		{"submit 100 in a batch", MeteringStrict, fixtureOrg(), func(w *world) func() {
			send := func(usages []prices.Usage) {
				_, err := w.a.SubmitBatch(ctx, orgO, appA, usages)
				require.NoError(t, err)
			}
			w.submit(w.a, call(999))                                            // marks the day, alone
			w.engine.SetFaults(fixture.NewGate(2).Before("TransactWriteItems")) // so each tells of its shard
			send(callsFrom(1000))
			w.engine.SetFaults(nil)
			return func() { send(callsFrom(0)) }
		}, cost{2, 204, 0}},
		{"adjust", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			return func() {
				require.NoError(t, adjust(ctx, w.a, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 1, Reason: "r"}))
			}
		}, cost{1, 6, 0}},
		{"put an organisation", MeteringStrict, fixtureOrg(), func(w *world) func() {
			return func() { w.org(fixtureOrg()) }
		}, cost{3, 4, 2}},
		{"put an app", MeteringStrict, fixtureOrg(), func(w *world) func() {
			return func() {
				_, err := w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
				require.NoError(t, err)
			}
		}, cost{3, 6, 2}},
		{"override", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.recommend(w.a, appA)
			return func() {
				require.NoError(t, w.a.Setup().Override(ctx, orgO, appA, "economy", fixtureNow.Add(time.Hour)))
			}
		}, cost{2, 8, 3}},
		{"clear an override", MeteringStrict, fixtureOrg(), func(w *world) func() {
			require.NoError(t, w.a.Setup().Override(ctx, orgO, appA, "economy", fixtureNow.Add(time.Hour)))
			return func() { require.NoError(t, w.a.Setup().ClearOverride(ctx, orgO, appA)) }
		}, cost{2, 4, 1}},
		{"clear no override", MeteringStrict, fixtureOrg(), func(w *world) func() {
			return func() { require.NoError(t, w.a.Setup().ClearOverride(ctx, orgO, appA)) }
		}, cost{1, 0, 1}},
		{"put prices", MeteringStrict, fixtureOrg(), func(w *world) func() {
			return func() {
				require.NoError(t, w.a.Prices().Put(ctx, microModel, prices.Price{Model: microModel, Rates: prices.Rates{Input: 1, Output: 1}}))
			}
		}, cost{2, 4, 1}},
		{"import 100 prices that are new", MeteringStrict, fixtureOrg(), func(w *world) func() {
			list := hundredModels(t)
			return func() { require.Len(t, importing(t, w.a, list).Accepted, 100) }
		}, cost{201, 400, 200}},
		{"import 100 prices that are in force", MeteringStrict, fixtureOrg(), func(w *world) func() {
			list := hundredModels(t)
			importing(t, w.a, list)
			return func() { require.Len(t, importing(t, w.a, list).Unchanged, 100) }
		}, cost{1, 0, 100}},
		{"import 100 prices, of which 10 differ", MeteringStrict, fixtureOrg(), func(w *world) func() {
			importing(t, w.a, hundredModels(t))
			w.clock.Advance(time.Hour)
			list := hundredModels(t)
			for i := range 10 {
				list.Prices[i].Input++
			}
			return func() { require.Len(t, importing(t, w.a, list).Accepted, 10) }
		}, cost{21, 40, 110}},
		{"list 100 models that are stored", MeteringStrict, fixtureOrg(), func(w *world) func() {
			importing(t, w.a, hundredModels(t))
			return func() { require.Len(t, storedModels(t, w.a), 100) }
		}, cost{1, 0, 11}},
		{"delete an organisation with one app", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			return func() {
				err := w.a.Setup().DeleteOrg(ctx, orgO, nil)
				require.NoError(t, err)
			}
		}, cost{8, 13, 5}},
		{"delete one again", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			err := w.a.Setup().DeleteOrg(ctx, orgO, nil)
			require.NoError(t, err)
			return func() {
				err := w.a.Setup().DeleteOrg(ctx, orgO, nil)
				require.NoError(t, err)
			}
		}, cost{2, 0, 2}},
		{"list 100 changes", MeteringStrict, fixtureOrg(), func(w *world) func() {
			for i := range 99 {
				o := fixtureOrg()
				o.Quotas["premium"] = int64(i)
				w.org(o)
			}
			return func() { assert.Len(t, eventsOf(t, w.a, orgO), 100) }
		}, cost{1, 0, 9}},
		{"totals of today, 8 shards of 3 labels", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			return func() { _, _ = w.a.Totals(ctx, orgO, appA, "") }
		}, cost{5, 0, 5}},
		{"history of 30 closed days", MeteringStrict, fixtureOrg(), func(w *world) func() {
			w.submit(w.a, call(1))
			w.clock.Advance(32 * 24 * time.Hour)
			read := func() {
				for _, err := range w.a.History(ctx, orgO, appA, "20990123", "20990221") {
					require.NoError(t, err)
				}
			}
			read()
			w.a.ledger.WaitForTotals()
			return read
		}, cost{2, 0, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Metering, o.Linger = tc.metering, time.Millisecond })
			w.org(tc.org)
			got := costOf(w, tc.call(w))
			assert.Equal(t, tc.want, got)
			t.Logf("%-40s %d requests, %v write units, %v read units", tc.name, got.requests, got.writes, got.reads)
		})
	}
}

// hundredModels is a list of as many models.
func hundredModels(t *testing.T) prices.List {
	t.Helper()
	models := make([][]prices.Price, 100)
	for i := range models {
		models[i] = listed(fmt.Sprintf("model-%03d", i), `{"in":3,"out":12}`)
	}
	return listOf(t, models...)
}

func submitWarm(w *world) func() {
	w.submit(w.a, call(1))
	return func() { w.submit(w.a, call(2)) }
}

// callsFrom are a batch of records.
func callsFrom(first int) []prices.Usage {
	usages := make([]prices.Usage, 100)
	for i := range usages {
		usages[i] = call(first + i)
	}
	return usages
}
