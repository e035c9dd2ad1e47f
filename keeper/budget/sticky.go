package budget

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Sticky records the label that an app uses today. It does not affect recommendations, which
// depend on the spend.
type Sticky struct {
	Label    string    // the label in use
	Index    int       // its index in the ordering
	Previous string    // the label before it
	Reason   string    // QUOTA_EXCEEDED, CONFIG_CHANGED if a PUT moved it back, MANUAL_OVERRIDE
	Version  int64     // sum of the configuration versions of organisation and app
	At       time.Time // time of the last change, or of setting the override
}

// reasonConfigChanged is the reason when a PUT moved the label back. Only a Sticky has it.
const reasonConfigChanged = "CONFIG_CHANGED"

// stickyView is the last seen record.
type stickyView struct {
	Sticky
	exists bool
	read   time.Time
}

// decodeSticky decodes an app's record of the label in use, read at the instant read. A nil item gives a view
// with exists false. A malformed attribute is an error.
func decodeSticky(item store.Item, read time.Time) (stickyView, error) {
	var d store.Decoder
	return stickyView{Sticky: Sticky{
		Label: d.String(item, "active_model_label"), Index: int(d.Int(item, "idx")), Previous: d.String(item, "previous_model_label"),
		Reason: d.String(item, "reason"), Version: d.Int(item, "cfg_version"), At: time.Unix(d.Int(item, "activated_at_epoch"), 0),
	}, exists: item != nil, read: read}, d.Err
}

// readSticky reads the app's record of the label in use today. An active override with a price replaces it in
// the result, with the record's label, or the first of the ordering, as Previous. Without both it returns
// ErrNotFound.
func (s *standing) readSticky(ctx context.Context, org, app string) (Sticky, error) {
	if err := validTarget(org, app); err != nil {
		return Sticky{}, err
	}
	t, err := s.tenants.get(ctx, org, app)
	if err != nil {
		return Sticky{}, err
	}
	now := s.now()
	item, err := s.store.Get(ctx, s.store.Usage, stickyKey(org, app, t.calendar.Day(now)))
	if err != nil {
		return Sticky{}, wrapFailure("Sticky", err)
	}
	if forced, ok := s.overrideInUse(ctx, t); ok {
		stored, err := decodeSticky(item, now)
		forced.Previous, forced.Version = cmp.Or(stored.Label, t.policy().ordering[0]), t.version
		return forced, err
	}
	if item == nil {
		return Sticky{}, notFound("sticky record of app %q today", app)
	}
	v, err := decodeSticky(item, now)
	return v.Sticky, err
}

// overrideInUse returns the app's active override as a Sticky without Previous and Version. It returns false if
// none is active, its label has no price, or the spend is unknown. It may query the store.
func (s *standing) overrideInUse(ctx context.Context, t *tenant) (Sticky, bool) {
	if t.activeOverride(s.now()) == "" {
		return Sticky{}, false
	}
	out, _ := s.readOutlook(ctx, t, false)
	if out == nil || !out.override {
		return Sticky{}, false
	}
	return Sticky{Label: out.labels[out.index].label, Index: out.index, Reason: ReasonManualOverride, At: t.override.since}, true
}

// moveSticky stores the label that the spend leads to in the app's record of today, with an event, if
// needsWrite says so. With Options.OnEvent it delivers the record's event. It updates v.sticky, which it reads
// again after ConfigTTL; v.mu must be held.
func (s *standing) moveSticky(ctx context.Context, t *tenant, v *view, out *outlook, now time.Time) error {
	index := out.indexBySpend()
	if v.sticky.read.IsZero() || now.Sub(v.sticky.read) >= s.opts.ConfigTTL {
		item, err := s.store.Get(ctx, s.store.Usage, stickyKey(t.org, t.app, out.day))
		if err != nil {
			return err
		}
		if v.sticky, err = decodeSticky(item, now); err != nil {
			return err
		}
	}
	if index < len(out.labels) && v.sticky.needsWrite(index, out.labels[index].label, t.version) {
		if err := s.writeSticky(ctx, t, v, out, index, now); err != nil {
			return err
		}
	}
	if s.opts.OnEvent == nil || !v.sticky.exists {
		return nil
	}
	return s.deliverEvent(ctx, v, v.sticky.flipEvent(t, out), now)
}

// needsWrite reports whether the label at index must be stored: one after the recorded label in the same
// configuration, or another in a newer one. Without a record only a later label than the first needs it.
func (s stickyView) needsWrite(index int, label string, version int64) bool {
	switch {
	case !s.exists:
		return index > 0
	case s.Version < version:
		return s.Label != label // the ordering may have changed
	}
	return s.Version == version && s.Index < index
}

// flipEvent returns the event that the app moved from the record's previous label to its label. Its id depends
// on the record alone, so all processes make the same event. It delivers nothing.
func (s stickyView) flipEvent(t *tenant, out *outlook) Event {
	e := Event{
		Kind: EventFlip, Org: t.org, App: t.app, Scope: out.scope, Day: out.day,
		Label: s.Label, From: s.Previous, At: s.At,
	}
	e.ID = fmt.Sprintf("%s#DAY#%s#FLIP#%s#%d#%02d", out.scope, e.Day, t.app, s.Version, s.Index)
	return e
}

// writeSticky stores the label at index as the app's record of today, with its event not yet delivered, and
// sets v.sticky. If the store has an equal or later record, it writes nothing and reads that into v.sticky.
// v.mu must be held.
func (s *standing) writeSticky(ctx context.Context, t *tenant, v *view, out *outlook, index int, now time.Time) error {
	previous := out.labels[0].label
	if v.sticky.exists {
		previous = v.sticky.Label
	}
	next := stickyView{Sticky: Sticky{
		Label: out.labels[index].label, Index: index, Previous: previous, Reason: reasonQuotaExceeded,
		Version: t.version, At: time.Unix(now.Unix(), 0),
	}, exists: true, read: now}
	if v.sticky.exists && index < v.sticky.Index {
		next.Reason = reasonConfigChanged
	}
	key := stickyKey(t.org, t.app, out.day)
	put := &types.Put{
		TableName:           &s.store.Usage,
		ConditionExpression: aws.String("attribute_not_exists(#pk) OR #v < :v OR (#v = :v AND #i < :i)"),
		Item: store.Item{
			"PK": store.String(key.PK), "SK": store.String(key.SK), "active_model_label": store.String(next.Label), "idx": store.Int(int64(index)),
			"previous_model_label": store.String(previous), "reason": store.String(next.Reason), "cfg_version": store.Int(next.Version),
			"activated_at_epoch": store.Int(now.Unix()), store.AttrTTL: store.Int(out.resetAt.Unix() + 3600),
		},
		ExpressionAttributeNames:            map[string]string{"#pk": "PK", "#v": "cfg_version", "#i": "idx"},
		ExpressionAttributeValues:           store.Item{":v": store.Int(next.Version), ":i": store.Int(int64(index))},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	event := &types.Put{TableName: &s.store.Usage, Item: next.flipEvent(t, out).encodeItem("", time.UnixMilli(0))}
	token := store.NewID()
	err := store.Retry(ctx, func() error {
		_, err := s.store.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token,
			TransactItems:      []types.TransactWriteItem{{Put: put}, {Put: event}},
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused { // another process was first: adopt its record
		v.sticky.read = time.Time{}
		item, err := s.store.Get(ctx, s.store.Usage, key)
		if err != nil {
			return err
		}
		v.sticky, err = decodeSticky(item, now)
		return err
	}
	if err == nil {
		v.sticky = next
	}
	return err
}
