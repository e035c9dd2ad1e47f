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

// probe asks a bucket until it answers: at once, then after waits that double. While the whole table
// does not answer, it waits for the table's own probe. The bucket may still be silent when the table
// answers. It returns false if the limiter is closed first.
func (s site) probe() bool {
	life, table := s.life, s.access.Table
	for wait := FirstProbe; life.Err() == nil; wait = min(2*wait, lastProbe) {
		if table.Open() {
			select {
			case <-table.Closed():
			case <-life.Done():
				return false
			}
			wait = FirstProbe
		}
		if s.AnswersNow(life) {
			return true
		}
		if !ddb.Sleep(life, wait/2+rand.N(wait/2)) {
			return false
		}
	}
	return false
}

// AnswersNow probes the bucket once, and reports whether DynamoDB answered. It writes nothing.
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
