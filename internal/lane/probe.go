package lane

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
)

const (
	// FirstProbe and lastProbe bound the waits between the probes of one bucket.
	FirstProbe = 500 * time.Millisecond
	lastProbe  = 10 * time.Second
)

// probe asks a bucket until it answers: at once, then after waits that double up to lastProbe or longest. While the
// whole table does not answer, awaitTable says when to ask. The bucket may still be silent when the table answers. It
// returns false if the limiter is closed first.
func (s site) probe(longest func() time.Duration) bool {
	life := s.life
	for wait := FirstProbe; ; wait *= 2 {
		if s.access.Table.Open() {
			s.awaitTable(longest)
			wait = FirstProbe
		}
		if life.Err() != nil {
			return false
		}
		if s.AnswersNow(ddb.ContextOfSilent(life)) {
			return true
		}
		wait = min(wait, lastProbe, longest())
		if !s.access.Table.Open() {
			ddb.Sleep(life, wait/2+rand.N(wait/2))
		}
	}
}

// awaitTable waits until the table answers its own probe, or the limiter is closed. A lane with a longest wait below
// lastProbe also returns to ask its bucket, once no lane of the process has done so for that wait.
func (s site) awaitTable(longest func() time.Duration) {
	for {
		most, last := longest(), s.asked.Load()
		ask, stop := context.WithTimeout(s.life, most-time.Duration(s.passed()-last)*time.Microsecond)
		select {
		case <-s.access.Table.Closed():
		case <-ask.Done():
		}
		asks := ask.Err() != nil && most < lastProbe && s.asked.CompareAndSwap(last, s.passed())
		stop()
		if asks || s.life.Err() != nil || !s.access.Table.Open() {
			return
		}
	}
}

// AnswersNow probes the bucket once, and reports whether DynamoDB answered; an error can be an answer. It
// writes nothing, and does not update the contact.
func (s site) AnswersNow(ctx context.Context) bool {
	return hasAnswer(guard.Apart(func() error { return s.access.Store.Probe(ctx, s.Key()) }))
}

// NoticeForeign logs, once in this process, that another implementation writes buckets
// that this one writes too. Each of them misses refill that the other has not written
// yet.
func (s site) NoticeForeign() {
	if s.foreign.Swap(true) {
		return
	}
	s.access.Log.WarnContext(context.Background(),
		"another program than dynalimit writes this bucket, and perhaps others; while both write, limits admit too much or too little: "+
			"let zae-limiter read the table, and stop its writers (docs/from-zae-limiter.md)",
		slog.String("entity", s.Entity), slog.String("resource", s.Resource))
}
