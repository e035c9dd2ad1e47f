package lane

import "sync"

// shared are the parts of a lane that its memory uses too.
type shared struct {
	// Pause is the end of a pause of the bucket. The lane itself ignores it.
	Pause Pause
	// mu guards the queue and the memory.
	mu    sync.Mutex
	queue queue
	// extra are the parts that few buckets need; nil before the first use of one.
	extra extras
}
