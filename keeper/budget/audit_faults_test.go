package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

// administrative is a change, and what shows that it landed.
type administrative struct {
	target string
	do     func(context.Context, *Keeper) error
	landed func(context.Context, *Keeper) (bool, error)
}

// administratives are the changes of an organisation that has an override.
func administratives() map[string]administrative {
	const name = "changed"
	until := fixtureNow.Add(48 * time.Hour)
	overridden := func(label string) func(context.Context, *Keeper) (bool, error) {
		return func(ctx context.Context, k *Keeper) (bool, error) {
			item, err := k.store.Get(ctx, k.store.Control, overrideKey(orgO, appA))
			o, decodeErr := decodeOverride(item)
			return o.label == label, errors.Join(err, decodeErr)
		}
	}
	return map[string]administrative{
		"PutOrg": {orgO, func(ctx context.Context, k *Keeper) error {
			o := fixtureOrg()
			o.Name = name
			_, err := k.Setup().PutOrg(ctx, o)
			return err
		}, func(ctx context.Context, k *Keeper) (bool, error) {
			o, err := k.Setup().GetOrg(ctx, orgO)
			return o.Name == name, err
		}},
		"PutApp": {orgO, func(ctx context.Context, k *Keeper) error {
			_, err := k.Setup().PutApp(ctx, orgO, App{ID: appB, Name: name})
			return err
		}, func(ctx context.Context, k *Keeper) (bool, error) {
			a, err := k.Setup().GetApp(ctx, orgO, appB)
			if errors.Is(err, ErrNotFound) {
				return false, nil
			}
			return a.Name == name, err
		}},
		"Override": {orgO, func(ctx context.Context, k *Keeper) error {
			return k.Setup().Override(ctx, orgO, appA, "standard", until)
		}, overridden("standard")},
		"ClearOverride": {orgO, func(ctx context.Context, k *Keeper) error {
			return k.Setup().ClearOverride(ctx, orgO, appA)
		}, overridden("")},
		"PutPrices": {priceTarget(microModel), func(ctx context.Context, k *Keeper) error {
			return k.Prices().Put(ctx, microModel, prices.Price{Model: microModel, Rates: prices.Rates{Input: 1, Output: 2}})
		}, func(ctx context.Context, k *Keeper) (bool, error) {
			rows, err := k.Prices().Get(ctx, microModel)
			return len(rows) == 1, err
		}},
		"ImportPrices": {priceTarget(microModel), func(ctx context.Context, k *Keeper) error {
			_, err := k.Prices().Import(ctx, microList(), PriceImport{})
			return err
		}, func(ctx context.Context, k *Keeper) (bool, error) {
			rows, err := k.Prices().Get(ctx, microModel)
			return len(rows) == 1, err
		}},
		"PutModelInfo": {priceTarget(microModel), func(ctx context.Context, k *Keeper) error {
			return k.Prices().PutInfo(ctx, microModel, ModelInfo{Tier: "micro"})
		}, func(ctx context.Context, k *Keeper) (bool, error) {
			info, err := k.Prices().Info(ctx, microModel)
			return info.Tier == "micro", err
		}},
		"Adjust": {orgO, func(ctx context.Context, k *Keeper) error {
			return adjust(ctx, k, orgO, appA, Adjustment{ID: adjustmentID, Label: "premium", DeltaMicros: 7, Reason: "x"})
		}, func(ctx context.Context, k *Keeper) (bool, error) {
			totals, err := k.Totals(ctx, orgO, appA, "")
			return totals.CostMicros == 7, err
		}},
	}
}

// microList has a price of a model that differs from the catalog's.
func microList() prices.List {
	return prices.List{Name: "prices", Prices: []prices.Price{{Model: microModel, Rates: prices.Rates{Input: 36_000, Output: 140_000}}}}
}

func overrideOf(t testing.TB, k *Keeper) {
	t.Helper()
	require.NoError(t, k.Setup().Override(t.Context(), orgO, appA, "economy", fixtureNow.Add(24*time.Hour)))
	_, err := k.Submit(t.Context(), orgO, appA, prices.Usage{RequestID: uuid(1), Label: "economy", Tokens: prices.Tokens{Output: 0}})
	require.NoError(t, err)
}

// requireTold says whether the change landed, and requires that it has as many events as
// that: one or none.
func (a administrative) requireTold(t *testing.T, k *Keeper, before int) (landed bool) {
	t.Helper()
	landed, err := a.landed(t.Context(), k)
	require.NoError(t, err)
	events := 0
	if landed {
		events = 1
	}
	require.Len(t, eventsOf(t, k, a.target), before+events)
	return landed
}

