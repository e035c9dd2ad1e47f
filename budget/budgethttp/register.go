package budgethttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

const (
	maxBody  = 64 << 10 // bytes of a body
	maxBatch = 1 << 20  // bytes of a batch
)

// route is one operation of the API.
type route struct {
	id          string    // of the operation
	method      string    // of HTTP
	path        string    // below /api/v1
	aliases     []string  // other paths for the same, whole
	root        bool      // it is at the root too
	tag         string    // what it is about
	summary     string    // in one line
	description string    // in full
	needs       need      // the credential
	status      int       // of a success. Defaults to 200
	limit       int       // bytes of the body. Defaults to maxBody
	unread      bool      // the body is not looked at before the handler does
	also        int       // another status of a success; 0: none
	headless    bool      // HEAD is refused: the route changes something
	conflict    wire.Code // of 409
	invalid     wire.Code // of values out of bounds. Defaults to InvalidRequest
	errors      []int     // statuses of errors beside those of every such route
	request     any       // an example of the body
	response    any       // an example of the answer
}

const (
	base       = "/api/v1"
	invalidKey = "invalid" // of an operation's metadata: a wire.Code
)

// register makes a route of a handler. What the handler fails with is answered in the one
// shape of errors.
func register[I, O any](s *Server, r route, handle func(context.Context, *exchange, *I) (*O, error)) {
	op := s.operation(r)
	asked := func(ctx context.Context, in *I) (*O, error) {
		x := exchangeOf(ctx)
		out, err := handle(ctx, x, in)
		if err != nil {
			return nil, s.failure(err, x, r.conflict)
		}
		return out, nil
	}
	huma.Register(s.api, op, asked)
	s.examples(r)
	s.note(r, op)
	for _, path := range r.paths()[1:] {
		alias := s.operation(r)
		alias.Path, alias.Hidden = path, true
		huma.Register(s.api, alias, asked)
		s.note(r, alias)
	}
}

// paths are all of a route, the documented one first.
func (r route) paths() []string {
	out := []string{base + r.path}
	if r.root {
		out = append(out, r.path)
	}
	return append(out, r.aliases...)
}

func (s *Server) note(r route, op huma.Operation) {
	pattern := op.Method + " " + op.Path
	s.names[pattern], s.headless[pattern] = r.id, r.headless
}

func (s *Server) operation(r route) huma.Operation {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.paths()[0], Tags: []string{r.tag},
		Summary: r.summary, Description: r.description, DefaultStatus: r.status,
		SkipValidateBody: r.unread, RejectUnknownQueryParameters: r.needs != nobody,
		Metadata:        map[string]any{invalidKey: r.invalid},
		BodyReadTimeout: -1, // the body is read before huma does
		MaxBodyBytes:    -1,
		Middlewares:     huma.Middlewares{s.guard(r)},
		Responses:       map[string]*huma.Response{},
	}
	for _, status := range r.statuses() {
		op.Responses[strconv.Itoa(status)] = s.errorResponse(http.StatusText(status))
	}
	op.Responses["default"] = s.errorResponse("Any other error")
	switch r.needs {
	case bearer:
		op.Security = []map[string][]string{{"token": {}}}
	case provider:
		op.Security = []map[string][]string{{"key": {}}}
	case retriever:
		op.Security = []map[string][]string{{}, {"key": {}}}
	}
	return op
}

// statuses are those of the errors that a route is known to answer with.
func (r route) statuses() []int {
	out := append([]int{http.StatusInternalServerError, http.StatusServiceUnavailable}, r.errors...)
	if r.needs != nobody {
		out = append(out, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound)
	}
	if r.method == http.MethodPost || r.method == http.MethodPut {
		out = append(out, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return out
}

func (s *Server) errorResponse(description string) *huma.Response {
	return &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{"application/json": {Schema: s.schema(errorType, "Error")}},
	}
}

// guard is what happens to a request before it is looked at: its credential, its query,
// then its body.
func (s *Server) guard(r route) func(huma.Context, func(huma.Context)) {
	limit := r.limit
	if limit == 0 {
		limit = maxBody
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		req, w := humago.Unwrap(ctx)
		out, ok := w.(*answer)
		if !ok {
			panic(errors.New("budgethttp: the answer is not ours"))
		}
		x := exchangeOf(req.Context())
		if err := s.admit(req, x, r.needs); err != nil {
			s.write(out, x, s.refusal(err, x, r.needs))
			return
		}
		if e := checkQuery(req.URL.RawQuery); e != nil && r.needs != nobody {
			s.write(out, x, e)
			return
		}
		var body []byte
		if ctx.Operation().RequestBody != nil {
			var e *wire.Error
			if body, e = s.readBody(out, req, limit); e != nil {
				s.write(out, x, e)
				return
			}
		}
		next(&guarded{request: ctx, body: body})
	}
}
