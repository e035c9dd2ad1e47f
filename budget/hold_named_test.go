package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/fixture"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// reserveAs asks for a hold of premium for a minute.
func reserveAs(t testing.TB, k *Keeper, id string, micros int64) (*Hold, error) {
	t.Helper()
	return k.ReserveAs(t.Context(), orgO, appA, id, "premium", micros, time.Minute)
}

// TestOneIDIsOneHold, from whichever process, also when it has no room any more.
func TestOneIDIsOneHold(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		ctx := t.Context()
		first, err := reserveAs(t, w.a, uuid(1), 9_000_000)
		require.NoError(t, err)
		for _, k := range []*Keeper{w.a, w.b} {
			again, err := reserveAs(t, k, uuid(1), 9_000_000)
			require.NoError(t, err)
			assert.Equal(t, []any{uuid(1), first.Day, first.Model, int64(9_000_000)}, []any{again.ID, again.Day, again.Model, again.EstimateMicros})
			assert.Equal(t, first.ExpiresAt(), again.ExpiresAt())
			_, err = reserveAs(t, k, uuid(1), 8_000_000)
			require.ErrorIs(t, err, ErrConflict)
			_, err = k.ReserveAs(ctx, orgO, appA, uuid(1), "standard", 9_000_000, time.Minute)
			require.ErrorIs(t, err, ErrConflict)
			_, err = reserveAs(t, k, uuid(2), 2_000_000)
			require.ErrorIs(t, err, ErrQuotaExceeded)
		}
		assert.Len(t, w.items("HOLD#"), 1)
		assert.Equal(t, int64(9_000_000), w.total(appA, "premium", "").HeldMicros)

		moved, err := w.b.GetHold(ctx, orgO, appA, uuid(1))
		require.NoError(t, err)
		require.NoError(t, moved.Extend(ctx, time.Hour))
		w.clock.Advance(30 * time.Minute)
		again, err := reserveAs(t, w.a, uuid(1), 9_000_000)
		require.NoError(t, err)
		assert.Equal(t, moved.ExpiresAt(), again.ExpiresAt())
		_, err = again.Settle(ctx, call(1))
		require.NoError(t, err)
		w.clock.Advance(6 * time.Second)
		w.requireNothingHeld(1)
		for _, k := range []*Keeper{w.a, w.b} {
			_, err = reserveAs(t, k, uuid(1), 9_000_000)
			require.ErrorIs(t, err, ErrConflict, "it has ended")
			settled, err := k.GetHold(ctx, orgO, appA, uuid(1))
			require.NoError(t, err)
			require.NoError(t, settled.Release(ctx))
			require.ErrorIs(t, settled.Extend(ctx, time.Minute), ErrNotFound)
		}
		_, err = w.b.GetHold(ctx, orgO, appA, uuid(9))
		require.ErrorIs(t, err, ErrNotFound)
		w.requireNothingHeld(1)

		_, err = w.b.ReserveAs(ctx, orgO, appB, uuid(1), "premium", 9_000_000, time.Minute)
		require.NoError(t, err, "another app's id is another hold")
	})
}

// TestAnIDIsKeptUnderSoftEnforcement, where nothing is held.
func TestAnIDIsKeptUnderSoftEnforcement(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(fixtureOrg())
		ctx := t.Context()
		first, err := reserveAs(t, w.a, uuid(1), 1)
		require.NoError(t, err)
		require.True(t, first.Soft)
		w.spend(appA, "premium", 10_000_000)
		again, err := reserveAs(t, w.b, uuid(1), 1)
		require.NoError(t, err, "it was admitted")
		assert.Equal(t, []any{true, first.Day}, []any{again.Soft, again.Day})
		_, err = reserveAs(t, w.b, uuid(1), 2)
		require.ErrorIs(t, err, ErrConflict)
		_, err = reserveAs(t, w.b, uuid(2), 1)
		require.ErrorIs(t, err, ErrQuotaExceeded)
		found, err := w.b.GetHold(ctx, orgO, appA, uuid(1))
		require.NoError(t, err)
		require.NoError(t, found.Extend(ctx, time.Minute))
		r, err := found.Settle(ctx, call(1))
		require.NoError(t, err)
		assert.Equal(t, first.Day, r.Day)
	})
}

