package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
)

// Mode says how close a label is to its quota.
type Mode string

// The modes.
const (
	ModeNormal Mode = "NORMAL" // below the threshold
	ModeTight  Mode = "TIGHT"  // at or over the threshold: ask more often
)

// String is the mode as a REST API reports it.
func (m Mode) String() string { return string(m) }

// Status says where a label stands.
type Status string

// The statuses of a label.
const (
	StatusNormal   Status = "NORMAL"   // below Org.TightPercent of its quotas
	StatusTight    Status = "TIGHT"    // at or over it, and within its quotas
	StatusExceeded Status = "EXCEEDED" // not selectable until the reset
	StatusUnpriced Status = "UNPRICED" // its model has no price: not selectable
)

// String is the status as a REST API reports it.
func (s Status) String() string { return string(s) }

// The reasons of a recommendation. The last two are followed by "_" and the
// label that was passed over, as in QUOTA_EXCEEDED_premium.
const (
	ReasonWithinQuota    = "WITHIN_QUOTA"    // the first label of the ordering has room
	ReasonManualOverride = "MANUAL_OVERRIDE" // see Keeper.Override
	ReasonQuotaExceeded  = "QUOTA_EXCEEDED"  // the label before has no room
	ReasonUnpriced       = "UNPRICED"        // the label before has no price
)

// LabelStatus is where one label stands today.
type LabelStatus struct {
	Label       string        // its name in the ordering
	Model       string        // its model id; empty when none is configured
	SpendMicros int64         // spent today, in µ$
	HeldMicros  int64         // reserved and not settled, in µ$; hard mode only
	QuotaMicros int64         // today's quota, in µ$
	Percent     float64       // of the quota spent, one decimal; 0 when the quota is 0
	Status      Status        // the worst of the label's quotas
	Limits      []LimitStatus // the further quotas that bind the label
}

// LimitStatus is where one further quota stands.
type LimitStatus struct {
	PeriodQuota
	SpendMicros int64     // spent in the period, in µ$
	HeldMicros  int64     // reserved and not settled, in µ$; hard mode only
	Percent     float64   // of the quota spent, one decimal; 0 when the quota is 0
	Status      Status    // by this quota alone
	ResetAt     time.Time // when its next period begins
}

// statusOf compares exactly: exceeded from 100 % on, tight from the threshold on.
func statusOf(a ledger.Amount, quotaMicros, tightPercent int64) Status {
	sum := a.Sum()
	switch {
	case sum.Cmp(money.FromMicros(quotaMicros)) >= 0:
		return StatusExceeded
	case sum.Mul(100).Cmp(money.FromMicros(quotaMicros).Mul(tightPercent)) >= 0:
		return StatusTight
	}
	return StatusNormal
}

// limitState is a further quota with what counts against it.
type limitState struct {
	quota PeriodQuota
	ledger.Amount
	resetAt time.Time
}

// labelState is one label of the ordering with everything that decides about it.
type labelState struct {
	label, model string
	priced       bool
	quota        int64
	ledger.Amount
	limits []limitState
}

// status is the worst of the label's quotas.
func (l labelState) status(tight int64) Status {
	if !l.priced {
		return StatusUnpriced
	}
	worst := statusOf(l.Amount, l.quota, tight)
	for _, lim := range l.limits {
		worst = worse(worst, statusOf(lim.Amount, lim.quota.Micros, tight))
	}
	return worst
}

// worse is the more severe of two statuses.
func worse(a, b Status) Status {
	if a == StatusNormal || b == StatusExceeded && a != StatusUnpriced {
		return b
	}
	return a
}

func (l labelState) selectable(tight int64) bool {
	s := l.status(tight)
	return s == StatusNormal || s == StatusTight
}

