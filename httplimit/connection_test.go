package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/httplimit"
)

// refunding is byUser with every status given back: with a writer of its own below the handler.
func refunding() httplimit.Options {
	o := byUser
	o.Refund = func(int) bool { return true }
	return o
}

// get makes a request of ana over a connection.
func get(ctx context.Context, t *testing.T, s *httptest.Server) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	r.Header.Set("User", "ana")
	return s.Client().Do(r)
}

// TestStreams: what is flushed arrives before the handler returns, whichever way it flushes, and
// deadlines of the connection can be set.
func TestStreams(t *testing.T) {
	for name, o := range map[string]httplimit.Options{"plain": byUser, "refunding": refunding()} {
		for _, way := range []string{"controller", "assertion"} {
			t.Run(name+" "+way, func(t *testing.T) {
				w := newWorld(t)
				goOn := make(chan struct{})
				s := w.server(w.handler(func(w http.ResponseWriter, _ *http.Request) {
					c := http.NewResponseController(w)
					assert.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Minute)))
					assert.NoError(t, c.EnableFullDuplex())
					_, _ = io.WriteString(w, "first\n")
					if way == "controller" {
						assert.NoError(t, c.Flush())
					} else {
						w.(http.Flusher).Flush()
					}
					<-goOn
					_, _ = io.WriteString(w, "last\n")
				}, o))
				answer, err := get(t.Context(), t, s)
				require.NoError(t, err)
				defer answer.Body.Close()
				body := bufio.NewReader(answer.Body)
				line, err := body.ReadString('\n')
				require.NoError(t, err)
				assert.Equal(t, "first\n", line)
				assert.Equal(t, "1", answer.Header.Get("X-RateLimit-Remaining"))
				close(goOn)
				rest, err := io.ReadAll(body)
				require.NoError(t, err)
				assert.Equal(t, "last\n", string(rest))
			})
		}
	}
}

// TestFlushIsNotInvented: a writer that cannot flush says so.
func TestFlushIsNotInvented(t *testing.T) {
	w := newWorld(t)
	h := w.handler(func(w http.ResponseWriter, _ *http.Request) {
		assert.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
		w.WriteHeader(502)
	}, refunding())
	got := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{got}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	assert.Equal(t, 502, got.Code)
}

// TestHijackedStaysCharged: a connection that was taken over is charged, whatever is refunded.
func TestHijackedStaysCharged(t *testing.T) {
	w := newWorld(t)
	s := w.server(w.handler(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = fmt.Fprint(conn, "HTTP/1.1 500 Mine\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
	}, refunding()))
	answer, err := get(t.Context(), t, s)
	require.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, 500, answer.StatusCode)
	s.Close() // and waits for the handlers
	assert.EqualValues(t, 1, w.used("ana"))
}

// TestClientLeaves: the handler hears of it, the request stays charged and its lease is ended.
func TestClientLeaves(t *testing.T) {
	w := newWorld(t)
	inside, ended := make(chan struct{}), make(chan *dynalimit.Lease, 1)
	s := w.server(w.handler(func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
		ended <- httplimit.Lease(r.Context())
	}, byUser))
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-inside
		leave()
	}()
	answer, err := get(ctx, t, s)
	require.ErrorIs(t, err, context.Canceled)
	if answer != nil {
		defer answer.Body.Close()
	}
	lease := <-ended
	s.Close()
	assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1}), dynalimit.ErrLeaseEnded)
	assert.EqualValues(t, 1, w.used("ana"))
}

// TestClientLeftBefore: nothing is served, and nothing is logged as a mistake.
func TestClientLeftBefore(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set("User", "ana")
	assert.Equal(t, http.StatusServiceUnavailable, do(w.handler(ok, byUser), r).Code)
}

// TestMadeUpKeys: 10,000 keys that nobody gave out make one item.
func TestMadeUpKeys(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 100))
	h := w.handler(ok, httplimit.Options{
		Key:   httplimit.APIKey("X-Api-Key"),
		Known: func(key string) bool { return key == httplimit.HashKey("ana's") },
	})
	statuses := map[int]int{}
	with := func(secret string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", secret)
		statuses[do(h, r).Code]++
	}
	for i := range 10_000 {
		with(fmt.Sprintf("made-up-%d", i))
	}
	assert.Equal(t, map[int]int{200: 100, 429: 9_900}, statuses)
	with("ana's")
	assert.Equal(t, 101, statuses[200], "strangers take nothing of who is known")
	assert.Equal(t, map[string]int{"ENTITY#strangers": 1, "ENTITY#" + httplimit.HashKey("ana's"): 1}, w.buckets())
}

