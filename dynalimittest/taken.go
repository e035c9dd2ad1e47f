package dynalimittest

import (
	"maps"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// Taken is what calls took from a bucket and did not give back, in whole tokens by limit: the
// bucket's counters, less what Exhaust took. A limit of which nothing was taken is not in it.
func (l *Limiter) Taken(entity, resource string) dynalimit.Amounts {
	l.t.Helper()
	taken := dynalimit.Amounts{}
	for b, err := range admin.New(l.Repo).Buckets.List(l.ctx(), entity) {
		l.check("read the buckets of "+entity, err)
		if b.Resource == resource {
			taken = b.Consumed
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, n := range l.exhausted[bucket{entity, resource}] {
		taken[name] -= n
	}
	maps.DeleteFunc(taken, func(_ string, n int64) bool { return n == 0 })
	return taken
}

// AssertTaken fails the test, which goes on, unless exactly these amounts were taken from a
// bucket; nil and 0 stand for nothing. A parent's bucket counts what its children took.
func (l *Limiter) AssertTaken(entity, resource string, want dynalimit.Amounts) {
	l.t.Helper()
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(_ string, n int64) bool { return n == 0 })
	if taken := l.Taken(entity, resource); !maps.Equal(taken, want) {
		l.t.Errorf("%s took %v on %s; want %v", entity, map[string]int64(taken), resource, map[string]int64(want))
	}
}
