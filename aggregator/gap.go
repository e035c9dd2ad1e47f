package aggregator

import "time"

// Gap is consumption of which no record came, because the stream was off, or records were
// trimmed before they were read. A Processor finds it at the next record of the same hour,
// a Closer where hours meet.
type Gap struct {
	// Namespace, Entity, Resource and Limit say whose counter it is.
	Namespace, Entity, Resource, Limit string
	// Kind says where it is.
	Kind GapKind
	// Hour is the beginning of the hour whose snapshot tells of it.
	Hour time.Time
	// Missing is how much the counter grew without a record, in millitokens; negative if it
	// sank. Of one that began anew it is what the new one had counted before its first record.
	Missing int64
	// Unseen is how many ends of the counter no record showed: then what was consumed
	// before each is not known.
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
