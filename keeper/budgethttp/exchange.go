package budgethttp

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// exchange is the state of one request.
type exchange struct {
	id        string // request id
	route     string // operation id
	began     time.Time
	from      netip.Addr
	claims    Claims // set for routes that require a token
	principal string // set for routes that require a key
	broken    bool   // the connection was cut off without a complete response
}

type exchangeKey struct{}

// exchangeOf returns the state of the request that a context belongs to: its id, route and verified claims. It
// is nil for a context without one.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// isRequestID reports whether a client's text can be a request id: ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$.
func isRequestID(text string) bool {
	if len(text) == 0 || len(text) > 64 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// requestIDOf returns the client's request id if it is valid, else a random one. It is "none" if the
// random source fails.
func requestIDOf(r *http.Request, random io.Reader) string {
	if id := r.Header.Get("X-Request-Id"); isRequestID(id) {
		return id
	}
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "none"
	}
	return hex.EncodeToString(b[:])
}

// answer is a response writer that sets the length of the body. So the response can reach the
// client before the handler returns.
type answer struct {
	http.ResponseWriter
	status int
	sent   bool // the header was sent
	bytes  int64
}

// WriteHeader remembers the first status and sends nothing; later calls have no effect. The header is sent
// together with the body, when its length is known.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write writes b, which must be the whole body, and counts its bytes. The first call sets Content-Length to the
// length of b and sends the header, with status 200 unless another is set.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.sent {
		a.Header().Set("Content-Length", strconv.Itoa(len(b)))
		a.sendHeader()
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// sendHeader sends the status and the header, and sets a.sent. The caller calls it once, after it set a.status.
func (a *answer) sendHeader() {
	a.sent = true
	a.ResponseWriter.WriteHeader(a.status)
}

// sendResponse sends the header unless it was sent, with status 200 if none was set, and flushes the response.
// If the ResponseWriter cannot flush, the response is sent when the handler returns.
func (a *answer) sendResponse() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.sent {
		a.sendHeader()
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
