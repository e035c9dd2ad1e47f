package budgethttp

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// raw sends bytes as they are, and reads one answer. The connection is left open for
// writing: the client has not hung up.
func (n *node) raw(text string) *reply {
	n.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	require.NoError(n.t, err)
	defer conn.Close()
	require.NoError(n.t, conn.SetDeadline(time.Now().Add(time.Minute))) // else one without an answer would hang
	_, err = io.WriteString(conn, text)
	require.NoError(n.t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(n.t, err)
	defer res.Body.Close()
	out := &reply{t: n.t, status: res.StatusCode, header: res.Header}
	out.raw, err = io.ReadAll(res.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, json.Unmarshal(out.raw, &out.body), "%s", out.raw)
	return out
}

// post is the head of a request for usage, by a token.
func (w *world) post(headers string) string {
	return "POST " + pathA + "/usage HTTP/1.1\r\nHost: keeper\r\nContent-Type: application/json\r\nAuthorization: Bearer " +
		w.bearer("a") + "\r\n" + headers + "\r\n\r\n"
}

// A body that is framed as HTTP does not have it is refused, and so is one that says it is
// too large before any of it has come.
func TestBadFramesAreRefused(t *testing.T) {
	w := newWorld(t)
	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	w.a.raw(w.post("Transfer-Encoding: chunked")+"zz\r\n"+string(raw)+"\r\n0\r\n\r\n").fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.raw(w.post("Transfer-Encoding: chunked")+"5\r\n"+string(raw)+"\r\n0\r\n\r\n").fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.raw(w.post("Content-Length: 65537")).fails(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge)
	w.a.raw(w.post("Content-Length: 1000000000000")).fails(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge)
	assert.Equal(t, int64(0), w.total("premium", "").number("requests"))
}

// A handler that takes longer than the body may is not disturbed by the body's time.
func TestBodyTimeEndsWithTheBody(t *testing.T) {
	w := newWorld(t)
	n := w.with(func(o *Options) { o.BodyTimeout = 100 * time.Millisecond })
	w.engine.SetFaults(slow(400 * time.Millisecond))
	n.submit(call(1)).is(http.StatusAccepted)
	w.engine.SetFaults(nil)
}
