// Package live is the view of buckets: what was read becomes rows, and rows are sorted and
// drawn. Only its reader does I/O.
package live

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/levels"
)

// Key names a bucket.
type Key struct{ Entity, Resource string }

// Reading is what one look at the table found.
type Reading struct {
	// At is when it was begun.
	At time.Time
	// Buckets were found. Cut says that there are more: Read of them were read and the others
	// left out, or, if Read is 0, the others were not read.
	Buckets []admin.Bucket
	Cut     bool
	Read    int
	// Units are the read units that it cost; 0 where the engine does not say.
	Units float64
	// Blocked are the levels that block those buckets that were looked at for it.
	Blocked map[Key]levels.Level
	// Money are their limits of money: configuration alone knows which those are.
	Money map[rowKey]bool
	// Resources are those there are to choose from, where nothing was chosen.
	Resources []string
	// Err is why there is nothing.
	Err error
}

// Row is one limit of a bucket.
type Row struct {
	Entity    string `json:"entity_id"`
	Resource  string `json:"resource"`
	Limit     string `json:"limit"`
	Remaining int64  `json:"remaining"`
	Burst     int64  `json:"burst"`
	// Unit is "usd" of money of those buckets that were looked at for it, the fullest.
	Unit string `json:"unit,omitempty"`
	// Used is the share of the burst that is not left: above 1 in debt.
	Used float64 `json:"used"`
	// Rate is how many tokens a second were taken since the last reading; nil for the first.
	Rate *float64 `json:"rate_per_second,omitempty"`
	// Full is the time until it is full, with no other traffic.
	Full   time.Duration `json:"-"`
	FullMS int64         `json:"full_ms"`
	// WindowEnds is when the window ends that a quota is in; zero of a bucket.
	WindowEnds time.Time `json:"window_ends,omitzero"`
	// Fits is the time until what was asked for fits; nil where nothing was, Never where it
	// exceeds the burst.
	Fits *time.Duration `json:"-"`
	// FitsMS is Fits in milliseconds, -1 for never.
	FitsMS *int64 `json:"fits_ms,omitempty"`
	// Blocked is the level that blocks the entity for the resource.
	Blocked levels.Level `json:"blocked,omitempty"`
}

func (r Row) key() rowKey { return rowKey{r.Entity, r.Resource, r.Limit} }

type rowKey struct{ entity, resource, limit string }

// Counts are what was taken from limits up to a reading.
type Counts struct {
	at    time.Time
	taken map[rowKey]int64
}

// Rows are the rows of a reading, with the rates since an earlier one, and what the next
// one compares with.
func Rows(r Reading, before Counts, asked dynalimit.Amounts) ([]Row, Counts) {
	rows := make([]Row, 0, 2*len(r.Buckets))
	now := Counts{at: r.At, taken: make(map[rowKey]int64, 2*len(r.Buckets))}
	for _, b := range r.Buckets {
		for _, s := range b.Limits {
			row := Row{
				Entity: b.EntityID, Resource: b.Resource, Limit: s.Limit.Name, Remaining: s.Remaining, Burst: s.Limit.Burst,
				Used: used(s), Full: s.Reset, FullMS: s.Reset.Milliseconds(),
				Blocked: r.Blocked[Key{b.EntityID, b.Resource}],
			}
			if r.Money[row.key()] {
				row.Unit = dynalimit.USD
			}
			row.WindowEnds, _ = notation.WindowAfter(s.Limit, r.At, 1)
			now.taken[row.key()] = b.Consumed[s.Limit.Name]
			row.rate(before, now)
			row.fits(s, asked[s.Limit.Name], r.At)
			rows = append(rows, row)
		}
	}
	return rows, now
}

// used is the share of a limit's burst that is not left: above 1 in debt.
func used(s dynalimit.LimitStatus) float64 {
	return max(0, 1-float64(s.Remaining)/float64(max(1, s.Limit.Burst)))
}

func (r *Row) rate(before, now Counts) {
	was, known := before.taken[r.key()]
	passed := now.at.Sub(before.at).Seconds()
	if !known || passed <= 0 {
		return
	}
	rate := float64(now.taken[r.key()]-was) / passed
	r.Rate = &rate
}

// fits is never less than the wait: what is left is rounded down to whole tokens.
func (r *Row) fits(s dynalimit.LimitStatus, asked int64, now time.Time) {
	if asked <= 0 {
		return
	}
	wait, ms := time.Duration(0), int64(-1)
	switch missing := asked - s.Remaining; {
	case asked > s.Limit.Burst || s.Limit.RefillAmount <= 0:
		wait = dynalimit.Never
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

// Order is what rows are sorted by.
type Order string

// The orders.
const (
	Fullest Order = "fullest" // the least left, relative to the burst
	Busiest Order = "busiest" // the most taken since the last reading
	ByName  Order = "name"
)

// Sort sorts rows; those that are alike by name.
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
