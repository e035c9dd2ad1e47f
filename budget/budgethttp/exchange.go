package budgethttp

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/netip"
	"regexp"
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
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// idOf is the client's own id of a request, if it can be one, or a new one.
func idOf(r *http.Request, random io.Reader) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && requestID.MatchString(id) {
		return id
	}
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "none"
	}
	return hex.EncodeToString(b[:])
}

// answer counts what is written to a client.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
