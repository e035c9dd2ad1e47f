package budget

import (
	"time"

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
	ID         string           `json:"id,omitempty"`             // Hold.ID
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
}

type spooledCounter struct {
	PK     string `json:"pk"`
	Prefix string `json:"prefix"`
	Bare   bool   `json:"bare,omitempty"`
}

// spooled is the hold as the spool keeps it; nil holds nothing but the day.
func (h *holdRef) spooled(day string) *SpooledHold {
	s := &SpooledHold{Day: day}
	if h == nil {
		return s
	}
	*s = SpooledHold{
		ID: h.id, Scope: h.scope, Label: h.label, Day: h.day, Estimate: h.estimate.String(),
		ExpireMs: h.expireMs, TTL: h.ttl, Lane: h.lane, HoldsMoney: true,
	}
	for _, key := range h.keys {
		s.Keys = append(s.Keys, [2]string{key.PK, key.SK})
	}
	for _, d := range h.debits {
		s.Counters = append(s.Counters, spooledCounter{d.pk, d.prefix, d.bare})
	}
	return s
}

func (s *SpooledHold) ref() (*holdRef, error) {
	if !s.HoldsMoney {
		return nil, nil
	}
	estimate, err := money.Parse(s.Estimate)
	if err != nil {
		return nil, err
	}
	h := &holdRef{
		id: s.ID, scope: s.Scope, label: s.Label, day: s.Day, estimate: estimate,
		expireMs: s.ExpireMs, ttl: s.TTL, lane: s.Lane,
	}
	for _, key := range s.Keys {
		h.keys = append(h.keys, store.Key{PK: key[0], SK: key[1]})
	}
	for _, c := range s.Counters {
		h.debits = append(h.debits, debit{counterRef: counterRef{c.PK, c.Prefix, 1}, hard: true, bare: c.Bare})
	}
	return h, nil
}
