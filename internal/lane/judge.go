package lane

import (
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// MaxRefusals bounds how often an op is decided again.
const MaxRefusals = 24

// settled is the fate of a write's ops after its answer, with the lessons for the next write. A value:
// sending carries it out.
type settled struct {
	endings
	// again are the ops to decide again, and putOff those to decide again after a pause, while there is
	// time.
	again, putOff []*Op
	// doubt is the amounts that an earlier unanswered try may have charged, in addition to the ops'
	// results.
	doubt []plan.Signed
	// refused means that others wrote first. worn is the largest number of such refusals of an op that
	// is decided again.
	refused bool
	worn    int
	// adjustsOnly makes the next write carry its adjusts without takes. halvings changes the share that
	// it takes.
	adjustsOnly bool
	halvings    int8
}

// judge decides the fate of a write's ops by its answer. It is pure. heads stand in the bucket's line.
// pending reports whether an op's caller was answered while its write was in flight.
//
//	landed     its ops end with the image
//	refused    takes that did not fit the bucket of the answer are denied; the others are
//	           decided again, up to MaxRefusals times; a prefetch is dropped, and amounts
//	           of tries that may still land are in doubt
//	throttled  all are decided again after a pause
//	else       all fail, or are in doubt
//
// A write that only brought a newer configuration carried nothing of its ops: they are decided again
// under it.
func judge(m *move, a Answer, heads []head, pending func(*Op) bool) (s settled) {
	switch a.Verdict {
	case ddb.Landed, ddb.Refused:
		if m.brings {
			s.decideAgain(m.carried)
			return s
		}
	case ddb.Throttled:
		s.putOff = m.carried
		return s
	default:
		r := a.unwritten()
		r.Unconfirmed = r.Unconfirmed && !m.brings
		if r.Unconfirmed {
			s.doubtHidden(m.carried, a)
		}
		s.end(m.carried, r)
		return s
	}
	if a.Verdict == ddb.Landed {
		if a.hidden > 0 {
			s.doubtHidden(m.carried, a)
		}
		s.halvings = -1
		r := Result{Image: a.Image, Now: m.view.Now, Config: m.view.Config, Err: a.Err}
		if a.later {
			r.landedIn = m.write.LandedIn(a.Image)
		}
		s.end(m.carried, r)
		return s
	}
	left := m.carried
	if a.hidden > 0 {
		left = s.endPending(left, pending)
	}
	left = s.dropPrefetches(left, a.hidden > 0)
	s.doubtHidden(left, a)
	s.adjustsOnly, s.halvings = m.adjusts, 1
	s.decideAgain(s.denyUnfit(left, m.view, a, heads))
	return s
}

// endPending ends the ops whose callers were already answered, and that may still land: a retry might
// charge them twice. It returns the others.
func (s *settled) endPending(ops []*Op, pending func(*Op) bool) (others []*Op) {
	var doubted []*Op
	for _, o := range ops {
		if pending(o) {
			doubted = append(doubted, o)
		} else {
			others = append(others, o)
		}
	}
	s.end(doubted, Result{Err: unconfirmed(writeBucket), Unconfirmed: true})
	return others
}

// dropPrefetches ends the ops of prefetches, because their write was refused. It returns the others.
func (s *settled) dropPrefetches(ops []*Op, unconfirmed bool) (others []*Op) {
	var dropped []*Op
	for _, o := range ops {
		if o.Prefetch {
			dropped = append(dropped, o)
		} else {
			others = append(others, o)
		}
	}
	s.end(dropped, Result{Denied: true, Unconfirmed: unconfirmed})
	return others
}

// doubtHidden adds the amounts that unanswered tries may have charged for the ops.
func (s *settled) doubtHidden(ops []*Op, a Answer) {
	for range a.hidden {
		for _, o := range ops {
			s.doubt = plan.Plus(s.doubt, o.charged())
		}
	}
}

// denyUnfit denies the takes of a refused write that do not fit the bucket of the answer, at the
// instant of the decision. It returns the others. At a later instant, each of many processes would find
// room in the refill since, and they would keep refusing each other.
func (s *settled) denyUnfit(ops []*Op, decided plan.View, a Answer, heads []head) []*Op {
	if !a.Seen || a.Image == nil || !decided.Config.Wrote(a.Image) {
		return ops
	}
	v := plan.View{Image: a.Image, Config: decided.Config, Now: decided.Now}
	fit, unfit := fitting(v, ops, heads)
	s.deny(v, unfit)
	s.lose(unfit)
	return fit
}

// decideAgain counts a refusal of the ops. Ops with too many refusals end.
func (s *settled) decideAgain(ops []*Op) {
	s.refused = true
	var exhausted []*Op
	for _, o := range ops {
		if o.Refusals++; o.Refusals >= MaxRefusals {
			exhausted = append(exhausted, o)
			continue
		}
		s.worn = max(s.worn, o.Refusals)
		s.again = append(s.again, o)
	}
	s.end(exhausted, Result{Err: &Failure{Reason: Contended}})
}
