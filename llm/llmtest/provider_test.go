package llmtest_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	whole    = `{"model":"gpt-5"}`
	streamed = `{"model":"gpt-5","stream":true}`
	path     = "/v1/chat/completions"
)

// ways are the two to a provider.
func ways(t *testing.T, test func(t *testing.T, p *llmtest.Provider, client *http.Client, url string)) {
	t.Run("socket", func(t *testing.T) {
		p := llmtest.New(t)
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		t.Cleanup(client.CloseIdleConnections)
		test(t, p, client, p.URL()+path)
	})
	t.Run("memory", func(t *testing.T) {
		p := llmtest.New(t)
		test(t, p, &http.Client{Transport: p.Transport()}, "https://example.com"+path)
	})
}

// TestScript answers in order, then as before.
func TestScript(t *testing.T) {
	ways(t, func(t *testing.T, p *llmtest.Provider, client *http.Client, url string) {
		p.Next(llmtest.Answer{Status: http.StatusTeapot}, llmtest.Answer{Text: "One."})
		p.Next(llmtest.Answer{Text: "Two."})
		for _, want := range []string{"llmtest", "One.", "Two.", "Hello.", "Hello."} {
			r, err := client.Post(url+"?x=1", "application/json", strings.NewReader(whole))
			require.NoError(t, err)
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.EqualValues(t, len(b), r.ContentLength)
			require.Contains(t, string(b), want)
		}
		calls := p.Calls()
		require.Len(t, calls, 5)
		require.Equal(t, http.MethodPost, calls[0].Method)
		require.Equal(t, path+"?x=1", calls[0].Path)
		require.Equal(t, "application/json", calls[0].Header.Get("Content-Type"))
		require.Equal(t, llmtest.Usage{Input: 12, Output: 3}, calls[4].Billed)
	})
}

// TestCut breaks off where it should.
func TestCut(t *testing.T) {
	ways(t, func(t *testing.T, p *llmtest.Provider, client *http.Client, url string) {
		for _, c := range []struct {
			body   string
			after  int
			events int
		}{{streamed, 2, 2}, {streamed, 4, 4}, {whole, 1, 0}} {
			p.Next(llmtest.Answer{CutAfter: c.after})
			r, err := client.Post(url, "application/json", strings.NewReader(c.body))
			require.NoError(t, err)
			b, err := io.ReadAll(r.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NoError(t, r.Body.Close())
			require.NotEmpty(t, b)
			require.Equal(t, c.events, strings.Count(string(b), "data: "))
		}
		p.Next(llmtest.Answer{CutAfter: -1})
		r, err := client.Post(url, "application/json", http.NoBody) // has none that could be sent again
		if err == nil {
			r.Body.Close()
		}
		require.Error(t, err)
		for _, call := range p.Calls() {
			require.False(t, call.Left)
			require.Equal(t, llmtest.Usage{Input: 12, Output: 3}, call.Billed)
		}
	})
}

// TestGzip compresses for who wants it, each event by itself.
func TestGzip(t *testing.T) {
	ways(t, func(t *testing.T, p *llmtest.Provider, client *http.Client, url string) {
		hold := make(chan struct{})
		p.Next(llmtest.Answer{Gzip: true}, llmtest.Answer{Gzip: true, Hold: hold})
		for _, accept := range []string{"identity", "gzip"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(streamed))
			require.NoError(t, err)
			r.Header.Set("Accept-Encoding", accept)
			answer, err := client.Do(r)
			require.NoError(t, err)
			var text io.Reader = answer.Body
			if accept == "gzip" {
				require.Equal(t, "gzip", answer.Header.Get("Content-Encoding"))
				text, err = gzip.NewReader(answer.Body)
				require.NoError(t, err)
				first := make([]byte, len("data: {"))
				_, err = io.ReadFull(text, first)
				require.NoError(t, err)
				require.Equal(t, "data: {", string(first))
				close(hold)
			}
			b, err := io.ReadAll(text)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Contains(t, string(b), "data: [DONE]")
		}
	})
}

// TestServerEnds with the test, though an answer is held back.
func TestServerEnds(t *testing.T) {
	var p *llmtest.Provider
	t.Run("held", func(t *testing.T) {
		p = llmtest.New(t)
		p.Next(llmtest.Answer{Hold: make(chan struct{})})
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		r, err := client.Post(p.URL()+path, "application/json", strings.NewReader(streamed))
		require.NoError(t, err)
		t.Cleanup(func() { r.Body.Close() })
	})
	require.True(t, p.Calls()[0].Left)
}

