package lane

import "sync"

// shared are the parts of a lane that its memory uses too.
type shared struct {
	// Line holds the waiters of the bucket. It may be used without the lane.
	Line Line
	// Pause is the end of a pause of the bucket. The lane itself ignores it.
	Pause Pause
	// pace spaces the lane's writes.
	pace pace
	// mu guards the queue and the memory.
	mu    sync.Mutex
	queue queue
}
