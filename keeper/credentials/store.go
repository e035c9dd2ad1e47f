package credentials

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Store manages credentials in a table. It has no goroutines, needs no Close, and is safe for
// concurrent use. The zero value is not usable: its methods return a *ValidationError. The
// methods of every store return one for a nil context.
type Store struct {
	core      *core
	ring      *ring
	revoked   *revocations
	principal string // author of changes; empty if unknown
}

// New returns a store on the control table of package budget, which Setup.CreateTables creates.
// An empty name means "control". It sends no request.
//
// Errors: *ValidationError for bad options.
func New(client Client, table string, options *Options) (*Store, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	if problem.IsNil(client) {
		return nil, invalid("client", "is nil; pass the client of awsclient.New, or ddbmem.New().Client() in tests")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	correct := opts.Now == nil
	opts = opts.withDefaults()
	if table == "" {
		table = "control"
	}
	if reason := ddb.CheckTable(table); reason != "" {
		return nil, invalid("table", "%s", reason)
	}
	c := &core{
		clock: ddb.NewClock(opts.Now, correct), opts: opts,
		layout: trail.Layout{TTL: store.AttrTTL, Retention: opts.AuditRetention},
	}
	c.items = &store.Store{Client: ddb.Watch(client, nil, c.clock, opts.RequestTimeout), Control: table}
	return &Store{core: c, ring: newRing(c), revoked: newRevocations(c), principal: opts.Principal}, nil
}

// As returns a store that makes changes under the name principal, as Options.Principal does. It
// shares everything else with s. It sends no request. The first change validates the name.
func (s *Store) As(principal string) *Store {
	if s == nil {
		return &Store{}
	}
	return &Store{core: s.core, ring: s.ring, revoked: s.revoked, principal: principal}
}

// Now returns the time by the store's clock, which decides about grace, retrieval and revocation. It is the
// process's time if New did not make the store.
func (s *Store) Now() time.Time {
	if !s.isMade() {
		return time.Now()
	}
	return s.core.now()
}

// Keys returns the current keys, for signing and verifying tokens, or nil if New did not make
// the store.
func (s *Store) Keys() *KeySet {
	if !s.isMade() {
		return nil
	}
	return s.core.opts.Keys.Keys()
}

// LongestToken returns Options.LongestToken, the time for which revocations of clients are
// kept, or 0 if New did not make the store.
func (s *Store) LongestToken() time.Duration {
	if !s.isMade() {
		return 0
	}
	return s.core.opts.LongestToken
}

// isMade reports whether New made the store.
func (s *Store) isMade() bool { return s != nil && s.core != nil }

// checkUsable returns a *ValidationError if New did not make the store s or if ctx is nil, else nil. It sends
// no request.
func checkUsable(ctx context.Context, s *Store) error {
	if !s.isMade() {
		return invalid("store", "is not made; use New")
	}
	return problem.CheckContext(ctx, pkg)
}

// beginCall returns a context that ends after Options.Timeout, and its cancel function, for the caller to call.
// It returns a *ValidationError for a store that New did not make, and for a nil context.
func (s *Store) beginCall(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := checkUsable(ctx, s); err != nil {
		return nil, nil, err
	}
	bounded, cancel := ddb.Bound(ctx, s.core.opts.Timeout)
	return bounded, cancel, nil
}

// beginChange returns a context for a change, with the longer one of Options.Timeout and ddb.ControlTimeout,
// and its cancel function, for the caller to call. An unusable store, a nil context, and a missing or bad
// principal are a *ValidationError.
func (s *Store) beginChange(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := checkUsable(ctx, s); err != nil {
		return nil, nil, err
	}
	bounded, cancel := ddb.Bound(ctx, max(s.core.opts.Timeout, ddb.ControlTimeout))
	var err error
	reason := trail.CheckPrincipal(s.principal)
	switch {
	case s.principal == "" && s.core.opts.AllowAnonymous:
		return bounded, cancel, nil
	case s.principal == "":
		err = invalid("principal", "is empty; say who makes the change with store.As(name) or Options.Principal, or set Options.AllowAnonymous")
	case reason != "":
		err = invalid("principal", "%s", reason)
	default:
		return bounded, cancel, nil
	}
	cancel()
	return nil, nil, err
}
