package admin

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// NoticeTime is how long after a deletion the purge waits: until no limiter that does not
// know of it can have a write under way. A configuration is used for its TTL and, where
// reading it again fails, for another; then calls may take some time.
const NoticeTime = 2*LongestTTL + time.Minute

// longestPause bounds the time between two looks at a record that is waited for.
const longestPause = 10 * time.Second

// PurgePhase is what a purge is doing.
type PurgePhase string

// The phases of a purge, in their order.
const (
	// PurgeWaiting is the time until every limiter has noticed the deletion. Until it is
	// over, the namespace can be recovered.
	PurgeWaiting PurgePhase = "waiting"
	// PurgeRemoving is the removal of items.
	PurgeRemoving PurgePhase = "removing"
	// PurgeDone is a purge that is over.
	PurgeDone PurgePhase = "done"
)

// PurgeProgress is how far a purge is.
type PurgeProgress struct {
	// Phase is what it is doing.
	Phase PurgePhase
	// Left is how long it is still to wait, while it does.
	Left time.Duration
	// Pass is how often the table has been begun to be looked through by this call. The
	// last pass is the one that finds nothing.
	Pass int
	// Read is how many items this call has looked at, in all passes, whatever their
	// namespace. Removed is how many of them it has removed.
	Read, Removed int64
}

// purge is one run of a purge.
type purge struct {
	*Desk
	of       Namespaces
	by, name string
	keys     schema.Keys
	tell     func(PurgeProgress)
	PurgeProgress
}

// Purge removes everything in a deleted namespace, for good. It waits until every
// limiter has noticed the deletion, marks the record, and looks through the table until a
// pass finds nothing. What was ended in any way is run again. tell hears of each step.
func (a Namespaces) Purge(ctx context.Context, by, name string, tell func(PurgeProgress)) error {
	p := &purge{Desk: a.Desk, of: a, by: by, name: name, keys: schema.NewKeys(name), tell: tell}
	if err := p.start(ctx); err != nil {
		return err
	}
	p.Phase, p.Left = PurgeRemoving, 0
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
	p.Phase = PurgeDone
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
		p.Phase = PurgeWaiting
		p.tell(p.PurgeProgress)
		if !ddb.Sleep(ctx, min(p.Left, longestPause)) {
			return ctx.Err()
		}
	}
}

// mark makes a deleted namespace one that is being purged. It fails with errNotYet, and
// notes how long it is still to wait, if limiters may not know of the deletion.
func (p *purge) mark(ctx context.Context) error {
	return p.of.change(ctx, p.by, p.name, transition{
		op: "purge the namespace", action: NamespacePurgeStarted, to: fault.NamespacePurging,
		may: func(n schema.NamespaceRecord) (bool, error) {
			switch n.State {
			case "":
				return false, namespaceError(p.name, n, registerIt)
			case fault.NamespaceActive:
				return false, namespaceError(p.name, n, "delete it with admin.Namespaces.Delete before it is purged")
			case fault.NamespaceDeleted:
				if p.Left = n.ChangedAt.Add(NoticeTime).Sub(p.Now()); p.Left > 0 {
					return false, errNotYet
				}
				return true, nil
			default: // begun before, or over: what came late is removed all the same
				return false, nil
			}
		},
	})
}

// pass looks through the table once, and removes what is in the namespace.
func (p *purge) pass(ctx context.Context) (removed int64, err error) {
	const op = "purge the namespace"
	p.Pass++
	p.tell(p.PurgeProgress)
	for page, err := range p.Table.ScanKeys(ctx, table.Scan{Op: op, Filter: p.keys.WithinPrefix()}) {
		if err != nil {
			return removed, err
		}
		keys := p.belongings(page.Keys)
		err := table.Patiently(ctx, func() error { return p.Table.BatchDelete(ctx, op, keys) })
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
	return p.of.change(ctx, p.by, p.name, transition{
		op: "end the purge of the namespace", action: NamespacePurged, to: fault.NamespacePurged,
		may: func(n schema.NamespaceRecord) (bool, error) { return n.State == fault.NamespacePurging, nil },
	})
}
