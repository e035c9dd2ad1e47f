package aggregator

import "time"

// Window is how long a time usage is summed over.
type Window string

// The windows.
const (
	// Hour is a whole hour of UTC.
	Hour Window = "hour"
	// Day is a day of the Reader's time zone; stored days are of UTC.
	Day Window = "day"
	// Month is a calendar month of that zone; stored months are of UTC.
	Month Window = "month"
)

// String returns the name of the window.
func (w Window) String() string { return string(w) }

// Query says which usage is read. The zero value is every hour of the last day, of all
// resources.
type Query struct {
	// Resource is the resource to read. Defaults to all, one after the other in the
	// order of their names.
	Resource string
	// From and To bound the time: every window that lies at least partly between them is
	// read, To not included. From defaults to a day before To, To to now.
	From, To time.Time
	// Window is the window of the sums. Defaults to Hour.
	Window Window
}

// Usage is the usage of a resource in one window. It is a plain value. Its JSON has the
// names given here.
type Usage struct {
	// Window is how long it is summed over.
	Window Window `json:"window"`
	// Start and End are where the window begins and ends; End is not in it.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"` // where the next window begins
	// Resource is the used resource.
	Resource string `json:"resource"`
	// Entity is its user; empty for a sum of several.
	Entity string `json:"entity_id,omitempty"`
	// Parent and Plan are the entity's at the end of its last closed hour; empty
	// for none, for an open hour, and for sums.
	Parent string `json:"parent_id,omitempty"`
	Plan   string `json:"plan,omitempty"` // empty for none
	// Entities is how many entities are summed: 1 for one's own usage.
	Entities int64 `json:"entities"`
	// Open says that an hour of the window is not closed: more may come.
	Open bool `json:"open"`
	// Final says that nothing more can come, because the table's stream keeps its records
	// no longer than a day.
	Final bool `json:"final"`
	// Limits are the counts of each limit, by name.
	Limits []LimitUsage `json:"limits"`
}

// LimitUsage is the count of one limit. Amounts are in millitokens, exact.
type LimitUsage struct {
	// Limit is its name.
	Limit string `json:"limit"`
	// Unit is "usd" for money: amounts are thousandths of a micro-dollar then. It is empty for any other limit,
	// and for money counted before the unit was recorded.
	Unit string `json:"unit,omitempty"`
	// Consumed is the consumption less give-backs; negative if more was given back.
	Consumed int64 `json:"consumed_millitokens"`
	// Pending is the part of Consumed that the stream has not delivered yet: it is read from the
	// bucket's own counter, and an hour too late if it was written before this one.
	Pending int64 `json:"pending_millitokens,omitempty"`
	// Passed is the part of Consumed that a level above the entity counted too, so that totals count it
	// there and not here; 0 for sums of several.
	Passed int64 `json:"passed_millitokens,omitempty"`
	// Unrecorded is the part of Consumed without a record: the stream was off, or records were
	// trimmed. The counter shows it at the next record, and it counts in that record's hour.
	Unrecorded int64 `json:"unrecorded_millitokens,omitempty"`
	// Unseen is the number of unseen ends of a counter: the consumption before each is
	// unknown.
	Unseen int64 `json:"unseen_ends,omitempty"`
	// ByModel is the part of Consumed that was counted by model, for money on a group of resources; nil without
	// any. A model may have more: the rest of Consumed is of models that were not counted apart.
	ByModel map[string]int64 `json:"by_model_millitokens,omitempty"`
}
