package budgethttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strings"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/httpcopy"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/login"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/page"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// Server serves a keeper. Make one with New. It is safe for concurrent use, starts no goroutine
// and needs no Close. It does not close the keeper.
type Server struct {
	keeper *budget.Keeper
	store  *credentials.Store
	login  *login.Service // nil with Options.Authenticate
	opts   Options
	router *router
}

// New returns a Server for a keeper and for a store of credentials on the keeper's control table. It sends no request.
//
// Errors: a *fault.ValidationError for a missing keeper or store, and for bad options.
func New(keeper *budget.Keeper, store *credentials.Store, options *Options) (*Server, error) {
	s := &Server{keeper: keeper, store: store, opts: options.withDefaults()}
	if err := s.validate(); err != nil {
		return nil, err
	}
	if s.opts.Administrator == nil {
		s.opts.Administrator = authenticateByKey(store)
	}
	if s.opts.Authenticate == nil {
		if err := s.makeLogins(); err != nil {
			return nil, err
		}
	}
	a := &answers{now: s.opts.Now, log: s.opts.Logger}
	s.router = newRouter(s.opts.Prefix, a)
	g := &gate{
		authenticate: s.opts.Authenticate, administrator: s.opts.Administrator, byToken: s.login != nil,
		bodyTimeout: s.opts.BodyTimeout, answers: a,
	}
	if err := s.serveEndpoints(&document{newAPI(s.router.mux, s.opts.Prefix, a), g}); err != nil {
		return nil, err
	}
	return s, nil
}

// serveEndpoints registers all endpoints, records their patterns in s.router, and serves the OpenAPI document
// and its page, to which the root redirects. It returns an error if the document cannot be rendered.
func (s *Server) serveEndpoints(d *document) error {
	for _, endpoints := range [][]endpoint{
		logins{s.login}.endpoints(),
		newRecords(s.keeper, d).endpoints(),
		selections{s.keeper, newRecommended()}.endpoints(),
		aggregates{s.keeper}.endpoints(),
		administration{s.keeper, s.store}.endpoints(),
		secrets{s.store, s.login}.endpoints(),
		service{s.keeper}.endpoints(),
	} {
		for _, e := range endpoints {
			d.addEndpoint(e)
			s.router.addPatterns(e.route)
		}
	}
	document, readable, err := d.renderDocument()
	if err != nil {
		return err
	}
	s.router.serveFixed("openapi", "/openapi.json", "application/json", document, "")
	s.router.serveFixed("docs", "/docs", "text/html; charset=utf-8", readable, page.Policy)
	s.router.redirectRoot()
	return nil
}

// makeLogins sets s.login to a service that issues and verifies tokens, and s.opts.Authenticate to its check.
// An error is a *fault.ValidationError of the options.
func (s *Server) makeLogins() (err error) {
	s.login, err = login.New(login.Options{
		Store: s.store, Limiter: s.opts.Limiter, Issuer: s.opts.Issuer, Audience: s.opts.Audience,
		AccessTTL: s.opts.AccessTTL, RefreshTTL: s.opts.RefreshTTL,
		PerAddress: s.opts.FailuresPerAddress, PerClient: s.opts.FailuresPerClient,
		Random: s.opts.Random, Logger: s.opts.Logger,
	})
	if err != nil {
		return invalidField("options", err.Error())
	}
	s.opts.Authenticate = authenticateByToken(s.login)
	return nil
}

// invalidField returns the *fault.ValidationError of an argument or option of New.
func invalidField(field, reason string) error {
	return &fault.ValidationError{Package: "budgethttp", Field: field, Code: fault.InvalidRequest, Reason: reason}
}

// validate checks the keeper, the store and the options. It returns an error for the first bad
// one.
func (s *Server) validate() error {
	p := s.opts.Prefix
	switch {
	case s.keeper == nil:
		return invalidField("keeper", "is nil: make one with budget.New")
	case s.store.Keys() == nil:
		return invalidField("store", "is nil or was not made: make one with credentials.New")
	case s.opts.Authenticate == nil && s.opts.Limiter == nil:
		return invalidField("Limiter", "is nil: failed logins could not be counted; give a limiter, or Authenticate")
	case p != "" && (!strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/"):
		return invalidField("Prefix", fmt.Sprintf("%q is no path like /budget", p))
	}
	return nil
}

// ServeHTTP sets the common headers and the request's id, dispatches the request, and answers a panic of a
// handler with 500. Then it calls OnServed, sends the rest of the response, and writes the log.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{id: requestIDOf(r, s.opts.Random), began: s.opts.Now(), from: s.opts.Address(r)}
	out := &answer{ResponseWriter: w}
	header := w.Header()
	header.Set("X-Request-Id", x.id)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	original := r
	r = original.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	defer httpcopy.RestoreFields(original, r)
	defer s.reportServed(x, out, r)
	defer s.recoverPanic(x, out)
	if r.ContentLength != 0 { // net/http would wait for the body even before a response that does not need it
		setBodyDeadline(out, s.opts.BodyTimeout)
	}
	s.router.dispatch(out, r, x)
}

// recoverPanic logs the panic of a handler and answers 500; call it deferred. It cuts off a partly sent
// response with a new panic, so that the client does not take it for complete. It passes http.ErrAbortHandler
// on without logging.
func (s *Server) recoverPanic(x *exchange, out *answer) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		x.broken = true
		panic(p)
	}
	s.opts.Logger.Error("budgethttp: panic", "request_id", x.id, "route", x.route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if out.status != 0 {
		x.broken = true
		panic(http.ErrAbortHandler)
	}
	s.router.answers.writeError(out, x, hiddenError(http.StatusInternalServerError))
}

// reportServed calls OnServed, sends the rest of the response, and then writes the log. It sends nothing more
// if the connection was cut off.
func (s *Server) reportServed(x *exchange, out *answer, r *http.Request) {
	status := cmp.Or(out.status, http.StatusOK)
	e := Served{Route: x.route, Method: r.Method, Status: status, Bytes: out.bytes, Took: s.opts.Now().Sub(x.began), RequestID: x.id, Client: cmp.Or(x.claims.ClientID, x.principal)}
	if s.opts.OnServed != nil {
		s.opts.OnServed(r.Context(), e)
	}
	if !x.broken {
		out.sendResponse()
	}
	s.opts.Logger.LogAttrs(r.Context(), levelOf(status), "budgethttp: served", e.logAttributes()...)
}

// Stats counts a server's work since New.
type Stats struct {
	// TokenHits counts access tokens found in the cache of verified ones, TokenChecks verified
	// signatures. Expiry, revocation and the key are checked for each request.
	TokenHits, TokenChecks int64
}

// Stats returns the server's counts. They are zero with Options.Authenticate.
func (s *Server) Stats() Stats {
	if s == nil || s.login == nil {
		return Stats{}
	}
	hits, checks := s.login.Stats()
	return Stats{TokenHits: hits, TokenChecks: checks}
}
