package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Store keeps credentials in a table. It has no goroutines and needs no closing. It is
// safe for concurrent use. The zero value is not usable: its methods return a
// *ValidationError, and so do those of every store for a nil context.
type Store struct {
	*core
	principal string // who makes changes; empty: nobody known
}

// core is what a store and those of its As share: everything but the name.
type core struct {
	items   *store.Store
	clock   *ddb.Clock
	opts    Options
	ids     audit.IDs
	layout  audit.Layout
	ring    *ring
	revoked *revocations
	counts  counts
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
		return nil, invalid("client", "is nil; pass dynamodb.NewFromConfig(cfg), or ddbmem.New().Client() in tests")
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
		layout: audit.Layout{TTL: store.AttrTTL, Retention: opts.AuditRetention},
	}
	c.items = &store.Store{Client: ddb.Watch(client, nil, c.clock, opts.RequestTimeout), Control: table}
	c.ring = newRing(c)
	c.revoked = newRevocations(c)
	return &Store{core: c, principal: opts.Principal}, nil
}

// As returns a store that makes changes in somebody's name, as Options.Principal does. It
// is the same store otherwise and shares everything with s. It takes no time and makes no
// request. A name that cannot be one is refused by the first change.
func (s *Store) As(principal string) *Store {
	if s == nil {
		return &Store{}
	}
	return &Store{core: s.core, principal: principal}
}

// Now is the time by the store's clock: grace, retrieval and revocation go by it.
func (s *Store) Now() time.Time {
	if !s.made() {
		return time.Now()
	}
	return s.now()
}

func (c *core) now() time.Time { return c.clock.Now() }

// Keys are the keys in force now, for whoever signs and verifies tokens; nil of a store that
// New did not make.
func (s *Store) Keys() *KeySet {
	if !s.made() {
		return nil
	}
	return s.opts.Keys.Keys()
}

// LongestToken is Options.LongestToken: for how long revocations of clients are kept. It is 0
// of a store that New did not make.
func (s *Store) LongestToken() time.Duration {
	if !s.made() {
		return 0
	}
	return s.opts.LongestToken
}

// made reports whether New made the store.
func (s *Store) made() bool { return s != nil && s.core != nil }

// begin checks a store and a context, and bounds the time of a call.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if !s.made() {
		return nil, nil, invalid("store", "is not made; use New")
	}
	if err := problem.NoContext(ctx, pkg); err != nil {
		return nil, nil, err
	}
	bounded, cancel := ddb.Bound(ctx, s.opts.Timeout)
	return bounded, cancel, nil
}

// author checks who makes a change, before anything is read.
func (s *Store) author() error {
	if s.principal == "" {
		if s.opts.AllowAnonymous {
			return nil
		}
		return invalid("principal", "is empty; say who makes the change with store.As(name) or Options.Principal, or set Options.AllowAnonymous")
	}
	if reason := audit.CheckPrincipal(s.principal); reason != "" {
		return invalid("principal", "%s", reason)
	}
	return nil
}

// change begins a call that changes something.
func (s *Store) change(ctx context.Context) (context.Context, context.CancelFunc, error) {
	bounded, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.author(); err != nil {
		cancel()
		return nil, nil, err
	}
	return bounded, cancel, nil
}

// event is the write of what was done, without anything secret.
func (s *Store) event(action, target, resource string, fields audit.Fields) (types.TransactWriteItem, error) {
	now := s.now()
	changes, err := audit.Diff(nil, fields)
	e := audit.Event{
		ID: s.ids.New(now), Time: now, Principal: s.principal, Action: action, Target: target, Resource: resource, Changes: changes,
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.items.Control, Item: s.layout.Item(e)}}, err
}

// put is the write of an item if a condition holds.
func (c *core) put(item store.Item, condition string, names map[string]string, values store.Item) types.TransactWriteItem {
	p := &types.Put{TableName: &c.items.Control, Item: item}
	if condition != "" {
		p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues = &condition, names, values
	}
	return types.TransactWriteItem{Put: p}
}

// remove is the deletion of an item that must be there.
func (c *core) remove(key store.Key) types.TransactWriteItem {
	condition := "attribute_exists(#pk)"
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: &c.items.Control, Key: key.Attributes(),
		ConditionExpression: &condition, ExpressionAttributeNames: map[string]string{"#pk": "PK"},
	}}
}

// send writes all or nothing. overtaken says that what was decided no longer holds.
func (c *core) send(ctx context.Context, writes ...types.TransactWriteItem) (overtaken bool, err error) {
	err = c.items.Transact(ctx, store.NewID(), writes)
	return store.Diagnose(err) == ddb.Refused, err
}
