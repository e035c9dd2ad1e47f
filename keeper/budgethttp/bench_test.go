package budgethttp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkModelSelection is the handler of a selection from warm caches, with the access
// log of a server, without the network.
func BenchmarkModelSelection(b *testing.B) {
	w := newWorld(b)
	benchmarked(b, w, http.MethodGet, pathA+"/model-selection", http.StatusOK, func(int) []byte { return nil })
}

// BenchmarkSubmission is the handler of a submission, with what an embedded store takes
// for its transaction.
func BenchmarkSubmission(b *testing.B) {
	w := newWorld(b)
	benchmarked(b, w, http.MethodPost, pathA+"/usage", http.StatusAccepted, func(n int) []byte {
		body, err := wireJSON(call(n))
		require.NoError(b, err)
		return body
	})
}

func benchmarked(b *testing.B, w *world, method, path string, status int, body func(n int) []byte) {
	b.Helper()
	server := w.with(func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(io.Discard, nil)) }).server
	header := http.Header{"Authorization": {"Bearer " + w.bearer("a")}, "Content-Type": {"application/json"}}
	ask := func(n int) {
		r, err := http.NewRequestWithContext(b.Context(), method, "http://keeper"+path, bytes.NewReader(body(n)))
		require.NoError(b, err)
		r.Header, r.RemoteAddr = header, "127.0.0.1:1"
		out := &unsent{header: http.Header{}}
		server.ServeHTTP(out, r)
		if out.status != status {
			b.Fatal(fmt.Sprint(out.status), out.body.String())
		}
	}
	ask(0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		ask(n)
	}
}

// unsent is an answer that goes nowhere.
type unsent struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (u *unsent) Flush()                      {}
func (u *unsent) Header() http.Header         { return u.header }
func (u *unsent) WriteHeader(status int)      { u.status = status }
func (u *unsent) Write(b []byte) (int, error) { return u.body.Write(b) }
