package budget

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elsewhere is a keeper of holds that notes what it is asked.
type elsewhere struct {
	asked []string
	err   error
}

func (e *elsewhere) SettleHold(_ context.Context, h *Hold, u Usage) (Receipt, error) {
	e.asked = append(e.asked, "settle "+h.ID+" "+u.Label)
	return Receipt{CostMicros: 7}, e.err
}

func (e *elsewhere) ReleaseHold(_ context.Context, h *Hold) error {
	e.asked = append(e.asked, "release "+h.ID)
	return e.err
}

func (e *elsewhere) ExtendHold(_ context.Context, h *Hold, d time.Duration) (time.Time, error) {
	e.asked = append(e.asked, "extend "+h.ID)
	return noon.Add(d), e.err
}

var noon = time.Date(2026, 1, 23, 12, 0, 0, 0, time.UTC)

// A hold that is kept elsewhere is ended there, once, and checked here.
func TestHoldsKeptElsewhere(t *testing.T) {
	ctx, id := t.Context(), "00000000-0000-4000-8000-000000000001"
	remote := RemoteHold{ID: id, Org: orgO, App: "app-a", Label: "premium", EstimateMicros: 5, ExpiresAt: noon, Reserved: noon}
	usage := Usage{RequestID: id, Tokens: Tokens{Input: 1}}

	at := &elsewhere{}
	h := remote.Hold(at)
	assert.Equal(t, noon, h.ExpiresAt().UTC())
	require.NoError(t, h.Extend(ctx, time.Minute))
	assert.Equal(t, noon.Add(time.Minute), h.ExpiresAt().UTC())
	var bad *ValidationError
	require.ErrorAs(t, h.Extend(ctx, 0), &bad)
	_, err := h.Settle(ctx, Usage{RequestID: id, Label: "standard"})
	require.ErrorAs(t, err, &bad)
	_, err = h.Settle(ctx, Usage{RequestID: "x"})
	require.ErrorAs(t, err, &bad)
	receipt, err := h.Settle(ctx, usage)
	require.NoError(t, err)
	assert.Equal(t, int64(7), receipt.CostMicros)
	require.NoError(t, h.Release(ctx), "it has ended")
	require.ErrorIs(t, h.Extend(ctx, time.Minute), ErrNotFound)
	assert.Equal(t, []string{"extend " + id, "settle " + id + " premium"}, at.asked)

	at = &elsewhere{err: errors.New("no route")}
	h = remote.Hold(at)
	require.ErrorIs(t, h.Extend(ctx, time.Minute), at.err)
	assert.Equal(t, noon, h.ExpiresAt().UTC())
	_, err = h.Settle(ctx, usage)
	require.ErrorIs(t, err, at.err)
	require.ErrorIs(t, h.Release(ctx), at.err, "it has not ended")
	at.err = nil
	require.NoError(t, h.Release(ctx))
	require.NoError(t, h.Release(ctx))
	assert.Len(t, at.asked, 4)

	at = &elsewhere{}
	soft := remote
	soft.Soft, soft.ExpiresAt = true, time.Time{}
	h = soft.Hold(at)
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.NoError(t, h.Release(ctx))
	assert.Empty(t, at.asked, "nothing is held")

	require.ErrorAs(t, remote.Hold(nil).Release(ctx), &bad)
}

// A keeper finds the hold that a client of it exported.
func TestHoldsKeptElsewhereAreExported(t *testing.T) {
	h := RemoteHold{
		ID: "00000000-0000-4000-8000-000000000001", Org: orgO, App: "app-a", Label: "premium", Day: "20260123", ExpiresAt: noon, Reserved: noon,
	}.Hold(&elsewhere{})
	e, err := parseHold(h.Export())
	require.NoError(t, err)
	assert.True(t, e.Named, "it is found by its id")
}

// A denial by another process waits from when that decided it.
func TestDenialsDecidedElsewhereWaitFromThere(t *testing.T) {
	err := (&QuotaExceededError{RetryAt: noon.Add(time.Minute)}).DecidedAt(noon)
	wait, ok := RetryAfter(err)
	assert.True(t, ok)
	assert.Equal(t, time.Minute, wait)
	_, ok = RetryAfter((&QuotaExceededError{}).DecidedAt(noon))
	assert.False(t, ok)
}
