package budgethttp

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// need is the credential that a route wants.
type need int

const (
	nobody    need = iota // anybody may ask
	bearer                // an access token
	provider              // a provisioning key
	retriever             // a retrieval token, which the handler looks at; a key beside it has to be good
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
	base     = "/api/v1"
	orgRoute = "/orgs/{org_id}"
	appRoute = orgRoute + "/apps/{app_id}"
)

// endpoint is a route with its handler.
type endpoint struct {
	route
	// bind puts the handler behind an operation; failed is what its errors are answered with.
	bind func(api huma.API, op huma.Operation, failed failing)
}

// failing is what an error is answered with.
type failing func(err error, x *exchange, conflict wire.Code) *wire.Error

// handled makes an endpoint of a handler. What the handler fails with is answered in the one
// shape of errors.
func handled[I, O any](r route, handle func(context.Context, *exchange, *I) (*O, error)) endpoint {
	return endpoint{r, func(api huma.API, op huma.Operation, failed failing) {
		huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
			x := exchangeOf(ctx)
			out, err := handle(ctx, x, in)
			if err != nil {
				return nil, failed(err, x, r.conflict)
			}
			return out, nil
		})
	}}
}

// paths are all of a route, the documented one first.
func (r route) paths() []string {
	out := []string{base + r.path}
	if r.root {
		out = append(out, r.path)
	}
	return append(out, r.aliases...)
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
