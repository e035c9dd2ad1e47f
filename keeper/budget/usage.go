package budget

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

const (
	acceptPast   = 24 * time.Hour
	acceptFuture = 300 * time.Second
	dedupFor     = 49 * time.Hour
)

// Receipt is the result of counting a record, with the app's spend afterwards.
type Receipt struct {
	CostMicros       int64         `json:"cost_usd_micros" doc:"What it cost, in millionths of a dollar"`                             // in µ$, rounded half up
	Duplicate        bool          `json:"-"`                                                                                         // counted before; the fields up to PriceVersion are that record's
	Day              string        `json:"day,omitempty" doc:"The day it is counted on"`                                              // like 20260123
	Shard            int           `json:"shard" doc:"Which of the day's counters has it"`                                            // see Org.Shards
	PriceVersion     string        `json:"price_version,omitempty" doc:"Where its price is from"`                                     // and what was assumed
	SpendMicros      int64         `json:"spend_usd_micros" doc:"What was spent under the label today"`                               // in µ$, at most Options.Staleness old
	Percent          float64       `json:"quota_pct" doc:"Of the label's quota; 0 when the quota is 0"`                               // one decimal
	Mode             Mode          `json:"mode,omitempty" enum:"NORMAL,TIGHT" doc:"How close the label is to its quota"`              // empty in a receipt of the spool
	QuotaStatus      prices.Status `json:"quota_status,omitempty" enum:"NORMAL,TIGHT,EXCEEDED,UNPRICED" doc:"Where the label stands"` // after this record
	RecommendedLabel string        `json:"recommended_label,omitempty" doc:"What to use next; absent when no label has room"`         // empty for none
	ResetAt          time.Time     `json:"reset_at,omitzero" doc:"When the next day begins"`                                          // in UTC
	Spooled          bool          `json:"-"`                                                                                         // the store did not answer: kept in the spool, not counted yet
}

// usageHash returns a hash of a record's fields without its request id, as 32 hex digits, to recognise a
// repetition. Two encodings of one record have the same hash; an empty status counts as OK.
func usageHash(u prices.Usage) string {
	type pair struct{ K, V string }
	tags := make([]pair, 0, len(u.Tags))
	for _, name := range slices.Sorted(maps.Keys(u.Tags)) {
		tags = append(tags, pair{name, u.Tags[name]})
	}
	var nanos int64
	if !u.Time.IsZero() {
		nanos = u.Time.UnixNano()
	}
	status := u.Status
	if status == "" {
		status = "OK"
	}
	b, _ := json.Marshal([]any{u.Label, u.Model, u.Tokens, status, nanos, tags}) // cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// SpooledUsage is a record that the store has not accepted yet.
type SpooledUsage struct {
	Org      string       `json:"org_id"`   // the organisation's id
	App      string       `json:"app_id"`   // the app's id
	Usage    prices.Usage `json:"usage"`    // the submitted record
	Received time.Time    `json:"received"` // time of receipt; also the time of a record without one
	// Cost is the cost in pico-dollars by the configuration and prices known at receipt. Empty
	// if they were unknown.
	Cost string `json:"cost_picos,omitempty"`
	// PriceVersion is the origin of the price. Empty if Cost is.
	PriceVersion string `json:"price_version,omitempty"`
	Refusal      string `json:"refusal,omitempty"` // the reason for the final refusal
}

// isPriced reports whether the record has a cost already, because it was validated and priced before it was
// spooled. A cost of 0 counts.
func (e *SpooledUsage) isPriced() bool { return e.Cost != "" }