// freeAt is when an exceeded label has room again: when the last quota that
// blocks it is reset.
func (l labelState) freeAt(tight int64, reset time.Time) time.Time {
	var at time.Time
	if statusOf(l.Amount, l.quota, tight) == StatusExceeded {
		at = reset
	}
	for _, lim := range l.limits {
		if statusOf(lim.Amount, lim.quota.Micros, tight) == StatusExceeded && lim.resetAt.After(at) {
			at = lim.resetAt
		}
	}
	return at
}

func (l labelState) export(tight int64) LabelStatus {
	s := LabelStatus{
		Label: l.label, Model: l.model, QuotaMicros: l.quota,
		SpendMicros: l.Spend.Micros(), HeldMicros: l.Held.Micros(),
		Percent: l.Spend.PercentOf(l.quota), Status: l.status(tight),
	}
	for _, lim := range l.limits {
		s.Limits = append(s.Limits, LimitStatus{
			PeriodQuota: lim.quota,
			SpendMicros: lim.Spend.Micros(), HeldMicros: lim.Held.Micros(),
			Percent: lim.Spend.PercentOf(lim.quota.Micros),
			Status:  statusOf(lim.Amount, lim.quota.Micros, tight), ResetAt: lim.resetAt,
		})
	}
	return s
}

// plan is the choice among an ordering's labels.
type plan struct {
	labels   []labelState
	tight    int64
	resetAt  time.Time
	index    int // of the chosen label, -1 when none has room
	override bool
}

// choose takes the first label that is priced and within all its quotas. A
// manual override is taken whatever was spent, as long as it has a price.
func choose(labels []labelState, tight int64, resetAt time.Time, override string) plan {
	p := plan{labels: labels, tight: tight, resetAt: resetAt, index: -1}
	for i, l := range labels {
		if override != "" && l.label == override && l.priced {
			p.index, p.override = i, true
			return p
		}
		if p.index < 0 && l.selectable(tight) {
			p.index = i
		}
	}
	return p
}

// withRoom is the override under hard enforcement, which no override lifts: "" if its
// label has no room.
func withRoom(labels []labelState, tight int64, override string) string {
	for _, l := range labels {
		if l.label == override && l.selectable(tight) {
			return override
		}
	}
	return ""
}

// bySpend is the index of the label that spend alone leads to, without holds and
// overrides; len(labels) if no label has room.
func (p plan) bySpend() int {
	for i, l := range p.labels {
		l.Held = money.Picos{}
		l.limits = append([]limitState(nil), l.limits...)
		for j := range l.limits {
			l.limits[j].Held = money.Picos{}
		}
		if l.selectable(p.tight) {
			return i
		}
	}
	return len(p.labels)
}

func (p plan) mode() Mode {
	if p.labels[p.index].status(p.tight) == StatusNormal {
		return ModeNormal
	}
	return ModeTight
}

// reason names the last label that was passed over.
func (p plan) reason() string {
	switch {
	case p.override:
		return ReasonManualOverride
	case p.index == 0:
		return ReasonWithinQuota
	}
	passed := p.labels[p.index-1]
	if !passed.priced {
		return ReasonUnpriced + "_" + passed.label
	}
	return ReasonQuotaExceeded + "_" + passed.label
}

func (p plan) statuses() []LabelStatus {
	out := make([]LabelStatus, len(p.labels))
	for i, l := range p.labels {
		out[i] = l.export(p.tight)
	}
	return out
}

// exceeded is the error if no label has room.
func (p plan) exceeded() *QuotaExceededError {
	err := &QuotaExceededError{Labels: p.statuses()}
	var over money.Picos
	for _, l := range p.labels {
		if d := l.Spend.Sub(money.FromMicros(l.quota)); d.Sign() > 0 {
			over = over.Add(d)
		}
		if at := l.freeAt(p.tight, p.resetAt); l.priced && !at.IsZero() && (err.RetryAt.IsZero() || at.Before(err.RetryAt)) {
			err.RetryAt = at
		}
	}
	err.OverageMicros = over.Micros()
	return err
}
