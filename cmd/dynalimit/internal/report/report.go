// Package report writes usage as one page of HTML with charts, which needs nothing but
// itself: neither a network nor another file. It is pure.
package report

import (
	"fmt"
	"time"
)

// MaxWindows is how many windows a page shows at most: more are no chart that a person
// reads, and a page that a phone does not open.
const MaxWindows = 2500

// MaxEntities is how many entities of a limit a page tells apart; the others are shown
// together.
const MaxEntities = 10

// Report is what a page shows. It is a plain value; all amounts are in millitokens.
type Report struct {
	// Table is the table that usage was read from, Namespace its tenant, empty for none.
	Table     string `json:"table"`
	Namespace string `json:"namespace,omitempty"`
	// Entity is whose usage it is; empty for everybody's.
	Entity string `json:"entity,omitempty"`
	// Window is how long each value is summed over: hour, day or month.
	Window string `json:"window"`
	// Zone is the IANA name of the time zone that all times of the report are in: they are
	// shown as they are. Defaults to UTC.
	Zone string `json:"zone"`
	// From and To bound the time, To not included; Made is when it was read.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Made time.Time `json:"made"`
	// Starts are where the windows begin, ascending. The last one ends at To.
	Starts []time.Time `json:"starts"`
	// Resources say what was used of each, in the order in which they are shown.
	Resources []Resource `json:"resources"`
	// Notes are sentences on what the numbers do not hold.
	Notes []string `json:"notes"`
}

// Resource is what was used of one resource.
type Resource struct {
	Name string `json:"name"`
	// Group says that it is a group of resources: what it counted is counted of those too.
	Group bool `json:"group,omitempty"`
	// Limits say what each of its limits counted.
	Limits []Limit `json:"limits"`
}

// Limit is what one limit counted.
type Limit struct {
	Name string `json:"name"`
	// Total is what was consumed in each window.
	Total []int64 `json:"total"`
	// Entities are those that consumed most, the most first. None of them is a part of
	// another, so that all of them together consumed no more than Total.
	Entities []Series `json:"entities"`
	// Others names what of Total is not of Entities. Defaults to others.
	Others string `json:"others,omitempty"`
	// Marks are the windows of which there is more to say, ascending.
	Marks []Mark `json:"marks"`
}

// Series is what one entity consumed in each window.
type Series struct {
	Entity string `json:"entity"`
	// Parent is the entity that it belongs to; empty for none.
	Parent string  `json:"parent,omitempty"`
	Values []int64 `json:"values"`
}

// Mark is what is to be said of a limit in one window besides what was consumed.
type Mark struct {
	// Window is its place in Starts.
	Window int `json:"window"`
	// Open says that an hour of it is not closed: more may come.
	Open bool `json:"open,omitempty"`
	// Pending is what of the total was read from counters before the stream brought it,
	// Unrecorded what no record told: it counts in the window of the next one.
	Pending    int64 `json:"pending,omitempty"`
	Unrecorded int64 `json:"unrecorded,omitempty"`
	// Unseen is how many ends of a counter nobody saw: what was consumed before each is
	// not known.
	Unseen int64 `json:"unseen,omitempty"`
}

// gap reports whether something was consumed that is not counted.
func (m Mark) gap() bool { return m.Unseen != 0 }

// check refuses a report whose parts do not fit.
func (r *Report) check() error {
	if len(r.Starts) > MaxWindows {
		return fmt.Errorf("the report has %d windows, and at most %d are shown: sum over longer windows, or a shorter time", len(r.Starts), MaxWindows)
	}
	for _, resource := range r.Resources {
		for _, l := range resource.Limits {
			if err := l.check(len(r.Starts)); err != nil {
				return fmt.Errorf("the limit %q of %q %w", l.Name, resource.Name, err)
			}
		}
	}
	return nil
}

func (l *Limit) check(windows int) error {
	if len(l.Total) != windows {
		return fmt.Errorf("has %d values for %d windows", len(l.Total), windows)
	}
	for _, s := range l.Entities {
		if len(s.Values) != windows {
			return fmt.Errorf("has %d values of %q for %d windows", len(s.Values), s.Entity, windows)
		}
	}
	for _, m := range l.Marks {
		if m.Window < 0 || m.Window >= windows {
			return fmt.Errorf("has a mark at window %d of %d", m.Window, windows)
		}
	}
	return nil
}

// sum is that of values.
func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}

// others is what entities that are not named consumed in each window.
func (l *Limit) others() []int64 {
	rest := append([]int64{}, l.Total...)
	for _, s := range l.Entities {
		for i, v := range s.Values {
			rest[i] -= v
		}
	}
	return rest
}
