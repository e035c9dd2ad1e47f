package budgethttp

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// need is the credential that a route requires.
type need int

const (
	nobody    need = iota // none
	bearer                // an access token
	provider              // a provisioning key
	retriever             // a retrieval token, which the handler checks; an additional key must be valid
)

const (
	maxBody  = 64 << 10 // bytes of a body
	maxBatch = 1 << 20  // bytes of a batch
)

// route is one operation of the API.
type route struct {
	id          string    // operation id
	method      string    // HTTP method
	path        string    // below /api/v1
	aliases     []string  // other complete paths of the same operation
	root        bool      // also served at the root
	tag         string    // tag in the document
	summary     string    // in one line
	description string    // in full
	needs       need      // the credential
	status      int       // status of a success. Defaults to 200
	limit       int       // maximal bytes of the body. Defaults to maxBody
	unread      bool      // the handler validates the body
	also        int       // another status of a success; 0 for none
	headless    bool      // HEAD is refused, because the route changes something
	conflict    wire.Code // code of a 409
	invalid     wire.Code // code of invalid values. Defaults to InvalidRequest
	errors      []int     // error statuses in addition to the common ones
	request     any       // example of the body
	response    any       // example of the response
}

const (
	base     = "/api/v1"
	orgRoute = "/orgs/{org_id}"
	appRoute = orgRoute + "/apps/{app_id}"
)

// endpoint is a route with its handler.
type endpoint struct {
	route
	// bind registers the handler for an operation. failed converts its errors to responses.
	bind func(api huma.API, op huma.Operation, failed failing)
}

// failing converts an error to a response.
type failing func(err error, x *exchange, conflict wire.Code) *wire.Error

// newEndpoint makes the endpoint of a route from its handler. An error of the handler is sent in the common
// form of errors.
func newEndpoint[I, O any](r route, handle func(context.Context, *exchange, *I) (*O, error)) endpoint {
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

// allPaths returns all paths of a route, the documented one first.
func (r route) allPaths() []string {
	out := []string{base + r.path}
	if r.root {
		out = append(out, r.path)
	}
	return append(out, r.aliases...)
}

// errorStatuses returns the statuses of errors that the document lists for the route. Some may be
// repeated.
func (r route) errorStatuses() []int {
	out := append([]int{http.StatusInternalServerError, http.StatusServiceUnavailable}, r.errors...)
	if r.needs != nobody {
		out = append(out, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound)
	}
	if r.method == http.MethodPost || r.method == http.MethodPut {
		out = append(out, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return out
}
