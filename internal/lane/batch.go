package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// batch holds the ops that one write carries.
type batch struct {
	adjusts, takes []*Op
}

func (b *batch) ops() []*Op { return slices.Concat(b.adjusts, b.takes) }

// charges reports whether the batch takes anything. A batch that only gives back can be
// written without an image.
func (b *batch) charges() bool {
	return len(b.takes) > 0 || slices.ContainsFunc(b.adjusts, (*Op).charges)
}

func (b *batch) first() *Op {
	if len(b.takes) > 0 {
		return b.takes[0]
	}
	return b.adjusts[0]
}

// next chooses the ops of the next write: all adjusts, and the takes that have the same
// configuration as the first take.
func (l *Lane) next() (batch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.running = false
		return batch{}, false
	}
	var b batch
	for _, o := range l.queue {
		if !o.take {
			b.adjusts = append(b.adjusts, o)
		}
	}
	if !l.adjustsOnly || len(b.adjusts) == 0 {
		b.takes = l.nextTakes()
	}
	l.adjustsOnly = false
	l.addPrefetch(&b)
	for _, o := range b.adjusts {
		o.state = opCarried
	}
	for _, o := range b.takes {
		o.state = opCarried
	}
	return b, true
}

// nextTakes are the queued takes that have the same configuration as the first one. l.mu
// must be held.
func (l *Lane) nextTakes() (takes []*Op) {
	for _, o := range l.queue {
		switch {
		case !o.take || len(takes) > 0 && !sameConfig(takes[0].cfg, o.cfg):
		case len(l.queue) == 1:
			takes = o.asList()
		default:
			takes = append(takes, o)
		}
	}
	return takes
}

func sameConfig(a, b *plan.Config) bool {
	return a == b || string(a.Fingerprint) == string(b.Fingerprint) && a.Override == b.Override
}
