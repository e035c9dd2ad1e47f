package dynalimittest_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
)

// service answers prompts with a model.
type service struct {
	limiter *dynalimit.RateLimiter
	model   func(ctx context.Context, prompt string) (tokens int64, err error)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := s.limiter.Do(r.Context(), r.Header.Get("X-User"), "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 1_000},
		func(ctx context.Context, lease *dynalimit.Lease) error {
			used, err := s.model(ctx, r.FormValue("prompt"))
			return errors.Join(err, lease.Settle(ctx, dynalimit.Amounts{"tpm": used}))
		})
	var exceeded *dynalimit.LimitExceededError
	switch {
	case errors.As(err, &exceeded):
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(exceeded.RetryAfter.Seconds()))))
		http.Error(w, "too many tokens", http.StatusTooManyRequests)
	case errors.Is(err, dynalimit.ErrUnavailable):
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "the model failed", http.StatusBadGateway)
	}
}

var limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 6_000)}

func newService(limiter *dynalimittest.Limiter) *service {
	return &service{limiter.RateLimiter, func(context.Context, string) (int64, error) { return 700, nil }}
}

func ask(s *service) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodPost, "/chat?prompt=hello", nil), httptest.NewRecorder()
	r.Header.Set("X-User", "ana")
	s.ServeHTTP(w, r)
	return w
}

func TestHandlerSettlesWhatTheModelUsed(t *testing.T) {
	limiter := dynalimittest.New(t, limits...)
	s := newService(limiter)

	require.Equal(t, http.StatusOK, ask(s).Code)
	limiter.AssertTaken("ana", "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 700})
}

func TestHandlerSaysWhenToComeBack(t *testing.T) {
	limiter := dynalimittest.New(t, limits...)
	s := newService(limiter)

	limiter.Exhaust("ana", "gpt-4")
	denied := ask(s)
	require.Equal(t, http.StatusTooManyRequests, denied.Code)
	assert.Equal(t, "10", denied.Header().Get("Retry-After")) // 1,000 of 6,000 a minute

	limiter.Advance(10 * time.Second)
	assert.Equal(t, http.StatusOK, ask(s).Code)
}

func TestBatchWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := dynalimittest.New(t, limits...)
		limiter.Exhaust("batch", "gpt-4")

		began := time.Now()
		_, err := limiter.Wait(t.Context(), "batch", "gpt-4", dynalimit.Amounts{"tpm": 3_000})
		require.NoError(t, err)
		assert.Equal(t, 30*time.Second, time.Since(began)) // of the bubble's time: the test takes none
	})
}

func TestHandlerInAnOutage(t *testing.T) {
	limiter := dynalimittest.NewWithOptions(t, dynalimit.Options{Limits: limits, OnUnavailable: dynalimit.Local})
	s := newService(limiter)

	restore := limiter.FailStore()
	for range 6 {
		assert.Equal(t, http.StatusOK, ask(s).Code) // within this process's share
	}
	restore()
	limiter.AssertTaken("ana", "gpt-4", dynalimit.Amounts{"rpm": 6, "tpm": 4_200}) // it is counted afterwards
}
