package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// The actions of events, see AuditEvent.
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
)

// trail makes the events of changes.
type trail struct {
	ids    audit.IDs
	layout audit.Layout
}

func newTrail(retention time.Duration) *trail {
	return &trail{layout: audit.Layout{TTL: store.AttrTTL, Retention: retention}}
}

// event is e at a moment, with the fields that differ.
func (tr *trail) event(now time.Time, e audit.Event, before, after audit.Fields) (audit.Event, error) {
	var err error
	e.ID, e.Time = tr.ids.New(now), now
	e.Changes, err = audit.Diff(before, after)
	return e, err
}

// change is a change of the control table: its writes and its event, which land together
// or not at all.
type change struct {
	writes []types.TransactWriteItem
	event  audit.Event
}

// commit repeats a decision and its write until the write lands or is refused for good.
// decide reads what there is and returns what to write under conditions on what it read;
// nil: there is nothing to write. A write that may have landed is sent again unchanged
// with its token, so that it lands once, and its event with it: a refusal says that it has
// not.
func (adm *administration) commit(ctx context.Context, decide func() (*change, error)) error {
	for n := 0; ; n++ {
		c, err := decide()
		if c == nil && err == nil {
			return nil
		}
		overtaken := false
		if err == nil {
			err = adm.send(ctx, c)
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

// mayReadAgain reports whether a decision that failed with this error may succeed if it
// is repeated, because the store could not be read.
func mayReadAgain(err error) bool {
	return store.Diagnose(err).Unavailable() && !errors.Is(err, ErrNotFound) && !errors.As(err, new(*ValidationError))
}

// send writes a change and its event in one transaction, until it is answered.
func (adm *administration) send(ctx context.Context, c *change) error {
	writes := append(c.writes, types.TransactWriteItem{Put: &types.Put{
		TableName: &adm.store.Control, Item: adm.trail.layout.Item(c.event),
	}})
	return adm.store.Transact(ctx, store.NewID(), writes)
}

// asSeen is the condition that an item has the attributes that it had when it was read;
// nil: that there is none.
func asSeen(item store.Item, attributes ...string) (condition string, names map[string]string, values store.Item) {
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

// putAsSeen puts an item in the place of one that is as it was read.
func (adm *administration) putAsSeen(item, seen store.Item, attributes ...string) types.TransactWriteItem {
	put := &types.Put{TableName: &adm.store.Control, Item: item}
	condition, names, values := asSeen(seen, attributes...)
	put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues = &condition, names, values
	return types.TransactWriteItem{Put: put}
}
