package credentials

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// What is not good consumes nothing, and what was used stays used.
func TestRetrievalTokenIsGoodOnceInItsPlaceAndTime(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx, start := t.Context(), w.clock.Now()
		issued, err := w.a.Create(ctx, orgO, appA)
		require.NoError(t, err)
		for name, try := range map[string]struct {
			org, app string
			token    Secret
		}{
			"unknown":              {orgO, appA, NewSecret("dlr_unknown")},
			"empty":                {orgO, appA, Secret{}},
			"too long":             {orgO, appA, NewSecret(strings.Repeat("x", 129))},
			"of another app":       {orgO, "app-batch", issued.Token},
			"of the organisation":  {orgO, "", issued.Token},
			"another organisation": {orgP, appA, issued.Token},
		} {
			_, err := w.b.Retrieve(ctx, try.org, try.app, try.token)
			assert.Equal(t, ErrTokenInvalid, err, name)
		}
		w.clock.Set(start.Add(RetrievalTTL))
		_, err = w.a.Retrieve(ctx, orgO, appA, issued.Token)
		require.Equal(t, ErrTokenInvalid, err, "expired")
		w.clock.Set(start.Add(RetrievalTTL - time.Second))
		c, err := w.a.Retrieve(ctx, orgO, appA, issued.Token)
		require.NoError(t, err, "nothing was consumed")
		w.works(true, c, "what was fetched")

		for _, s := range []*Store{w.a, w.b} {
			_, err = s.Retrieve(ctx, orgO, appA, issued.Token)
			require.Equal(t, ErrTokenUsed, err)
		}
		w.clock.Set(start.Add(time.Hour))
		_, err = w.b.Retrieve(ctx, orgO, appA, issued.Token)
		require.Equal(t, ErrTokenUsed, err, "used wins over expired")
		_, err = w.b.Retrieve(ctx, orgO, "", issued.Token)
		require.Equal(t, ErrTokenInvalid, err, "in another place nobody learns that it was used")
	})
}

// Of many uses at the same time one gets the secret.
func TestFirstRetrievalWins(t *testing.T) {
	w := newWorld(t)
	issued, err := w.a.Create(t.Context(), orgO, "")
	require.NoError(t, err)
	gate := fixture.NewGate(8)
	w.db.SetFaults(gate.Before("UpdateItem"))
	var won, used atomic.Int64
	inParallel(t, func(s *Store) error {
		switch _, err := s.Retrieve(t.Context(), orgO, "", issued.Token); {
		case err == nil:
			won.Add(1)
		case errors.Is(err, ErrTokenUsed):
			used.Add(1)
		default:
			return err
		}
		return nil
	}, w.a, w.b, w.a, w.b, w.a, w.b, w.a, w.b)
	assert.Equal(t, [2]int64{1, 7}, [2]int64{won.Load(), used.Load()})
}

// A use whose answer is lost is still its caller's.
func TestRetrievalWithALostAnswer(t *testing.T) {
	w := newWorld(t)
	issued, err := w.a.Create(t.Context(), orgO, "")
	require.NoError(t, err)
	var lost atomic.Bool
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Lose: r.Operation == "UpdateItem" && lost.CompareAndSwap(false, true)}
	})
	w.works(true, w.retrieve(w.a, issued), "fetched")
	assert.True(t, lost.Load())
}

// What is sealed opens with its token, for whom it was sealed, and not otherwise.
func TestSealedSecretIsBoundToItsPlace(t *testing.T) {
	token, secret := NewSecret("dlr_token"), NewSecret("dls_secret")
	sealed, err := sealSecret(token, secret, orgO, appA, 3)
	require.NoError(t, err)
	opened, err := openSealed(token, sealed, orgO, appA, 3)
	require.NoError(t, err)
	assert.True(t, secret.Equal(opened))
	for name, try := range map[string]func() (Secret, error){
		"another token":        func() (Secret, error) { return openSealed(NewSecret("dlr_Token"), sealed, orgO, appA, 3) },
		"another organisation": func() (Secret, error) { return openSealed(token, sealed, orgP, appA, 3) },
		"another app":          func() (Secret, error) { return openSealed(token, sealed, orgO, "", 3) },
		"another version":      func() (Secret, error) { return openSealed(token, sealed, orgO, appA, 4) },
		"a changed byte": func() (Secret, error) {
			changed := append([]byte(nil), sealed...)
			changed[0] ^= 1
			return openSealed(token, changed, orgO, appA, 3)
		},
	} {
		_, err := try()
		assert.Error(t, err, name)
	}
}
