package llmhttp_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

const (
	chatPath   = "/v1/chat/completions"
	claudePath = "/v1/messages"
	// The text of each body is estimated at this many tokens.
	chatBody, chatPrompt     = `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"Tell me a story"}]}`, 30
	streamBody, streamPrompt = `{"model":"m","max_tokens":50,"stream":true,"stream_options":{"include_usage":true}}`, 28
	claudeBody, claudePrompt = `{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`, 31
)

// TestHowACallEnds has a row for each row of the table of outcomes.
func TestHowACallEnds(t *testing.T) {
	start := "event: message_start\n" + sse(`{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`)
	piece := "event: content_block_delta\n" + sse(`{"type":"content_block_delta","delta":{"text":"Hello, world, how are you"}}`)
	const pieceTokens = 7
	overloaded := "event: error\n" + sse(`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`)
	for _, c := range []struct {
		name, path, body string
		answer           http.HandlerFunc
		rpm, tpm         int64
		status           string
		source           llm.Source
	}{
		{"redirected", chatPath, chatBody, fails(300, jsonType, ""), 0, 0, "", ""},
		{"OpenAI counts what fails", chatPath, chatBody, fails(500, jsonType, `{"error":{"code":null}}`), 1, 0, llm.StatusError, llm.Reported},
		{"Anthropic does not", claudePath, claudeBody, fails(529, jsonType, `{"error":{"type":"overloaded_error"}}`), 0, 0, "", ""},
		{
			"Azure's filter has read the prompt", chatPath, chatBody, fails(400, jsonType, `{"error":{"code":"content_filter","status":400}}`),
			1, chatPrompt, llm.StatusError, llm.Estimated,
		},
		{
			"Bedrock's model has failed", "/model/us.m:0/converse", `{"messages":[]}`, fails(424, jsonType, `{"message":"x"}`, "X-Amzn-ErrorType", "ModelErrorException:http://x"),
			1, 6, llm.StatusError, llm.Estimated,
		},
		{
			"no answer", chatPath, chatBody, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			1, chatPrompt, llm.StatusError, llm.Estimated,
		},
		{"an error before the first token", claudePath, claudeBody, replies(sseType, overloaded), 1, claudePrompt, llm.StatusError, llm.Estimated},
		{"an error behind it", claudePath, claudeBody, replies(sseType, start+piece+overloaded), 1, 10 + pieceTokens, llm.StatusError, llm.Metered},
		{
			"an error behind a usage", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`,
			replies(sseType, sse(`{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}`, `{"error":{"code":500,"status":"INTERNAL"}}`)),
			1, 6, llm.StatusError, llm.Reported,
		},
		{"an exception frame", "/model/us.m:0/converse-stream", `{"messages":[]}`, replies(awsType, frame("exception", "throttlingException", `{}`)), 1, 6, llm.StatusError, llm.Estimated},
		{"cut", claudePath, claudeBody, breaks(sseType, start+piece), 1, 10 + pieceTokens, llm.StatusCut, llm.Metered},
		{"cut by a clean end", claudePath, claudeBody, replies(sseType, start+piece), 1, 10 + pieceTokens, llm.StatusCut, llm.Metered},
		{
			"cut behind a usage so far", claudePath, claudeBody,
			breaks(sseType, start+piece+sse(`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":5}}`)+piece), 1, 10 + 2*pieceTokens, llm.StatusCut, llm.Metered,
		},
		{"cut before the first token", claudePath, claudeBody, breaks(sseType, ": hi\n\n"), 1, claudePrompt, llm.StatusCut, llm.Estimated},
		{
			"a stream without a usage", chatPath, streamBody, replies(sseType, sse(`{"choices":[{"delta":{"content":"Hello, world, how are you"}}]}`, "[DONE]")),
			1, streamPrompt + pieceTokens, llm.StatusOK, llm.Estimated,
		},
		{
			"a stream of calls of tools", chatPath, streamBody,
			replies(sseType, sse(`{"choices":[{"delta":{"tool_calls":[{"custom":{"input":"Hello, world, how are you"}}]}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":"abcd"}}}]}`, "[DONE]")),
			1, streamPrompt + pieceTokens + 1, llm.StatusOK, llm.Estimated,
		},
		{"a stream without anything", chatPath, streamBody, replies(sseType, sse("[DONE]")), 1, streamPrompt + 50, llm.StatusOK, llm.Estimated},
		{"an answer without a usage", chatPath, chatBody, replies(jsonType, `{"choices":[]}`), 1, chatPrompt + 50, llm.StatusOK, llm.Estimated},
		{
			"a stream that has ended", claudePath, claudeBody, replies(sseType, sse(`{"delta":{"text":"Hello, world, how are you"}}`, `{"delta":{"stop_reason":"end_turn"}}`)),
			1, claudePrompt + pieceTokens, llm.StatusOK, llm.Estimated,
		},
		{
			"a response that has ended", "/v1/responses", `{"model":"m","stream":true}`, replies(sseType, "event: response.completed\n"+sse(`{"response":{}}`)),
			1, 10 + 4096, llm.StatusOK, llm.Estimated,
		},
		{"an answer that breaks off", chatPath, chatBody, breaks(jsonType, `{"usage":{"prompt_tokens":1,"completion_tokens":2}`), 1, chatPrompt + 50, llm.StatusOK, llm.Estimated},
		{
			"a stream that nobody can read", chatPath, streamBody,
			replies(sseType, "?", "Content-Encoding", "br"), 1, streamPrompt + 50, llm.StatusOK, llm.Estimated,
		},
		{
			"a stream that is not what it says", chatPath, streamBody,
			replies(sseType, sse("[DONE]"), "Content-Encoding", "x-gzip"), 1, streamPrompt + 50, llm.StatusOK, llm.Estimated,
		},
		{
			"cut, and goes on in the background", "/v1/responses", `{"model":"m","max_output_tokens":50,"stream":true,"background":true}`,
			replies(sseType, sse(`{"type":"response.created","response":{"usage":null}}`)), 1, 23 + 50, llm.StatusOK, llm.Estimated,
		},
		{
			"no answer, and goes on in the background", "/v1/responses", `{"model":"m","max_output_tokens":50,"stream":true,"background":true}`,
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, 23 + 50, llm.StatusOK, llm.Estimated,
		},
		{"an answer of another kind", chatPath, chatBody, replies("text/html", "<html>"), 1, chatPrompt + 50, llm.StatusOK, llm.Estimated},
		{
			"a usage that cannot be", chatPath, chatBody, replies(jsonType, `{"usage":{"prompt_tokens":1e3,"completion_tokens":-2}}`),
			1, chatPrompt + 50, llm.StatusOK, llm.Estimated,
		},
		{
			"a usage above all bounds", chatPath, chatBody, replies(jsonType, `{"usage":{"prompt_tokens":1,"completion_tokens":9007199254740992}}`),
			1, chatPrompt + 50, llm.StatusOK, llm.Estimated,
		},
		{
			"a usage above all bounds in a stream", chatPath, streamBody, replies(sseType, sse(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":9007199254740992}}`, "[DONE]")),
			1, streamPrompt + 50, llm.StatusOK, llm.Estimated,
		},
		{
			"a usage that is told twice", claudePath, claudeBody,
			replies(sseType, start+sse(`{"usage":{"output_tokens":9}}`, `{"usage":{"input_tokens":0,"output_tokens":8}}`)), 1, 19, llm.StatusOK, llm.Reported,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, c.answer)
			w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			if res, err := w.client.Do(w.request(t.Context(), c.path, c.body)); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				require.NoError(t, res.Body.Close())
			}
			s := w.end()
			require.NoError(t, s.Err)
			assert.Equal(t, c.status, s.Status)
			assert.Equal(t, c.source, s.Source)
			w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": c.rpm, "tpm": c.tpm})
		})
	}
}

