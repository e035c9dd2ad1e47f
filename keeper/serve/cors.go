package keeper

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// isOrigin reports whether text is an origin as browsers send it: http or https and a host in lower case,
// without path and default port.
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

// allowOrigins returns a handler that adds CORS headers to next's answers for pages of the origins, and answers
// their preflight requests itself. Other requests go to next unchanged. Without origins it returns next.
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
