package login

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of 5,000 at a bucket ten are in and 4,096 wait. Each of those gets in, unless it leaves or
// its patience ends, and then nothing of the bucket is left.
func TestAllWhoWaitGetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, all = 10, 5000
		g := newGates()
		gone, leave := context.WithCancel(t.Context())
		patience := make(chan struct{})
		in := make(chan func(), all)
		errs := make(chan error, all)
		for i := range all {
			ctx, until := t.Context(), (<-chan struct{})(nil)
			switch i % 4 {
			case 0:
				ctx = gone
			case 1:
				until = patience
			}
			go func() {
				out, err := g.enterGate(ctx, until, "a", places)
				if err != nil {
					errs <- err
					return
				}
				in <- out
			}()
			synctest.Wait()
		}
		require.Len(t, in, places)
		require.Len(t, errs, all-places-maxWaiting, "the others are turned away")
		assert.Equal(t, maxWaiting, g.waiting)
		assert.Equal(t, places+maxWaiting, g.at("a"))

		leave()
		synctest.Wait()
		close(patience)
		synctest.Wait()
		require.Len(t, in, places, "who leaves makes no place")
		require.Len(t, errs, all-places-maxWaiting/2)
		assert.Equal(t, maxWaiting/2, g.waiting)
		for range places + maxWaiting/2 {
			require.NotEmpty(t, in, "a place that is free is taken at once")
			(<-in)()
			synctest.Wait()
		}
		assert.Empty(t, in)
		assert.Empty(t, g.byEntity)
		assert.Zero(t, g.waiting)
	})
}

// A bucket is the same one for as long as anybody is at it.
func TestPlacesAreCountedUntilTheLastHasLeft(t *testing.T) {
	g := newGates()
	first, err := g.enterGate(t.Context(), nil, "a", 2)
	require.NoError(t, err)
	second, err := g.enterGate(t.Context(), nil, "a", 2)
	require.NoError(t, err)
	first()
	third, err := g.enterGate(t.Context(), nil, "a", 2)
	require.NoError(t, err)
	over := make(chan struct{})
	close(over)
	_, err = g.enterGate(t.Context(), over, "a", 2)
	require.ErrorIs(t, err, errCrowded)
	second()
	third()
	assert.Empty(t, g.byEntity)
}
