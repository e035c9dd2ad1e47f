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

// The reasons of a recommendation. The last two are followed by "_" and the
// label that was passed over, as in QUOTA_EXCEEDED_premium.
const (
	reasonWithinQuota    = "WITHIN_QUOTA"    // the first label of the ordering has room
	ReasonManualOverride = "MANUAL_OVERRIDE" // see Setup.Override
	reasonQuotaExceeded  = "QUOTA_EXCEEDED"  // the label before has no room
	reasonUnpriced       = "UNPRICED"        // the label before has no price
)

// statusOf compares exactly: exceeded from 100 % on, tight from the threshold on. A quota
// of 0 has no room, whatever was credited.
func statusOf(spend money.Picos, quotaMicros, tightPercent int64) prices.Status {
	switch {
	case quotaMicros == 0 || spend.Cmp(money.FromMicros(quotaMicros)) >= 0:
		return prices.StatusExceeded
	case spend.Mul(100).Cmp(money.FromMicros(quotaMicros).Mul(tightPercent)) >= 0:
		return prices.StatusTight
	}
	return prices.StatusNormal
}

// labelState is one label of the ordering with everything that decides about it.
type labelState struct {
	label, model string
	priced       bool
	quota        int64
	spend        money.Picos // today
}

func (l labelState) status(tight int64) prices.Status {
	if !l.priced {
		return prices.StatusUnpriced
	}
	return statusOf(l.spend, l.quota, tight)
}

func (l labelState) selectable(tight int64) bool {
	s := l.status(tight)
	return s == prices.StatusNormal || s == prices.StatusTight
}

func (l labelState) export(tight int64) prices.LabelStatus {
	return prices.LabelStatus{
		Label: l.label, Model: l.model, QuotaMicros: l.quota, SpendMicros: l.spend.Micros(),
		Percent: l.spend.PercentOf(l.quota), Status: l.status(tight),
	}
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

// bySpend is the index of the label that spend alone leads to, without overrides;
// len(labels) if no label has room.
func (p plan) bySpend() int {
	for i, l := range p.labels {
		if l.selectable(p.tight) {
			return i
		}
	}
	return len(p.labels)
}

func (p plan) mode() Mode {
	if p.labels[p.index].status(p.tight) == prices.StatusNormal {
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
		return reasonWithinQuota
	}
	passed := p.labels[p.index-1]
	if !passed.priced {
		return reasonUnpriced + "_" + passed.label
	}
	return reasonQuotaExceeded + "_" + passed.label
}

func (p plan) statuses() []prices.LabelStatus {
	out := make([]prices.LabelStatus, len(p.labels))
	for i, l := range p.labels {
		out[i] = l.export(p.tight)
	}
	return out
}

// exceeded is the error if no label has room.
func (p plan) exceeded() *prices.QuotaExceededError {
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
