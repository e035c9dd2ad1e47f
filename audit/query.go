package audit

import "time"

// Query selects events. The zero value selects all stored ones.
type Query struct {
	// Target is the changed thing: an entity's id, System, Resource("gpt-4"),
	// Plan("pro"), Namespace("eu"). Defaults to everything: then an index is read day by day.
	Target string
	// Principal is the author. Defaults to all authors.
	Principal string
	// From and To bound the times of the events, both included, to the millisecond. From
	// defaults to the oldest event that the repository keeps, 90 days ago
	// if that is for ever, and To to now. With a Target, From defaults to the oldest.
	From, To time.Time
}