func TestWhatWasNeverSentIsGivenBack(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	w.url = "http://127.0.0.1:1"
	_, err := w.client.Do(w.request(t.Context(), chatPath, chatBody)) //nolint:bodyclose // there is none
	require.Error(t, err)
	assert.Empty(t, w.end().Status)
	w.limiter.AssertTaken("ana", "m", nil)
}

// lost is a transport that tells nothing of its steps, and has no answer.
type lost struct{ reads bool }

func (l lost) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.reads {
		_, _ = io.ReadAll(r.Body)
	}
	return nil, errors.New("lost")
}

func TestATransportThatTellsNothing(t *testing.T) {
	for reads, tpm := range map[bool]int64{true: chatPrompt, false: 0} {
		w := newWorld(t, llmhttp.Options{}, nil)
		transport, err := llmhttp.NewTransport(lost{reads}, w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		_, err = transport.RoundTrip(w.request(t.Context(), chatPath, chatBody)) //nolint:bodyclose // there is none
		require.ErrorContains(t, err, "lost")
		w.end()
		w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": min(tpm, 1), "tpm": tpm})
	}
}

// TestACallThatIsLeftIsSettled has clients who leave in mid-stream, by their context, by closing,
// and by neither reading nor closing.
func TestACallThatIsLeftIsSettled(t *testing.T) {
	for name, leave := range map[string]func(cancel func(), res *http.Response){
		"context": func(cancel func(), res *http.Response) {
			cancel()
			_, _ = io.ReadAll(res.Body)
		},
		"close":     func(_ func(), res *http.Response) { _ = res.Body.Close() },
		"abandoned": func(cancel func(), _ *http.Response) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			w := newWorld(t, llmhttp.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", sseType)
				_, _ = io.WriteString(rw, sse(`{"choices":[{"delta":{"content":"Hello, world, how are you"}}]}`))
				_ = http.NewResponseController(rw).Flush()
				select {
				case <-hold:
				case <-r.Context().Done():
				}
			})
			defer close(hold)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, err := w.client.Do(w.request(ctx, chatPath, streamBody))
			require.NoError(t, err)
			defer res.Body.Close()
			_, err = res.Body.Read(make([]byte, 512))
			require.NoError(t, err)
			leave(cancel, res)
			s := w.end() // Close settles what was left, however its goroutines run
			assert.Equal(t, llm.StatusCut, s.Status)
			w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": 1, "tpm": streamPrompt + 7})
		})
	}
}

