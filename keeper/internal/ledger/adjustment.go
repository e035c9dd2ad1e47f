package ledger

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Adjustment is a credit or charge by hand, as it is kept.
type Adjustment struct {
	ID     string      // it is applied once under it
	App    string      // whose it is
	Label  string      // the model label it changes
	Day    string      // the day it counts on
	Reason string      // as it was given
	At     time.Time   // when it was first sent
	Change money.Picos // above zero a charge, below a credit
	AnyDay bool        // no day was named: the first one stands
	Event  store.Item  // is put into the control table with it; nil: nothing is
	writer string
}

func (a *Adjustment) key(org string) store.Key {
	return store.Key{PK: AuditPartition(org), SK: AuditKey(a.App) + a.ID}
}

func (a *Adjustment) item(key store.Key) store.Item {
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

// DecodeAdjustment reads what item wrote.
func DecodeAdjustment(item store.Item) (*Adjustment, error) {
	var d store.Decoder
	return &Adjustment{
		ID: d.String(item, "adjustment_id"), App: d.String(item, "app_id"), Label: d.String(item, store.AttrLabel),
		Day: d.String(item, store.AttrDay), Reason: d.String(item, "reason"), At: time.UnixMilli(d.Int(item, "at_epoch_ms")),
		Change: d.Picos(item, "change_picos"), writer: d.String(item, store.AttrWriter),
	}, d.Err
}

// repeats says that the adjustment asks for what stored did.
func (a *Adjustment) repeats(stored *Adjustment) bool {
	return a.Label == stored.Label && a.Change == stored.Change && a.Reason == stored.Reason && (a.AnyDay || a.Day == stored.Day)
}
