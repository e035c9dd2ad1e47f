package credentials

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A loader that does not return ends one read. The keys are read again.
func TestReadOfKeysThatDoesNotReturnIsMadeAgain(t *testing.T) {
	first, err := NewKeySet(chance(9), fixtureNow)
	require.NoError(t, err)
	second, err := NewKeySet(chance(8), fixtureNow)
	require.NoError(t, err)
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loads := 0
				load := func(context.Context) ([]byte, error) {
					loads++
					switch loads {
					case 1:
						return []byte(first.Document().Reveal()), nil
					case 2:
						end()
					}
					return []byte(second.Document().Reveal()), nil
				}
				keys, err := WatchKeys(t.Context(), load, nil)
				require.NoError(t, err)
				defer keys.Close()
				<-time.After(15 * time.Second)
				require.ErrorContains(t, keys.Err(), "cannot be read")
				assert.Equal(t, first.Document().Reveal(), keys.Keys().Document().Reveal())
				<-time.After(10 * time.Second)
				require.NoError(t, keys.Err())
				assert.Equal(t, second.Document().Reveal(), keys.Keys().Document().Reveal())
			})
		})
	}
}
