package sdks

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/llm/llmtest"
)

// TestWhatIsSettledIsWhatWasBilled: by each SDK, to the token.
func TestWhatIsSettledIsWhatWasBilled(t *testing.T) {
	eachSDK(t, llmhttp.Options{}, every, func(w *world, s sdk) {
		w.provider.Next(s.usage)
		reply, err := w.call(w.Context(), s)
		require.NoError(w, err)
		w.assertBilled(s, reply)
	})
}

// assertBilled says that the one call has its reply, and was settled as it was billed.
func (w *world) assertBilled(s sdk, reply string) {
	w.Helper()
	assert.Equal(w, map[bool]string{false: "Hello.", true: "[0.6 0.8]"}[s.embeds], reply)
	settled := w.end()
	assert.Equal(w, billed(w.provider.Calls()[0].Billed), settled.Tokens)
	assert.Equal(w, llm.Reported, settled.Source)
	assert.Equal(w, llm.StatusOK, settled.Status)
	w.assertTaken(1)
}

// TestCompressedAnswers are read as others are, over a socket.
func TestCompressedAnswers(t *testing.T) {
	for _, s := range sdks {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, &http.Transport{})
			answer := s.usage
			answer.Gzip = true
			w.provider.Next(answer)
			reply, err := s.call(caller(w.Context()), w.client, w.provider.URL())
			require.NoError(w, err)
			assert.Equal(w, "gzip", w.provider.Calls()[0].Header.Get("Accept-Encoding"))
			w.assertBilled(s, reply)
		})
	}
}

// TestADenialIsTheSDKsOwnError: after one attempt, of which the provider hears nothing.
func TestADenialIsTheSDKsOwnError(t *testing.T) {
	eachSDK(t, llmhttp.Options{}, every, func(w *world, s sdk) {
		w.limiter.Exhaust("ana", model)
		_, err := w.call(w.Context(), s)
		require.Error(w, err)
		assert.Equal(w, 1, w.attempts)
		assert.Empty(w, w.provider.Calls())
		assert.True(w, s.denied(err), "%T %v", err, err)
		denial, ok := llmhttp.DenialOf(err)
		require.True(w, ok, "%v", err)
		wait, ok := denial.RetryIn()
		assert.True(w, ok)
		assert.Positive(w, wait)
		exceeded, ok := errors.AsType[*dynalimit.LimitExceededError](denial)
		require.True(w, ok)
		assert.Equal(w, "ana", exceeded.Primary().EntityID)
		_, ok = llmhttp.UnavailableOf(err)
		assert.False(w, ok)
	}, dynalimit.PerHour("rpm", 100))
}

// triesDenialsAgain reports whether an SDK tries again what is denied for a moment.
func triesDenialsAgain(s sdk) bool { return s.retries && s.family != gemini }

// TestADenialThatPassesSoonIsTriedAgain: at the time that it says, by the SDKs that go by it. AWS's does
// in its new mode; in its old one it tries again in times of its own.
func TestADenialThatPassesSoonIsTriedAgain(t *testing.T) {
	t.Setenv("AWS_NEW_RETRIES_2026", "true")
	eachSDK(t, llmhttp.Options{}, every, func(w *world, s sdk) {
		w.limiter.Exhaust("ana", model)
		began := time.Now()
		_, err := w.call(w.Context(), s)
		if !triesDenialsAgain(s) {
			require.Error(w, err)
			assert.Equal(w, 1, w.attempts)
			return
		}
		require.NoError(w, err)
		assert.Equal(w, 2, w.attempts)
		assert.Len(w, w.provider.Calls(), 1)
		assert.Less(w, time.Since(began), 6*time.Second)
	}, dynalimit.PerMinute("rpm", 20))
}

