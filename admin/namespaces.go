package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Namespaces are the tenants of a table, on a repository without one.
type Namespaces struct{ d *desk }

// Namespace is what is known of a namespace: a tenant of the table, with entities, limits,
// buckets and events of its own.
type Namespace struct {
	// Name is what RepositoryOptions.Namespace names.
	Name string
	// State is where it is in its life.
	State fault.NamespaceState
	// RegisteredAt is when it was registered, by DynamoDB's clock, to the millisecond.
	RegisteredAt time.Time
	// RegisteredBy is the principal who registered it; empty for nobody known.
	RegisteredBy string
	// ChangedAt is since when it has its state, by DynamoDB's clock, to the millisecond.
	ChangedAt time.Time
	// ChangedBy is the principal who gave it its state; empty for nobody known.
	ChangedBy string
}

// AuditNamespace is the Target of what becomes of a namespace as a whole:
// "$NAMESPACE:eu". Its events lie in no namespace: list them on a repository without one.
func AuditNamespace(name string) string { return trail.NamespaceTarget(name) }

// Register makes a namespace that limiters may use. A limiter whose repository
// names another one is refused: a misspelt name never becomes a tenant. Processes that
// were refused are served within their ConfigTTL. What a table holds under the name
// already belongs to it then.
//
// It fails with ErrExists if the namespace is active, and with a *NamespaceError if it was
// deleted: a purged name stays taken. Like the other changes of namespaces it is called on
// a repository without one, and is a *ValidationError on another.
func (n Namespaces) Register(ctx context.Context, name string) error {
	err := n.changeNamespace(ctx, name, admin.Namespaces.Register)
	if e, ok := errors.AsType[*fault.NamespaceError](err); ok && e.State == fault.NamespaceActive {
		return fmt.Errorf("%w: namespace %q is registered since %s; use it, or choose another name", ErrExists, name, e.Since.Format(time.RFC3339))
	}
	return err
}

// Delete stops the limiters of a namespace: within their ConfigTTL, their calls
// fail with ErrNamespaceDeleted, and nothing is charged. Leases that are out can still be
// corrected, settled and rolled back. No change lands in the namespace afterwards. What is
// stored stays, and Namespaces.Recover undoes it. To delete a deleted one is no error. It
// fails with a *NamespaceError for one that was never registered.
func (n Namespaces) Delete(ctx context.Context, name string) error {
	return n.changeNamespace(ctx, name, admin.Namespaces.Delete)
}

// Recover makes a deleted namespace active again. Its limiters are served within
// their ConfigTTL, and everything is as it was. To recover an active one is no error. It
// fails with a *NamespaceError for one that was never registered, and for one whose purge
// has begun, because that is final.
func (n Namespaces) Recover(ctx context.Context, name string) error {
	return n.changeNamespace(ctx, name, admin.Namespaces.Recover)
}

// PurgeOptions configures Namespaces.Purge.
type PurgeOptions struct {
	// OnProgress hears of each step, on the goroutine of the call: while it waits, every
	// ten seconds, and after each page of the table. It may wait itself, to leave the table
	// capacity for others. Defaults to nobody.
	OnProgress func(PurgeProgress)
}

// PurgeProgress is how far a purge is.
type PurgeProgress = admin.PurgeProgress

// PurgePhase is what a purge is doing: PurgeWaiting, PurgeRemoving or PurgeDone.
type PurgePhase = admin.PurgePhase

const (
	// PurgeWaiting is the time until every limiter has noticed the deletion. Until it is
	// over, the namespace can be recovered.
	PurgeWaiting = admin.PurgeWaiting
	// PurgeRemoving is the removal of items.
	PurgeRemoving = admin.PurgeRemoving
	// PurgeDone is a purge that is over.
	PurgeDone = admin.PurgeDone
)

