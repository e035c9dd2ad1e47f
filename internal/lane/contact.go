package lane

import (
	"context"
	"sync/atomic"
	"time"
)

// Contact is whether a bucket answers. Silence counts only while something is asked of the
// bucket. All of it is atomic, so callers look at it without a lock; only the lane says, under
// its own, that the bucket is silent.
type Contact struct {
	table *Table // the registry's: a process remembers many lanes
	// heard is the time of the last answer about the bucket, in Unix nanoseconds.
	heard atomic.Int64
	// again is there while the bucket does not answer, and closed when it does again.
	again atomic.Pointer[chan struct{}]
	// suspect means that the bucket may be the silent one of an unanswered transaction. pausing means
	// that the lane waits for its turn to write.
	suspect, pausing atomic.Bool
}

// Away reports whether the bucket, or the whole table, does not answer.
func (c *Contact) Away() bool { return c.silent() || (*c.table).Open() }

// silent reports whether the bucket does not answer.
func (c *Contact) silent() bool { return c.again.Load() != nil }

// Back is closed once a bucket, or a table, that does not answer does again; nil if it does.
func (c *Contact) Back() <-chan struct{} {
	if again := c.again.Load(); again != nil {
		return *again
	}
	if (*c.table).Open() {
		return (*c.table).Closed()
	}
	return nil
}

// NoteAnswer notes that DynamoDB answered a request about the bucket.
func (c *Contact) NoteAnswer() {
	c.heard.Store(time.Now().UnixNano())
	c.suspect.Store(false)
}

// Suspect marks the bucket as perhaps silent, after an unanswered transaction with it. Until it has
// answered, or is silent, calls ask it by itself.
func (c *Contact) Suspect() { c.suspect.Store(true) }

// Suspected reports whether the bucket is to be asked by itself.
func (c *Contact) Suspected() bool { return c.suspect.Load() }

// Quiet is how long DynamoDB has answered nothing about the bucket, counted from since
// at the earliest. It is 0 while the lane waits for its turn, because then it asks
// nothing.
func (c *Contact) Quiet(since time.Time) time.Duration {
	if c.pausing.Load() {
		return 0
	}
	if heard := time.Unix(0, c.heard.Load()); heard.After(since) {
		since = heard
	}
	return time.Since(since)
}

// pause notes that the lane asks nothing, and resume that it asks again.
func (c *Contact) pause() { c.pausing.Store(true) }

func (c *Contact) resume() {
	if c.pausing.Swap(false) {
		c.NoteAnswer()
	}
}

// lose notes that the bucket does not answer, and regain that it does again.
func (c *Contact) lose() {
	again := make(chan struct{})
	c.again.Store(&again)
	c.suspect.Store(false)
}

func (c *Contact) regain() {
	again := c.again.Swap(nil)
	close(*again)
}

// await waits until a silent bucket answers again; at once if it answers. It returns false
// if the limiter was closed.
func (c *Contact) await(life context.Context) bool {
	if again := c.again.Load(); again != nil {
		select {
		case <-*again:
		case <-life.Done():
		}
	}
	return life.Err() == nil
}
