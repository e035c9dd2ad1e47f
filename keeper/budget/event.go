package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventThreshold EventKind = "threshold" // the use of a quota has reached Percent
	EventFlip      EventKind = "flip"      // an app moved from one label to another
)

// thresholds are the percentages of a quota that cause an event.
var thresholds = [...]int64{50, 80, 100}

// Event reports a threshold or a change of label to an administrator. It depends on stored sums
// only.
type Event struct {
	// ID is stable: an event that is delivered twice has the same ID.
	ID          string    `json:"event_id"`
	Kind        EventKind `json:"kind"`                           // threshold or flip
	Org         string    `json:"org_id"`                         // the organisation's id
	App         string    `json:"app_id,omitempty"`               // only for a flip
	Scope       string    `json:"scope"`                          // key of the scope of the spend
	Day         string    `json:"day"`                            // like 20260123
	Label       string    `json:"model_label,omitempty"`          // the new label of a flip, or the label of a threshold
	From        string    `json:"previous_model_label,omitempty"` // the label before a flip
	Percent     int64     `json:"percent,omitempty"`              // 50, 80 or 100
	QuotaMicros int64     `json:"quota_usd_micros,omitempty"`     // the quota, in µ$
	SpendMicros int64     `json:"spend_usd_micros,omitempty"`     // the spend in µ$ when the event was found
	At          time.Time `json:"at"`                             // when the event was found
}

// itemKey returns the key of the event's item in the usage table: the partition of its scope, and the rest of
// its id.
func (e Event) itemKey() store.Key { return store.Key{PK: eventPK(e.Scope), SK: e.ID[len(e.Scope)+1:]} }

// encodeItem returns the event as an item that is not delivered yet and expires after eventsKept. writer is the
// id of the process that claimed the event at claimed, empty if no process has.
func (e Event) encodeItem(writer string, claimed time.Time) store.Item {
	item := e.itemKey().Attributes()
	for name, v := range map[string]string{
		"event_id": e.ID, "kind": string(e.Kind), "org_id": e.Org, "app_id": e.App, store.AttrScope: e.Scope, store.AttrDay: e.Day,
		store.AttrLabel: e.Label, "previous_model_label": e.From, store.AttrWriter: writer,
	} {
		item[name] = store.String(v)
	}
	item["percent"], item["quota_micros"], item["spend_micros"] = store.Int(e.Percent), store.Int(e.QuotaMicros), store.Int(e.SpendMicros)
	item["at_epoch_ms"], item["claimed_at_ms"], item["delivered"] = store.Int(e.At.UnixMilli()), store.Int(claimed.UnixMilli()), store.Bool(false)
	item[store.AttrTTL] = store.Int(e.At.Add(eventsKept).Unix())
	return item
}

// decodeEvent decodes a stored event, without its claim and its mark of delivery. With a malformed attribute it
// returns the rest and an error that names it.
func decodeEvent(item store.Item) (Event, error) {
	var d store.Decoder
	return Event{
		ID: d.String(item, "event_id"), Kind: EventKind(d.String(item, "kind")), Org: d.String(item, "org_id"), App: d.String(item, "app_id"),
		Scope: d.String(item, store.AttrScope), Day: d.String(item, store.AttrDay),
		Label: d.String(item, store.AttrLabel), From: d.String(item, "previous_model_label"), Percent: d.Int(item, "percent"),
		QuotaMicros: d.Int(item, "quota_micros"), SpendMicros: d.Int(item, "spend_micros"), At: time.UnixMilli(d.Int(item, "at_epoch_ms")).UTC(),
	}, d.Err
}

const (
	takeOverAfter = 60 * time.Second
	eventsKept    = 40 * 24 * time.Hour
)
