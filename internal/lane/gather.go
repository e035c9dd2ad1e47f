package lane

import (
	"slices"
	"sync"
	"time"
)

// Callers come back at once if they do so within a part of the time that their write took.
// They are waited for no longer than that, nor than mostGather, and not after a quiet part in
// which none has come.
const (
	atOncePart = 4
	quietPart  = 20
	mostGather = 2 * time.Millisecond
)

// An op can wait for others if it has this many times left of what a write takes.
const hurryTimes = 4

// An answer whose callers come back at once adds one to the trust in them, up to mostTrust;
// one whose callers do not takes lostTrust. From enoughTrust on they are waited for.
const (
	enoughTrust = 2
	mostTrust   = 4
	lostTrust   = 2
)

// gather waits after a write for the callers whom it has answered, so that they ride in the
// next one. In a closed loop they are back microseconds later, and without a wait the next
// write has left with those who had queued meanwhile: there are two cohorts then, each of
// which waits for the other's write too.
//
// Whether callers come back at once is seen without a wait: of as many takes as an answer has
// granted, more than half are queued in a part of the time that the write took. In an open
// loop it is about that part, so nobody is held up there for callers who do not come. The
// lane's goroutine is parked meanwhile: the last one who is expected wakes it, or a timer.
//
// A queue has none before its first write of two takes. The lane's mutex guards it.
type gather struct {
	// sent is when the write under way began, and queued how long its ops had to queue, since
	// the one before began. counted means that it carries two takes or more, and unanswered
	// that none of them has been granted yet.
	sent                time.Time
	queued              time.Duration
	counted, unanswered bool

	// answered is when the last such write was, and took how long it took; granted is how
	// many takes it granted. came counts those queued since, before watchEnds.
	answered, watchEnds time.Time
	took                time.Duration
	granted, came       int
	watched             bool

	trust int
	// all is closed when as many have come as were granted, or when one has come who is not to
	// wait; nil while nobody waits for them.
	all chan struct{}
}

// starts notes that a write begins that carries so many takes.
func (q *queue) starts(takes int) {
	if q.gather == nil {
		q.gather = &gather{}
	}
	q.gather.start(takes, time.Now())
}

func (g *gather) start(takes int, now time.Time) {
	g.queued, g.sent = now.Sub(g.sent), now
	g.counted, g.unanswered = takes > 1, takes > 1
}

// grants notes that a take of the write under way has been granted. There is a gather.
func (q *queue) grants() {
	g := q.gather
	if !g.counted {
		return
	}
	if g.unanswered {
		g.answer(time.Now())
	}
	g.granted++
}

// answer begins to watch who comes back, after what the answer before has shown.
func (g *gather) answer(now time.Time) {
	switch {
	case g.granted < 2: // nothing was to be seen
	case 2*g.came > g.granted:
		g.trust = min(g.trust+1, mostTrust)
	default:
		g.trust = max(g.trust-lostTrust, 0)
	}
	g.unanswered, g.answered, g.took, g.granted, g.came, g.watched = false, now, now.Sub(g.sent), 0, 0, true
	g.watchEnds = now.Add(min(g.took, g.queued) / atOncePart) // of two writes the slow one shows too many
}

// arrives notes that an op is queued. There is a gather.
func (q *queue) arrives(o *Op) {
	if g := q.gather; g.watched || g.all != nil {
		g.arrive(o, time.Now())
	}
}

func (g *gather) arrive(o *Op, now time.Time) {
	if g.watched = now.Before(g.watchEnds); g.watched && o.Take {
		g.came++
	}
	if g.came >= g.granted || g.hurries(o, now) {
		g.end()
	}
}

// hurries reports whether an op is not to wait for others: it is an adjust, was refused
// before, or has little time left.
func (g *gather) hurries(o *Op, now time.Time) bool {
	soon := now.Add(hurryTimes * g.took)
	deadline, bounded := o.ctx.Deadline()
	return !o.Take || o.Refusals > 0 || bounded && deadline.Before(soon) || !o.Until.IsZero() && o.Until.Before(soon)
}

// gathers returns what is closed when nobody is waited for any more; nil if the next write
// starts at once.
func (q *queue) gathers(now time.Time) <-chan struct{} {
	g := q.gather
	if g == nil || g.unanswered || g.granted < 2 || g.trust < enoughTrust || slices.ContainsFunc(q.ops, func(o *Op) bool { return g.hurries(o, now) }) {
		return nil
	}
	all := make(chan struct{})
	if g.all = all; g.came >= g.granted {
		g.end()
	}
	return all
}

// end ends the wait.
func (g *gather) end() {
	if g.all != nil {
		close(g.all)
		g.all = nil
	}
}

// wait waits until all is closed, or none has come for a while, or a bound has passed. mu
// guards the gather.
func (g *gather) wait(mu sync.Locker, all <-chan struct{}) {
	mu.Lock()
	came, quiet := g.came, g.took/quietPart
	bound := g.answered.Add(min(g.watchEnds.Sub(g.answered), mostGather))
	mu.Unlock()
	timer := time.NewTimer(min(quiet, time.Until(bound)))
	defer timer.Stop()
	for goesOn := true; goesOn; {
		select {
		case <-all:
			return
		case now := <-timer.C:
			mu.Lock()
			if goesOn = g.came > came && now.Before(bound); !goesOn {
				g.end()
			}
			came = g.came
			mu.Unlock()
			timer.Reset(min(quiet, bound.Sub(now)))
		}
	}
}
