package follow

import (
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/notation"
)

// ArchiveStatus is the progress of archiving expired items since the start. It is a plain
// value.
type ArchiveStatus struct {
	// Shards is the number of shards that this process reads.
	Shards int `json:"shards"`
	// Behind is the age of the oldest record that was read and not written.
	Behind time.Duration `json:"-"`
	// BehindMS is Behind in milliseconds.
	BehindMS int64 `json:"behind_ms"`
	// Gathered is the number of records that wait to be processed.
	Gathered int `json:"gathered"`
	// Archived counts records in files, Repeated records that came twice at once, and Ignored
	// records of items that did not expire.
	Archived int64 `json:"archived"`
	Repeated int64 `json:"repeated"`
	Ignored  int64 `json:"ignored"`
	// Skipped counts records that can never be archived, and Trimmed the times that records
	// were gone before they were read.
	Skipped int64 `json:"skipped"`
	Trimmed int64 `json:"trimmed"`
	// Retries counts failures that are retried.
	Retries int64 `json:"retries"`
}

// AsArchive converts the status of a Tail that archives items in place of counting usage: Counted becomes
// Archived. It leaves out folds, gaps and closed hours.
func (s Status) AsArchive() ArchiveStatus {
	return ArchiveStatus{
		Shards: s.Shards, Behind: s.Behind, BehindMS: s.BehindMS, Gathered: s.Gathered, Archived: s.Counted, Repeated: s.Repeated,
		Ignored: s.Ignored, Skipped: s.Skipped, Trimmed: s.Trimmed, Retries: s.Retries,
	}
}

// Text formats the status as one line: the number of shards, their lag, the waiting records, then the counts of
// Done.
func (s ArchiveStatus) Text() string {
	return readingText(s.Shards, s.Behind, s.Gathered) + ", " + s.Done()
}

// Done lists the numbers of archived and skipped items and of retries, separated by commas. It omits the last
// two if they are 0.
func (s ArchiveStatus) Done() string {
	parts := []string{notation.GroupedNumber(s.Archived) + " archived"}
	parts = appendCount(parts, s.Skipped, "skipped", "skipped")
	parts = appendCount(parts, s.Retries, "retry", "retries")
	return strings.Join(parts, ", ")
}
