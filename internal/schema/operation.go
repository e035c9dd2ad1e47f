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

// OperationKept is how long it is remembered that an operation was done.
const OperationKept = 30 * 24 * time.Hour

// maxOperation bounds the id of an operation, in characters.
const maxOperation = 128

// Operation is the key of what an operation on an entity came to.
func (k Keys) Operation(entity, id string) Key { return Key{k.Entity(entity), skOperation + id} }

// CheckOperation says what is wrong with the id of an operation, or "" if nothing is.
func CheckOperation(id string) string { return checkIdentifier(id, maxOperation, true) }

// Operation is something that is done once, whoever repeats it: what it was and what it
// came to.
type Operation struct {
	// ID names it among the operations of the entity.
	ID string
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Action and Arguments say what was asked for; who repeats it asks for the same.
	Action, Arguments string
	// Result is what it came to, as JSON.
	Result string
	// By is the principal, empty for nobody known, and At when it was done.
	By string
	At time.Time
}

// OperationUndone is the condition that an operation was not done before.
func OperationUndone() Statement {
	b := newStatementBuilder()
	b.absent(PK)
	return b.build()
}

// Item returns the item of an operation that is done.
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

// DecodeOperation reads the item of an operation; false for none.
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
