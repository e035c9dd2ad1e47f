// Package console shows the limits, entities and usage of a table in a browser. It is one http.Handler that
// draws HTML on the server: embed it in a service behind the service's own login, or run `dynalimit console`. It
// changes nothing but for visitors with Access.Change.
package console

import (
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

const (
	// requestTime bounds the reads of a page, doctorTime those of the doctor.
	requestTime, doctorTime = 10 * time.Second, 2 * time.Minute
	// mostQuery bounds the bytes of a query, which links of a page repeat: a page opens at most 8 ids of 256 letters.
	mostQuery = 8 << 10
)

// handler is the console. It has no state but its caches.
type handler struct {
	options Options
	repo    *dynalimit.Repository
	shared  *reads
	table   string
	cross   *http.CrossOriginProtection
	// accent and logo are the names of the theme's files; empty without them.
	accent, logo string
	themeFiles   map[string]staticFile
	// examining holds one token while a visitor's doctor runs.
	examining chan struct{}
}

// New returns the console of a repository as a handler. It sends no request. usage may be nil: then pages have
// no charts and no alerts. It fails with a *ValidationError for bad options.
func New(repo *dynalimit.Repository, usage *aggregator.Reader, opts *Options) (http.Handler, error) {
	if repo == nil {
		return nil, invalid("repo", "is nil; give the one of the limiter, or make one with NewRepository")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	cross := http.NewCrossOriginProtection()
	for _, host := range o.Hosts {
		if err := cross.AddTrustedOrigin("https://" + bracketIPv6(host)); err != nil {
			return nil, invalid("options.Hosts", "has %q, which is no host name: %v", host, err)
		}
	}
	accent, logo, files := o.Theme.files()
	return &handler{
		options: o, accent: accent, logo: logo, themeFiles: files, repo: repo, table: repo.Table(), cross: cross, examining: make(chan struct{}, 1),
		shared: newReads(admin.New(repo), repo, usage, o.ReadUnits, o.Now),
	}, nil
}

// bracketIPv6 puts an IPv6 address in brackets, as an origin has it.
func bracketIPv6(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// ServeHTTP answers with a page, a static file, or the result of a change. It refuses an unknown Host (421), a
// foreign origin (403), a long query (414) and a visitor that Authorize refuses (401, 403). Every answer has
// the security headers; it logs a panic and answers 500.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			h.options.Log.Error("dynalimit: console: panic", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			http.Error(w, "This page failed. The log of the service has the reason.", http.StatusInternalServerError)
		}
	}()
	if !h.knowsHost(r.Host) {
		http.Error(w, "This name is not one of the console's: set Options.Hosts to the names that visitors use.", http.StatusMisdirectedRequest)
		return
	}
	if err := h.cross.Check(r); err != nil {
		http.Error(w, "This request comes from another page.", http.StatusForbidden)
		return
	}
	if len(r.URL.RawQuery) > mostQuery {
		http.Error(w, "This address is too long.", http.StatusRequestURITooLong)
		return
	}
	access, err := h.options.Authorize(r)
	switch {
	case errors.Is(err, ErrLogin):
		http.Error(w, "Log in first.", http.StatusUnauthorized)
		return
	case err != nil:
		http.Error(w, "You may not see this console.", http.StatusForbidden)
		return
	}
	if access.Change && access.Principal == "" {
		h.options.Log.Error("dynalimit: console: Authorize permits changes to a visitor without a principal")
		http.Error(w, "You may not see this console.", http.StatusForbidden)
		return
	}
	path := r.URL.Path
	if rest, below := strings.CutPrefix(path, h.options.Prefix); below {
		path = rest
	} else {
		path = strings.TrimPrefix(path, "/") // by http.StripPrefix
	}
	if name, static := strings.CutPrefix(path, "static/"); static {
		serveStatic(w, r, name, h.themeFiles)
		return
	}
	h.servePage(w, r, access, path)
}

// knowsHost reports whether a Host header is one of Options.Hosts, with any port and in any case of letters.
func (h *handler) knowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	for _, known := range h.options.Hosts {
		if name != "" && strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}

// policy lets a page load its own files alone, and run no script or style that a text could contain.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// setHeaders sets the security headers of an answer, which also keep it out of caches.
func setHeaders(to http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "X-Frame-Options": "DENY",
	} {
		to.Set(name, value)
	}
}
