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

// itemKey returns the key of the adjustment's audit item in the usage table. It contains no day.
func (a *Adjustment) itemKey(org string) store.Key {
	return store.Key{PK: AuditPartition(org), SK: AuditKey(a.App) + a.ID}
}

// encodeItem returns the audit item of the adjustment under key, without a time to live.
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

// DecodeAdjustment decodes the audit item of an applied adjustment, without AnyDay and Event, which the item
// does not have. The result is not nil, even with an error.
func DecodeAdjustment(item store.Item) (*Adjustment, error) {
	var d store.Decoder
	return &Adjustment{
		ID: d.String(item, "adjustment_id"), App: d.String(item, "app_id"), Label: d.String(item, store.AttrLabel),
		Day: d.String(item, store.AttrDay), Reason: d.String(item, "reason"), At: time.UnixMilli(d.Int(item, "at_epoch_ms")),
		Change: d.Picos(item, "change_picos"), writer: d.String(item, store.AttrWriter),
	}, d.Err
}

// isRepeatOf reports whether the adjustment requests the same change as stored: the same label, amount and
// reason, and the same day unless AnyDay is set.
func (a *Adjustment) isRepeatOf(stored *Adjustment) bool {
	return a.Label == stored.Label && a.Change == stored.Change && a.Reason == stored.Reason && (a.AnyDay || a.Day == stored.Day)
}
