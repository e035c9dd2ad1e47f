package admin

import (
	"context"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
)

const opPurge = "purge the namespace"

// PurgeProgress is the progress of a purge.
type PurgeProgress struct {
	// Pass is the number of passes through the table that this call has begun. The last pass
	// finds nothing.
	Pass int
	// Read counts the items of all namespaces that this call has read, in all passes. Removed
	// counts the removed ones.
	Read, Removed int64
}

// Purge removes everything in a deleted namespace, its events too, for good. The events about the
// whole namespace lie outside of it and stay. It reads the whole table, again and again
// until a pass finds nothing in the namespace: with many tenants in a table run it in a
// quiet hour. The name stays taken.
//
// It fails with a *NamespaceError within 11 minutes after the deletion, because limiters may not
// have noticed it and still write; and for a namespace that was never registered or is active.
// It ends with ctx's error when ctx ends. Repeat a failed call. On a purged namespace
// it removes late writes: leases from before the deletion may be settled after the purge.
//
// tell receives each pass and page of the table, on the goroutine of the call. It may wait
// itself, to leave the table capacity for others. It may be nil.
func (n Namespaces) Purge(ctx context.Context, name string, tell func(PurgeProgress)) error {
	err := n.changeState(ctx, name, transition{
		op: opPurge, action: "namespace_purge_started", from: fault.NamespaceDeleted, to: fault.NamespacePurging,
		refused: map[fault.NamespaceState]string{
			"": shared.RegisterIt, fault.NamespaceActive: "delete it before it is purged",
		},
		after: shared.NoticeTime,
	})
	if err != nil {
		return err
	}
	if tell == nil {
		tell = func(PurgeProgress) {}
	}
	var at PurgeProgress
	for removed := int64(-1); at.Removed != removed; {
		removed = at.Removed
		at.Pass++
		tell(at)
		if err := n.purgePass(ctx, schema.NewKeys(name), &at, tell); err != nil {
			return err
		}
	}
	return n.changeState(ctx, name, transition{
		op: "end the purge of the namespace", action: "namespace_purged", from: fault.NamespacePurging, to: fault.NamespacePurged,
	})
}

// purgePass scans the table once and deletes the items of the namespace, except its record, which keeps
// limiters out. It retries throttled deletions. After each page it adds to at and passes at to tell.
func (n Namespaces) purgePass(ctx context.Context, keys schema.Keys, at *PurgeProgress, tell func(PurgeProgress)) error {
	record, _ := keys.Namespace()
	for page, err := range n.d.Table.ScanKeys(ctx, table.Scan{Op: opPurge, Filter: keys.WithinPrefix()}) {
		if err != nil {
			return err
		}
		var found []schema.Key
		for _, key := range page.Keys {
			if keys.Within(key) && key != record { // the filter must not delete other items by mistake
				found = append(found, key)
			}
		}
		if err := table.RetryThrottled(ctx, func() error { return n.d.Table.BatchDelete(ctx, opPurge, found) }); err != nil {
			return err
		}
		at.Read, at.Removed = at.Read+page.Read, at.Removed+int64(len(found))
		tell(*at)
	}
	return nil
}
