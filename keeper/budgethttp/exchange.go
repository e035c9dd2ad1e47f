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

// exchange is one request and what is known of it so far.
type exchange struct {
	id        string // of the request
	route     string // the operation's id
	began     time.Time
	from      netip.Addr
	claims    Claims // of a route that needs a token
	principal string // of a route that needs a key
	broken    bool   // it is cut off, not answered
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// canBeID reports whether a text is ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$.
func canBeID(text string) bool {
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

// idOf is the client's own id of a request, if it can be one, or a new one.
func idOf(r *http.Request, random io.Reader) string {
	if id := r.Header.Get("X-Request-Id"); canBeID(id) {
		return id
	}
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "none"
	}
	return hex.EncodeToString(b[:])
}

// answer is what is written to a client, with its length: so it can be on its way before the
// handler has ended.
type answer struct {
	http.ResponseWriter
	status int
	sent   bool // the header is
	bytes  int64
}

// WriteHeader sets the status, with which the header goes when the body is known.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write writes the body, which comes in one piece.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.sent {
		a.Header().Set("Content-Length", strconv.Itoa(len(b)))
		a.send()
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

func (a *answer) send() {
	a.sent = true
	a.ResponseWriter.WriteHeader(a.status)
}

// end sends what was answered. Who cannot send a part before the rest does it later.
func (a *answer) end() {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if !a.sent {
		a.send()
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
