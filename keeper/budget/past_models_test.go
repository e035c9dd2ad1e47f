package budget

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

// movedOn are changes of an organisation while a call of premium is under way.
var movedOn = map[string]func(*Org){
	"nothing":                      func(*Org) {},
	"the model moved":              func(o *Org) { o.Models = map[string]string{"premium": economyModel, "economy": economyModel} },
	"the label left":               func(o *Org) { o.Ordering, o.Models = []string{"economy"}, map[string]string{"economy": economyModel} },
	"the label left with its name": func(o *Org) { o.Ordering, o.Models = []string{"economy"}, nil },
}

// withOwnModels has its models in its own configuration.
func withOwnModels() Org {
	o := fixtureOrg()
	o.Models = map[string]string{"premium": premiumModel, "standard": standardModel, "economy": economyModel}
	return o
}

// TestACallIsPricedByTheModelThatItNames, whatever became of its label meanwhile, by each
// process.
func TestACallIsPricedByTheModelThatItNames(t *testing.T) {
	for name, change := range movedOn {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Models = map[string]string{} })
			w.org(withOwnModels())
			rec := w.recommend(w.b, appA)
			o := withOwnModels()
			change(&o)
			w.org(o)
			w.clock.Advance(31 * time.Second) // for the other's configuration
			for i, k := range []*Keeper{w.a, w.b} {
				u := call(i)
				u.Label, u.Model = rec.Label, rec.Model
				r := w.submit(k, u)
				assert.Equal(t, int64(16_500), r.CostMicros)
				assert.Contains(t, r.PriceVersion, "claude-3-5-sonnet")
			}
			assert.Equal(t, int64(33_000), w.total(appA, "premium", "").CostMicros)
		})
	}
}

// TestNoRecordChoosesItsPrice: a model that its label never had is refused, and one that it
// had long ago; of a label without a model the last that it had counts.
func TestNoRecordChoosesItsPrice(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Models = map[string]string{} })
	w.org(withOwnModels())
	submit := func(n int, label, model string) error {
		u := call(n)
		u.Label, u.Model, u.Time = label, model, w.clock.Now()
		_, err := w.a.Submit(t.Context(), orgO, appA, u)
		return err
	}
	moved := withOwnModels()
	moved.Models["premium"], moved.Models["economy"] = microModel, microModel
	w.org(moved)
	require.NoError(t, submit(1, "premium", premiumModel))
	require.NoError(t, submit(2, "premium", microModel))
	assert.Equal(t, "model_id", requireCode(t, submit(3, "premium", economyModel), fault.InvalidRequest).Field)
	requireCode(t, submit(3, "gold", premiumModel), fault.InvalidModelLabel)
	w.org(moved) // the same again forgets nothing
	require.NoError(t, submit(4, "premium", premiumModel))

	_, err := w.a.Setup().PutApp(t.Context(), orgO, App{ID: appA, Models: map[string]string{"premium": standardModel}})
	require.NoError(t, err)
	_, err = w.a.Setup().PutApp(t.Context(), orgO, App{ID: appA})
	require.NoError(t, err)
	require.NoError(t, submit(5, "premium", standardModel), "it was the app's own")
	_, err = w.a.Submit(t.Context(), orgO, appB, prices.Usage{RequestID: uuid(6), Label: "premium", Model: standardModel})
	requireCode(t, err, fault.InvalidRequest)

	w.clock.Advance(pastFor + time.Minute)
	assert.Equal(t, "model_id", requireCode(t, submit(7, "premium", premiumModel), fault.InvalidRequest).Field)
	moved.Models = map[string]string{"standard": standardModel, "economy": economyModel}
	moved.Ordering = []string{"standard", "economy"}
	w.org(moved)
	assert.Equal(t, "model_id", requireCode(t, submit(7, "premium", premiumModel), fault.InvalidRequest).Field)
	before := w.total(appA, "premium", "").CostMicros
	require.NoError(t, submit(8, "premium", ""))
	assert.Equal(t, before+165, w.total(appA, "premium", "").CostMicros, "at micro's price: 52.5 and 112 µ$")
}

// TestSpooledWhileTheModelMoves: records that were acknowledged as spooled are counted at what
// they cost then, by a process that starts later.
func TestSpooledWhileTheModelMoves(t *testing.T) {
	changes := map[string]func(*testing.T, *world, *Org){
		"the price goes": func(t *testing.T, w *world, _ *Org) { require.NoError(t, w.a.Prices().Put(t.Context(), "own-model")) },
	}
	for name, change := range movedOn {
		changes[name] = func(_ *testing.T, _ *world, o *Org) { change(o) }
	}
	for name, change := range changes {
		for _, named := range []string{"", "own-model"} {
			t.Run(fmt.Sprintf("%s, model %q", name, named), func(t *testing.T) {
				w := newWorld(t, func(o *Options) { o.Models = map[string]string{} })
				o := withOwnModels()
				o.Models["premium"] = "own-model"
				require.NoError(t, w.a.Prices().Put(t.Context(), "own-model", prices.Price{Model: "own-model", Rates: prices.Rates{Input: 1_000_000, Output: 10_000_000}}))
				w.org(o)
				opts := Options{Spool: filepath.Join(t.TempDir(), "spool"), SpoolInterval: time.Hour, Models: map[string]string{}}
				k := w.keeper(&opts)
				_, err := k.Recommend(t.Context(), orgO, appA)
				require.NoError(t, err)
				w.db.SetFaults(refuseAll("AccessDeniedException"))
				u := func(n int) prices.Usage {
					u := call(n)
					u.Model, u.Tokens = named, prices.Tokens{Output: 100}
					return u
				}
				spoolOne(t, k, u(0))
				results, err := k.SubmitBatch(t.Context(), orgO, appA, []prices.Usage{u(1), u(2)})
				require.NoError(t, err)
				assert.True(t, results[0].Spooled && results[1].Spooled)
				w.db.SetFaults(refuseAll("InternalServerError"))
				w.clock.Advance(10 * time.Minute) // the configuration may be used no more
				spoolOne(t, k, u(3))
				require.NoError(t, k.Close(t.Context()))
				w.db.SetFaults(nil)
				change(t, w, &o)
				w.org(o)

				later := w.keeper(&opts)
				require.NoError(t, later.Replay(t.Context()))
				assert.Zero(t, later.Health().Spooled)
				assert.Equal(t, int64(4_000), w.total(appA, "premium", "20990123").CostMicros)
				assert.True(t, w.submit(later, u(0)).Duplicate, "with the same contents")
			})
		}
	}
}
