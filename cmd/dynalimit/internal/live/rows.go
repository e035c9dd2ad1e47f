// Package live is the view of buckets: it turns readings into rows, and sorts and draws them.
// Only its reader does I/O.
package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/sources"
)

// Key identifies a bucket.
type Key struct{ Entity, Resource string }

// Reading is the result of one read of the table.
type Reading struct {
	// At is the start of the reading.
	At time.Time
	// Buckets are the found buckets. If Cut is true there are more: Read of them were read, or,
	// if Read is 0, the others were not read.
	Buckets []admin.Bucket
	Cut     bool
	Read    int
	// Units are the consumed read units; 0 if the engine does not report them.
	Units float64
	// Blocked are the sources that block the checked buckets.
	Blocked map[Key]sources.Source
	// Money are their limits of money, which only the configuration shows.
	Money map[rowKey]bool
	// Resources are the resources to choose from, if none was chosen.
	Resources []string
	// Err is the error of a failed reading.
	Err error
}

// Row is one limit of a bucket.
type Row struct {
	Entity    string `json:"entity_id"`
	Resource  string `json:"resource"`
	Limit     string `json:"limit"`
	Remaining int64  `json:"remaining"`
	// InFlight is set if the limit is one of calls in flight: the number of slots in use.
	InFlight *int64 `json:"in_flight,omitempty"`
	Burst    int64  `json:"burst"`
	// Unit is "usd" for money of the checked buckets, which are the fullest.
	Unit string `json:"unit,omitempty"`
	// Used is the used share of the burst. It is above 1 in debt.
	Used float64 `json:"used"`
	// Rate is the consumption in tokens a second since the last reading. It is nil for the
	// first.
	Rate *float64 `json:"rate_per_second,omitempty"`
	// Full is the time until the bucket is full without further traffic.
	Full   time.Duration `json:"-"`
	FullMS int64         `json:"full_ms"`
	// WindowEnds is the end of a quota's window. It is zero for a token bucket.
	WindowEnds time.Time `json:"window_ends,omitzero"`
	// Fits is the time until the requested amount fits. It is nil without a request, and Never
	// if the amount exceeds the burst.
	Fits *time.Duration `json:"-"`
	// FitsMS is Fits in milliseconds, -1 for never.
	FitsMS *int64 `json:"fits_ms,omitempty"`
	// Blocked is the source that blocks the entity for the resource.
	Blocked sources.Source `json:"blocked,omitempty"`
}

// rowKey returns the key of the row in the counts of a reading.
func (r Row) rowKey() rowKey { return rowKey{r.Entity, r.Resource, r.Limit} }

type rowKey struct{ entity, resource, limit string }

// Counts is the consumption of limits up to a reading.
type Counts struct {
	at    time.Time
	taken map[rowKey]int64
}

// Rows returns a row for each limit of a reading, unsorted, and its counts, for the next call. Rates are since
// the counts before; the zero Counts gives none. asked are the amounts, in tokens by limit, for Fits.
func Rows(r Reading, before Counts, asked dynalimit.Amounts) ([]Row, Counts) {
	rows := make([]Row, 0, 2*len(r.Buckets))
	now := Counts{at: r.At, taken: make(map[rowKey]int64, 2*len(r.Buckets))}
	for _, b := range r.Buckets {
		for _, s := range b.Limits {
			row := Row{
				Entity: b.EntityID, Resource: b.Resource, Limit: s.Limit.Name, Remaining: s.Remaining, Burst: s.Limit.Burst,
				Used: usedShare(s), Full: s.Reset, FullMS: s.Reset.Milliseconds(),
				Blocked: r.Blocked[Key{b.EntityID, b.Resource}],
			}
			if r.Money[row.rowKey()] {
				row.Unit = dynalimit.USD
			}
			if s.Limit.IsConcurrent() {
				row.InFlight = &s.InFlight
			}
			row.WindowEnds, _ = notation.WindowAfter(s.Limit, r.At, 1)
			now.taken[row.rowKey()] = b.Consumed[s.Limit.Name]
			row.setRate(before, now)
			row.setFits(s, asked[s.Limit.Name], r.At)
			rows = append(rows, row)
		}
	}
	return rows, now
}

// usedShare returns the used share of a limit's burst, from 0 for a full bucket to 1 for an empty one. It is
// above 1 in debt.
func usedShare(s dynalimit.LimitStatus) float64 {
	return max(0, 1-float64(s.Remaining)/float64(max(1, s.Limit.Burst)))
}

// setRate sets Rate to the consumption in tokens a second, or micro-dollars of money, between the readings
// before and now. Rate stays nil if before lacks the row's limit, and if no time has passed.
func (r *Row) setRate(before, now Counts) {
	was, known := before.taken[r.rowKey()]
	passed := now.at.Sub(before.at).Seconds()
	if !known || passed <= 0 {
		return
	}
	rate := float64(now.taken[r.rowKey()]-was) / passed
	r.Rate = &rate
}

// setFits sets Fits, and FitsMS in ms, to the time until asked tokens fit: dynalimit.Never and -1 if they never
// do. Both stay nil if asked is 0, and for calls in flight that do not fit now.
func (r *Row) setFits(s dynalimit.LimitStatus, asked int64, now time.Time) {
	if asked <= 0 {
		return
	}
	wait, ms := time.Duration(0), int64(-1)
	switch missing := asked - s.Remaining; {
	case asked > s.Limit.Burst || s.Limit.RefillAmount <= 0:
		wait = dynalimit.Never
	case missing > 0 && s.Limit.IsConcurrent(): // nobody knows when a call ends
		return
	case missing > 0 && s.Limit.IsQuota():
		opens, _ := notation.WindowAfter(s.Limit, now, min((missing-1)/s.Limit.Burst+1, 1_000_000)) // a century of hours
		wait = min(opens.Sub(now), dynalimit.Never-time.Millisecond)
	case missing > 0:
		wait = dynalimit.Never - time.Millisecond // centuries, but not never
		if ns := float64(missing) / float64(s.Limit.RefillAmount) * float64(s.Limit.RefillPeriod); ns < float64(wait) {
			wait = time.Duration(ns)
		}
	}
	if wait != dynalimit.Never {
		ms = wait.Milliseconds()
	}
	r.Fits, r.FitsMS = &wait, &ms
}

// Order is the order of rows.
type Order string

// The orders.
const (
	Fullest Order = "fullest" // the least remaining share of the burst first
	Busiest Order = "busiest" // the highest consumption since the last reading first
	ByName  Order = "name"
)

// Sort sorts rows in place in the given order. Equal rows are sorted by name.
func Sort(rows []Row, by Order) {
	name := func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Limit, b.Limit))
	}
	rate := func(r Row) float64 {
		if r.Rate == nil {
			return 0
		}
		return *r.Rate
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		switch by {
		case Fullest:
			return cmp.Or(cmp.Compare(b.Used, a.Used), name(a, b))
		case Busiest:
			return cmp.Or(cmp.Compare(rate(b), rate(a)), name(a, b))
		case ByName:
		}
		return name(a, b)
	})
}