// TestMadeUpPaths: 10,000 paths make as many items as there are routes, and one for the others.
func TestMadeUpPaths(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 100))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", ok)
	limit, err := httplimit.New(w.limiter, &httplimit.Options{Resource: httplimit.Route(mux)})
	require.NoError(t, err)
	h := limit(mux)
	for i := range 5_000 {
		do(h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/items/%d", i), nil))
		do(h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/made/up/%d", i), nil))
	}
	assert.Equal(t, map[string]int{"ENTITY#strangers": 2}, w.buckets())
}

// TestHugeHeaders: one beyond net/http's bound is refused before the middleware; one below is
// of nobody, and is not hashed, walked or stored.
func TestHugeHeaders(t *testing.T) {
	w := newWorld(t)
	asked := 0
	s := w.server(w.handler(func(w http.ResponseWriter, r *http.Request) { asked++; ok(w, r) }, httplimit.Options{
		Key:   httplimit.APIKey("Authorization"),
		Known: func(string) bool { return true },
	}))
	for size, status := range map[int]int{2 << 20: http.StatusRequestHeaderFieldsTooLarge, 1_000_000: http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+strings.Repeat("x", size))
		answer, err := s.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, status, answer.StatusCode, size)
	}
	s.Close()
	assert.Equal(t, 1, asked)
	assert.Equal(t, map[string]int{"ENTITY#strangers": 1}, w.buckets())
}

// TestSlowBody: a body that does not come is charged once, holds nothing of the store, and its
// goroutine ends with the server's own bound.
func TestSlowBody(t *testing.T) {
	w := newWorld(t)
	read := make(chan error, 1)
	s := httptest.NewUnstartedServer(w.handler(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}, byUser))
	s.Config.ReadTimeout = 50 * time.Millisecond
	s.Start()
	defer s.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nUser: ana\r\nContent-Length: 1000\r\n\r\nslow")
	require.NoError(t, err)
	var late net.Error
	require.ErrorAs(t, <-read, &late)
	assert.True(t, late.Timeout())
	s.Close()
	assert.EqualValues(t, 1, w.used("ana"))
}

// TestServerSeesWhatTheHandlerParsed: the server removes the temporary files of an upload, and a
// logger outside sees the route, also after a panic.
func TestServerSeesWhatTheHandlerParsed(t *testing.T) {
	for _, test := range []struct {
		route string
		panic any
	}{{route: "returns"}, {route: "panics", panic: "boom"}} {
		t.Run(test.route, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("TMPDIR", folder)
			stored := func() int {
				files, err := os.ReadDir(folder)
				assert.NoError(t, err)
				return len(files)
			}
			mux := http.NewServeMux()
			mux.HandleFunc("POST /{route}", func(_ http.ResponseWriter, r *http.Request) {
				assert.NoError(t, r.ParseMultipartForm(1))
				assert.Equal(t, 1, stored())
				if test.panic != nil {
					panic(test.panic)
				}
			})
			limited := newWorld(t).handler(mux.ServeHTTP, byUser)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					assert.Equal(t, test.panic, recover())
					assert.Equal(t, "POST /{route}", r.Pattern)
					assert.Equal(t, test.route, r.PathValue("route"))
				}()
				limited.ServeHTTP(w, r)
			}))
			defer s.Close()
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			file, err := form.CreateFormFile("upload", "a.txt")
			require.NoError(t, err)
			_, err = io.WriteString(file, "content")
			require.NoError(t, err)
			require.NoError(t, form.Close())
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/"+test.route, &body)
			require.NoError(t, err)
			r.Header.Set("Content-Type", form.FormDataContentType())
			answer, err := s.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			s.Close() // and waits for the server's end of the request
			assert.Zero(t, stored(), "temporary files that are left")
		})
	}
}
