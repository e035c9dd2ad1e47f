package schema

import (
	"time"
)

const (
	skOperation = "#OPERATION#"

	attrOperation = "operation_id"
	attrAction    = "action"
	attrPrincipal = "principal"
	attrTimestamp = "timestamp"
	attrArguments = "arguments"
	attrResult    = "result"
)

// OperationKept is the time for which a completed operation is remembered.
const OperationKept = 30 * 24 * time.Hour

// maxOperation bounds the id of an operation, in characters.
const maxOperation = 128

// Operation returns the key of an operation on an entity.
func (k Keys) Operation(entity, id string) Key { return Key{k.Entity(entity), skOperation + id} }

// CheckOperation returns why the id of an operation is invalid, as a text, or "". An id is like a resource,
// with at most 128 characters.
func CheckOperation(id string) string {
	rule := ResourceRule
	rule.most = maxOperation
	return rule.Check(id)
}

// Operation is the record of an operation that is done once, even if it is repeated, with its result.
type Operation struct {
	// ID identifies it among the operations of the entity.
	ID string
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Action and Arguments identify the operation; a retry must repeat both.
	Action, Arguments string
	// Result is the result, as JSON.
	Result string
	// By is the principal; empty if it is unknown. At is the time of the operation.
	By string
	At time.Time
}

// OperationUndone returns the condition that the operation's item does not exist.
func OperationUndone() Statement {
	b := newStatementBuilder()
	b.requireAbsent(PK)
	return b.build()
}

// Item returns the item of a completed operation, which expires after OperationKept.
func (o Operation) Item(k Keys) Item {
	item := k.Operation(o.Entity, o.ID).Attributes()
	item[attrOperation] = String(o.ID)
	item[attrEntity] = String(o.Entity)
	item[attrResource] = String(o.Resource)
	item[attrAction] = String(o.Action)
	item[attrArguments] = String(o.Arguments)
	item[attrResult] = String(o.Result)
	item[attrTimestamp] = String(o.At.UTC().Format(time.RFC3339))
	item[TTL] = Number(o.At.Add(OperationKept).Unix())
	if o.By != "" {
		item[attrPrincipal] = String(o.By)
	}
	return item
}

// DecodeOperation reads the item of an operation and leaves a malformed time zero. ok is false for an absent
// item.
func DecodeOperation(item Item) (o Operation, ok bool) {
	if len(item) == 0 {
		return Operation{}, false
	}
	o = Operation{
		ID: Text(item, attrOperation), Entity: Text(item, attrEntity), Resource: Text(item, attrResource),
		Action: Text(item, attrAction), Arguments: Text(item, attrArguments), Result: Text(item, attrResult), By: Text(item, attrPrincipal),
	}
	if t, err := time.Parse(time.RFC3339, Text(item, attrTimestamp)); err == nil {
		o.At = t.UTC()
	}
	return o, true
}