// A change of which the store loses, delays or refuses requests lands once, with one
// event.
func TestFaultsOfOneChange(t *testing.T) {
	late := func() ddbmem.Fault {
		c := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(c) })
		return ddbmem.Fault{Late: c}
	}
	answer := func(code string) func() ddbmem.Fault {
		return func() ddbmem.Fault { return ddbmem.Fault{Error: &ddbmem.Error{Code: code}} }
	}
	faults := map[string]func() ddbmem.Fault{
		"answer lost":       func() ddbmem.Fault { return ddbmem.Fault{Lose: true} },
		"request lost":      func() ddbmem.Fault { return ddbmem.Fault{Drop: true} },
		"late":              late,
		"no answer in time": func() ddbmem.Fault { return ddbmem.Fault{After: time.Minute} },
		"throttled":         answer("ThrottlingException"),
		"server error":      answer("InternalServerError"),
		"in progress":       answer("TransactionInProgressException"),
		"conflict":          func() ddbmem.Fault { return conflicted },
	}
	for name, a := range administratives() {
		for what, fault := range faults {
			t.Run(name+"/"+what, func(t *testing.T) {
				simulated(t, Options{Timeout: 10 * time.Second}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
					overrideOf(t, k)
					before := len(eventsOf(t, k, a.target))
					db.SetFaults(onWrite(2, fault()))
					require.NoError(t, a.do(t.Context(), k))
					pass(2 * time.Second) // for what comes late
					assert.True(t, a.requireTold(t, k, before))
				})
			})
		}
	}
}

// A change that is never answered, or whose caller leaves, is there with its event or not
// at all; it says that it may be there.
func TestChangeInDoubtIsThereWithItsEventOrNotAtAll(t *testing.T) {
	slow := ddbmem.Fault{Before: 100 * time.Millisecond, After: 100 * time.Millisecond}
	for name, a := range administratives() {
		for what, test := range map[string]struct {
			fault  ddbmem.Fault
			until  time.Duration // of the caller
			landed bool
		}{
			"no answer comes":         {ddbmem.Fault{Lose: true}, time.Minute, true},
			"no request arrives":      {ddbmem.Fault{Drop: true}, time.Minute, false},
			"left before it arrived":  {slow, 50 * time.Millisecond, false},
			"left before the answer":  {slow, 150 * time.Millisecond, true},
			"left before it was sent": {slow, 0, false},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
					overrideOf(t, k)
					before := len(eventsOf(t, k, a.target))
					db.SetFaults(onWrites("TransactWriteItems", test.fault))
					ctx, leave := context.WithTimeout(t.Context(), test.until)
					err := a.do(ctx, k)
					leave()
					require.Error(t, err)
					pass(time.Minute)
					back(db, k)
					landed := a.requireTold(t, k, before)
					if name == "Adjust" && test.fault == slow {
						assert.True(t, landed, "what was accepted goes on when its caller leaves")
						return
					}
					assert.Equal(t, test.landed, landed)
					var u *fault.UnavailableError
					if test.until > 0 && assert.ErrorAs(t, err, &u) {
						assert.True(t, u.Unconfirmed)
					}
				})
			})
		}
	}
}

// Without the help of the token a change whose answer was lost is known by what is
// stored, and has one event all the same.
func TestOwnChangesAreRecognised(t *testing.T) {
	for name, a := range administratives() {
		t.Run(name, func(t *testing.T) {
			simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, first *Keeper) {
				overrideOf(t, first)
				before := len(eventsOf(t, first, a.target))
				k, err := New(forgetful{db.Client()}, Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels})
				require.NoError(t, err)
				db.SetFaults(onWrite(1, ddbmem.Fault{Lose: true}))
				require.NoError(t, a.do(t.Context(), k))
				assert.True(t, a.requireTold(t, k, before))
				require.NoError(t, k.Close(t.Context()))
			})
		})
	}
}

// before lets a rival in before each of the first n transactions of others.
func before(n int, rival func(i int)) ddbmem.FaultFunc {
	var inside atomic.Bool
	count := 0
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && count < n && !inside.Swap(true) {
			count++
			rival(count)
			inside.Store(false)
		}
		return ddbmem.Fault{}
	}
}