// TestAUsageThatIsOwedIsRead has clients who close behind the last token: what reasoned hidden is
// told behind it.
func TestAUsageThatIsOwedIsRead(t *testing.T) {
	last := sse(`{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}`)
	usage := sse(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":40}}`, "[DONE]")
	for body, rest := range map[string]string{streamBody: usage, chatBody[:len(chatBody)-1] + `,"stream":true}`: usage, streamBody + " ": sse("[DONE]")} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, nil)
			out, in := io.Pipe()
			transport, err := llmhttp.NewTransport(piped{out, new(atomic.Int32)}, w.guard, &llmhttp.Options{Models: models})
			require.NoError(t, err)
			res, err := transport.RoundTrip(w.request(t.Context(), chatPath, body))
			require.NoError(t, err)
			go func() {
				_, _ = io.WriteString(in, last)
				elapse(200 * time.Millisecond)
				_, _ = io.WriteString(in, rest)
			}()
			_, err = io.ReadFull(res.Body, make([]byte, len(last)))
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.NoError(t, transport.Close(t.Context()))
			end := w.end()
			assert.Equal(t, rest == usage, end.Source == llm.Reported)
			assert.Equal(t, llm.StatusOK, end.Status)
		})
	}
}

// TestAUsageThatDoesNotCome holds Close up for a quarter of a second.
func TestAUsageThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, llmhttp.Options{}, nil)
		out, in := io.Pipe()
		var closed atomic.Int32
		transport, err := llmhttp.NewTransport(piped{out, &closed}, w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		res, err := transport.RoundTrip(w.request(t.Context(), chatPath, streamBody))
		require.NoError(t, err)
		go func() {
			_, _ = io.WriteString(in, sse(`{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}`))
		}()
		_, err = res.Body.Read(make([]byte, 512))
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 250*time.Millisecond, time.Since(began))
		assert.Equal(t, int32(1), closed.Load())
		require.NoError(t, transport.Close(t.Context()))
		w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": 1, "tpm": streamPrompt + 1})
	})
}

