package admin

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Admin changes the items of one namespace of a table, a part for each kind of item. It is
// safe for concurrent use.
type Admin struct {
	*Desk
	Configs    Configs
	Entities   Entities
	Buckets    Buckets
	Namespaces Namespaces
	Trail      Trail
}

// New returns the parts that work at a desk.
func New(d *Desk) *Admin {
	return &Admin{d, Configs{d}, Entities{d, Configs{d}}, Buckets{d}, Namespaces{d}, Trail{d}}
}

type (
	// Configs are configurations, by their owners.
	Configs struct{ *Desk }
	// Entities are the records of entities.
	Entities struct {
		*Desk
		configs Configs
	}
	// Buckets are buckets, which administrators refill.
	Buckets struct{ *Desk }
	// Namespaces are the records of namespaces.
	Namespaces struct{ *Desk }
	// Trail is the events of every change.
	Trail struct{ *Desk }
)

// Desk is what the parts have in common: the table, and a record of each change. Its fields
// are set once, before it is used.
type Desk struct {
	Table *table.Table
	Keys  schema.Keys
	// Now is DynamoDB's time, as far as it is known.
	Now func() time.Time
	// IDs draws the ids of events.
	IDs *trail.IDs
	// Events says where events lie and how long they are kept.
	Events trail.Layout
}

// Deed is a change as it is recorded.
type Deed struct {
	// By is the principal, empty for nobody known.
	By string
	// Action is what is done, for example "limits_set".
	Action string
	// Target is what is changed, as events name it; Resource is the resource, if any.
	Target, Resource string
	// Before and After are the fields of what is changed.
	Before, After trail.Fields
	// Was and Is are its item, nil for none: the event comes after the last one that Was
	// names, and Is names it.
	Was, Is schema.Item
}

// Record is the part of a transaction that puts the event of a deed. Its key proves that
// the transaction was made.
func (k *Desk) Record(d Deed) (types.TransactWriteItem, schema.Key, error) {
	changes, err := trail.Diff(d.Before, d.After)
	if err != nil {
		return types.TransactWriteItem{}, schema.Key{}, err
	}
	id := k.IDs.Above(schema.LastEvent(d.Was), k.Now())
	now, _ := trail.TimeOf(id) // an id is never below the last, so a clock set back is not told
	schema.SetLastEvent(d.Is, id)
	item := k.Events.Item(audit.Event{
		ID: id, Time: now, Principal: d.By, Action: d.Action, Target: d.Target, Resource: d.Resource, Changes: changes,
	})
	return k.Table.Put(item, schema.Statement{}), schema.KeyOf(item), nil
}

// propose is a proposal of writes with the event of a deed.
func (k *Desk) propose(d Deed, writes ...types.TransactWriteItem) (table.Proposal, error) {
	event, proof, err := k.Record(d)
	if err != nil {
		return table.Proposal{}, err
	}
	return table.Proposal{Writes: append(writes, event), Proof: proof}, nil
}
