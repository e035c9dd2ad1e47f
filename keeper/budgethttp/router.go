package budgethttp

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/dynalimit/dynalimit/internal/httpcopy"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// router finds the handler of a request.
type router struct {
	mux      *http.ServeMux
	prefix   string // prefix of all paths
	answers  *answers
	names    map[string]string // operation ids by pattern
	headless map[string]bool   // patterns of routes that refuse HEAD
}

// newRouter returns a router without routes. prefix is the path at which the server is mounted.
func newRouter(prefix string, a *answers) *router {
	return &router{mux: http.NewServeMux(), prefix: prefix, answers: a, names: map[string]string{}, headless: map[string]bool{}}
}

// addPatterns records in t the id of a route under each of its patterns, method and path, and if the pattern
// refuses HEAD. It registers no handler.
func (t *router) addPatterns(r route) {
	for _, path := range r.allPaths() {
		pattern := r.method + " " + path
		t.names[pattern], t.headless[pattern] = r.id, r.headless
	}
}

// serveFixed serves body for GET at path, both at the root and below /api/v1, and lets clients cache it for
// five minutes. A policy is sent as the content security policy unless empty.
func (t *router) serveFixed(id, path, contentType string, body []byte, policy string) {
	for _, prefix := range []string{"", base} {
		pattern := "GET " + prefix + path
		t.names[pattern] = id
		t.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", contentType)
			h.Set("Cache-Control", "public, max-age=300")
			if policy != "" {
				h.Set("Content-Security-Policy", policy)
			}
			_, _ = w.Write(body) // the client may be gone
		})
	}
}

// redirectRoot adds the route of the root, which redirects (303) to the HTML page by a relative address.
func (t *router) redirectRoot() {
	const root = "GET /{$}"
	t.names[root] = "root"
	t.mux.HandleFunc(root, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "docs") // relative: the handler may be mounted anywhere
		w.WriteHeader(http.StatusSeeOther)
	})
}

// dispatch passes a request to the handler of its route and sets x.route. It answers 404 for an unknown path,
// and for one that is not clean, because ServeMux would redirect it. It answers 405 for another method, and for
// HEAD on a route that changes something.
func (t *router) dispatch(w *answer, r *http.Request, x *exchange) {
	below, ok := strings.CutPrefix(r.URL.EscapedPath(), t.prefix)
	if !ok || path.Clean(below) != below || !strings.HasPrefix(below, "/") {
		t.answers.writeError(w, x, noRouteError())
		return
	}
	original := r
	r, err := t.stripPrefix(original)
	if err != nil {
		t.answers.writeError(w, x, noRouteError())
		return
	}
	defer httpcopy.RestoreFields(original, r)
	h, pattern := t.mux.Handler(r)
	if pattern == "" {
		t.answerUnrouted(w, r, x, h)
		return
	}
	x.route = t.names[pattern]
	if r.Method == http.MethodHead && t.headless[pattern] {
		t.answers.writeError(w, x, methodError("POST, GET"))
		return
	}
	t.mux.ServeHTTP(w, r)
}

// stripPrefix returns a copy of the request without the server's prefix in its path, or r itself
// without a prefix. It returns an error for a path outside the prefix.
func (t *router) stripPrefix(r *http.Request) (*http.Request, error) {
	if t.prefix == "" {
		return r, nil
	}
	u := *r.URL
	u.Path = strings.TrimPrefix(u.Path, t.prefix)
	if u.RawPath != "" {
		u.RawPath = strings.TrimPrefix(u.RawPath, t.prefix)
	}
	if !strings.HasPrefix(u.Path, "/") {
		return nil, errors.New("not below the prefix")
	}
	out := r.WithContext(r.Context())
	out.URL = &u
	return out, nil
}

// answerUnrouted answers a request without a route: 405 with the allowed methods if the path has routes for
// others, else 404. It calls h, ServeMux's own handler, only to learn which.
func (t *router) answerUnrouted(w *answer, r *http.Request, x *exchange, h http.Handler) {
	probe := &probe{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		t.answers.writeError(w, x, methodError(probe.header.Get("Allow")))
		return
	}
	t.answers.writeError(w, x, noRouteError())
}

// noRouteError returns the 404 response to a path without a route.
func noRouteError() *wire.Error {
	return wire.NewError(http.StatusNotFound, wire.NotFound, "there is no such route: /docs lists them")
}

// methodError returns the 405 response to a path with routes for other methods only, those in allow.
func methodError(allow string) *wire.Error {
	return wire.NewError(http.StatusMethodNotAllowed, wire.InvalidRequest, "the route has other methods: "+allow).With("Allow", allow)
}

// probe records the status of ServeMux's response.
type probe struct {
	header http.Header
	status int
}

// Header returns the header, which has the allowed methods.
func (p *probe) Header() http.Header { return p.header }

// WriteHeader keeps the status, which tells answerUnrouted whether the path has routes for other methods.
func (p *probe) WriteHeader(status int) { p.status = status }

// Write drops the body, and returns its length without an error.
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
