package admin

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
)

// longestPause bounds the time between two looks at a record that is waited for.
const longestPause = 10 * time.Second

// PurgeProgress is how far a purge is: it waits, and then removes items.
type PurgeProgress struct {
	// Left is how long it waits still, until every limiter has noticed the deletion: so
	// long the namespace can be recovered. It is 0 once items are removed.
	Left time.Duration
	// Pass is how often the table has been begun to be looked through by this call. The
	// last pass is the one that finds nothing.
	Pass int
	// Read is how many items this call has looked at, in all passes, whatever their
	// namespace. Removed is how many of them it has removed.
	Read, Removed int64
	// Done means that the purge is over.
	Done bool
}

// purge is one run of a purge.
type purge struct {
	Namespaces
	name string
	keys schema.Keys
	tell func(PurgeProgress)
	PurgeProgress
}

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
// never registered or is active.
//
// tell hears of each step, on the goroutine of the call: while it waits, every ten seconds,
// and after each page of the table. It may wait itself, to leave the table capacity for
// others. It may be nil.
func (n Namespaces) Purge(ctx context.Context, name string, tell func(PurgeProgress)) error {
	if err := n.mayChange(ctx, name); err != nil {
		return err
	}
	if tell == nil {
		tell = func(PurgeProgress) {}
	}
	p := &purge{Namespaces: n, name: name, keys: schema.NewKeys(name), tell: tell}
	if err := p.start(ctx); err != nil {
		return err
	}
	p.Left = 0
	for {
		removed, err := p.pass(ctx)
		if err != nil {
			return err
		}
		if removed == 0 {
			break
		}
	}
	if err := p.finish(ctx); err != nil {
		return err
	}
	p.Done = true
	p.tell(p.PurgeProgress)
	return nil
}

// errNotYet ends a transition that has to wait.
var errNotYet = errors.New("limiters may not have noticed the deletion")

// start marks the record once every limiter has noticed the deletion. It looks at the
// record again and again, because the namespace can be recovered until then.
func (p *purge) start(ctx context.Context) error {
	for {
		err := p.mark(ctx)
		if !errors.Is(err, errNotYet) {
			return err
		}
		p.tell(p.PurgeProgress)
		if !ddb.Sleep(ctx, min(p.Left, longestPause)) {
			return ctx.Err()
		}
	}
}

// mark makes a deleted namespace one that is being purged. It fails with errNotYet, and
// notes how long it is still to wait, if limiters may not know of the deletion. One whose purge
// has begun, or is over, stays as it is: what came late is removed all the same.
func (p *purge) mark(ctx context.Context) error {
	return p.put(ctx, p.name, transition{
		op: "purge the namespace", action: "namespace_purge_started", from: fault.NamespaceDeleted, to: fault.NamespacePurging,
		refused: map[fault.NamespaceState]string{
			"": shared.RegisterIt, fault.NamespaceActive: "delete it before it is purged",
		},
		ready: func(n schema.NamespaceRecord) error {
			if p.Left = n.ChangedAt.Add(shared.NoticeTime).Sub(p.d.Clock.Now()); p.Left > 0 {
				return errNotYet
			}
			return nil
		},
	})
}

// pass looks through the table once, and removes what is in the namespace.
func (p *purge) pass(ctx context.Context) (removed int64, err error) {
	const op = "purge the namespace"
	p.Pass++
	p.tell(p.PurgeProgress)
	for page, err := range p.d.Table.ScanKeys(ctx, table.Scan{Op: op, Filter: p.keys.WithinPrefix()}) {
		if err != nil {
			return removed, err
		}
		keys := p.belongings(page.Keys)
		err := table.Patiently(ctx, func() error { return p.d.Table.BatchDelete(ctx, op, keys) })
		if err != nil {
			return removed, err
		}
		removed += int64(len(keys))
		p.Read, p.Removed = p.Read+page.Read, p.Removed+int64(len(keys))
		p.tell(p.PurgeProgress)
	}
	return removed, nil
}

// belongings are the keys that are removed: all in the namespace but its record, which
// keeps limiters from it. What the filter let through by mistake is not among them.
func (p *purge) belongings(found []schema.Key) []schema.Key {
	record, _ := p.keys.Namespace()
	keys := make([]schema.Key, 0, len(found))
	for _, key := range found {
		if p.keys.Within(key) && key != record {
			keys = append(keys, key)
		}
	}
	return keys
}

// finish makes the record the tombstone of the namespace. That of one that was purged
// before stays as it is.
func (p *purge) finish(ctx context.Context) error {
	return p.put(ctx, p.name, transition{
		op: "end the purge of the namespace", action: "namespace_purged", from: fault.NamespacePurging, to: fault.NamespacePurged,
	})
}
