package laws

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// This file is the part of the harness that package outside uses too, with Seeds.

// quiet marks requests that no fault affects.
type quiet struct{}

// Quietly returns a context for requests of the test itself: no fault and no delay affects them.
func Quietly(ctx context.Context) context.Context { return context.WithValue(ctx, quiet{}, true) }

// IsQuiet reports whether a request has a context from Quietly.
func IsQuiet(q *ddbmem.Request) bool { return q.Context.Value(quiet{}) != nil }

// Throttled is the error of a request that the store throttles.
var Throttled = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}

// Elapse waits until d has passed: in a bubble of package synctest that is virtual time.
func Elapse(d time.Duration) { <-time.After(d) }

// Entities returns the ids of a random chain of one to three entities, the leaf first. It makes no records.
func Entities(r *rand.Rand) []string { return []string{"key", "project", "org"}[:1+r.IntN(3)] }

// Link returns the record of the i-th entity of a chain, with the next one as its parent. At random the parent
// counts by all sources, by its own, or not at all.
func Link(chain []string, i int, r *rand.Rand) admin.Entity {
	e := admin.Entity{ID: chain[i]}
	if i+1 < len(chain) {
		e.ParentID = chain[i+1]
		how := r.IntN(5)
		e.Cascade, e.Detached = how < 2, how == 4
	}
	return e
}

// TokenBucket returns a token bucket: p[0] is its capacity and burst, p[1] the refill amount, and p[2] the
// refill period in seconds.
func TokenBucket(name string, p [3]int64) dynalimit.Limit {
	return dynalimit.Limit{Name: name, Capacity: p[0], Burst: p[0], RefillAmount: p[1], RefillPeriod: time.Duration(p[2]) * time.Second}
}

// Looks counts a limiter's reads of its clock in a minute. A limiter that spins reads it often.
type Looks struct{ n, minute atomic.Int64 }

// Add counts a read of the clock, and returns the number of reads in this minute of virtual time, with this
// one.
func (l *Looks) Add() int64 {
	if minute := time.Now().Unix() / 60; l.minute.Swap(minute) != minute {
		l.n.Store(0)
	}
	return l.n.Add(1)
}
