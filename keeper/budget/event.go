package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// EventKind says what an event is about.
type EventKind string

// The kinds of events.
const (
	EventThreshold EventKind = "threshold" // a quota is used to Percent
	EventFlip      EventKind = "flip"      // an app moved from one label to another
)

// thresholds are the percentages of a quota that make an event.
var thresholds = [...]int64{50, 80, 100}

// Event is something an administrator may want to know. It comes from stored
// sums alone.
type Event struct {
	// ID is stable: the same event delivered twice has the same.
	ID          string    `json:"event_id"`
	Kind        EventKind `json:"kind"`                           // a threshold or a flip
	Org         string    `json:"org_id"`                         // the organisation's id
	App         string    `json:"app_id,omitempty"`               // of a flip
	Scope       string    `json:"scope"`                          // whose spend, as a key
	Day         string    `json:"day"`                            // like 20260123
	Label       string    `json:"model_label,omitempty"`          // of a flip: the new label
	From        string    `json:"previous_model_label,omitempty"` // of a flip: the label before
	Percent     int64     `json:"percent,omitempty"`              // 50, 80 or 100
	QuotaMicros int64     `json:"quota_usd_micros,omitempty"`     // the quota, in µ$
	SpendMicros int64     `json:"spend_usd_micros,omitempty"`     // in µ$, when it was found
	At          time.Time `json:"at"`                             // when it was found
}

// key is the event's item, under its scope.
func (e Event) key() store.Key { return store.Key{PK: eventPK(e.Scope), SK: e.ID[len(e.Scope)+1:]} }

func (e Event) item(writer string, claimed time.Time) store.Item {
	item := e.key().Attributes()
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
