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

// mayPass reports whether a request that is not a metered call may pass, and logs the first of each route.
// Reads pass unlogged. Beside a limit on money Options.AllowUnmetered must name the route.
func (p *routes) mayPass(r *http.Request) bool {
	switch {
	case isReadOnly(r):
		return true
	case p.beside && !p.allows(r.URL.EscapedPath()):
		return false
	}
	p.logRoute(r)
	return true
}

// isReadOnly reports whether a request changes nothing (RFC 9110, 9.2.1), and opens no connection of another
// kind.
func isReadOnly(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) &&
		r.Header.Get("Upgrade") == "" && r.Header.Get("X-Http-Method-Override") == ""
}

// allows reports whether Options.AllowUnmetered matches an escaped path, whichever way a server unescapes it.
func (p *routes) allows(escaped string) bool {
	for _, spelling := range dialect.Spellings(escaped) {
		if !slices.ContainsFunc(p.allowed, func(pattern string) bool { return matches(pattern, spelling) }) {
			return false
		}
	}
	return true
}

// logRoute logs the first request of a route, for at most maxRoutes routes.
func (p *routes) logRoute(r *http.Request) {
	route := routeOf(r)
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

// routeOf returns a request's method and path for the log. Parts of the path with a digit become {id}, except
// versions.
func routeOf(r *http.Request) string {
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
