package budget

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// The actions of events, see audit.Event.
const (
	actionOrgCreated      = "org_created"
	actionOrgUpdated      = "org_updated"
	actionAppCreated      = "app_created"
	actionAppUpdated      = "app_updated"
	actionOrgDeleted      = "org_deleted"
	actionAppDeleted      = "app_deleted"
	actionOverrideSet     = "override_set"
	actionOverrideCleared = "override_cleared"
	actionPricesSet       = "prices_set"
	actionAdjusted        = "adjusted"
	actionSettingsChanged = "settings_changed"
)

// desk changes the control table. Each change is written with its audit event in one
// transaction.
type desk struct {
	store  *store.Store
	now    func() time.Time
	ids    trail.IDs
	layout trail.Layout
}

// newDesk returns a desk that changes the control table of s, with now as the clock for events. Audit events
// expire after retention; a negative one keeps them for ever.
func newDesk(s *store.Store, now func() time.Time, retention time.Duration) *desk {
	return &desk{store: s, now: now, layout: trail.Layout{TTL: store.AttrTTL, Retention: retention}}
}

// newEvent returns e with a new id, the time now, and as changes the fields that differ between before and
// after. It stores nothing.
func (k *desk) newEvent(now time.Time, e audit.Event, before, after trail.Fields) (audit.Event, error) {
	var err error
	e.ID, e.Time = k.ids.New(now), now
	e.Changes, err = trail.Diff(before, after)
	return e, err
}

// change is a change of the control table: its writes and its audit event, for one transaction.
type change struct {
	writes []types.TransactWriteItem
	event  audit.Event
}

// configTries is how often a change is retried that others overtake.
const configTries = 10

var errLostRace = errors.New("changed by somebody else at the same time")

// commit calls decide, which reads and returns a change or nil, and writes that change with its event, once
// even if it is sent repeatedly. If other writers were first, or decide's read got no answer, it repeats both,
// up to configTries times. Then it returns ErrConflict, or the error of the read.
func (k *desk) commit(ctx context.Context, decide func() (*change, error)) error {
	for n := 0; ; n++ {
		c, err := decide()
		if c == nil && err == nil {
			return nil
		}
		overtaken := false
		if err == nil {
			err = k.sendChange(ctx, c)
			overtaken = store.Diagnose(err) == ddb.Refused
		} else if !mayReadAgain(err) {
			return err
		}
		switch {
		case c != nil && !overtaken, ctx.Err() != nil:
			return err
		case n == configTries && overtaken:
			return fmt.Errorf("%w: %w", ErrConflict, errLostRace)
		case n == configTries || store.GiveUp(ctx, n, err):
			return err
		}
	}
}

// mayReadAgain reports whether err says that the store did not answer a read, so that deciding again may
// succeed. It is false for validation errors and ErrNotFound.
func mayReadAgain(err error) bool {
	return store.Diagnose(err).Unavailable() && !errors.Is(err, ErrNotFound) && !errors.As(err, new(*fault.ValidationError))
}

// sendChange writes a change with its audit event in one transaction, and repeats it under one token while the
// store does not answer. If a condition fails, nothing is written and the error is the refusal.
func (k *desk) sendChange(ctx context.Context, c *change) error {
	writes := append(c.writes, types.TransactWriteItem{Put: &types.Put{
		TableName: &k.store.Control, Item: k.layout.Item(c.event),
	}})
	return k.store.Transact(ctx, store.NewID(), writes)
}

// unchangedCondition returns a DynamoDB condition, its names and its values: the attributes of the stored item
// are as in item, missing ones still missing. For a nil item the condition is that none is stored.
func unchangedCondition(item store.Item, attributes ...string) (condition string, names map[string]string, values store.Item) {
	if item == nil {
		return store.IfAbsent, map[string]string{"#pk": "PK"}, nil
	}
	names, values = map[string]string{}, store.Item{}
	for _, name := range attributes {
		if condition != "" {
			condition += " AND "
		}
		names["#"+name] = name
		v, ok := item[name]
		if !ok {
			condition += "attribute_not_exists(#" + name + ")"
			continue
		}
		condition += "#" + name + " = :" + name
		values[":"+name] = v
	}
	return condition, names, values
}

// newPutIfUnchanged returns the transaction write that puts item into the control table; it sends nothing. It
// requires that the stored item still has the given attributes as in seen, or that none exists if seen is nil.
func (k *desk) newPutIfUnchanged(item, seen store.Item, attributes ...string) types.TransactWriteItem {
	put := &types.Put{TableName: &k.store.Control, Item: item}
	condition, names, values := unchangedCondition(seen, attributes...)
	put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues = &condition, names, values
	return types.TransactWriteItem{Put: put}
}

// scanRoots returns an iterator that scans the control table for the root items of partitions with a prefix:
// one per organisation or model. With consistent the reads are strongly consistent. After a failed page it
// yields the error and ends.
func (k *desk) scanRoots(ctx context.Context, prefix string, consistent bool) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		pages := dynamodb.NewScanPaginator(k.store.Client, &dynamodb.ScanInput{
			TableName: &k.store.Control, FilterExpression: aws.String("#sk = :root AND begins_with(#pk, :prefix)"), ConsistentRead: &consistent,
			ExpressionAttributeNames:  map[string]string{"#pk": "PK", "#sk": "SK"},
			ExpressionAttributeValues: store.Item{":root": store.String(ledger.RootSK), ":prefix": store.String(prefix)},
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, store.AsReadError(err))
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// adminError returns nil, validation errors, ErrNotFound and ErrConflict unchanged. It wraps any other error
// with the name of the operation, an unavailable store as a *fault.UnavailableError.
func adminError(operation string, err error) error {
	var bad *fault.ValidationError
	if errors.As(err, &bad) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		return err
	}
	return wrapFailure(operation, err)
}
