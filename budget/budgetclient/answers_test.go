package budgetclient

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
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

// TestAnAnswerIsItsCallersOwn: who changes what was recommended changes it for nobody else, not
// at the same time either.
func TestAnAnswerIsItsCallersOwn(t *testing.T) {
	f := (&fake{}).first("/model-selection", func() (*http.Response, error) {
		res := reply(http.StatusOK, fmt.Sprintf(`{"org_id":%q,"app_id":%q,"recommended_model":{"label":"premium"},"quota_status":[{"label":"premium"}]}`, org, app))
		res.Header.Set("Cache-Control", "private, max-age=300")
		return res, nil
	})
	c := newClient(t, f)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			rec, err := c.Recommend(t.Context(), org, app)
			if assert.NoError(t, err) && assert.Len(t, rec.Labels, 1) {
				rec.Labels[0].SpendMicros++
			}
		})
	}
	calls.Wait()
	rec, err := c.Recommend(t.Context(), org, app)
	require.NoError(t, err)
	assert.Equal(t, 1, f.count("/model-selection"))
	assert.Zero(t, rec.Labels[0].SpendMicros)
}

// TestCloseEndsNoCall that is under way, and those after it are made.
func TestCloseEndsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := (&fake{}).slow("/usage")
		c := newClient(t, f, func(o *Options) { o.Retries = 1 })
		var calls sync.WaitGroup
		calls.Go(func() {
			_, err := c.Submit(t.Context(), org, app, usage())
			assert.ErrorIs(t, err, budget.ErrUnavailable)
		})
		synctest.Wait()
		c.Close()
		calls.Wait()
		f.answer = nil
		_, err := c.Submit(t.Context(), org, app, usage())
		require.NoError(t, err)
	})
}
