package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Namespaces are the tenants of a table, on a repository without one.
type Namespaces struct{ d *desk }

// Namespace describes a namespace: a tenant of the table, with entities, limits,
// buckets and events of its own.
type Namespace struct {
	// Name is its name, as in RepositoryOptions.Namespace.
	Name string
	// State is where it is in its life.
	State fault.NamespaceState
	// RegisteredAt is when it was registered, by DynamoDB's clock, to the millisecond.
	RegisteredAt time.Time
	// RegisteredBy is the principal of the registration; empty if unknown.
	RegisteredBy string
	// ChangedAt is since when it has its state, by DynamoDB's clock, to the millisecond.
	ChangedAt time.Time
	// ChangedBy is the principal of the last change of state; empty if unknown.
	ChangedBy string
}

// Register makes a namespace that limiters may use. A limiter whose repository
// names another one is refused: a misspelt name never becomes a tenant. Refused processes
// are served within their ConfigTTL. Existing items under the name
// belong to it then.
//
// It fails with ErrExists if the namespace is active, and with a *NamespaceError if it was
// deleted: the name stays taken. Like the other changes of namespaces it needs
// a repository without one; on another it is a *ValidationError.
func (n Namespaces) Register(ctx context.Context, name string) error {
	err := n.changeState(ctx, name, transition{
		op: "register the namespace", action: "namespace_registered", to: fault.NamespaceActive,
		refused: map[fault.NamespaceState]string{fault.NamespaceActive: "use it"}, rest: shared.GoneIt,
	})
	if e, ok := errors.AsType[*fault.NamespaceError](err); ok && e.State == fault.NamespaceActive {
		return fmt.Errorf("%w: namespace %q is registered since %s; use it, or choose another name", ErrExists, name, e.Since.Format(time.RFC3339))
	}
	return err
}

// Delete stops the limiters of a namespace, for good: within their ConfigTTL, their calls
// fail with ErrNamespaceDeleted, and nothing is charged. Leases that are out can still be
// corrected, settled and rolled back. No change lands in the namespace afterwards. Its items stay
// until Purge. To stop a tenant for a while, block its system source with Limits.SetBlocked
// instead. A second call does nothing. It fails with a *NamespaceError if the namespace was
// never registered.
func (n Namespaces) Delete(ctx context.Context, name string) error {
	return n.changeState(ctx, name, transition{
		op: "delete the namespace", action: "namespace_deleted", from: fault.NamespaceActive, to: fault.NamespaceDeleted,
		refused: map[fault.NamespaceState]string{"": shared.RegisterIt},
	})
}

// transition is a change of a namespace's state; the state "" is that of a namespace that
// was never registered.
type transition struct {
	op, action string
	from, to   fault.NamespaceState
	// refused has the fix for a namespace in some other states, and rest for
	// all others; "" for a state in which nothing is to be done.
	refused map[fault.NamespaceState]string
	rest    string
	// after is how long the namespace must have been in the state from.
	after time.Duration
}

// checkTransition reports whether the transition t applies to the namespace n at the time now. It returns false
// without an error if n is in the new state already. It returns a *NamespaceError if the state does not permit
// the transition, or not yet.
func (t transition) checkTransition(name string, n schema.NamespaceRecord, now time.Time) (bool, error) {
	reason, known := t.refused[n.State]
	switch since := n.ChangedAt.Add(t.after); {
	case n.State == t.from && t.after > 0 && now.Before(since):
		reason = "limiters may still write in it; " + t.op + " from " + since.UTC().Format(time.RFC3339) + " on"
	case n.State == t.from:
		return true, nil
	case !known:
		reason = t.rest
	}
	if reason == "" {
		return false, nil
	}
	return false, shared.NamespaceError(name, n, reason)
}

