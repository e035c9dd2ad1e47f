package credentials

import (
	"testing"
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
