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

// readBody reads a body of at most limit bytes within the given time. It returns an error response for a body
// that is not JSON (415), too large (413), too slow (408) or cut off (400).
func readBody(w http.ResponseWriter, r *http.Request, limit int, within time.Duration) ([]byte, *wire.Error) {
	if !isJSON(r.Header) {
		return nil, wire.NewError(http.StatusUnsupportedMediaType, wire.InvalidRequest, "the body is not application/json, in UTF-8 and not compressed")
	}
	tooLarge := wire.NewError(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit)).
		With("Connection", "close") // otherwise net/http reads the rest, to get at the next request
	if r.ContentLength > int64(limit) {
		return nil, tooLarge
	}
	setBodyDeadline(w, within)
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

// setBodyDeadline makes reads of the request's body fail after the given time from now, if the ResponseWriter
// supports that. Zero and below mean no limit.
func setBodyDeadline(w http.ResponseWriter, within time.Duration) {
	if within > 0 {
		// Not every ResponseWriter supports it: then the server's own timeouts apply.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	}
}

// isJSON reports whether the headers declare an uncompressed JSON body, or declare nothing.
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

// request renames huma.Context, so that guarded can have a method Context.
type request huma.Context

// guarded is a request with its body in memory.
type guarded struct {
	request
	body []byte
}

// BodyReader returns a reader of the body.
func (g *guarded) BodyReader() io.Reader { return bytes.NewReader(g.body) }

// Header returns a header of the request, and "" for Accept, because every response is JSON.
func (g *guarded) Header(name string) string {
	if name == "Accept" {
		return ""
	}
	return g.request.Header(name)
}

// SetStatus sets the status of the response, with huma's 422 as 400.
func (g *guarded) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	g.request.SetStatus(status)
}

// Unwrap returns the wrapped context, so that humago.Unwrap finds the request and its writer.
func (g *guarded) Unwrap() huma.Context { return g.request }
