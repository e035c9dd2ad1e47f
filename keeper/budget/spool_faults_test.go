package budget

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

// TestSpoolKeepsRecordsWhatTheWholeStoreLacks: credentials, permissions and
// tables are no fault of a record. It is spooled, and stays.
func TestSpoolKeepsRecordsWhatTheWholeStoreLacks(t *testing.T) {
	for _, code := range []string{
		"ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException",
		"AccessDeniedException", "ResourceNotFoundException", "ThrottlingException", "InternalServerError",
	} {
		t.Run(code, func(t *testing.T) {
			var refused []SpooledUsage
			simulated(t, Options{
				Spool: filepath.Join(t.TempDir(), "spool"), SpoolInterval: time.Hour,
				OnRefused: func(u SpooledUsage, _ error) { refused = append(refused, u) },
			}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				ctx := t.Context()
				db.SetFaults(refuseAll(code))
				spoolOne(t, k, call(1))
				spoolOne(t, k, call(2))
				results, err := k.SubmitBatch(ctx, orgO, "app-never-seen", []prices.Usage{call(3), call(4)})
				require.NoError(t, err)
				for _, r := range results {
					require.NoError(t, r.Err)
					require.True(t, r.Spooled)
				}
				require.Error(t, k.Replay(ctx))
				assert.Equal(t, 4, k.Health().Spooled)
				assert.Empty(t, refused)

				back(db, k)
				require.NoError(t, k.Replay(ctx))
				assert.Zero(t, k.Health().Spooled)
				for app, want := range map[string]int64{appA: 2, "app-never-seen": 2} {
					got, err := k.Totals(ctx, orgO, app, "")
					require.NoError(t, err)
					assert.Equal(t, want, got.Labels[0].Requests, app)
				}
			})
		})
	}
}

// TestSpoolWaitsForThePrice: a keeper that was started without a model's price
// refuses no record for good that others could count.
func TestSpoolWaitsForThePrice(t *testing.T) {
	refused := 0
	w, k, path := spooling(t)
	require.NoError(t, k.Close(t.Context()))
	bare := w.keeper(&Options{
		Spool: path, SpoolInterval: time.Hour, Models: map[string]string{"standard": standardModel},
		OnRefused: func(SpooledUsage, error) { refused++ },
	})
	_, err := bare.Recommend(t.Context(), orgO, appA)
	require.NoError(t, err)
	w.db.SetFaults(refuseAll("AccessDeniedException"))
	spoolOne(t, bare, call(1))
	w.db.SetFaults(nil)
	requireCode(t, bare.Replay(t.Context()), fault.InvalidConfig)
	assert.Equal(t, []int{1, 0}, []int{bare.Health().Spooled, refused})
	require.NoError(t, bare.Close(t.Context()))

	again := w.keeper(&Options{Spool: path, SpoolInterval: time.Hour})
	require.NoError(t, again.Replay(t.Context()))
	assert.Equal(t, int64(2), w.total(appA, "premium", "").Requests)
}

// TestBatchSpoolsNoInvalidRecord: a record is checked whether or not the store
// can be asked.
func TestBatchSpoolsNoInvalidRecord(t *testing.T) {
	w, k, _ := spooling(t)
	w.db.SetFaults(refuseAll("AccessDeniedException"))
	w.clock.Advance(time.Hour) // the configuration is not known any more
	bad := call(2)
	bad.Tokens.Output = -1
	u := call(1)
	u.Time = w.clock.Now()
	results, err := k.SubmitBatch(t.Context(), orgO, appA, []prices.Usage{u, bad})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	assert.True(t, results[0].Spooled)
	requireCode(t, results[1].Err, fault.InvalidRequest)
	assert.Equal(t, 1, k.Health().Spooled)
	w.db.SetFaults(nil)
}