// rivals are changes of the same as administratives.
func rivals() map[string]func(ctx context.Context, k *Keeper, i int) error {
	override := func(ctx context.Context, k *Keeper, i int) error {
		return k.Setup().Override(ctx, orgO, appA, "premium", fixtureNow.Add(time.Duration(24+i)*time.Hour))
	}
	return map[string]func(ctx context.Context, k *Keeper, i int) error{
		"PutOrg": func(ctx context.Context, k *Keeper, i int) error {
			o := fixtureOrg()
			o.Name = fmt.Sprint("rival ", i)
			_, err := k.Setup().PutOrg(ctx, o)
			return err
		},
		"PutApp": func(ctx context.Context, k *Keeper, i int) error {
			_, err := k.Setup().PutApp(ctx, orgO, App{ID: appB, Name: fmt.Sprint("rival ", i)})
			return err
		},
		"Override":      override,
		"ClearOverride": override,
		"PutPrices": func(ctx context.Context, k *Keeper, i int) error {
			return k.Prices().Put(ctx, microModel, prices.Price{Model: microModel, Rates: prices.Rates{Input: int64(100 + i), Output: 2}})
		},
		"ImportPrices": func(ctx context.Context, k *Keeper, i int) error {
			return k.Prices().Put(ctx, microModel, prices.Price{Model: microModel, List: "genai-prices", Rates: prices.Rates{Input: int64(30_000 + i), Output: 140_000}})
		},
		"PutModelInfo": func(ctx context.Context, k *Keeper, i int) error {
			return k.Prices().PutInfo(ctx, microModel, ModelInfo{Tier: fmt.Sprint("rival ", i)})
		},
	}
}

// A change that landed and was not answered is not made again over what somebody else has
// made of it since.
func TestLandedChangeIsNotMadeAgain(t *testing.T) {
	for name, rival := range rivals() {
		t.Run(name, func(t *testing.T) {
			a := administratives()[name]
			simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				overrideOf(t, k)
				known := len(eventsOf(t, k, a.target))
				tries := 0
				overtaken := before(1, func(i int) { assert.NoError(t, rival(t.Context(), k.As("rival"), i)) })
				db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if r.Operation != "TransactWriteItems" {
						return ddbmem.Fault{}
					}
					if tries++; tries == 1 {
						return ddbmem.Fault{Lose: true}
					}
					return overtaken(r)
				})
				require.NoError(t, a.do(t.Context(), k.As("slow")))
				var who []string
				for _, e := range eventsOf(t, k, a.target)[known:] {
					who = append(who, e.Principal)
				}
				assert.Equal(t, []string{"slow", "rival"}, who)
			})
		})
	}
}

// Who is overtaken decides anew: the event tells what it replaced, and who loses for good
// has none.
func TestEventsOfARace(t *testing.T) {
	for name, rival := range rivals() {
		for n, want := range map[int]error{1: nil, 3: nil, 100: ErrConflict} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				a := administratives()[name]
				simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
					overrideOf(t, k)
					known := len(eventsOf(t, k, a.target))
					db.SetFaults(before(n, func(i int) { assert.NoError(t, rival(t.Context(), k.As("rival"), i)) }))
					require.ErrorIs(t, a.do(t.Context(), k.As("slow")), want)
					db.SetFaults(nil)
					var who []string
					var changed []audit.Change
					for _, e := range eventsOf(t, k, a.target)[known:] {
						who = append(who, e.Principal)
						for _, c := range e.Changes {
							if c.Field == "org_name" || c.Field == "app_name" || slices.Contains([]string{"prices", "until", "tier"}, c.Field) {
								changed = append(changed, c)
							}
						}
					}
					if want != nil {
						assert.NotContains(t, who, "slow")
						assert.Len(t, who, configTries+1)
						return
					}
					assert.Equal(t, append(slices.Repeat([]string{"rival"}, n), "slow"), who)
					require.Len(t, changed, n+1)
					for i := range n {
						assert.Equal(t, string(changed[i].After), string(changed[i+1].Before))
					}
				})
			})
		}
	}
}