// piped answers with what comes out of a pipe.
type piped struct {
	*io.PipeReader
	closed *atomic.Int32 // how often its body was
}

func (p piped) Close() error {
	p.closed.Add(1)
	return p.PipeReader.Close()
}

func (p piped) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {sseType}}, Body: p, Request: r}, nil
}

// TestAnAnswerIsWholeWithItsJSON has a client that reads a value, and closes without the end.
func TestAnAnswerIsWholeWithItsJSON(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, func(rw http.ResponseWriter, r *http.Request) {
		replies(jsonType, `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`)(rw, r)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done() // the end comes late
	})
	res := w.do(chatPath, chatBody)
	require.NoError(t, json.NewDecoder(res.Body).Decode(&struct{}{}))
	require.NoError(t, res.Body.Close())
	assert.Equal(t, llm.Reported, w.end().Source)
	w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": 1, "tpm": 7})
}

// TestTheNextCallIsDecidedAfterTheSettlement calls again as soon as an answer has ended, with
// room for one call only.
func TestTheNextCallIsDecidedAfterTheSettlement(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, `{"usage":{"prompt_tokens":1,"completion_tokens":0}}`), dynalimit.PerMinute("tpm", 130))
	for range 40 {
		status, answer := w.call(chatPath, chatBody)
		require.Equal(t, 200, status, answer)
	}
	w.ends()
	w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"tpm": 40})
}

func TestCompressedAnswersAreRead(t *testing.T) {
	const answer = `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`
	var zipped, deflated bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, answer)
	require.NoError(t, z.Close())
	d := zlib.NewWriter(&deflated)
	_, _ = io.WriteString(d, answer)
	require.NoError(t, d.Close())
	for encoding, c := range map[string]struct {
		body string
		tpm  int64
	}{
		"gzip":         {zipped.String(), 7},
		"deflate":      {deflated.String(), 7},
		"br":           {"?", chatPrompt + 50},
		"gzip, broken": {zipped.String()[:20], chatPrompt + 50},
	} {
		t.Run(encoding, func(t *testing.T) {
			name, _, _ := strings.Cut(encoding, ",")
			w := newWorld(t, llmhttp.Options{}, replies(jsonType, c.body, "Content-Encoding", name))
			status, read := w.call(chatPath, chatBody, "Accept-Encoding", "gzip", "Authorization", "AWS4-HMAC-SHA256 Credential=x")
			assert.Equal(t, 200, status)
			assert.Equal(t, c.body, read, "the answer passes as it is")
			w.ends()
			w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": 1, "tpm": c.tpm})
			assert.Equal(t, "gzip", w.headers[0].Get("Accept-Encoding"))
		})
	}
}

