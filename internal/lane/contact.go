package lane

import (
	"context"
	"sync/atomic"
	"time"
)

// Contact says whether a bucket answers. Silence counts only while a request is in flight. All of it is
// atomic, so callers read it without a lock. Only the lane marks the bucket as silent, under its own
// lock.
type Contact struct {
	table *Table // the registry's: a process remembers many lanes
	// heard is the time of the last answer about the bucket, in Unix nanoseconds.
	heard atomic.Int64
	// again is set while the bucket does not answer, and closed when it answers again.
	again atomic.Pointer[chan struct{}]
	// suspect means that the bucket may be the silent one of an unanswered transaction. pausing means
	// that the lane waits for its turn to write.
	suspect, pausing atomic.Bool
}

// Away reports whether the bucket, or the whole table, does not answer.
func (c *Contact) Away() bool { return c.silent() || (*c.table).Open() }

// silent reports whether the bucket does not answer.
func (c *Contact) silent() bool { return c.again.Load() != nil }

// Back returns a channel that is closed when a silent bucket, or table, answers again; nil if it
// answers.
func (c *Contact) Back() <-chan struct{} {
	if again := c.again.Load(); again != nil {
		return *again
	}
	if (*c.table).Open() {
		return (*c.table).Closed()
	}
	return nil
}

// NoteAnswer records that DynamoDB answered a request about the bucket.
func (c *Contact) NoteAnswer() {
	c.heard.Store(time.Now().UnixNano())
	c.suspect.Store(false)
}

// Suspect marks the bucket as perhaps silent, after an unanswered transaction with it. Until it has
// answered, or is silent, calls ask it by itself.
func (c *Contact) Suspect() { c.suspect.Store(true) }

// Suspected reports whether the bucket must be asked by itself.
func (c *Contact) Suspected() bool { return c.suspect.Load() }

// Quiet returns the time without an answer about the bucket, counted from since at the earliest. It is
// 0 while the lane waits for its turn, because then it sends no request.
func (c *Contact) Quiet(since time.Time) time.Duration {
	if c.pausing.Load() {
		return 0
	}
	if heard := time.Unix(0, c.heard.Load()); heard.After(since) {
		since = heard
	}
	return time.Since(since)
}

// pause and resume mark a time without requests: the lane waits for its turn.
func (c *Contact) pause() { c.pausing.Store(true) }

func (c *Contact) resume() {
	if c.pausing.Swap(false) {
		c.NoteAnswer()
	}
}

// lose marks the bucket as silent, and regain as answering again.
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
