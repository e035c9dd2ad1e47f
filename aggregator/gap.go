package aggregator

import "time"

// Gap is consumption without a record, because the stream was off, or records were
// trimmed before they were read. A Processor finds it at the next record of the same hour,
// a Closer between two hours.
type Gap struct {
	// Namespace, Entity, Resource and Limit identify the counter.
	Namespace, Entity, Resource, Limit string
	// Kind says where it is.
	Kind GapKind
	// Hour is the beginning of the hour with the snapshot that shows the gap.
	Hour time.Time
	// Missing is the counter's growth without a record, in millitokens; negative if it
	// sank. For a counter that began anew it is the new one's count before its first record.
	Missing int64
	// Unseen is the number of ends of the counter without a record: the consumption
	// before each is unknown.
	Unseen int64
	// Since is, for a gap between hours, the hour that the counter was last seen in.
	Since time.Time
}

// GapKind says where a gap is.
type GapKind string

// The kinds of gaps.
const (
	// GapWithin is between two records of an hour.
	GapWithin GapKind = ""
	// GapBetween is between the last record of an hour and the first of a later one.
	GapBetween GapKind = "between"
	// GapBefore is before the first record that there is of a counter: the stream may have
	// been turned on then, and nothing be wrong.
	GapBefore GapKind = "before"
)