// Whatever administrators do at the same time: each version has its event, and the
// fields of the events make one chain from nothing to what is stored.
func TestEventsOfManyAdministratorsMakeAChain(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		ctx := t.Context()
		const each = 6
		together(4, 4*each, func(i int) {
			k, name := []*Keeper{w.a, w.b}[i%2].As(fmt.Sprint("admin ", i)), fmt.Sprint("name ", i)
			var err error
			switch i % 4 {
			case 0:
				o := fixtureOrg()
				o.Name = name
				_, err = k.Setup().PutOrg(ctx, o)
			case 1:
				_, err = k.Setup().PutApp(ctx, orgO, App{ID: appA, Name: name})
			case 2:
				err = k.Setup().Override(ctx, orgO, appB, "economy", fixtureNow.Add(time.Duration(i+1)*time.Hour))
			case 3:
				err = k.Prices().Put(ctx, microModel, prices.Price{Model: microModel, Rates: prices.Rates{Input: int64(i + 1), Output: 1}})
			}
			assert.True(t, err == nil || errors.Is(err, ErrConflict) || errors.Is(err, fault.ErrUnavailable), "%v", err)
		})
		events := eventsOf(t, w.a, orgO)
		org, err := w.a.Setup().GetOrg(ctx, orgO)
		require.NoError(t, err)
		app, err := w.a.Setup().GetApp(ctx, orgO, appA)
		require.NoError(t, err)
		for _, test := range []struct {
			resource, field, last string
			events                []audit.Event
			versions              int64
		}{
			{"", "org_name", fmt.Sprintf("%q", org.Name), events, org.Version},
			{appA, "app_name", fmt.Sprintf("%q", app.Name), events, app.Version},
			{appB, "until", "", events, 0},
			{"", "prices", "", eventsOf(t, w.a, priceTarget(microModel)), 0},
		} {
			next := map[string]string{}
			steps := 0
			for _, e := range test.events {
				if e.Resource != test.resource {
					continue
				}
				steps++
				i := slices.IndexFunc(e.Changes, func(c audit.Change) bool { return c.Field == test.field })
				require.GreaterOrEqual(t, i, 0, eventText(e))
				assert.NotContains(t, next, string(e.Changes[i].Before), "two changes of the same")
				next[string(e.Changes[i].Before)] = string(e.Changes[i].After)
			}
			require.Positive(t, steps)
			state := ""
			for range steps {
				to, ok := next[state]
				require.True(t, ok, "%s: nothing replaced %q: %v", test.field, state, slices.Collect(maps.Values(next)))
				state = to
			}
			if test.last != "" {
				assert.Equal(t, test.last, state)
				assert.Equal(t, test.versions, int64(steps))
			}
		}
	})
}

// An adjustment has one event, whoever sends it and how often.
func TestAdjustmentSentByManyHasOneEvent(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		var applied atomic.Int64
		together(8, 16, func(i int) {
			a, err := []*Keeper{w.a, w.b}[i%2].Setup().Adjust(t.Context(), orgO, appA, Adjustment{ID: uuid(i % 4), Label: "premium", DeltaMicros: 3, Reason: "x"})
			assert.NoError(t, err)
			if !a.Duplicate {
				applied.Add(1)
			}
		})
		assert.Equal(t, int64(4), applied.Load())
		ids := map[string]int{}
		for _, e := range eventsOf(t, w.a, orgO) {
			if e.Action != actionAdjusted {
				continue
			}
			i := slices.IndexFunc(e.Changes, func(c audit.Change) bool { return c.Field == "id" })
			require.GreaterOrEqual(t, i, 0)
			ids[string(e.Changes[i].After)]++
		}
		assert.Equal(t, map[string]int{`"` + uuid(0) + `"`: 1, `"` + uuid(1) + `"`: 1, `"` + uuid(2) + `"`: 1, `"` + uuid(3) + `"`: 1}, ids)
	})
}

// Calls do not wait for an adjustment of their label that waits for the control table.
func TestCallsGoOnWhileTheControlTableIsThrottled(t *testing.T) {
	const senders = 8 // that a lane has at most
	for _, org := range []Org{fixtureOrg(), fixtureOrg()} {
		simulated(t, Options{}, org, func(t *testing.T, db *ddbmem.DB, k *Keeper) {
			_, err := k.Submit(t.Context(), orgO, appA, call(1))
			require.NoError(t, err)
			db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if strings.Contains(string(r.Body), `"`+k.store.Control+`"`) {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
				}
				return ddbmem.Fault{}
			})
			adjusted := make(chan error)
			for range senders {
				go func() {
					adjusted <- adjust(t.Context(), k, orgO, appA, Adjustment{Label: "premium", DeltaMicros: 7, Reason: "x"})
				}()
			}
			pass(time.Millisecond)
			began := time.Now()
			_, err = k.Submit(t.Context(), orgO, appA, call(2))
			require.NoError(t, err)
			assert.Less(t, time.Since(began), 100*time.Millisecond)
			for range senders {
				require.ErrorIs(t, <-adjusted, fault.ErrUnavailable)
			}
			db.SetFaults(nil)
			assert.Len(t, eventsOf(t, k, orgO), 1)
		})
	}
}