// Purge removes everything in a deleted namespace, its events too, for good: what
// became of the namespace as a whole stays recorded outside of it. It waits until 11
// minutes after the deletion, when every limiter has noticed; until then the namespace can
// be recovered, and the call fails if it is. Then it reads the whole table, again and again
// until a pass finds nothing in the namespace: with many tenants in a table that is a
// task for a quiet hour. The name stays taken.
//
// It ends with ctx's error when ctx ends. A run that was ended in any way is run again; on
// a purged namespace it removes what came late: what leases from before the deletion wrote
// that were settled after the purge. It fails with a *NamespaceError for one that was
// never registered or is active. opts may be nil.
func (n Namespaces) Purge(ctx context.Context, name string, opts *PurgeOptions) error {
	tell := func(PurgeProgress) {}
	if opts != nil && opts.OnProgress != nil {
		tell = opts.OnProgress
	}
	return n.changeNamespace(ctx, name, func(a admin.Namespaces, ctx context.Context, by, name string) error {
		return a.Purge(ctx, by, name, tell)
	})
}

// Get returns what is known of a namespace, read consistently; the zero Namespace,
// whose State is empty, for one that was never registered. It is called on a repository
// without a namespace, or on one that is bound to this one.
func (n Namespaces) Get(ctx context.Context, name string) (Namespace, error) {
	if err := n.d.repo.Usable(ctx); err != nil {
		return Namespace{}, err
	}
	if own := n.d.repo.Keys.Name(); own != "" && own != name {
		return Namespace{}, invalid("name", "is %q, and the repository is bound to the namespace %q; ask on one without RepositoryOptions.Namespace", name, own)
	}
	if reason := schema.CheckNamespace(name); reason != "" {
		return Namespace{}, invalid("name", "%s", reason)
	}
	record, err := n.d.repo.Items.Namespaces.Get(ctx, name)
	return namespaceOf(record), err
}

// namespaceOf is a namespace as users see it.
func namespaceOf(n schema.NamespaceRecord) Namespace {
	return Namespace{
		Name: n.Name, State: n.State, RegisteredAt: n.RegisteredAt, RegisteredBy: n.RegisteredBy, ChangedAt: n.ChangedAt, ChangedBy: n.ChangedBy,
	}
}

// List lists the namespaces of the table in the order of their names, those that are
// deleted and purged too. An index is read, which may lag behind by a moment. It is called
// on a repository without a namespace.
func (n Namespaces) List(ctx context.Context) iter.Seq2[Namespace, error] {
	if err := n.d.repo.Usable(ctx); err != nil {
		return problem.List[Namespace](err)
	}
	if err := n.overNamespaces(); err != nil {
		return problem.List[Namespace](err)
	}
	return func(yield func(Namespace, error) bool) {
		for n, err := range n.d.repo.Items.Namespaces.List(ctx) {
			if !yield(namespaceOf(n), err) || err != nil {
				return
			}
		}
	}
}

// changeNamespace checks what a change of a namespace needs, and makes it.
func (n Namespaces) changeNamespace(ctx context.Context, name string, change func(a admin.Namespaces, ctx context.Context, by, name string) error) error {
	if err := n.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := n.overNamespaces(); err != nil {
		return err
	}
	if reason := schema.CheckNamespace(name); reason != "" {
		return invalid("name", "%s", reason)
	}
	by, err := n.d.mayChange(ctx)
	if err != nil {
		return err
	}
	return change(n.d.repo.Items.Namespaces, ctx, by, name)
}

// overNamespaces refuses a repository that is bound to one namespace: who administers it
// does not decide whether it is there.
func (n Namespaces) overNamespaces() error {
	if name := n.d.repo.Keys.Name(); name != "" {
		return invalid("repository", "is bound to the namespace %q; namespaces are registered, listed, deleted and purged on one without RepositoryOptions.Namespace", name)
	}
	return nil
}

// NoticeTime is how long after a deletion a purge begins: until every limiter has noticed.
const NoticeTime = admin.NoticeTime
