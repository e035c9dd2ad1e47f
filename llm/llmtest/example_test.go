package llmtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/llm/llmtest"
)

// service asks a model, and counts what that costs.
type service struct {
	client *http.Client
	tokens int64
}

// ask waits where the provider wants that.
func (s *service) ask(prompt string) (string, error) {
	for {
		body := fmt.Sprintf(`{"model":"gpt-4.1","messages":[{"role":"user","content":%q}]}`, prompt)
		r, err := s.client.Post("https://api.openai.com/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
			Usage   struct {
				Total int64 `json:"total_tokens"`
			}
		}
		err = json.NewDecoder(r.Body).Decode(&answer)
		_ = r.Body.Close()
		switch {
		case err != nil:
			return "", err
		case r.StatusCode == http.StatusTooManyRequests:
			wait, _ := time.ParseDuration(r.Header.Get("Retry-After") + "s")
			<-time.After(wait)
		default:
			s.tokens += answer.Usage.Total
			return answer.Choices[0].Message.Content, nil
		}
	}
}

func TestServiceWaitsAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := llmtest.New(t)
		s := &service{client: &http.Client{Transport: provider.Transport()}}
		provider.Next(
			llmtest.Answer{Status: http.StatusTooManyRequests, RetryAfter: time.Minute},
			llmtest.Answer{Text: "Good morning.", Input: 700, CacheRead: 200, Output: 50},
		)

		began := time.Now()
		reply, err := s.ask("Hello?")
		require.NoError(t, err)
		require.Equal(t, "Good morning.", reply)
		require.Equal(t, time.Minute, time.Since(began)) // of the bubble's time: the test takes none

		calls := provider.Calls()
		require.Len(t, calls, 2)
		require.Zero(t, calls[0].Billed)
		require.Equal(t, llmtest.Usage{Input: 700, CacheRead: 200, Output: 50}, calls[1].Billed)
		require.EqualValues(t, 950, s.tokens)
	})
}