// TestManyReserveUnderOneID at the same time: one hold.
func TestManyReserveUnderOneID(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for _, org := range []Org{hardOrg(), fixtureOrg()} {
			org.ID = map[Enforcement]string{Hard: orgO, Soft: otherOrg}[org.Enforcement]
			w.org(org)
			together(20, 40, func(i int) {
				h, err := []*Keeper{w.a, w.b}[i%2].ReserveAs(t.Context(), org.ID, appA, uuid(i%2), "premium", 4_000_000, time.Minute)
				if assert.NoError(t, err) {
					assert.Equal(t, uuid(i%2), h.ID)
				}
			})
			assert.Len(t, w.items("HOLDID#"+org.ID), 2)
		}
		assert.Len(t, w.items("HOLD#"), 2)
		assert.Equal(t, int64(8_000_000), w.total(appA, "premium", "").HeldMicros)
	})
}

// TestOneFaultAnywhereInAReservationUnderAnID: sent again, it is the same hold, and the
// money is held once.
func TestOneFaultAnywhereInAReservationUnderAnID(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{
		"answer lost": {Lose: true}, "request lost": {Drop: true}, "throttled": {Error: &ddbmem.Error{Code: "ThrottlingException"}},
	} {
		for _, org := range []Org{hardOrg(), fixtureOrg()} {
			for from := range 8 {
				t.Run(fmt.Sprintf("%s/%s/%d", name, org.Enforcement, from), func(t *testing.T) {
					simulated(t, Options{Timeout: time.Second}, org, func(t *testing.T, db *ddbmem.DB, k *Keeper) {
						n := 0
						var mu sync.Mutex
						db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { // all from one on: as if the process were killed
							mu.Lock()
							defer mu.Unlock()
							if n++; n > from {
								return fault
							}
							return ddbmem.Fault{}
						})
						_, first := reserveAs(t, k, uuid(1), 4_000_000)
						back(db, k)
						h, err := reserveAs(t, k, uuid(1), 4_000_000)
						require.NoError(t, err, first)
						if org.Enforcement == Hard {
							assert.Equal(t, int64(4_000_000), heldNow(t, k))
						}
						require.NoError(t, h.Release(t.Context()))
						if org.Enforcement == Hard {
							assert.Zero(t, heldNow(t, k))
						}
					})
				})
			}
		}
	}
}

// TestHoldsInAnyProcessAreCountedOnce: two processes reserve, extend, settle and release
// under few ids, by id or by text, in any order and with faults. In the end nothing is held,
// and each record is counted once.
func TestHoldsInAnyProcessAreCountedOnce(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.org(hardOrg())
			w.db.SetFaults(fixture.Flaky(seed))
			rng := rand.New(rand.NewPCG(seed, 1))
			ctx := t.Context()
			var texts []string
			settled := map[int]bool{}
			for n := range 60 {
				k, id := []*Keeper{w.a, w.b}[rng.IntN(2)], rng.IntN(12)
				h, err := k.ReserveAs(ctx, orgO, appA, uuid(id), "premium", int64(id+1)*100_000, time.Minute)
				if err != nil {
					require.ErrorIs(t, err, ErrConflict)
					continue
				}
				switch text := h.Export(); rng.IntN(3) {
				case 0:
					texts = append(texts, text)
				case 1:
					h, err = k.GetHold(ctx, orgO, appA, uuid(id))
					require.NoError(t, err)
				default:
					h, err = []*Keeper{w.a, w.b}[rng.IntN(2)].ResumeHold(ctx, text)
					require.NoError(t, err)
				}
				switch rng.IntN(4) {
				case 0:
					require.NoError(t, h.Extend(ctx, 2*time.Minute))
				case 1:
					_, err = h.Settle(ctx, call(1000+n%20))
					require.NoError(t, err)
					settled[n%20] = true
				case 2:
					require.NoError(t, h.Release(ctx))
				}
			}
			for _, text := range texts {
				h, err := w.b.ResumeHold(ctx, text)
				require.NoError(t, err)
				require.NoError(t, h.Release(ctx))
			}
			for id := range 12 {
				if h, err := w.a.GetHold(ctx, orgO, appA, uuid(id)); err == nil {
					require.NoError(t, h.Release(ctx))
				}
			}
			w.db.SetFaults(nil)
			w.clock.Advance(6 * time.Second)
			w.requireNothingHeld(int64(len(settled)))
		})
	}
}

