package budget

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resumed is a hold in another process.
func resumed(t testing.TB, k *Keeper, h *Hold) *Hold {
	t.Helper()
	r, err := k.ResumeHold(t.Context(), h.Export())
	require.NoError(t, err)
	assert.Equal(t, []any{h.ID, h.Org, h.App, h.Label, h.Model, h.Day, h.EstimateMicros, h.Soft, h.Degraded},
		[]any{r.ID, r.Org, r.App, r.Label, r.Model, r.Day, r.EstimateMicros, r.Soft, r.Degraded})
	return r
}

// TestAHoldIsEndedInAnotherProcess by its text, whatever counts what, and wherever it was
// moved to meanwhile.
func TestAHoldIsEndedInAnotherProcess(t *testing.T) {
	limited := hardOrg()
	limited.Scope, limited.Limits = ScopeOrg, []PeriodQuota{{Day, "", 10_000_000}, {Week, "premium", 50_000_000}}
	for name, org := range map[string]Org{"plain": hardOrg(), "limits of the organisation": limited} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				w.org(org)
				ctx := t.Context()
				h := w.reserve(w.a, 66_000)
				r := resumed(t, w.b, h)
				assert.Equal(t, h.ExpiresAt(), r.ExpiresAt())
				_, err := r.Settle(ctx, call(1))
				require.NoError(t, err)
				w.requireNothingHeld(1)

				h = w.reserve(w.a, 66_000)
				require.NoError(t, resumed(t, w.b, h).Extend(ctx, time.Hour))
				w.clock.Advance(10 * time.Minute)
				require.NoError(t, resumed(t, w.b, h).Release(ctx), "it was moved since")
				w.requireNothingHeld(1)

				gone := resumed(t, w.b, h)
				assert.True(t, gone.ExpiresAt().IsZero())
				require.ErrorIs(t, gone.Extend(ctx, time.Minute), ErrNotFound)
				require.NoError(t, gone.Release(ctx))
				_, err = gone.Settle(ctx, call(2))
				require.NoError(t, err, "a call that was admitted is counted")
				w.clock.Advance(6 * time.Second)
				w.requireNothingHeld(2)
			})
		})
	}
}

// TestAHoldOfNothingIsResumed, too: of soft enforcement, and one while the store was down.
func TestAHoldOfNothingIsResumed(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.OnUnavailable.Reserve = Allow })
	w.org(fixtureOrg())
	soft := w.reserve(w.a, 1)
	_, err := resumed(t, w.b, soft).Settle(t.Context(), call(1))
	require.NoError(t, err)
	w.db.SetFaults(down)
	lost, err := w.a.ReserveAs(t.Context(), orgO, appA, uuid(7), "premium", 1, time.Minute)
	require.NoError(t, err)
	require.True(t, lost.Degraded)
	w.db.SetFaults(nil)
	r := resumed(t, w.b, lost)
	require.NoError(t, r.Extend(t.Context(), time.Minute))
	_, err = r.Settle(t.Context(), call(2))
	require.NoError(t, err)
	w.clock.Advance(6 * time.Second)
	assert.Equal(t, int64(2), w.total(appA, "premium", "").Requests)
}

// TestTextThatIsNoHoldIsRefused before anything is asked.
func TestTextThatIsNoHoldIsRefused(t *testing.T) {
	w := newWorld(t)
	w.org(hardOrg())
	h := w.reserve(w.a, 1)
	text := h.Export()
	assert.Empty(t, (*Hold)(nil).Export())
	spoil := func(change func(map[string]any)) string {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, exportVersion))
		require.NoError(t, err)
		fields := map[string]any{}
		require.NoError(t, json.Unmarshal(b, &fields))
		change(fields)
		b, err = json.Marshal(fields)
		require.NoError(t, err)
		return exportVersion + base64.RawURLEncoding.EncodeToString(b)
	}
	bad := []string{"", "x", exportVersion, "hold2." + text[6:], text + "=", text[:len(text)-3], text + strings.Repeat("A", maxExport)}
	for field, value := range map[string]any{
		"id": "x", "org": "x#y", "app": "../x", "label": "#", "day": "2026", "micros": -1, "expires_at_ms": -1, "reserved_ms": 0,
		"model": strings.Repeat("x", 300), "soft": "yes",
	} {
		bad = append(bad, spoil(func(fields map[string]any) { fields[field] = value }))
	}
	m := w.spentOn(func() {
		for _, text := range bad {
			_, err := w.b.ResumeHold(t.Context(), text)
			require.ErrorAs(t, err, new(*ValidationError), text)
		}
	})
	assert.Zero(t, m.Requests())
	_, err := w.b.ResumeHold(t.Context(), spoil(func(map[string]any) {}))
	require.NoError(t, err)
}

// FuzzResumedText never panics, and never finds more than a hold.
func FuzzResumedText(f *testing.F) {
	f.Add(exportVersion + base64.RawURLEncoding.EncodeToString([]byte(`{"id":"`+uuid(1)+`","org":"`+orgO+`","app":"a","label":"l","day":"20260123","reserved_ms":1}`)))
	f.Add("hold1.e30")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseHold(text)
		if err == nil {
			require.NoError(t, e.validate())
			require.True(t, strings.HasPrefix(text, exportVersion))
		}
	})
}
