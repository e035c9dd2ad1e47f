package credentials

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Store keeps credentials in a table. It has no goroutines and needs no closing. It is
// safe for concurrent use. The zero value is not usable: its methods return a
// *ValidationError, and so do those of every store for a nil context.
type Store struct {
	core      *core
	ring      *ring
	revoked   *revocations
	principal string // who makes changes; empty: nobody known
}

// New makes a store on the control table of package budget, which Setup.CreateTables
// makes. An empty name is "control". It makes no request.
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

// As returns a store that makes changes in somebody's name, as Options.Principal does. It
// is the same store otherwise and shares everything with s. It takes no time and makes no
// request. A name that cannot be one is refused by the first change.
func (s *Store) As(principal string) *Store {
	if s == nil {
		return &Store{}
	}
	return &Store{core: s.core, ring: s.ring, revoked: s.revoked, principal: principal}
}

// Now is the time by the store's clock: grace, retrieval and revocation go by it.
func (s *Store) Now() time.Time {
	if !s.made() {
		return time.Now()
	}
	return s.core.now()
}

// Keys are the keys in force now, for whoever signs and verifies tokens; nil of a store that
// New did not make.
func (s *Store) Keys() *KeySet {
	if !s.made() {
		return nil
	}
	return s.core.opts.Keys.Keys()
}

// LongestToken is Options.LongestToken: for how long revocations of clients are kept. It is 0
// of a store that New did not make.
func (s *Store) LongestToken() time.Duration {
	if !s.made() {
		return 0
	}
	return s.core.opts.LongestToken
}

// made reports whether New made the store.
func (s *Store) made() bool { return s != nil && s.core != nil }

// usable checks a store and a context.
func usable(ctx context.Context, s *Store) error {
	if !s.made() {
		return invalid("store", "is not made; use New")
	}
	return problem.NoContext(ctx, pkg)
}

// begin is usable, and bounds the time of a call.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := usable(ctx, s); err != nil {
		return nil, nil, err
	}
	bounded, cancel := ddb.Bound(ctx, s.core.opts.Timeout)
	return bounded, cancel, nil
}

// change begins a call that changes something, by somebody who may be recorded. It may take
// longer than one that a login waits for.
func (s *Store) change(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := usable(ctx, s); err != nil {
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
