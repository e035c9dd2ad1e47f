package httplimit

import (
	"net/http"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// unrouted is the resource of requests that no route is for: one, however many paths clients
// make up.
const unrouted = "unrouted"

// Route returns a function for Options.Resource that makes the pattern of a request's route its resource: "GET
// /items/{id}" is "GET/items/_id_", "/items/" is "any/items/", and unmatched requests are "unrouted". A pattern
// above the length of a resource keeps its end, behind a hash of all of it. Around a mux give it that mux,
// because a mux finds the pattern only after the middleware. Inside, around single handlers, give nil.
func Route(mux *http.ServeMux) func(*http.Request) string {
	return func(r *http.Request) string {
		pattern := r.Pattern
		if mux != nil {
			_, pattern = mux.Handler(r)
		}
		return routeName(pattern)
	}
}

// routeName converts a pattern of net/http to the name of a resource: "GET /items/{id}" to "GET/items/_id_",
// without a method to "any/items", and "" to "unrouted". A pattern with a host has "-" before the host. A long
// name keeps its end, behind a hash.
func routeName(pattern string) string {
	if pattern == "" {
		return unrouted
	}
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "any", pattern
	}
	if path = strings.TrimLeft(path, " \t"); !strings.HasPrefix(path, "/") { // a host
		path = "-" + path
	}
	return schema.ResourceName(method + path)
}
