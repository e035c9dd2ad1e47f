package keeper

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// isOrigin reports whether a browser may send the text as an Origin: with the host in lower
// case, and without the scheme's default port (RFC 6454, section 6.1).
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != text || text != strings.ToLower(text) {
		return false
	}
	switch u.Scheme {
	case "https":
		return u.Port() != "443"
	case "http":
		return u.Port() != "80"
	}
	return false
}

// allowOrigins returns a handler that adds CORS headers to next for browser pages of the given origins, and
// answers their preflight requests itself. They may send tokens, but not provisioning keys. Without origins it
// returns next.
func allowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if origin == "" || !slices.Contains(origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		next.ServeHTTP(w, r)
	})
}
