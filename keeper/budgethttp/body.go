package budgethttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// readBody reads all of a body, within a limit and a time.
func readBody(w http.ResponseWriter, r *http.Request, limit int, within time.Duration) ([]byte, *wire.Error) {
	if !isJSON(r.Header) {
		return nil, wire.NewError(http.StatusUnsupportedMediaType, wire.InvalidRequest, "the body is not application/json, in UTF-8 and not compressed")
	}
	tooLarge := wire.NewError(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit)).
		With("Connection", "close") // else net/http waits for the rest, to read the next request behind it
	if r.ContentLength > int64(limit) {
		return nil, tooLarge
	}
	boundBody(w, within)
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	var slow net.Error
	switch {
	case errors.As(err, &slow) && slow.Timeout():
		return nil, wire.NewError(http.StatusRequestTimeout, wire.InvalidRequest, "the body took too long").With("Connection", "close")
	case err != nil:
		return nil, wire.NewError(http.StatusBadRequest, wire.InvalidRequest, "the body ended early or is not framed as HTTP has it").With("Connection", "close")
	case len(body) > limit:
		return nil, tooLarge
	}
	return body, nil
}

// boundBody begins the time that a body may take; 0 and below: any.
func boundBody(w http.ResponseWriter, within time.Duration) {
	if within > 0 {
		// Not every ResponseWriter can: then the server's own timeouts hold.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	}
}

// isJSON reports whether a body says once that it is JSON as it stands, or nothing.
func isJSON(header http.Header) bool {
	for _, coding := range header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return false
		}
	}
	types := header.Values("Content-Type")
	if len(types) == 0 || len(types) == 1 && types[0] == "" {
		return true
	}
	kind, params, err := mime.ParseMediaType(types[0])
	charset := params["charset"]
	return len(types) == 1 && err == nil && kind == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// request is huma's name for itself, so that guarded can have a method of that name.
type request huma.Context

// guarded is a request whose body was read.
type guarded struct {
	request
	body []byte
}

// BodyReader reads what was read.
func (g *guarded) BodyReader() io.Reader { return bytes.NewReader(g.body) }

// Header hides what a client would rather have: every answer is JSON.
func (g *guarded) Header(name string) string {
	if name == "Accept" {
		return ""
	}
	return g.request.Header(name)
}

// SetStatus answers with 400 what huma answers with 422.
func (g *guarded) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	g.request.SetStatus(status)
}

// Unwrap is for humago.Unwrap.
func (g *guarded) Unwrap() huma.Context { return g.request }