// TestOneKeeperPerSpool: two on one file would lose each other's records.
func TestOneKeeperPerSpool(t *testing.T) {
	w, k, path := spooling(t)
	open := func() (*Keeper, error) {
		return New(w.client, w.tables, &Options{AllowUnknownApps: true, Now: w.clock.Now, Models: fixtureModels, Spool: path, SpoolInterval: time.Hour})
	}
	_, err := open()
	require.ErrorIs(t, err, ErrSpoolInUse)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "Options.Spool")

	w.db.SetFaults(refuseAll("AccessDeniedException"))
	spoolOne(t, k, call(1))
	require.NoError(t, k.Close(t.Context()))
	w.db.SetFaults(nil)
	next, err := open()
	require.NoError(t, err, "the lock ends with its keeper")
	require.NoError(t, next.Replay(t.Context()))
	require.NoError(t, next.Close(t.Context()))
	assert.Equal(t, int64(2), w.total(appA, "premium", "").Requests)
}

// TestSpoolThatWasMovedAway: a file that somebody renames or removes under a
// running keeper takes no record with it.
func TestSpoolThatWasMovedAway(t *testing.T) {
	for name, move := range map[string]func(path string) error{
		"renamed": func(path string) error { return os.Rename(path, path+".1") },
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".1"), os.WriteFile(path, nil, 0o600))
		},
	} {
		for _, between := range []bool{true, false} { // another record comes before the replay
			t.Run(name, func(t *testing.T) {
				w, k, path := spooling(t)
				w.db.SetFaults(refuseAll("AccessDeniedException"))
				spoolOne(t, k, call(1))
				require.NoError(t, move(path))
				want := 1
				if between {
					spoolOne(t, k, call(2))
					want = 2
				}
				require.NoError(t, k.Close(t.Context()), "and the process ends")
				w.db.SetFaults(nil)
				next := w.keeper(&Options{Spool: path, SpoolInterval: time.Hour})
				require.NoError(t, next.Replay(t.Context()))
				assert.Equal(t, int64(want+1), w.total(appA, "premium", "").Requests)
			})
		}
	}
	w, k, path := spooling(t)
	w.db.SetFaults(refuseAll("AccessDeniedException"))
	spoolOne(t, k, call(1))
	require.NoError(t, os.Remove(path))
	w.db.SetFaults(nil)
	require.NoError(t, k.Replay(t.Context()))
	assert.Equal(t, int64(2), w.total(appA, "premium", "").Requests)
}

// TestSpoolReplacedDuringAReplay: the records of a file that somebody puts in the place of the
// spool meanwhile stay, and so does what the replay did not finish.
func TestSpoolReplacedDuringAReplay(t *testing.T) {
	for _, done := range [][]bool{{true, false}, {false, true}, {true, true}, {false, false}} {
		w, k, path := spooling(t)
		w.db.SetFaults(refuseAll("AccessDeniedException"))
		want := []string{uuid(3)}
		for i, ok := range done {
			spoolOne(t, k, call(1+i))
			if !ok {
				want = append(want, uuid(1+i))
			}
		}
		other, err := encodeRecord(SpooledUsage{Org: orgO, App: appA, Usage: call(3), Received: fixtureNow})
		require.NoError(t, err)
		require.NoError(t, k.charges.spool.replayAll(func([]spoolLine) ([]bool, error) {
			return done, errors.Join(os.WriteFile(path+".1", other, 0o600), os.Rename(path+".1", path))
		}))
		require.NoError(t, k.Close(t.Context()))
		var left []string
		next, err := openSpool(path, 1<<20)
		require.NoError(t, err)
		assert.Equal(t, len(want), next.last.lines)
		require.NoError(t, next.replayAll(func(batch []spoolLine) ([]bool, error) {
			for _, line := range batch {
				left = append(left, line.entry.Usage.RequestID)
			}
			return make([]bool, len(batch)), nil
		}))
		require.NoError(t, next.close())
		assert.ElementsMatch(t, want, left)
		w.db.SetFaults(nil)
	}
}

