package llmhttp_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestEachDenialOfAStormIsFound has all of them answered before the first is looked for.
func TestEachDenialOfAStormIsFound(t *testing.T) {
	const calls = 5_000
	w := newWorld(t, llmhttp.Options{}, nil)
	w.limiter.Exhaust("ana", "m")
	texts := make([]string, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			res, err := w.transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
			if assert.NoError(t, err) {
				texts[i] = read(t, res)
				assert.NoError(t, res.Body.Close())
			}
		})
	}
	all.Wait()
	for _, text := range texts {
		denial, ok := llmhttp.DenialOf(errors.New(text))
		require.True(t, ok)
		exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial)
		require.True(t, ok)
		require.Equal(t, "ana", exceeded.EntityID)
		require.Equal(t, "rpm", exceeded.Primary().Limit.Name)
		require.Positive(t, denial.RetryAfter)
	}
}

// TestAMarkHidesTheNamesOfOthers: a call is denied by the limit of its team, whose name the client of a
// gateway must not read.
func TestAMarkHidesTheNamesOfOthers(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	settings := admin.New(w.limiter.Repo)
	require.NoError(t, settings.Entities.Create(t.Context(), admin.Entity{ID: "team-secret"}))
	require.NoError(t, settings.Entities.Create(t.Context(), admin.Entity{ID: "bob", ParentID: "team-secret", Cascade: true}))
	w.limiter.Exhaust("team-secret", "m")
	r := w.request(t.Context(), chatPath, chatBody)
	res, err := w.transport.RoundTrip(r.WithContext(llmhttp.WithCaller(t.Context(), llmhttp.Caller{Entity: "bob"})))
	require.NoError(t, err)
	body := read(t, res)
	require.NoError(t, res.Body.Close())
	told := fmt.Sprint(res.Header, body)
	assert.NotContains(t, told, "bob")
	assert.NotContains(t, told, "team-secret")
	denial, ok := llmhttp.DenialOf(errors.New(body))
	require.True(t, ok)
	exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial)
	require.True(t, ok)
	assert.Equal(t, "team-secret", exceeded.Primary().EntityID)
}