// changeState stores the next state of a namespace with its event, in one transaction. It writes nothing if the
// namespace is in that state already, and returns a *NamespaceError if its state does not permit the change.
// The event is outside the namespace, so a purge keeps it.
func (n Namespaces) changeState(ctx context.Context, name string, t transition) error {
	if err := n.checkUnbound(); err != nil {
		return err
	}
	if reason := schema.EntityRule.Check(name); reason != "" {
		return invalid("name", "%s", reason)
	}
	if err := n.d.checkChange(ctx); err != nil {
		return err
	}
	key, _ := schema.NewKeys(name).Namespace()
	return n.d.Table.Change(ctx, t.op, func() (table.Proposal, error) {
		item, err := n.d.Table.Get(ctx, t.op, key)
		if err != nil {
			return table.Proposal{}, err
		}
		before, _ := schema.DecodeNamespace(item)
		now := n.d.Clock.Now()
		if may, err := t.checkTransition(name, before, now); err != nil || !may {
			return table.Proposal{}, err
		}
		after := before
		if item == nil {
			after.Name, after.RegisteredAt, after.RegisteredBy = name, now, n.d.Author
		}
		after.State, after.ChangedAt, after.ChangedBy, after.Version = t.to, now, n.d.Author, before.Version+1
		what := deed{
			action: t.action, target: audit.Namespace(name), after: trail.Fields{"state": string(after.State)},
			was: item, is: schema.EncodeNamespace(after),
		}
		if before.State != "" {
			what.before = trail.Fields{"state": string(before.State)}
		}
		return n.d.propose(what, n.d.Table.PutPart(what.is, schema.NamespaceUnchanged(item)))
	})
}

// Get returns a namespace, read consistently. If it was never registered, it returns the zero Namespace with an
// empty State. Call it on a repository without a namespace, or on one that is bound to this one; on another it
// is a *ValidationError.
func (n Namespaces) Get(ctx context.Context, name string) (Namespace, error) {
	if err := n.d.Usable(ctx); err != nil {
		return Namespace{}, err
	}
	if own := n.d.Keys.Name(); own != "" && own != name {
		return Namespace{}, invalid("name", "is %q, and the repository is bound to the namespace %q; use one without RepositoryOptions.Namespace", name, own)
	}
	if reason := schema.EntityRule.Check(name); reason != "" {
		return Namespace{}, invalid("name", "%s", reason)
	}
	key, _ := schema.NewKeys(name).Namespace()
	item, err := n.d.Table.Get(ctx, "read the namespace", key)
	if err != nil {
		return Namespace{}, err
	}
	record, _ := schema.DecodeNamespace(item)
	return namespaceOf(record), nil
}

// namespaceOf converts a namespace's record for callers.
func namespaceOf(n schema.NamespaceRecord) Namespace {
	return Namespace{
		Name: n.Name, State: n.State, RegisteredAt: n.RegisteredAt, RegisteredBy: n.RegisteredBy, ChangedAt: n.ChangedAt, ChangedBy: n.ChangedBy,
	}
}

// List lists the namespaces of the table in the order of their names, also the
// deleted and purged ones. It reads an index, which may lag by a moment. Call it
// on a repository without a namespace.
func (n Namespaces) List(ctx context.Context) iter.Seq2[Namespace, error] {
	if err := cmp.Or(n.d.Usable(ctx), n.checkUnbound()); err != nil {
		return problem.ErrorList[Namespace](err)
	}
	const op = "list the namespaces"
	q := table.Query{Op: op, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: n.d.Keys.Namespaces()}
	return listPaged(ctx, n.d.Table, q, func(found []schema.Item) (list []Namespace, err error) {
		items, err := n.d.Table.GetMany(ctx, op, keysOf(found))
		for _, item := range items {
			if record, ok := schema.DecodeNamespace(item); ok {
				list = append(list, namespaceOf(record))
			}
		}
		return list, err
	})
}

// checkUnbound returns an error for a repository bound to one namespace: its administrator must not change
// namespaces.
func (n Namespaces) checkUnbound() error {
	if name := n.d.Keys.Name(); name != "" {
		return invalid("repository", "is bound to the namespace %q; register, list, delete and purge namespaces with one without RepositoryOptions.Namespace", name)
	}
	return nil
}
