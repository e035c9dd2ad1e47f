// Package report writes usage as one self-contained HTML page with charts, which needs neither
// a network nor another file. It is pure.
package report

import (
	"fmt"
	"time"
)

// MaxWindows is the maximal number of windows of a page. With more, people cannot read the
// charts, and phones cannot open the page.
const MaxWindows = 2500

// MaxEntities is the number of a limit's entities that a page shows separately. It combines the
// others.
const MaxEntities = 10

// Report is the content of a page. It is a plain value; all amounts are in millitokens.
type Report struct {
	// Table is the table of the usage, Namespace its tenant or empty.
	Table     string `json:"table"`
	Namespace string `json:"namespace,omitempty"`
	// Entity is the entity of the usage; empty for all.
	Entity string `json:"entity,omitempty"`
	// Window is the length of a window: hour, day or month.
	Window string `json:"window"`
	// Zone is the IANA name of the time zone of all times in the report. Defaults to UTC.
	Zone string `json:"zone"`
	// From (included) and To (excluded) bound the time. Made is the time of the read.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Made time.Time `json:"made"`
	// Starts are the starts of the windows, ascending. The last one ends at To.
	Starts []time.Time `json:"starts"`
	// Resources are in the order of the page.
	Resources []Resource `json:"resources"`
	// Notes are sentences about the limitations of the numbers.
	Notes []string `json:"notes"`
}

// Resource is the usage of one resource.
type Resource struct {
	Name string `json:"name"`
	// Group is true for a group of resources, whose usage is also counted for its resources.
	Group bool `json:"group,omitempty"`
	// Limits are the limits of the resource.
	Limits []Limit `json:"limits"`
}

// Limit is the usage of one limit.
type Limit struct {
	Name string `json:"name"`
	// Total is the consumption in each window.
	Total []int64 `json:"total"`
	// Entities are the largest consumers, highest first. None is a part of another, so their
	// sum does not exceed Total.
	Entities []Series `json:"entities"`
	// Others names the rest of Total. Defaults to others.
	Others string `json:"others,omitempty"`
	// Marks are the windows with remarks, ascending.
	Marks []Mark `json:"marks"`
}

// Series is one entity's consumption in each window.
type Series struct {
	Entity string `json:"entity"`
	// Parent is the entity's parent, or empty.
	Parent string  `json:"parent,omitempty"`
	Values []int64 `json:"values"`
}

// Mark is the remarks about a limit in one window.
type Mark struct {
	// Window is the index in Starts.
	Window int `json:"window"`
	// Open is true if an hour of the window is not closed: more may come.
	Open bool `json:"open,omitempty"`
	// Pending is the part of the total that was read from counters before the stream brought
	// it. Unrecorded is consumption without a record: it counts in the window of the next one.
	Pending    int64 `json:"pending,omitempty"`
	Unrecorded int64 `json:"unrecorded,omitempty"`
	// Unseen counts the unobserved ends of counters. The consumption before each is unknown.
	Unseen int64 `json:"unseen,omitempty"`
}

// hasGap reports whether buckets of the window ended unseen, so that some consumption is not counted.
func (m Mark) hasGap() bool { return m.Unseen != 0 }

// checkReport refuses a report with too many windows, and with series or marks that do not match its windows.
func (r *Report) checkReport() error {
	if len(r.Starts) > MaxWindows {
		return fmt.Errorf("the report has %d windows, and at most %d are shown: sum over longer windows, or a shorter time", len(r.Starts), MaxWindows)
	}
	for _, resource := range r.Resources {
		for _, l := range resource.Limits {
			if err := l.checkLimit(len(r.Starts)); err != nil {
				return fmt.Errorf("the limit %q of %q %w", l.Name, resource.Name, err)
			}
		}
	}
	return nil
}

// checkLimit checks that every series has a value for each window, and that every mark lies in one.
func (l *Limit) checkLimit(windows int) error {
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

// sumOf returns the sum of values.
func sumOf(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}

// otherConsumption returns the consumption in each window of all entities outside l.Entities.
func (l *Limit) otherConsumption() []int64 {
	rest := append([]int64{}, l.Total...)
	for _, s := range l.Entities {
		for i, v := range s.Values {
			rest[i] -= v
		}
	}
	return rest
}
