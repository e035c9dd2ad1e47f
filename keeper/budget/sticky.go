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

// Sticky records which label an app uses today. It does not decide anything: the
// recommendation comes from what is spent.
type Sticky struct {
	Label    string    // in use
	Index    int       // in the ordering
	Previous string    // the label before
	Reason   string    // QUOTA_EXCEEDED, CONFIG_CHANGED when a PUT moved it back, MANUAL_OVERRIDE
	Version  int64     // of the configuration, organisation's and app's together
	At       time.Time // of the last change, or when the override was set
}

// reasonConfigChanged is a Sticky's alone: a PUT moved the label back.
const reasonConfigChanged = "CONFIG_CHANGED"

// stickyView is the record as it was last seen.
type stickyView struct {
	Sticky
	exists bool
	read   time.Time
}

func decodeSticky(item store.Item, read time.Time) (stickyView, error) {
	var d store.Decoder
	return stickyView{Sticky: Sticky{
		Label: d.String(item, "active_model_label"), Index: int(d.Int(item, "idx")), Previous: d.String(item, "previous_model_label"),
		Reason: d.String(item, "reason"), Version: d.Int(item, "cfg_version"), At: time.Unix(d.Int(item, "activated_at_epoch"), 0),
	}, exists: item != nil, read: read}, d.Err
}

func (s *standing) sticky(ctx context.Context, org, app string) (Sticky, error) {
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
		return Sticky{}, failure("Sticky", err)
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

// overrideInUse is the label that an override puts in use, if one is followed.
func (s *standing) overrideInUse(ctx context.Context, t *tenant) (Sticky, bool) {
	if t.activeOverride(s.now()) == "" {
		return Sticky{}, false
	}
	out, _ := s.look(ctx, t, false)
	if out == nil || !out.override {
		return Sticky{}, false
	}
	return Sticky{Label: out.labels[out.index].label, Index: out.index, Reason: ReasonManualOverride, At: t.override.since}, true
}

// moveSticky records the label that spend leads to, if it differs from the record:
// forward within a configuration, either way after a newer one. The event is written
// with the record; a process with a hook delivers it.
func (s *standing) moveSticky(ctx context.Context, t *tenant, v *view, out *outlook, now time.Time) error {
	index := out.bySpend()
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
	return s.deliver(ctx, v, v.sticky.event(t, out), now)
}

// needsWrite reports whether the record has to be written.
func (s stickyView) needsWrite(index int, label string, version int64) bool {
	switch {
	case !s.exists:
		return index > 0
	case s.Version < version:
		return s.Label != label // the ordering may be another
	}
	return s.Version == version && s.Index < index
}

func (s stickyView) event(t *tenant, out *outlook) Event {
	e := Event{
		Kind: EventFlip, Org: t.org, App: t.app, Scope: out.scope, Day: out.day,
		Label: s.Label, From: s.Previous, At: s.At,
	}
	e.ID = fmt.Sprintf("%s#DAY#%s#FLIP#%s#%d#%02d", out.scope, e.Day, t.app, s.Version, s.Index)
	return e
}

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
	event := &types.Put{TableName: &s.store.Usage, Item: next.event(t, out).item("", time.UnixMilli(0))}
	token := store.NewID()
	err := store.Retry(ctx, func() error {
		_, err := s.store.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token,
			TransactItems:      []types.TransactWriteItem{{Put: put}, {Put: event}},
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused { // another process was first: take what it wrote
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
