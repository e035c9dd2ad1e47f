package credentials

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What was not made by New or WatchKeys has no keys, no revocations and the process's time,
// and is closed without ado.
func TestWhatWasNotMadeIsUsedWithoutAPanic(t *testing.T) {
	for name, s := range map[string]*Store{"none": nil, "zero": {}, "another name's": (*Store)(nil).As("ann")} {
		before := time.Now()
		assert.False(t, s.Now().Before(before), name)
		assert.Nil(t, s.Keys(), name)
		assert.Zero(t, s.LongestToken(), name)
		_, err := s.Verify(t.Context(), ClientID(orgO, appA), NewSecret("x"))
		require.ErrorContains(t, err, "is not made", name)
		require.ErrorContains(t, s.Delete(t.Context(), orgO, ""), "is not made", name)
	}
	for _, w := range []*WatchedKeys{nil, {}} {
		assert.Nil(t, w.Keys())
		require.NoError(t, w.Err())
		w.Close()
	}
}

// Whoever is told of new keys may have seen enough.
func TestWatchMayBeClosedByWhomItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, err := NewKeySet(chance(1), time.Now())
		require.NoError(t, err)
		second, err := first.Rotated(chance(2), time.Now().Add(time.Second), 0)
		require.NoError(t, err)
		var document atomic.Pointer[KeySet]
		document.Store(first)
		watched := make(chan *WatchedKeys, 1)
		told := make(chan struct{})
		load := func(context.Context) ([]byte, error) { return []byte(document.Load().Document().Reveal()), nil }
		w, err := WatchKeys(t.Context(), load, &WatchOptions{OnChange: func(err error) {
			defer close(told)
			assert.NoError(t, err)
			(<-watched).Close()
		}})
		require.NoError(t, err)
		watched <- w
		document.Store(second)
		select {
		case <-told:
		case <-time.After(time.Hour):
			t.Fatal("it waits for itself")
		}
		w.Close()
		w.Close()
		assert.Len(t, w.Keys().peppers, 2)
	})
}
