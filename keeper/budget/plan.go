package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// Mode says how close a label is to its quota.
type Mode string

// The modes.
const (
	ModeNormal Mode = "NORMAL" // below the threshold
	ModeTight  Mode = "TIGHT"  // at or over the threshold: ask more often
)

// Reasons of a recommendation. The last two are followed by "_" and the skipped label, as in
// QUOTA_EXCEEDED_premium.
const (
	reasonWithinQuota    = "WITHIN_QUOTA"    // the first label of the ordering has room
	ReasonManualOverride = "MANUAL_OVERRIDE" // see Setup.Override
	reasonQuotaExceeded  = "QUOTA_EXCEEDED"  // the label before has no room
	reasonUnpriced       = "UNPRICED"        // the label before has no price
)

// statusOf returns a label's status by its exact spend and its quota in micro-dollars: exceeded from 100 % on,
// tight from tightPercent on, else normal. A quota of 0 never has room, whatever the credits.
func statusOf(spend money.Picos, quotaMicros, tightPercent int64) prices.Status {
	switch {
	case quotaMicros == 0 || spend.Cmp(money.FromMicros(quotaMicros)) >= 0:
		return prices.StatusExceeded
	case spend.Mul(100).Cmp(money.FromMicros(quotaMicros).Mul(tightPercent)) >= 0:
		return prices.StatusTight
	}
	return prices.StatusNormal
}

// labelState is one label of the ordering, with the facts that decide about it.
type labelState struct {
	label, model string
	priced       bool
	quota        int64
	spend        money.Picos // today
}

// status returns the label's status by today's spend, its quota, and tight, the threshold in percent. It is
// StatusUnpriced for a label without a price, whatever the spend.
func (l labelState) status(tight int64) prices.Status {
	if !l.priced {
		return prices.StatusUnpriced
	}
	return statusOf(l.spend, l.quota, tight)
}

// isSelectable reports whether a label can be recommended: it has a price and room in its quota. tight is the
// threshold in percent.
func (l labelState) isSelectable(tight int64) bool {
	s := l.status(tight)
	return s == prices.StatusNormal || s == prices.StatusTight
}

// asStatus returns the label's state as a prices.LabelStatus, with amounts in micro-dollars; tight is the
// threshold in percent.
func (l labelState) asStatus(tight int64) prices.LabelStatus {
	return prices.LabelStatus{
		Label: l.label, Model: l.model, QuotaMicros: l.quota, SpendMicros: l.spend.Micros(),
		Percent: l.spend.PercentOf(l.quota), Status: l.status(tight),
	}
}

// plan is the choice among the labels of an ordering.
type plan struct {
	labels   []labelState
	tight    int64
	resetAt  time.Time
	index    int // of the chosen label, or -1 if no label has room
	override bool
}

// chooseLabel returns the plan that chooses the first label with a price and room in its quota; its index is -1
// without one. The label override, if priced, is chosen instead, whatever the spend. tight is the threshold in
// percent.
func chooseLabel(labels []labelState, tight int64, resetAt time.Time, override string) plan {
	p := plan{labels: labels, tight: tight, resetAt: resetAt, index: -1}
	for i, l := range labels {
		if override != "" && l.label == override && l.priced {
			p.index, p.override = i, true
			return p
		}
		if p.index < 0 && l.isSelectable(tight) {
			p.index = i
		}
	}
	return p
}

// indexBySpend returns the index of the first label with a price and room in its quota, ignoring an override.
// It returns len(p.labels) if no label has room.
func (p plan) indexBySpend() int {
	for i, l := range p.labels {
		if l.isSelectable(p.tight) {
			return i
		}
	}
	return len(p.labels)
}

// mode returns ModeNormal if the chosen label's spend is below the threshold. It returns ModeTight from there
// on, also beyond the quota or without a price under an override. The plan must have a chosen label.
func (p plan) mode() Mode {
	if p.labels[p.index].status(p.tight) == prices.StatusNormal {
		return ModeNormal
	}
	return ModeTight
}

// reason returns the reason for the chosen label, for callers: MANUAL_OVERRIDE, WITHIN_QUOTA for the first
// label, else QUOTA_EXCEEDED_ or UNPRICED_ with the label before. The plan must have a chosen label.
func (p plan) reason() string {
	switch {
	case p.override:
		return ReasonManualOverride
	case p.index == 0:
		return reasonWithinQuota
	}
	passed := p.labels[p.index-1]
	if !passed.priced {
		return reasonUnpriced + "_" + passed.label
	}
	return reasonQuotaExceeded + "_" + passed.label
}

// statuses returns every label with its spend and quota in micro-dollars and its status, in their order.
func (p plan) statuses() []prices.LabelStatus {
	out := make([]prices.LabelStatus, len(p.labels))
	for i, l := range p.labels {
		out[i] = l.asStatus(p.tight)
	}
	return out
}

// quotaError returns the error of a plan in which no label has room, with all labels' states and the sum of
// overages in micro-dollars. RetryAt is the start of the next day, or zero if no label has a price; DecidedAt
// stays unset.
func (p plan) quotaError() *prices.QuotaExceededError {
	err := &prices.QuotaExceededError{Labels: p.statuses()}
	var over money.Picos
	for _, l := range p.labels {
		if d := l.spend.Sub(money.FromMicros(l.quota)); d.Sign() > 0 {
			over = over.Add(d)
		}
		if l.priced {
			err.RetryAt = p.resetAt
		}
	}
	err.OverageMicros = over.Micros()
	return err
}
