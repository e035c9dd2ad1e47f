package ledger

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Adjustment is a manual credit or charge, in its stored form.
type Adjustment struct {
	ID     string      // applied once under this id
	App    string      // the id of the app
	Label  string      // the adjusted model label
	Day    string      // the adjusted day
	Reason string      // as the caller gave it
	At     time.Time   // when it was first sent
	Change money.Picos // positive: a charge; negative: a credit
	AnyDay bool        // the caller named no day: a repetition keeps the first one's day
	Event  store.Item  // the audit event for the control table; nil: no event
	writer string
}

// itemKey returns the key in the usage table of the adjustment's own item, which proves that it was applied. It
// contains organisation, app and id, but no day.
func (a *Adjustment) itemKey(org string) store.Key {
	return store.Key{PK: AuditPartition(org), SK: AuditKey(a.App) + a.ID}
}

// encodeItem returns a new item under key with the adjustment's id, reason, label, day, app, writer, amount and
// time. It lacks AnyDay, Event and a time to live.
func (a *Adjustment) encodeItem(key store.Key) store.Item {
	item := key.Attributes()
	for name, v := range map[string]string{
		"adjustment_id": a.ID, "reason": a.Reason, store.AttrLabel: a.Label, store.AttrDay: a.Day, "app_id": a.App, store.AttrWriter: a.writer,
	} {
		item[name] = store.String(v)
	}
	item["change_picos"] = store.Picos(a.Change)
	item["at_epoch_ms"] = store.Int(a.At.UnixMilli())
	return item
}

// DecodeAdjustment decodes an adjustment's stored item; AnyDay and Event, which are not stored, stay unset. For
// a malformed attribute it returns the rest with an error. The result is never nil.
func DecodeAdjustment(item store.Item) (*Adjustment, error) {
	var d store.Decoder
	return &Adjustment{
		ID: d.String(item, "adjustment_id"), App: d.String(item, "app_id"), Label: d.String(item, store.AttrLabel),
		Day: d.String(item, store.AttrDay), Reason: d.String(item, "reason"), At: time.UnixMilli(d.Int(item, "at_epoch_ms")),
		Change: d.Picos(item, "change_picos"), writer: d.String(item, store.AttrWriter),
	}, d.Err
}

// isRepeatOf reports whether the adjustment has the label, amount and reason of stored, and also its day,
// unless AnyDay is set. It does not compare ids.
func (a *Adjustment) isRepeatOf(stored *Adjustment) bool {
	return a.Label == stored.Label && a.Change == stored.Change && a.Reason == stored.Reason && (a.AnyDay || a.Day == stored.Day)
}
