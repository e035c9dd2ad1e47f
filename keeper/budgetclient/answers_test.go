package budgetclient

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestATokenThatEndsUnderManyCallsIsReplacedOnce: those whose token is refused at the same time
// log in together, and each call is made.
func TestATokenThatEndsUnderManyCallsIsReplacedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		f := &fake{}
		f.answer = func(r *http.Request, _ []byte) (*http.Response, error) {
			elapse(time.Duration(rand.IntN(100)) * time.Millisecond) // so that some refusals come after the login
			if ended.Load() && r.Header.Get("Authorization") == "Bearer token-1" {
				return refuse(http.StatusUnauthorized, "UNAUTHORIZED", "revoked"), nil
			}
			return nil, nil
		}
		c := newClient(t, f)
		_, err := c.Submit(t.Context(), org, app, usage())
		require.NoError(t, err)
		ended.Store(true)
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				_, err := c.Submit(t.Context(), org, app, usage())
				assert.NoError(t, err)
			})
		}
		calls.Wait()
		assert.Equal(t, 2, f.logins)
	})
}
