package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// shelf keeps files in memory.
type shelf struct {
	mu     sync.Mutex
	files  map[string][]byte
	before func(n int) error // is called before each file is kept
	n      int
}

func (s *shelf) Put(_ context.Context, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if s.before != nil {
		if err := s.before(s.n); err != nil {
			return err
		}
	}
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	if had, ok := s.files[name]; ok && !bytes.Equal(had, data) {
		return errors.New("another file under the same name")
	}
	s.files[name] = bytes.Clone(data)
	return nil
}

// items are what is in the files, by key.
func (s *shelf) items(t testing.TB) map[store.Key]map[string]any {
	t.Helper()
	found := map[store.Key]map[string]any{}
	for name, data := range s.files {
		require.Regexp(t, regexp.MustCompile(`^budget/org=`+orgO+`/before=\d{8}/[0-9a-f]{32}\.jsonl$`), name)
		for line := range strings.Lines(string(data)) {
			fields := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(line), &fields))
			found[store.Key{PK: fields["PK"].(string), SK: fields["SK"].(string)}] = fields
		}
	}
	return found
}

// expiring are the items of old days that have a time to live, and all of those days.
func expiring(w *world, before string) (gone, all map[store.Key]store.Item) {
	gone, all = map[store.Key]store.Item{}, map[store.Key]store.Item{}
	for _, item := range w.items("") {
		if !ledger.IsBefore(item, orgO, before) {
			continue
		}
		all[store.KeyOf(item)] = item
		if item[store.AttrTTL] != nil {
			gone[store.KeyOf(item)] = item
		}
	}
	return gone, all
}

// aged is a world with some days a hundred days ago, and one now.
func aged(t testing.TB, w *world, o Org) (before string) {
	t.Helper()
	w.org(o)
	for i := range 3 {
		u := call(i)
		u.Time, u.Tags = w.clock.Now(), map[string]string{"user": "u1"}
		w.submit(w.a, u)
		require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "standard", DeltaMicros: 5, Reason: "test"}))
		w.clock.Advance(24 * time.Hour)
	}
	w.clock.Advance(100 * 24 * time.Hour)
	for _, err := range w.a.History(t.Context(), orgO, appA, "20260123", "20260125") { // closes them
		require.NoError(t, err)
	}
	w.a.ledger.WaitForTotals()
	u := call(9)
	u.Time = w.clock.Now()
	w.submit(w.a, u)
	require.NoError(t, adjust(t.Context(), w.a, orgO, appA, Adjustment{Label: "standard", DeltaMicros: 5, Reason: "test"}))
	return "20260125"
}

// TestOldDaysAreExportedBeforeTheyGo, and are refused from the first call on; later days
// stay as they are.
func TestOldDaysAreExportedBeforeTheyGo(t *testing.T) {
	org := fixtureOrg()
	engines(t, func(t *testing.T, w *world) {
		before := aged(t, w, org)
		ctx := t.Context()
		files := &shelf{}
		r := Retirement{Before: before, Export: files}
		began := w.clock.Now()
		report, err := w.a.Retire(ctx, orgO, r)
		require.NoError(t, err)
		assert.Equal(t, RetirementReport{Again: began.Truncate(time.Millisecond).Add(purgeAfter)}, report)
		assert.Empty(t, files.files)
		for _, k := range []*Keeper{w.a, w.b} {
			for what, try := range map[string]func() error{
				"Totals":    func() error { _, err := k.Totals(ctx, orgO, appA, "20260124"); return err },
				"TagTotals": func() error { _, err := k.TagTotals(ctx, orgO, appA, "20260124", "user"); return err },
				"History":   func() error { return firstError(k.History(ctx, orgO, appA, "20260124", "20260126")) },
				"Adjust": func() error {
					return adjust(ctx, k, orgO, appA, Adjustment{Label: "premium", Day: "20260124", DeltaMicros: 1, Reason: "x"})
				},
			} {
				require.ErrorAs(t, try(), new(*ValidationError), what)
			}
			require.NoError(t, firstError(k.History(ctx, orgO, appA, before, before)))
			w.clock.Advance(31 * time.Second) // for the other's configuration
		}
		w.clock.Advance(purgeAfter)
		report, err = w.b.Retire(ctx, orgO, r)
		require.NoError(t, err)
		assert.True(t, report.Complete)
		gone, all := expiring(w, before)
		assert.Len(t, gone, report.Exported)
		assert.Len(t, all, len(gone), "all of those days goes")
		kept := files.items(t)
		for key, item := range gone {
			delete(item, store.AttrTTL)
			line, err := ledger.Line(item)
			require.NoError(t, err)
			want := map[string]any{}
			require.NoError(t, json.Unmarshal(line, &want))
			assert.Equal(t, want, kept[key])
		}
		assert.Len(t, kept, len(gone))
		for _, item := range w.items("ORG#") {
			if !ledger.IsBefore(item, orgO, before) {
				assert.Nil(t, item[store.AttrTTL], store.KeyOf(item))
			}
		}
		adjusted := 0
		for _, item := range w.items("AUDIT#") {
			if item[store.AttrTTL] != nil {
				adjusted++
			}
		}
		assert.Equal(t, 2, adjusted)

		w.org(org)
		again, err := w.a.Retire(ctx, orgO, r)
		require.NoError(t, err)
		assert.Equal(t, RetirementReport{Complete: true}, again, "a PUT leaves it")
		assert.Equal(t, int64(1), w.total(appA, "premium", "").Requests)
	})
}

