package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Tries bounds how often a change is tried again because another change was made
// meanwhile.
const Tries = 8

// Proposal is a change that is made if its conditions hold: all of it, or nothing.
type Proposal struct {
	// Writes are the parts of one transaction, at most 100. Without any, nothing is to
	// be done.
	Writes []types.TransactWriteItem
	// Proof is the key of an item that only this proposal puts: without an answer,
	// the item shows that the change was made. The zero Key is none.
	Proof schema.Key
}

// Guard is a condition of every change of a table.
type Guard struct {
	// Check is a part of each transaction.
	Check types.TransactWriteItem
	// Why is asked when a condition did not hold. Its error, that of the guard, ends the
	// change: no other try can succeed.
	Why func(context.Context) error
}

// withGuard returns the proposal with one more write, the condition of the table's guard, such as that the
// namespace is still active. Without a guard it returns p unchanged; it never changes p's own slice.
func (t *Table) withGuard(p Proposal) Proposal {
	if t.Guard != nil {
		p.Writes = append(slices.Clip(p.Writes), t.Guard.Check)
	}
	return p
}

// guardError returns the guard's error after a condition of a transaction did not hold. It is nil for another
// verdict, without a guard, or if the guard's own condition holds.
func (t *Table) guardError(ctx context.Context, v ddb.Verdict) error {
	if v != ddb.Refused || t.Guard == nil {
		return nil
	}
	return t.Guard.Why(ctx)
}

// Change makes the change that propose returns, as one transaction. After a conflict or throttling it calls
// propose again, which must read its inputs again, up to Tries times; then it returns an *UnavailableError. An
// error of propose ends the change.
func (t *Table) Change(ctx context.Context, op string, propose func() (Proposal, error)) error {
	for attempt := 1; ; attempt++ {
		p, err := propose()
		if err != nil {
			return err
		}
		if again, err := t.Try(ctx, op, attempt, p); !again {
			return err
		}
	}
}

// Try sends a proposal once, as a transaction, because the SDK gives that a client token that stays the same
// when it retries; without writes it does nothing. attempt is its number among the attempts of the change, from
// 1. again is true after a conflict or throttling, once it has waited: the caller must propose again, from new
// reads.
func (t *Table) Try(ctx context.Context, op string, attempt int, p Proposal) (again bool, err error) {
	if len(p.Writes) == 0 {
		return false, nil
	}
	_, err = t.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: t.withGuard(p).Writes})
	v := VerdictOf(err)
	switch {
	case v == ddb.Landed:
		return false, nil
	case v == ddb.Unconfirmed:
		return false, t.resolveUnanswered(ctx, op, p, err)
	case v != ddb.Refused && v != ddb.Conflicted && v != ddb.Throttled && v != ddb.Unsent:
		return false, t.Failure(op, err)
	}
	err = t.awaitRetry(ctx, op, attempt, v, err)
	return err == nil, err
}

// awaitRetry waits for the backoff after an attempt that made no change, and returns nil if the change is to be
// proposed again. It fails with the guard's error if that refused, or with an *UnavailableError if this was the
// last attempt or ctx ended.
func (t *Table) awaitRetry(ctx context.Context, op string, attempt int, v ddb.Verdict, cause error) error {
	if why := t.guardError(ctx, v); why != nil {
		return why
	}
	if attempt == Tries {
		return t.Unavailable(op, fmt.Errorf("others were in the way in each of %d tries: %w", attempt, cause))
	}
	if !Backoff.Pause(ctx, attempt) {
		return t.Unavailable(op, fmt.Errorf("%w; the last try: %w", ctx.Err(), cause))
	}
	return nil
}

// resolveUnanswered reads the proof of a change without an answer, even after ctx has ended, and returns nil if
// the change was made. Otherwise it returns an *UnavailableError with Unconfirmed set.
func (t *Table) resolveUnanswered(ctx context.Context, op string, p Proposal, cause error) error {
	if p.Proof != (schema.Key{}) {
		item, err := t.Get(context.WithoutCancel(ctx), op, p.Proof)
		if err == nil && item != nil {
			return nil
		}
	}
	if ctx.Err() != nil && !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	failure := t.Unavailable(op, cause)
	failure.Unconfirmed = true
	return failure
}

// PutPart returns the part of a transaction that puts an item under a condition; the zero Statement is
// unconditional. It sends nothing.
func (t *Table) PutPart(item schema.Item, st schema.Statement) types.TransactWriteItem {
	put := &types.Put{TableName: &t.Name, Item: item}
	put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues = splitCondition(st)
	return types.TransactWriteItem{Put: put}
}

// DeletePart returns the part of a transaction that deletes an item under a condition; the zero Statement is
// unconditional. It sends nothing.
func (t *Table) DeletePart(key schema.Key, st schema.Statement) types.TransactWriteItem {
	del := &types.Delete{TableName: &t.Name, Key: key.Attributes()}
	del.ConditionExpression, del.ExpressionAttributeNames, del.ExpressionAttributeValues = splitCondition(st)
	return types.TransactWriteItem{Delete: del}
}

// CheckPart returns the part of a transaction that requires a condition of an item. It sends nothing.
func (t *Table) CheckPart(key schema.Key, st schema.Statement) types.TransactWriteItem {
	check := &types.ConditionCheck{TableName: &t.Name, Key: key.Attributes()}
	check.ConditionExpression, check.ExpressionAttributeNames, check.ExpressionAttributeValues = splitCondition(st)
	return types.TransactWriteItem{ConditionCheck: check}
}

// UpdatePart returns the part of a transaction that updates an item under the statement's condition. It sends
// nothing.
func (t *Table) UpdatePart(key schema.Key, st schema.Statement) types.TransactWriteItem {
	up := &types.Update{TableName: &t.Name, Key: key.Attributes(), UpdateExpression: &st.Update}
	up.ConditionExpression, up.ExpressionAttributeNames, up.ExpressionAttributeValues = splitCondition(st)
	if len(st.Values) > 0 { // those of the update, without a condition
		up.ExpressionAttributeValues = st.Values
	}
	if len(st.Names) > 0 {
		up.ExpressionAttributeNames = st.Names
	}
	return types.TransactWriteItem{Update: up}
}

// splitCondition returns a statement's condition, names and values for a transaction, with nil for empty ones,
// because DynamoDB refuses empty maps.
func splitCondition(st schema.Statement) (expression *string, names map[string]string, values schema.Item) {
	if st.Condition == "" {
		return nil, nil, nil
	}
	if len(st.Names) > 0 {
		names = st.Names
	}
	if len(st.Values) > 0 {
		values = st.Values
	}
	return &st.Condition, names, values
}