// TestAReservationUnderAnIDIsLeftToItsCaller: one that left sends it again.
func TestAReservationUnderAnIDIsLeftToItsCaller(t *testing.T) {
	simulated(t, Options{Timeout: 10 * time.Second}, hardOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(1))
		require.NoError(t, err)
		db.SetFaults(onWrite(1, ddbmem.Fault{After: time.Second}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = k.ReserveAs(ctx, orgO, appA, uuid(1), "premium", 4_000_000, time.Minute)
		require.ErrorAs(t, err, new(*UnavailableError))
		pass(10 * time.Second)
		assert.Equal(t, int64(4_000_000), heldNow(t, k))
		h, err := reserveAs(t, k, uuid(1), 4_000_000)
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		assert.Zero(t, heldNow(t, k))
	})
}

// TestOnlyAHoldThatIsThereIsExtended, also to the end that its lease had.
func TestOnlyAHoldThatIsThereIsExtended(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		ctx := t.Context()
		for n, end := range []func(*Hold) error{
			func(h *Hold) error { return h.Release(ctx) },
			func(h *Hold) error { _, err := h.Settle(ctx, call(1)); return err },
		} {
			h, err := reserveAs(t, w.a, uuid(n), 1_000_000)
			require.NoError(t, err)
			lease := h.ExpiresAt()
			require.NoError(t, h.Extend(ctx, time.Minute), "the clock has not moved")
			assert.Equal(t, lease, h.ExpiresAt())
			found, err := w.b.GetHold(ctx, orgO, appA, uuid(n))
			require.NoError(t, err)
			require.NoError(t, end(found))
			require.ErrorIs(t, h.Extend(ctx, time.Minute), ErrNotFound)
			again, err := w.b.GetHold(ctx, orgO, appA, uuid(n))
			require.NoError(t, err)
			require.ErrorIs(t, again.Extend(ctx, time.Minute), ErrNotFound)
		}
	})
}

// TestAHoldIsExtendedByTwoAtOnce, as when a request is sent again before it is answered:
// the hold has not ended, whichever comes first.
func TestAHoldIsExtendedByTwoAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		ctx := t.Context()
		_, err := reserveAs(t, w.a, uuid(1), 1_000_000)
		require.NoError(t, err)
		one, err := w.a.GetHold(ctx, orgO, appA, uuid(1))
		require.NoError(t, err)
		other, err := w.b.GetHold(ctx, orgO, appA, uuid(1))
		require.NoError(t, err)
		require.NoError(t, one.Extend(ctx, 10*time.Minute))
		require.NoError(t, other.Extend(ctx, 20*time.Minute))
		require.NoError(t, one.Extend(ctx, 20*time.Minute), "it is there by now")
		assert.Len(t, w.items("HOLD#"), 1)
		found, err := w.b.GetHold(ctx, orgO, appA, uuid(1))
		require.NoError(t, err)
		assert.Equal(t, other.ExpiresAt(), found.ExpiresAt())
		_, err = found.Settle(ctx, call(1))
		require.NoError(t, err)
		w.clock.Advance(6 * time.Second)
		w.requireNothingHeld(1)
		require.ErrorIs(t, one.Extend(ctx, time.Hour), ErrNotFound)
	})
}

// expire removes what has outlived its time to live, as DynamoDB does.
func (w *world) expire() {
	w.t.Helper()
	for _, item := range w.items("") {
		var d store.Decoder
		if ends := d.Int(item, store.AttrTTL); ends != 0 && ends <= w.clock.Now().Unix() {
			require.NoError(w.t, w.a.store.Delete(w.t.Context(), w.tables.Usage, store.KeyOf(item)))
		}
	}
}