// TestWhatChangesWhileItIsExportedStays until it is exported anew.
func TestWhatChangesWhileItIsExportedStays(t *testing.T) {
	w := newWorld(t)
	before := aged(t, w, fixtureOrg())
	ctx := t.Context()
	files := &shelf{}
	r := Retirement{Before: before, Export: files, Keep: time.Hour}
	_, err := w.a.Retire(ctx, orgO, r)
	require.NoError(t, err)
	w.clock.Advance(purgeAfter)
	late := ledger.Account{
		Org: orgO, Scope: ledger.ScopeKey(ScopeApp, orgO, appA), Label: "premium", Day: "20260124", Shards: 8,
	}
	files.before = func(n int) error {
		if n > 1 {
			return nil
		}
		for i := range 40 { // every shard
			o := late.Submission(ledger.Record{Key: ledger.DedupKey(orgO, appA, uuid(1000+i)), Cost: money.Of(1), Expires: w.clock.Now().Add(dedupFor).Unix()}, nil, true)
			if err := w.b.ledger.Write(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}
	report, err := w.a.Retire(ctx, orgO, r)
	require.NoError(t, err)
	assert.False(t, report.Complete)
	assert.Positive(t, report.Changed)
	report, err = w.a.Retire(ctx, orgO, r)
	require.NoError(t, err)
	assert.True(t, report.Complete)
	gone, all := expiring(w, before)
	assert.Len(t, gone, len(all))
	var writes float64
	for key, fields := range files.items(t) {
		if strings.Contains(key.PK, "#LABEL#premium") && strings.HasPrefix(key.SK, "DAY#20260124") {
			n, _ := fields["n"].(float64)
			writes += n
			row, err := ledger.DecodeCounter(all[key])
			require.NoError(t, err)
			assert.LessOrEqual(t, int64(n), row.Writes)
		}
	}
	assert.Positive(t, writes)
}

// TestNothingGoesWithoutItsExport, whatever is lost, throttled or killed; and the same call
// completes it.
func TestNothingGoesWithoutItsExport(t *testing.T) {
	broken := errors.New("no room on the shelf")
	once := map[string]ddbmem.Fault{"answer lost": {Lose: true}, "throttled": {Error: &ddbmem.Error{Code: "ThrottlingException"}}, "killed": {Drop: true}}
	for kind, fault := range once {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for at, reached := 0, true; reached; at++ {
				w := newWorld(t)
				before := aged(t, w, fixtureOrg())
				files := &shelf{before: func(n int) error {
					if n == 1 && at%2 == 1 {
						return broken
					}
					return nil
				}}
				r := Retirement{Before: before, Export: files}
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				var mu sync.Mutex
				w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
					mu.Lock()
					defer mu.Unlock()
					switch n++; {
					case n <= at || kind != "killed" && n > at+1:
						return ddbmem.Fault{}
					case kind == "killed":
						cancel()
					}
					return fault
				})
				for range 2 {
					_, _ = w.a.Retire(ctx, orgO, r)
					w.clock.Advance(purgeAfter)
				}
				mu.Lock()
				reached = n > at
				mu.Unlock()
				w.db.SetFaults(nil)
				cancel()
				again := w.keeper(&Options{})
				w.a, w.b = again, again
				gone, _ := expiring(w, before)
				kept := files.items(t)
				for key := range gone {
					require.Contains(t, kept, key, "%s at %d", kind, at)
				}
				var report RetirementReport
				for range 3 {
					var err error
					if report, err = again.Retire(t.Context(), orgO, r); !errors.Is(err, broken) {
						require.NoError(t, err, fmt.Sprint(at))
					}
					w.clock.Advance(purgeAfter)
				}
				require.True(t, report.Complete)
				gone, all := expiring(w, before)
				require.Len(t, gone, len(all))
				require.Len(t, files.items(t), len(all))
			}
		})
	}
}

func TestRetireRefusesWhatCannotBeMeant(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	good := Retirement{Before: "20251101", Export: &shelf{}}
	for field, spoil := range map[string]func(*Retirement){
		"before": func(r *Retirement) { r.Before = "20251116" },
		"export": func(r *Retirement) { r.Export = (*shelf)(nil) },
		"keep":   func(r *Retirement) { r.Keep = -1 },
	} {
		r := good
		spoil(&r)
		requireMisuse(t, field, "Retire", func() error { _, err := w.a.Retire(t.Context(), orgO, r); return err })
	}
	requireMisuse(t, "principal", "Retire", func() error { _, err := w.a.As("").Retire(t.Context(), orgO, good); return err })
	_, err := w.a.Retire(t.Context(), otherOrg, good)
	require.ErrorIs(t, err, ErrNotFound)
	report, err := w.a.Retire(t.Context(), orgO, Retirement{Before: "20251114", Export: &shelf{}})
	require.NoError(t, err)
	assert.False(t, report.Complete)
	events := eventsOf(t, w.b, orgO)
	assert.Equal(t, actionDaysRetired, events[len(events)-1].Action)
}