// TestAnOutageEndsACallAtOnce: whatever the SDK, and its error says why.
func TestAnOutageEndsACallAtOnce(t *testing.T) {
	eachSDK(t, llmhttp.Options{}, every, func(w *world, s sdk) {
		defer w.limiter.FailStore()()
		for range 5 {
			w.attempts = 0
			began := time.Now()
			_, err := w.call(w.Context(), s)
			require.Error(w, err)
			if s.family != gemini { // which retries each 503 if RetryOptions say so, and nothing without them
				assert.LessOrEqual(w, time.Since(began), 50*time.Millisecond)
				assert.Equal(w, 1, w.attempts)
			}
			away, ok := llmhttp.UnavailableOf(err)
			require.True(w, ok, "%v", err)
			require.ErrorIs(w, away, dynalimit.ErrUnavailable)
			_, ok = llmhttp.DenialOf(err)
			assert.False(w, ok)
			<-time.After(7 * time.Second) // of the bubble
		}
		assert.Empty(w, w.provider.Calls())
	})
}

// TestARetryIsACallOfItsOwn: two leases, of which the first keeps what its outcome says.
func TestARetryIsACallOfItsOwn(t *testing.T) {
	for name, first := range map[string]llmtest.Answer{
		"internal error": {Status: 500},
		"overloaded":     {Status: 503},
		"too many":       {Status: 429, RetryAfter: time.Second},
		"no answer":      {CutAfter: -1},
	} {
		t.Run(name, func(t *testing.T) {
			eachSDK(t, llmhttp.Options{Wait: 10 * time.Second}, every, func(w *world, s sdk) {
				w.provider.Next(first)
				_, err := w.call(w.Context(), s)
				calls, ends := w.provider.Calls(), w.ends()
				require.Len(w, ends, len(calls))
				var tokens, want int64
				requests := len(calls)
				if again := s.retries && (first.Status != http.StatusTooManyRequests || s.family != gemini); again {
					require.NoError(w, err)
					require.Len(w, calls, 2)
					want = sum(billed(calls[1].Billed))
				} else {
					require.Error(w, err)
					require.Len(w, calls, 1)
				}
				for _, e := range ends {
					tokens += sum(e.Tokens)
					if first.Status == 0 && e.Status == llm.StatusError { // it may be billed
						assert.Positive(w, e.Tokens.Input)
						want += e.Request.Estimate.InputTokens
					}
				}
				if first.Status != 0 && !s.counts {
					requests--
				}
				assert.Equal(w, want, tokens)
				w.assertTaken(int64(requests))
			})
		})
	}
}

// TestTheUsageIsAskedForOnTheCallersBehalf: he sees the event with it only if he asked.
func TestTheUsageIsAskedForOnTheCallersBehalf(t *testing.T) {
	for _, asks := range []bool{false, true} {
		w := newWorld(t, llmhttp.Options{}, nil)
		params := question
		if asks {
			params.StreamOptions.IncludeUsage = openai.Bool(true)
		}
		client := newOpenAI(w.client, "http://provider")
		s := client.Chat.Completions.NewStreaming(caller(w.Context()), params)
		told := 0
		for s.Next() {
			if e := s.Current(); len(e.Choices) == 0 {
				assert.EqualValues(t, 12, e.Usage.PromptTokens)
				told++
			}
		}
		require.NoError(t, s.Err())
		assert.Equal(t, map[bool]int{false: 0, true: 1}[asks], told)
		assert.Contains(t, string(w.provider.Calls()[0].Body), `"include_usage":true`)
		assert.Equal(t, billed(w.provider.Calls()[0].Billed), w.end().Tokens)
	}
}

// TestACustomAuthority: the transport that the SDK has configured is the base.
func TestACustomAuthority(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	server := httptest.NewTLSServer(w.provider)
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("AWS_CA_BUNDLE", bundle)
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"), config.WithCredentialsProvider(awsConfig.Credentials))
	require.NoError(t, err)
	own := newWorld(t, llmhttp.Options{}, baseOf(loaded))
	reply, err := converse(caller(t.Context()), own.client, server.URL)
	require.NoError(t, err)
	assert.Equal(t, "Hello.", reply)
	assert.Equal(t, billed(w.provider.Calls()[0].Billed), own.end().Tokens)
}
