package mark_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/mark"
	"github.com/dynalimit/dynalimit/prices"
)

// TestAMarkKeepsEachKindOfError compares the error before its mark and behind it.
func TestAMarkKeepsEachKindOfError(t *testing.T) {
	quota := dynalimit.DailyMoneyQuota("usd", 5_000_000, "Europe/Berlin")
	denied := func(wait time.Duration, err error) error { return &llm.DeniedError{RetryAfter: wait, Err: err} }
	now := time.Now().UTC()
	for name, want := range map[string]error{
		"limit": denied(7*time.Second, &dynalimit.LimitExceededError{EntityID: "ana", Resource: "m", RetryAfter: 7 * time.Second, Statuses: []dynalimit.LimitStatus{
			{EntityID: "acme", Resource: "all", Limit: quota, Source: "plan", Requested: 9, Remaining: -3, Exceeded: true, RetryAfter: 7 * time.Second, Reset: time.Hour, ByEstimates: true},
		}}),
		"never":  denied(dynalimit.Never, &dynalimit.LimitExceededError{RetryAfter: dynalimit.Never, Statuses: []dynalimit.LimitStatus{{Exceeded: true}}}),
		"pause":  denied(time.Second, &dynalimit.PausedError{EntityID: "pool", Resource: "m", RetryAfter: time.Second}),
		"block":  denied(dynalimit.Never, &dynalimit.BlockedError{EntityID: "ana", Resource: "m", Source: "plan", Plan: "free"}),
		"budget": denied(time.Hour, &prices.QuotaExceededError{RetryAt: now.Add(time.Hour), DecidedAt: now, Labels: []prices.LabelStatus{{Label: "chat", Percent: 101.5}}}),
		"outage": &dynalimit.UnavailableError{Package: "budget", Op: "acquire", Err: errors.New("no route"), Unconfirmed: true, RetryAfter: time.Second},
	} {
		sealed := mark.Encode(want)
		got := mark.Find("429: denied (" + sealed + "), see " + "the manual")
		assert.Equal(t, want, got, name)
		other := []byte(sealed)
		other[len(other)-2] ^= 1
		assert.NoError(t, mark.Find(string(other)), "%s of another process", name)
	}
	assert.Empty(t, mark.Encode(errors.New("another")))
}
