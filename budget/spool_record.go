package budget

import "time"

// SpooledUsage is a record that the store has not accepted yet.
type SpooledUsage struct {
	Org      string       `json:"org_id"`
	App      string       `json:"app_id"`
	Usage    Usage        `json:"usage"`
	Received time.Time    `json:"received"` // the time of a record that has none
	Hold     *SpooledHold `json:"hold,omitempty"`
	Refusal  string       `json:"refusal,omitempty"` // why it was refused for good
}

// SpooledHold is the hold a spooled record settles.
type SpooledHold struct {
	ID         string           `json:"id,omitempty"`
	Keys       [][2]string      `json:"keys,omitempty"`
	Scope      string           `json:"scope,omitempty"`
	Label      string           `json:"label,omitempty"`
	Day        string           `json:"day"`
	Estimate   string           `json:"estimate_picos,omitempty"`
	Counters   []spooledCounter `json:"counters,omitempty"`
	ExpireMs   int64            `json:"expires_at_ms,omitempty"`
	TTL        int64            `json:"ttl_epoch,omitempty"`
	Lane       string           `json:"lane,omitempty"`
	HoldsMoney bool             `json:"holds_money"`
	Reserved   time.Time        `json:"reserved_at"`
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
		s.Keys = append(s.Keys, [2]string{key.pk, key.sk})
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
	estimate, err := parsePicos(s.Estimate)
	if err != nil {
		return nil, err
	}
	h := &holdRef{
		id: s.ID, scope: s.Scope, label: s.Label, day: s.Day, estimate: estimate,
		expireMs: s.ExpireMs, ttl: s.TTL, lane: s.Lane,
	}
	for _, key := range s.Keys {
		h.keys = append(h.keys, itemKey{key[0], key[1]})
	}
	for _, c := range s.Counters {
		h.debits = append(h.debits, debit{counterRef: counterRef{c.PK, c.Prefix, 1}, hard: true, bare: c.Bare})
	}
	return h, nil
}
