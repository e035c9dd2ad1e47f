package budgethttp

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/login"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/credentials"
)

// Server serves a keeper. Make one with New. It is safe for concurrent use, starts no
// goroutine and need not be closed; the keeper is its maker's to close.
type Server struct {
	keeper   *budget.Keeper
	store    *credentials.Store
	login    *login.Service // nil with Options.Authenticate
	opts     Options
	mux      *http.ServeMux
	api      huma.API
	usage    *huma.Schema      // of one record
	headless map[string]bool   // patterns of routes that HEAD does not ask
	names    map[string]string // ids of operations by pattern
}

// New makes a handler for a keeper, and a store of credentials on its control table. It
// makes no request. Errors: a *budget.ValidationError for no keeper or store, and for
// options that cannot be.
func New(keeper *budget.Keeper, store *credentials.Store, options *Options) (*Server, error) {
	s := &Server{
		keeper: keeper, store: store, opts: options.withDefaults(), mux: http.NewServeMux(),
		headless: map[string]bool{}, names: map[string]string{},
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	if s.opts.Administrator == nil {
		s.opts.Administrator = s.holder
	}
	if s.opts.Authenticate == nil {
		if err := s.logIn(); err != nil {
			return nil, err
		}
	}
	s.api = s.newAPI()
	s.routes()
	if err := s.describe(); err != nil {
		return nil, err
	}
	return s, nil
}

// logIn makes what logs clients in.
func (s *Server) logIn() (err error) {
	s.login, err = login.New(login.Options{
		Store: s.store, Limiter: s.opts.Limiter, Issuer: s.opts.Issuer, Audience: s.opts.Audience,
		AccessTTL: s.opts.AccessTTL, RefreshTTL: s.opts.RefreshTTL,
		PerAddress: s.opts.FailuresPerAddress, PerClient: s.opts.FailuresPerClient,
		Random: s.opts.Random, Logger: s.opts.Logger,
	})
	if err != nil {
		return bad("options", err.Error())
	}
	s.opts.Authenticate = s.carrier
	return nil
}

func bad(field, reason string) error {
	return &budget.ValidationError{Package: "budgethttp", Field: field, Code: budget.CodeInvalidRequest, Reason: reason}
}

func (s *Server) validate() error {
	p := s.opts.Prefix
	switch {
	case s.keeper == nil:
		return bad("keeper", "is nil: make one with budget.New")
	case s.store.Keys() == nil:
		return bad("store", "is nil or was not made: make one with credentials.New")
	case s.opts.Authenticate == nil && s.opts.Limiter == nil:
		return bad("Limiter", "is nil: failed logins could not be counted; give a limiter, or Authenticate")
	case p != "" && (!strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/"):
		return bad("Prefix", fmt.Sprintf("%q is no path like /budget", p))
	}
	return nil
}

// exchange is one request and what is known of it so far.
type exchange struct {
	id        string // of the request
	route     string // the operation's id
	began     time.Time
	from      netip.Addr
	claims    Claims // of a route that needs a token
	principal string // of a route that needs a key
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// ServeHTTP answers a request, whatever becomes of it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{id: s.requestID(r), began: s.opts.Now(), from: s.opts.Address(r)}
	out := &answer{ResponseWriter: w}
	header := w.Header()
	header.Set("X-Request-Id", x.id)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	defer s.served(x, out, r)
	defer s.recovered(x, out)
	if r.ContentLength != 0 { // net/http waits for the body also before an answer that does not need it
		s.boundBody(out)
	}
	s.route(out, r, x)
}

// recovered answers a request whose handler panicked. One that was answered in part is cut
// off, so that nobody takes the part for the whole.
func (s *Server) recovered(x *exchange, out *answer) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	s.opts.Logger.Error("budgethttp: panic", "request_id", x.id, "route", x.route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if out.status != 0 {
		panic(http.ErrAbortHandler)
	}
	s.write(out, x, wire.NewError(http.StatusInternalServerError, wire.InternalError, "something went wrong; the log has it under this request_id"))
}

func (s *Server) served(x *exchange, out *answer, r *http.Request) {
	status := out.status
	if status == 0 {
		status = http.StatusOK
	}
	e := Served{Route: x.route, Method: r.Method, Status: status, Bytes: out.bytes, Took: s.opts.Now().Sub(x.began), RequestID: x.id, Client: cmp.Or(x.claims.ClientID, x.principal)}
	s.opts.Logger.LogAttrs(r.Context(), levelOf(status), "budgethttp: served", e.attributes()...)
	if s.opts.OnServed != nil {
		s.opts.OnServed(r.Context(), e)
	}
}

// route finds the handler of a request. Paths are taken as they are: ServeMux would send a
// client from a/../b to b.
func (s *Server) route(w *answer, r *http.Request, x *exchange) {
	below, ok := strings.CutPrefix(r.URL.EscapedPath(), s.opts.Prefix)
	if !ok || path.Clean(below) != below || !strings.HasPrefix(below, "/") {
		s.write(w, x, notThere())
		return
	}
	r, err := s.unprefixed(r)
	if err != nil {
		s.write(w, x, notThere())
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		s.unrouted(w, r, x, h)
		return
	}
	x.route = s.names[pattern]
	if r.Method == http.MethodHead && s.headless[pattern] {
		s.write(w, x, notAllowed("POST, GET"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// unprefixed is the request as it would be with the handler at the root.
func (s *Server) unprefixed(r *http.Request) (*http.Request, error) {
	if s.opts.Prefix == "" {
		return r, nil
	}
	u := *r.URL
	u.Path = strings.TrimPrefix(u.Path, s.opts.Prefix)
	if u.RawPath != "" {
		u.RawPath = strings.TrimPrefix(u.RawPath, s.opts.Prefix)
	}
	if !strings.HasPrefix(u.Path, "/") {
		return nil, errors.New("not below the prefix")
	}
	out := r.WithContext(r.Context())
	out.URL = &u
	return out, nil
}

// unrouted answers what ServeMux has no route for: with the methods there are, if the path
// has any.
func (s *Server) unrouted(w *answer, r *http.Request, x *exchange, h http.Handler) {
	probe := &probe{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		s.write(w, x, notAllowed(probe.header.Get("Allow")))
		return
	}
	s.write(w, x, notThere())
}

func notThere() *wire.Error {
	return wire.NewError(http.StatusNotFound, wire.NotFound, "there is no such route: /docs lists them")
}

func notAllowed(allow string) *wire.Error {
	return wire.NewError(http.StatusMethodNotAllowed, wire.InvalidRequest, "the route has other methods: "+allow).With("Allow", allow)
}

// write answers with an error, outside of huma.
func (s *Server) write(w *answer, x *exchange, e *wire.Error) {
	s.stamp(x, e)
	for name, values := range e.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	body, err := json.Marshal(e)
	if err != nil {
		s.log(x, "unwritten", err)
	}
	w.WriteHeader(e.GetStatus())
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

func (s *Server) stamp(x *exchange, e *wire.Error) {
	e.Timestamp, e.RequestID = s.opts.Now().UTC(), x.id
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// requestID is the client's own, if it can be one, or a new one.
func (s *Server) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && requestID.MatchString(id) {
		return id
	}
	var b [16]byte
	if _, err := io.ReadFull(s.opts.Random, b[:]); err != nil {
		return "none"
	}
	return hex.EncodeToString(b[:])
}

// answer counts what is written to a client.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// probe takes what ServeMux would answer, and keeps the status.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