// TestASettlementSentAgainDaysLaterIsCountedOnce: as long as a hold is found under its id,
// its record is known.
func TestASettlementSentAgainDaysLaterIsCountedOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		orgs := map[Enforcement]string{Hard: orgO, Soft: otherOrg}
		for _, org := range []Org{hardOrg(), fixtureOrg()} {
			org.ID = orgs[org.Enforcement]
			org.Limits = []PeriodQuota{{Period: Month, Micros: 1_000_000_000}}
			w.org(org)
			for n, settledBy := range []*Keeper{w.a, w.b} { // the process that reserved, and another
				h, err := w.a.ReserveAs(ctx, org.ID, appA, uuid(n), "premium", 1_000_000, time.Minute)
				require.NoError(t, err)
				if settledBy == w.b {
					h, err = w.b.GetHold(ctx, org.ID, appA, uuid(n))
					require.NoError(t, err)
				}
				r, err := h.Settle(ctx, call(n))
				require.NoError(t, err)
				require.Equal(t, int64(16_500), r.CostMicros)
			}
		}
		for _, later := range []time.Duration{time.Hour, 50 * time.Hour, 8 * 24 * time.Hour} {
			w.clock.Set(fixtureNow.Add(later))
			w.expire()
			for enforcement, org := range orgs {
				for n := range 2 {
					h, err := w.b.GetHold(ctx, org, appA, uuid(n))
					if later > 50*time.Hour && errors.Is(err, ErrNotFound) {
						continue
					}
					require.NoError(t, err)
					r, err := h.Settle(ctx, call(n))
					require.NoError(t, err)
					assert.True(t, r.Duplicate, "%s, %v later", enforcement, later)
				}
				day, err := w.b.Totals(ctx, org, appA, "20260123")
				require.NoError(t, err)
				assert.Equal(t, int64(2), day.Labels[0].Requests, "%s, %v later", enforcement, later)
			}
		}
	})
}

// TestAHoldIsFoundUnderItsIDForSoLong, whether or not DynamoDB has removed it yet.
func TestAHoldIsFoundUnderItsIDForSoLong(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		_, err := reserveAs(t, w.a, uuid(1), 1)
		require.NoError(t, err)
		end := at(t, "2026-01-24T05:00:00Z").Add(49 * time.Hour)
		w.clock.Set(end.Add(-time.Second))
		_, err = w.b.GetHold(t.Context(), orgO, appA, uuid(1))
		require.NoError(t, err)
		w.clock.Set(end)
		_, err = w.b.GetHold(t.Context(), orgO, appA, uuid(1))
		require.ErrorIs(t, err, ErrNotFound)
	})
}

// TestAHoldThatWasExtendedMeanwhileIsGivenBack: one that another process extends between the
// look for it and its end does not stay until its new lease is over.
func TestAHoldThatWasExtendedMeanwhileIsGivenBack(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.org(hardOrg())
		id := 0
		find := func(k *Keeper) *Hold {
			h, err := k.GetHold(t.Context(), orgO, appA, uuid(900+id))
			require.NoError(t, err)
			return h
		}
		for want, end := range []func(*Hold) error{
			func(h *Hold) error { return h.Release(t.Context()) },
			func(h *Hold) error { _, err := h.Settle(t.Context(), call(1)); return err },
			func(h *Hold) error { // sent again
				r, err := h.Settle(t.Context(), call(1))
				assert.True(t, r.Duplicate)
				return err
			},
		} {
			id++
			_, err := w.a.ReserveAs(t.Context(), orgO, appA, uuid(900+id), "premium", 1_000_000, time.Minute)
			require.NoError(t, err)
			late := find(w.b)
			require.NoError(t, find(w.a).Extend(t.Context(), time.Hour))
			require.NoError(t, end(late))
			got := w.total(appA, "premium", "")
			assert.Zero(t, got.HeldMicros)
			assert.Equal(t, int64(min(want, 1)), got.Requests)
			require.NoError(t, end(find(w.a)), "and again")
			assert.Zero(t, w.total(appA, "premium", "").HeldMicros)
		}
	})
}