// TestTime lets it go by where the answer says so.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmtest.New(t)
		hold := make(chan struct{})
		p.Next(llmtest.Answer{Events: 1, Delay: time.Minute, Between: time.Second, Hold: hold})
		began := time.Now()
		r := post(t, p.Transport(), "https://example.com"+path, streamed)
		defer r.Body.Close()
		require.Equal(t, time.Minute, time.Since(began))
		time.AfterFunc(time.Hour, func() { close(hold) })
		b := make([]byte, 4<<10)
		for _, at := range []time.Duration{0, time.Second, 2 * time.Second} {
			_, err := r.Body.Read(b)
			require.NoError(t, err)
			require.Equal(t, time.Minute+at, time.Since(began))
		}
		rest, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Contains(t, string(rest), "[DONE]")
		require.Equal(t, time.Minute+time.Hour, time.Since(began))
	})
}

// TestClientLeaves at every moment of a call, in each way.
func TestClientLeaves(t *testing.T) {
	reason := errors.New("not wanted any more")
	post := func(ctx context.Context, p *llmtest.Provider, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com"+path, strings.NewReader(body))
		require.NoError(t, err)
		return p.Transport().RoundTrip(r)
	}
	refused := func(ctx context.Context, p *llmtest.Provider) error {
		r, err := post(ctx, p, whole)
		if err == nil {
			r.Body.Close()
		}
		return err
	}
	for name, test := range map[string]func(t *testing.T, p *llmtest.Provider) (left bool){
		"before": func(t *testing.T, p *llmtest.Provider) bool {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			require.ErrorIs(t, refused(ctx, p), reason)
			require.Empty(t, p.Calls())
			return refused(t.Context(), p) == nil
		},
		"before the header": func(t *testing.T, p *llmtest.Provider) bool {
			p.Next(llmtest.Answer{Delay: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.ErrorIs(t, refused(ctx, p), context.DeadlineExceeded)
			return true
		},
		"within a stream that waits": func(t *testing.T, p *llmtest.Provider) bool {
			p.Next(llmtest.Answer{Between: time.Hour})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, reason)
			defer cancel()
			r, err := post(ctx, p, streamed)
			require.NoError(t, err)
			_, err = io.ReadAll(r.Body)
			require.ErrorIs(t, err, reason)
			require.NoError(t, r.Body.Close())
			return true
		},
		"within a stream that nobody reads": func(t *testing.T, p *llmtest.Provider) bool {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := post(ctx, p, streamed)
			require.NoError(t, err)
			defer r.Body.Close()
			cancel()
			synctest.Wait()
			return p.Calls()[0].Left
		},
		"by closing": func(t *testing.T, p *llmtest.Provider) bool {
			p.Next(llmtest.Answer{Hold: make(chan struct{})})
			r, err := post(t.Context(), p, streamed)
			require.NoError(t, err)
			_, err = r.Body.Read(make([]byte, 10))
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			return true
		},
		"after the last byte": func(t *testing.T, p *llmtest.Provider) bool {
			r, err := post(t.Context(), p, whole)
			require.NoError(t, err)
			_, err = io.ReadFull(r.Body, make([]byte, r.ContentLength))
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := llmtest.New(t)
				left := test(t, p)
				require.Len(t, p.Calls(), 1)
				require.Equal(t, left, p.Calls()[0].Left)
			})
		})
	}
}

// TestTrace hears when a request was written.
func TestTrace(t *testing.T) {
	var heard []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest:         func(i httptrace.WroteRequestInfo) { require.NoError(t, i.Err); heard = append(heard, "written") },
		GotFirstResponseByte: func() { heard = append(heard, "answered") },
	})
	p := llmtest.New(t)
	p.Next(llmtest.Answer{}, llmtest.Answer{CutAfter: -1})
	for _, want := range [][]string{{"written", "answered"}, {"written"}} {
		heard = nil
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com"+path, strings.NewReader(whole))
		require.NoError(t, err)
		answer, err := p.Transport().RoundTrip(r)
		if err == nil {
			require.NoError(t, answer.Body.Close())
		}
		require.Equal(t, want, heard)
	}
}
