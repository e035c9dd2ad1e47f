package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/prices"
)

// priceOf is a price that begins on the day of its label.
func priceOf(label string) prices.Price {
	return prices.Price{Model: "some-model", EffectiveFrom: time.Date(2027, 1, int(label[0]-'a')+1, 0, 0, 0, 0, time.UTC), Rates: prices.Rates{Input: 7, Output: 7}}
}

// pricesByLabel reads the prices of priceOf.
func pricesByLabel(ctx context.Context, k *Keeper) (map[string]int64, error) {
	stored, err := k.Prices().Get(ctx, "some-model")
	found := map[string]int64{}
	for _, p := range stored {
		found[string(rune('a'+p.EffectiveFrom.Day()-1))] = p.Rates.Input
	}
	return found, err
}

// TestOperatorsWhoChangeOnePlaceLoseNothing: six at once read, change one label each and write.
// Those that were overtaken are told so, and read again.
func TestOperatorsWhoChangeOnePlaceLoseNothing(t *testing.T) {
	labels := []string{"a", "b", "c", "d", "e", "f"}
	for name, target := range map[string]struct {
		change func(ctx context.Context, k *Keeper, label string) error
		read   func(ctx context.Context, k *Keeper) (map[string]int64, error)
	}{
		"organisation": {
			func(ctx context.Context, k *Keeper, label string) error {
				o, err := k.Setup().GetOrg(ctx, orgO)
				if err == nil {
					o.Quotas[label] = 7
					_, err = k.Setup().PutOrg(ctx, o)
				}
				return err
			},
			func(ctx context.Context, k *Keeper) (map[string]int64, error) {
				o, err := k.Setup().GetOrg(ctx, orgO)
				return o.Quotas, err
			},
		},
		"new app": {
			func(ctx context.Context, k *Keeper, label string) error {
				a, err := k.Setup().GetApp(ctx, orgO, appA)
				if errors.Is(err, ErrNotFound) {
					a, err = App{ID: appA, Version: NoVersion, Quotas: map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}}, nil
				}
				if err == nil {
					a.Quotas[label] = 7
					_, err = k.Setup().PutApp(ctx, orgO, a)
				}
				return err
			},
			func(ctx context.Context, k *Keeper) (map[string]int64, error) {
				a, err := k.Setup().GetApp(ctx, orgO, appA)
				return a.Quotas, err
			},
		},
		"prices": {
			func(ctx context.Context, k *Keeper, label string) error {
				_, err := k.Prices().Add(ctx, priceOf(label))
				return err
			},
			pricesByLabel,
		},
		"prices that were read": {
			func(ctx context.Context, k *Keeper, label string) error {
				read, err := k.Prices().Get(ctx, "some-model")
				if err == nil {
					err = k.Prices().Replace(ctx, "some-model", read, append(slices.Clone(read), priceOf(label))...)
				}
				return err
			},
			pricesByLabel,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := fixtureOrg()
			o.Ordering, o.Quotas = labels, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}
			w.org(o)
			together(6, 6, func(i int) {
				k := []*Keeper{w.a, w.b}[i%2]
				for {
					err := target.change(t.Context(), k, labels[i])
					if err == nil {
						return
					}
					if !assert.ErrorIs(t, err, ErrConflict) {
						return
					}
				}
			})
			got, err := target.read(t.Context(), w.a)
			require.NoError(t, err)
			for _, label := range labels {
				assert.Equal(t, int64(7), got[label], label)
			}
		})
	}
}

// TestAPutIsOfAVersion: another one is refused, before anything is written.
func TestAPutIsOfAVersion(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	put := map[string]func(version int64) (int64, error){
		"organisation": func(version int64) (int64, error) {
			o := fixtureOrg()
			o.Version = version
			o, err := w.a.Setup().PutOrg(ctx, o)
			return o.Version, err
		},
		"app": func(version int64) (int64, error) {
			a, err := w.a.Setup().PutApp(ctx, orgO, App{ID: appA, Version: version})
			return a.Version, err
		},
	}
	remove := map[string]func() error{
		"app":          func() error { return w.a.Setup().DeleteApp(ctx, orgO, appA, nil) },
		"organisation": func() error { return w.a.Setup().DeleteOrg(ctx, orgO, nil) },
	}
	for _, of := range []string{"organisation", "app"} {
		for _, step := range []struct {
			version, becomes int64 // 0: ErrConflict
		}{{1, 0}, {NoVersion, 1}, {NoVersion, 0}, {2, 0}, {1, 2}, {1, 0}, {0, 3}, {3, 4}} {
			got, err := put[of](step.version)
			assert.Equal(t, step.becomes, got, "%s %d", of, step.version)
			assert.Equal(t, step.becomes == 0, errors.Is(err, ErrConflict), "%s %d: %v", of, step.version, err)
		}
	}
	for _, of := range []string{"app", "organisation"} {
		require.NoError(t, remove[of]())
	}
	for _, of := range []string{"organisation", "app"} {
		for _, version := range []int64{4, 5} {
			_, err := put[of](version)
			require.ErrorIs(t, err, ErrConflict, "%s %d: what was deleted has no version to replace", of, version)
		}
		_, err := put[of](NoVersion)
		require.NoError(t, err)
	}
}

// TestAppsThatArePutAtOnceDoNotConflict: each is its own.
func TestAppsThatArePutAtOnceDoNotConflict(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	const apps = 48
	together(12, apps, func(i int) {
		_, err := []*Keeper{w.a, w.b}[i%2].Setup().PutApp(t.Context(), orgO, App{ID: fmt.Sprintf("app-%d", i)})
		assert.NoError(t, err)
	})
	found := map[string]bool{}
	for app, err := range w.a.Setup().Apps(t.Context(), orgO) {
		require.NoError(t, err)
		found[app.ID] = true
	}
	assert.Len(t, found, apps)
}