// TestStreamsAreCutEverywhere ends a stream at each of its bytes.
func TestStreamsAreCutEverywhere(t *testing.T) {
	for _, c := range recorded {
		if c.kind == jsonType {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, llmhttp.Options{}, nil, dynalimit.PerMinute("rpm", 1_000_000))
				for i := range len(c.answer) {
					transport, err := llmhttp.NewTransport(canned{c.kind, c.answer[:i]}, w.guard, &llmhttp.Options{Models: models})
					require.NoError(t, err)
					res, err := transport.RoundTrip(w.request(t.Context(), c.path, c.request))
					require.NoError(t, err)
					read, err := io.ReadAll(res.Body)
					require.NoError(t, err)
					require.Equal(t, c.answer[:i], string(read))
					require.NoError(t, res.Body.Close())
				}
				for _, s := range w.ends() {
					require.NoError(t, s.Err)
				}
				w.limiter.AssertTaken("ana", "m", dynalimit.Amounts{"rpm": int64(len(c.answer))})
			})
		})
	}
}

// canned answers without a network.
type canned struct{ kind, body string }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body)), Request: r,
	}, nil
}

// TestWhatCouldNotBeSettledIsLogged: also where a measure of the user's own fails.
func TestWhatCouldNotBeSettledIsLogged(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	guard, err := llm.New(&llm.Options{Limiter: w.limiter, Limits: map[string]llm.Measure{"tpm": func(u llm.Usage) (int64, error) {
		if u.Tokens.Output == 4 {
			return -1, nil
		}
		return 50, nil
	}}})
	require.NoError(t, err)
	var logged bytes.Buffer
	transport, err := llmhttp.NewTransport(canned{jsonType, `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`}, guard, &llmhttp.Options{
		Models: models, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	require.NoError(t, err)
	res, err := transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
	require.NoError(t, err)
	_ = read(t, res)
	require.NoError(t, res.Body.Close())
	assert.Contains(t, logged.String(), "limits[tpm]")
}

// TestCloseWaitsForWhatIsBeingCharged, in a bubble, where nobody may hold a lock meanwhile.
func TestCloseWaitsForWhatIsBeingCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, llmhttp.Options{}, nil)
		const dear = `{"usage":{"prompt_tokens":3,"completion_tokens":400}}`
		transport, err := llmhttp.NewTransport(canned{jsonType, dear}, w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		res, err := transport.RoundTrip(w.request(t.Context(), chatPath, chatBody)) //nolint:bodyclose // it is
		require.NoError(t, err)
		w.limiter.DB.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 100 * time.Millisecond} })
		began := time.Now()
		go func() { _, _ = io.ReadAll(res.Body) }()
		elapse(50 * time.Millisecond)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		assert.Equal(t, tokens{Input: 3, Output: 400}, w.end().Tokens)
	})
}

// TestGoogleIsAskedForTheUsage refuses what hides it.
func TestGoogleIsAskedForTheUsage(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	for query, want := range map[string]int{
		"": 200, "?alt=sse": 200, "?%24alt=json": 200, "?key=k": 200,
		"?fields=candidates": 400, "?%24fields=candidates": 400, "?alt=sse&alt=proto": 400, "?callback=f": 400,
	} {
		status, _ := w.call(geminiPath+query, "{}")
		assert.Equal(t, want, status, query)
	}
	status, _ := w.call(geminiPath, "{}", "X-Goog-FieldMask", "candidates")
	assert.Equal(t, 400, status)
}

// odd is a transport that breaks its contract.
type odd struct{ answer *http.Response }

func (o odd) RoundTrip(*http.Request) (*http.Response, error) { return o.answer, nil }

func TestATransportThatBreaksItsContract(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	for _, answer := range []*http.Response{nil, {StatusCode: 200}} {
		transport, err := llmhttp.NewTransport(odd{answer}, w.guard, &llmhttp.Options{Models: models, Headers: true})
		require.NoError(t, err)
		res, err := transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
		if answer == nil {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		assert.Empty(t, read(t, res))
		require.NoError(t, res.Body.Close())
	}
	assert.Len(t, w.ends(), 2)
	_, err := w.transport.RoundTrip(&http.Request{Method: http.MethodPost}) //nolint:bodyclose // there is none
	require.Error(t, err)
}
