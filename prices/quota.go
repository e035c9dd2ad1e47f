package prices

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Status says where a label stands.
type Status string

// The statuses of a label.
const (
	StatusNormal   Status = "NORMAL"   // below the organisation's threshold of its quotas
	StatusTight    Status = "TIGHT"    // at or over it, and within its quotas
	StatusExceeded Status = "EXCEEDED" // not selectable until the reset
	StatusUnpriced Status = "UNPRICED" // its model has no price: not selectable
)

// LabelStatus is where one label stands today.
type LabelStatus struct {
	Label       string  `json:"label" doc:"Its name"`                                               // in the ordering
	Model       string  `json:"model_id,omitempty" doc:"Its model; absent when none is configured"` // its id
	SpendMicros int64   `json:"spend_usd_micros" doc:"What was spent today"`                        // in µ$
	QuotaMicros int64   `json:"quota_usd_micros" doc:"Today's quota"`                               // in µ$
	Percent     float64 `json:"quota_pct" doc:"Of the quota spent; 0 when the quota is 0"`          // one decimal
	Status      Status  `json:"status" enum:"NORMAL,TIGHT,EXCEEDED,UNPRICED" doc:"Where it stands"` // of the label
}

// ErrQuotaExceeded says that no label, or not the one asked for, has room left. The error in hand is
// a *QuotaExceededError.
var ErrQuotaExceeded = errors.New("budget: quota exceeded")

// QuotaExceededError is ErrQuotaExceeded with the details for an answer to a
// client.
type QuotaExceededError struct {
	// RetryAt is when there may be room again: when the next day begins. The zero time:
	// no wait helps, because no label has a price.
	RetryAt       time.Time
	Labels        []LabelStatus // every label asked about
	OverageMicros int64         // the spend beyond the quotas, in all, in µ$
	// DecidedAt is when it was decided. The zero time: not known, and then neither is RetryIn.
	DecidedAt time.Time
}

// RetryIn returns the time from the decision to RetryAt, at least 0. It returns false if either is unknown.
func (e *QuotaExceededError) RetryIn() (time.Duration, bool) {
	if e.DecidedAt.IsZero() || e.RetryAt.IsZero() {
		return 0, false
	}
	return max(0, e.RetryAt.Sub(e.DecidedAt)), true
}

// Error returns a text with each label and its spent percentage of the quota, or that it has no price. It ends
// with the time of the retry, or the fix if no wait helps.
func (e *QuotaExceededError) Error() string {
	names := make([]string, len(e.Labels))
	for i, l := range e.Labels {
		if l.Status == StatusUnpriced {
			names[i] = l.Label + " has no price"
			continue
		}
		names[i] = fmt.Sprintf("%s %.1f%%", l.Label, l.Percent)
	}
	when := "store prices with Prices.Put, or correct the labels' models"
	if !e.RetryAt.IsZero() {
		when = "retry at " + e.RetryAt.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%v: %s; %s", ErrQuotaExceeded, strings.Join(names, ", "), when)
}

// Is reports whether target is ErrQuotaExceeded, for errors.Is.
func (e *QuotaExceededError) Is(target error) bool { return target == ErrQuotaExceeded }
