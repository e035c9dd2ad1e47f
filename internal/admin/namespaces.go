package admin

import (
	"context"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// The actions of a namespace's life, as events name them.
const (
	NamespaceRegistered   = "namespace_registered"
	NamespaceDeleted      = "namespace_deleted"
	NamespaceRecovered    = "namespace_recovered"
	NamespacePurgeStarted = "namespace_purge_started"
	NamespacePurged       = "namespace_purged"
)

// LongestTTL bounds how long a limiter in a namespace uses a configuration, and with it the
// namespace, before it looks again.
const LongestTTL = 5 * time.Minute

// What to do about a namespace that is not active.
const (
	registerIt = "check the name, or register it with admin.Namespaces.Register"
	recoverIt  = "an administrator can undo it with admin.Namespaces.Recover"
	goneIt     = "that is final, and its name stays taken; use another name"
)

func namespaceError(name string, n schema.NamespaceRecord, reason string) *fault.NamespaceError {
	return &fault.NamespaceError{Namespace: name, State: n.State, Since: n.ChangedAt, Reason: reason}
}

// Inactive is why a namespace with this record, nil for none, may not be used; nil if it
// may.
func Inactive(name string, record schema.Item) *fault.NamespaceError {
	n, found := schema.DecodeNamespace(record)
	switch {
	case !found:
		return namespaceError(name, n, registerIt)
	case n.State == fault.NamespaceActive:
		return nil
	case n.State == fault.NamespaceDeleted:
		return namespaceError(name, n, recoverIt)
	}
	return namespaceError(name, n, goneIt)
}

// Guarded is a table whose changes require that the namespace of the keys is active, so
// that none lands after its deletion. Without a namespace it is the table itself.
func Guarded(t *table.Table, keys schema.Keys) *table.Table {
	key, ok := keys.Namespace()
	if !ok {
		return t
	}
	guarded := *t
	guarded.Guard = &table.Guard{
		Check: t.Check(key, schema.NamespaceIsActive()),
		Why: func(ctx context.Context) error {
			item, err := t.Get(ctx, "read the namespace", key)
			if err != nil {
				return err
			}
			if inactive := Inactive(keys.Name(), item); inactive != nil {
				return inactive
			}
			return nil
		},
	}
	return &guarded
}

// Register makes a namespace that limiters may use.
func (a Namespaces) Register(ctx context.Context, by, name string) error {
	return a.change(ctx, by, name, transition{
		op: "register the namespace", action: NamespaceRegistered, to: fault.NamespaceActive,
		may: func(n schema.NamespaceRecord) (bool, error) {
			switch n.State {
			case "":
				return true, nil
			case fault.NamespaceActive:
				return false, namespaceError(name, n, "use it, or choose another name")
			case fault.NamespaceDeleted:
				return false, namespaceError(name, n, "recover it with admin.Namespaces.Recover, or choose another name")
			default:
				return false, namespaceError(name, n, goneIt)
			}
		},
	})
}

// Delete stops the limiters of a namespace. What is stored stays.
func (a Namespaces) Delete(ctx context.Context, by, name string) error {
	return a.change(ctx, by, name, transition{
		op: "delete the namespace", action: NamespaceDeleted, to: fault.NamespaceDeleted,
		may: func(n schema.NamespaceRecord) (bool, error) {
			if n.State == "" {
				return false, namespaceError(name, n, registerIt)
			}
			return n.State == fault.NamespaceActive, nil
		},
	})
}

// Recover makes a deleted namespace active again.
func (a Namespaces) Recover(ctx context.Context, by, name string) error {
	return a.change(ctx, by, name, transition{
		op: "recover the namespace", action: NamespaceRecovered, to: fault.NamespaceActive,
		may: func(n schema.NamespaceRecord) (bool, error) {
			switch n.State {
			case "":
				return false, namespaceError(name, n, registerIt)
			case fault.NamespaceActive:
				return false, nil
			case fault.NamespaceDeleted:
				return true, nil
			default:
				return false, namespaceError(name, n, goneIt)
			}
		},
	})
}

// transition is a change of a namespace's state.
type transition struct {
	op, action string
	to         fault.NamespaceState
	// may reports whether the change is to be made; the zero record is that of a
	// namespace that was never registered. If it is false without an error, there is
	// nothing to do.
	may func(schema.NamespaceRecord) (bool, error)
}

// change gives a namespace its next state, in one transaction with the event.
// The event lies outside of the namespace, so that it stays when that is purged.
func (a Namespaces) change(ctx context.Context, by, name string, t transition) error {
	key, _ := schema.NewKeys(name).Namespace()
	return a.Table.Change(ctx, t.op, func() (table.Proposal, error) {
		item, err := a.Table.Get(ctx, t.op, key)
		if err != nil {
			return table.Proposal{}, err
		}
		before, _ := schema.DecodeNamespace(item)
		if may, err := t.may(before); err != nil || !may {
			return table.Proposal{}, err
		}
		now := a.Now()
		after := before
		if item == nil {
			after.Name, after.RegisteredAt, after.RegisteredBy = name, now, by
		}
		after.State, after.ChangedAt, after.ChangedBy, after.Version = t.to, now, by, before.Version+1
		d := Deed{
			By: by, Action: t.action, Target: trail.NamespaceTarget(name), Before: namespaceFields(before), After: namespaceFields(after),
			Was: item, Is: schema.EncodeNamespace(after),
		}
		return a.propose(d, a.Table.Put(d.Is, schema.NamespaceUnchanged(item)))
	})
}

// namespaceFields are the fields of a namespace as events show them.
func namespaceFields(n schema.NamespaceRecord) trail.Fields {
	if n.State == "" {
		return nil
	}
	return trail.Fields{"state": string(n.State)}
}

// Get is the record of a namespace, read consistently; the zero one for a namespace
// that was never registered.
func (a Namespaces) Get(ctx context.Context, name string) (schema.NamespaceRecord, error) {
	key, _ := schema.NewKeys(name).Namespace()
	item, err := a.Table.Get(ctx, "read the namespace", key)
	if err != nil {
		return schema.NamespaceRecord{}, err
	}
	record, _ := schema.DecodeNamespace(item)
	return record, nil
}

// List lists the namespaces of the table in the order of their names. An index is
// read, which may lag behind by a moment; the records are read consistently.
func (a Namespaces) List(ctx context.Context) iter.Seq2[schema.NamespaceRecord, error] {
	const op = "list the namespaces"
	q := table.Query{Op: op, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: a.Keys.Namespaces()}
	return func(yield func(schema.NamespaceRecord, error) bool) {
		for page, err := range a.Table.Pages(ctx, q) {
			var records []schema.NamespaceRecord
			if err == nil {
				records, err = a.of(ctx, op, page)
			}
			if err != nil {
				yield(schema.NamespaceRecord{}, err)
				return
			}
			if !table.YieldAll(records, yield) {
				return
			}
		}
	}
}

// of reads the records of a page of the list.
func (a Namespaces) of(ctx context.Context, op string, page *dynamodb.QueryOutput) ([]schema.NamespaceRecord, error) {
	keys := make([]schema.Key, len(page.Items))
	for i, item := range page.Items {
		keys[i] = schema.KeyOf(item)
	}
	found, err := a.Table.BatchGet(ctx, op, keys)
	if err != nil {
		return nil, err
	}
	records := make([]schema.NamespaceRecord, 0, len(keys))
	for _, key := range keys {
		if n, ok := schema.DecodeNamespace(found[key]); ok {
			records = append(records, n)
		}
	}
	return records, nil
}
