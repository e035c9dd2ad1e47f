package follow

import (
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

// ArchiveStatus is how far what expires was archived, since it was begun. It is a plain
// value.
type ArchiveStatus struct {
	// Shards is how many are read by this process.
	Shards int `json:"shards"`
	// Behind is how long the oldest record waits of those that were read and not written.
	Behind time.Duration `json:"-"`
	// BehindMS is Behind in milliseconds.
	BehindMS int64 `json:"behind_ms"`
	// Gathered is how many records wait to be looked at.
	Gathered int `json:"gathered"`
	// Archived are the records that are in files, Repeated those that came twice at once,
	// and Ignored those that tell of nothing that expired.
	Archived int64 `json:"archived"`
	Repeated int64 `json:"repeated"`
	Ignored  int64 `json:"ignored"`
	// Skipped are records that can never be archived, and Trimmed is how often records were
	// gone before they were read.
	Skipped int64 `json:"skipped"`
	Trimmed int64 `json:"trimmed"`
	// Retries is how often something failed that is tried again.
	Retries int64 `json:"retries"`
}

// Archive is the status of a Tail that archives.
func (s Status) Archive() ArchiveStatus {
	return ArchiveStatus{
		Shards: s.Shards, Behind: s.Behind, BehindMS: s.BehindMS, Gathered: s.Gathered, Archived: s.Counted, Repeated: s.Repeated,
		Ignored: s.Ignored, Skipped: s.Skipped, Trimmed: s.Trimmed, Retries: s.Retries,
	}
}

// Text is the status in one line.
func (s ArchiveStatus) Text() string {
	return reading(s.Shards, s.Behind, s.Gathered) + ", " + s.Done()
}

// Done says what was done.
func (s ArchiveStatus) Done() string {
	parts := []string{notation.Number(s.Archived) + " archived"}
	parts = some(parts, s.Skipped, "skipped", "skipped")
	parts = some(parts, s.Retries, "retry", "retries")
	return strings.Join(parts, ", ")
}
