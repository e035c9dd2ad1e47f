package llmhttp

import (
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
)

// maxRoutes bounds the remembered routes of a process.
const maxRoutes = 256

// routes handles the requests that are not metered calls.
type routes struct {
	beside  bool // a limit on money: then a request that may cost something must be allowed
	allowed []string
	logger  *slog.Logger

	mu     sync.Mutex
	logged map[string]bool
}

// mayPass reports whether a request that is not a metered call may go to the provider, and logs the first of
// each route. Reads may, unlogged. Beside a limit on money Options.AllowUnmetered must match the route.
func (p *routes) mayPass(r *http.Request) bool {
	switch {
	case isReadOnly(r):
		return true
	case p.beside && !p.allowsPath(r.URL.EscapedPath()):
		return false
	}
	p.logRoute(r)
	return true
}

// isReadOnly reports whether a request is a GET, HEAD or OPTIONS that neither upgrades its connection nor
// overrides its method.
func isReadOnly(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) &&
		r.Header.Get("Upgrade") == "" && r.Header.Get("X-Http-Method-Override") == ""
}

// allowsPath reports whether Options.AllowUnmetered matches an escaped path in each way in which a server may
// unescape it.
func (p *routes) allowsPath(escaped string) bool {
	for _, spelling := range dialect.Spellings(escaped) {
		if !slices.ContainsFunc(p.allowed, func(pattern string) bool { return matchesPattern(pattern, spelling) }) {
			return false
		}
	}
	return true
}

// logRoute logs the first request of a route, for at most maxRoutes routes.
func (p *routes) logRoute(r *http.Request) {
	route := routeName(r)
	p.mu.Lock()
	known := p.logged[route] || len(p.logged) >= maxRoutes
	if !known {
		if p.logged == nil {
			p.logged = map[string]bool{}
		}
		p.logged[route] = true
	}
	p.mu.Unlock()
	if !known {
		p.logger.LogAttrs(r.Context(), slog.LevelWarn, "llmhttp: requests of a route pass unmetered", slog.String("route", route))
	}
}

// maxRoute is the longest route that is logged, in bytes.
const maxRoute = 200

// routeName returns a request's method and path for the log, at most 200 bytes. Parts of the path with a digit
// become {id}, except versions.
func routeName(r *http.Request) string {
	parts := strings.Split(dialect.Spellings(r.URL.EscapedPath())[1], "/")
	for i, part := range parts {
		if strings.ContainsAny(part, "0123456789") && !strings.HasPrefix(part, "v1") && part != "v2" {
			parts[i] = "{id}"
		}
	}
	route := r.Method + " " + strings.Join(parts, "/")
	return route[:min(len(route), maxRoute)]
}

// checkRoutes returns a *ValidationError for a pattern of Options.AllowUnmetered that is not a plain path, or
// that names a metered or free route.
func checkRoutes(patterns []string) error {
	const field = "options.AllowUnmetered"
	for _, pattern := range patterns {
		prefix, many := strings.CutSuffix(pattern, "*")
		switch {
		case pattern == "*":
			continue
		case !strings.HasPrefix(pattern, "/"), strings.ContainsAny(prefix, "*?#%\\ "), path.Clean(prefix) != strings.TrimSuffix(prefix, "/") && prefix != "/":
			return invalid(field, "has %q; give a plain path such as \"/v1/files\", one with \"*\" at its end for all that begin so, or \"*\" for all", pattern)
		case !many && prefix != path.Clean(prefix):
			return invalid(field, "has %q; leave out the \"/\" at its end, which no path is compared with", pattern)
		}
		if route, ok := dialect.Find(http.MethodPost, pattern); ok && !many {
			if !route.Free {
				return invalid(field, "has %q, which is metered; leave it out", pattern)
			}
			return invalid(field, "has %q, which costs nothing and passes; leave it out", pattern)
		}
	}
	return nil
}
