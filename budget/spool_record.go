package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// SpooledUsage is a record that the store has not accepted yet.
type SpooledUsage struct {
	Org      string       `json:"org_id"`            // the organisation's id
	App      string       `json:"app_id"`            // the app's id
	Usage    Usage        `json:"usage"`             // as it was submitted
	Received time.Time    `json:"received"`          // the time of a record that has none
	Hold     *SpooledHold `json:"hold,omitempty"`    // what it settles; nil for a plain Submit
	Refusal  string       `json:"refusal,omitempty"` // why it was refused for good
}

// SpooledHold is the hold a spooled record settles, as the store has it: the
// keeper's own bookkeeping, which nobody else needs to read.
type SpooledHold struct {
	ID         string           `json:"id,omitempty"`             // of its items; Hold.ID, unless its caller chose that
	Name       string           `json:"name,omitempty"`           // key of the item under the id that its caller chose
	Keys       [][2]string      `json:"keys,omitempty"`           // of its items
	Scope      string           `json:"scope,omitempty"`          // whose quotas it counts against, as a key
	Label      string           `json:"label,omitempty"`          // Hold.Label
	Day        string           `json:"day"`                      // Hold.Day
	Estimate   string           `json:"estimate_picos,omitempty"` // what it holds, in pico-dollars
	Counters   []spooledCounter `json:"counters,omitempty"`       // what it debits
	ExpireMs   int64            `json:"expires_at_ms,omitempty"`  // the end of its lease, in ms since 1970
	TTL        int64            `json:"ttl_epoch,omitempty"`      // when its item may be deleted, in s since 1970
	Lane       string           `json:"lane,omitempty"`           // which queue of the keeper writes it
	HoldsMoney bool             `json:"holds_money"`              // false: nothing was held
	Reserved   time.Time        `json:"reserved_at"`              // no older price holds for the call
	Kept       int64            `json:"id_kept_epoch,omitempty"`  // until when its id can be settled by, in s since 1970; 0: it has none
}

type spooledCounter struct {
	PK     string `json:"pk"`
	Prefix string `json:"prefix"`
	Bare   bool   `json:"bare,omitempty"`
}

// spooledHold is the hold as the spool keeps it; nil holds nothing but the day.
func spooledHold(h *ledger.Hold, day string) *SpooledHold {
	s := &SpooledHold{Day: day}
	if h == nil {
		return s
	}
	*s = SpooledHold{
		ID: h.ID, Name: h.Name.PK, Scope: h.Scope, Label: h.Label, Day: h.Day, Estimate: h.Estimate.String(),
		ExpireMs: h.ExpireMs, TTL: h.TTL, Lane: h.Lane, HoldsMoney: true,
	}
	for _, key := range h.Keys {
		s.Keys = append(s.Keys, [2]string{key.PK, key.SK})
	}
	for _, d := range h.Debits {
		s.Counters = append(s.Counters, spooledCounter{d.PK, d.Prefix, d.Bare})
	}
	return s
}

func (s *SpooledHold) ref() (*ledger.Hold, error) {
	if !s.HoldsMoney {
		return nil, nil
	}
	estimate, err := money.Parse(s.Estimate)
	if err != nil {
		return nil, err
	}
	h := &ledger.Hold{
		ID: s.ID, Scope: s.Scope, Label: s.Label, Day: s.Day, Estimate: estimate,
		ExpireMs: s.ExpireMs, TTL: s.TTL, Lane: s.Lane,
	}
	if s.Name != "" { // in none that an older version spooled
		h.Name = store.Key{PK: s.Name, SK: ledger.RootSK}
	}
	for _, key := range s.Keys {
		h.Keys = append(h.Keys, store.Key{PK: key[0], SK: key[1]})
	}
	for _, c := range s.Counters {
		h.Debits = append(h.Debits, ledger.Debit{CounterRef: ledger.CounterRef{PK: c.PK, Prefix: c.Prefix, Shards: 1}, Hard: true, Bare: c.Bare})
	}
	return h, nil
}