// TestSpoolKeepsWhatFollowsACutLine, also where it is joined to it.
func TestSpoolKeepsWhatFollowsACutLine(t *testing.T) {
	line := func(n int) string {
		text, err := encodeRecord(SpooledUsage{Org: orgO, App: appA, Usage: call(n), Received: fixtureNow})
		require.NoError(t, err)
		return string(text)
	}
	flipped := []byte(line(9))
	flipped[len(flipped)/2] ^= 1
	for name, test := range map[string]struct {
		file    string
		records int64
		damaged int
	}{
		"the last is cut":     {line(1) + line(2)[:100], 1, 1},
		"joined":              {line(1)[:100] + line(2) + line(3), 2, 1},
		"joined within a sum": {line(1)[:4] + line(2), 1, 1},
		"cut in the middle":   {line(1)[:100] + "\n" + line(2), 1, 1},
		"lost newline":        {strings.TrimSpace(line(1)) + line(2) + strings.TrimSpace(line(3)) + line(4), 4, 0},
		"a bit is wrong":      {line(1) + string(flipped) + line(2), 2, 1},
		"not ours":            {"# a note\n\n" + line(1), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var reasons []error
			w, k, path := spooling(t, func(o *Options) {
				o.OnRefused = func(u SpooledUsage, err error) {
					assert.Empty(t, u.Org)
					assert.NotEmpty(t, u.Refusal)
					reasons = append(reasons, err)
				}
			})
			require.NoError(t, k.Close(t.Context()))
			require.NoError(t, os.WriteFile(path, []byte(test.file), 0o600))
			again := w.keeper(&k.opts)
			require.NoError(t, again.Replay(t.Context()))
			assert.Eventually(t, func() bool { // what is known of the spend may be some seconds old
				w.clock.Advance(10 * time.Second)
				return w.total(appA, "premium", "").Requests-1 == test.records
			}, 10*time.Second, 10*time.Millisecond)
			assert.Len(t, reasons, test.damaged)
			for _, err := range reasons {
				require.ErrorIs(t, err, errDamaged)
			}
			if test.damaged > 0 {
				kept, err := os.ReadFile(path + ".refused")
				require.NoError(t, err)
				assert.Equal(t, test.damaged, strings.Count(string(kept), "\n"))
			}
		})
	}
}

// TestSpoolAppendsAfterACutLine: a crash cut the last line off; the record that
// comes next is its own.
func TestSpoolAppendsAfterACutLine(t *testing.T) {
	w, k, path := spooling(t)
	require.NoError(t, os.WriteFile(path, []byte(`0123abcd {"org_id":"5`), 0o600))
	w.db.SetFaults(refuseAll("AccessDeniedException"))
	spoolOne(t, k, call(1))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(text), "\n"))
	w.db.SetFaults(nil)
	require.NoError(t, k.Replay(t.Context()))
	assert.Equal(t, int64(2), w.total(appA, "premium", "").Requests)
}

// TestSpooledRecordWhoseAnswerWasLostCountsOnce, in each metering.
func TestSpooledRecordWhoseAnswerWasLostCountsOnce(t *testing.T) {
	for _, metering := range []Metering{MeteringStrict, MeteringBatch} {
		opts := Options{Metering: metering, Spool: filepath.Join(t.TempDir(), "spool"), SpoolInterval: time.Hour}
		simulated(t, opts, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
			db.SetFaults(onWrite(100, ddbmem.Fault{Lose: true})) // counted, and nobody was told
			spoolOne(t, k, call(1))
			back(db, k)
			require.NoError(t, k.Replay(t.Context()))
			got, err := k.Totals(t.Context(), orgO, appA, "")
			require.NoError(t, err)
			assert.Equal(t, int64(1), got.Labels[0].Requests)
		})
	}
}

// TestSpoolDrainsInParallel: 400 records wait for some transactions, not for
// 400.
func TestSpoolDrainsInParallel(t *testing.T) {
	simulated(t, Options{Spool: filepath.Join(t.TempDir(), "spool"), SpoolInterval: time.Hour}, fixtureOrg(),
		func(t *testing.T, db *ddbmem.DB, k *Keeper) {
			_, err := k.Submit(t.Context(), orgO, appA, call(400)) // the app is known
			require.NoError(t, err)
			var entries []SpooledUsage
			for i := range 400 {
				entries = append(entries, SpooledUsage{Org: orgO, App: appA, Usage: call(i), Received: fixtureNow})
			}
			require.NoError(t, k.spool.appendRecords(entries...))
			db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} })
			before, start := db.Meter().Requests(), time.Now()
			require.NoError(t, k.Replay(t.Context()))
			assert.Less(t, time.Since(start), time.Second)
			assert.Less(t, db.Meter().Requests()-before, int64(40))
			synctest.Wait()
			got, err := k.Totals(t.Context(), orgO, appA, "")
			require.NoError(t, err)
			assert.Equal(t, int64(401), got.Labels[0].Requests)
		})
}
