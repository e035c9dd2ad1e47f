package dynalimittest

import (
	"maps"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// Taken returns the amounts that calls took from a bucket and did not give back, in whole tokens by limit,
// micro-dollars for money. Tokens of Exhaust do not count. It leaves out limits with 0, and is empty without a
// bucket.
func (l *Limiter) Taken(entity, resource string) dynalimit.Amounts {
	l.t.Helper()
	taken := dynalimit.Amounts{}
	for b, err := range admin.New(l.Repo).Buckets.List(l.endlessContext(), entity) {
		l.requireNoError("read the buckets of "+entity, err)
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

// AssertTaken reports an error of the test unless exactly these amounts were taken from a
// bucket; nil and 0 mean nothing. A parent's bucket includes the amounts of its children.
func (l *Limiter) AssertTaken(entity, resource string, want dynalimit.Amounts) {
	l.t.Helper()
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(_ string, n int64) bool { return n == 0 })
	if taken := l.Taken(entity, resource); !maps.Equal(taken, want) {
		l.t.Errorf("%s took %v on %s; want %v", entity, map[string]int64(taken), resource, map[string]int64(want))
	}
}
