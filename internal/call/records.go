package call

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
)

const (
	// believed is the time for which a limiter trusts a read that found no record, in ms.
	believed = 1000
	// mostFirst bounds the reads a second that find no record for entities that were never read, and
	// mostAgain those for others.
	mostFirst, mostAgain = 200, 20
)

// lookups limit the reads of a limiter that find no record. Made-up ids then cost a bounded number of
// reads, and do not keep known ids or given parents from being read again.
type lookups struct {
	// refuse means that entities without a record are refused.
	refuse bool

	first, again, given lookupBudget
}

// newLookups returns full budgets of lookups. refuse means that entities without a record are refused.
func newLookups(refuse bool, now func() time.Time) lookups {
	return lookups{refuse, lookupBudget{most: mostFirst, now: now}, lookupBudget{most: mostAgain, now: now}, lookupBudget{most: mostAgain, now: now}}
}

// lookupBudget bounds the reads that find no record. It grows by most a second, up to most.
type lookupBudget struct {
	most float64
	now  func() time.Time

	mu   sync.Mutex
	left float64
	at   time.Time
}

// hasRoom reports whether one more read may find no record. If take is set, it also takes the room of that
// read.
func (l *lookupBudget) hasRoom(take bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grow()
	if l.left < 1 {
		return false
	}
	if take {
		l.left--
	}
	return true
}

// countMiss counts a read that found no record. Concurrent reads may exceed the room. Then the next ones wait
// longer, but at most a second.
func (l *lookupBudget) countMiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grow()
	l.left = max(l.left-1, -l.most)
}

// grow adds the room for the time since its last call, up to most. The first call fills the budget.
func (l *lookupBudget) grow() {
	now := l.now()
	if l.at.IsZero() {
		l.left = l.most
	} else if passed := now.Sub(l.at).Seconds(); passed > 0 {
		l.left = min(l.most, l.left+passed*l.most)
	}
	l.at = now
}

// checkUnread returns an *Unrecorded for a new call that would have to look up its entity's record, while too
// many lookups find no record. It returns nil if entities need no record, if the table does not answer, and if
// the entity's configuration is cached.
func (rs *routes) checkUnread(at place) error {
	if !rs.lookups.refuse || rs.table.Open() || rs.lookups.first.hasRoom(false) || rs.configs.Last(at.GivenKey) != nil {
		return nil
	}
	return &Unrecorded{Entity: at.Entity, RetryAfter: time.Second}
}

// checkRecord returns the error of a new call at an entity without a record: the call's own, or its given
// parent. It reads a record again if the last read is more than a second old, and then returns the buckets of
// that read. Otherwise it returns buckets.
func (rs *routes) checkRecord(ctx context.Context, r *Request, buckets []route, p *patience) ([]route, error) {
	at := buckets[0].place
	has := buckets[0].resolved.Record
	if !at.given {
		has = slices.ContainsFunc(buckets, func(b route) bool { return b.resolved.Recorded })
	}
	if has {
		return buckets, nil
	}
	if buckets[0].read && !at.given {
		rs.lookups.first.countMiss()
	}
	old, asked := buckets[0].resolved, true
	if age := rs.clock.NowMS() - old.RecordReadAt(); age < 0 || age >= believed {
		found, looked, err := rs.rereadRecord(ctx, at, p)
		if err != nil {
			return buckets, err
		}
		if asked = looked; looked && (found.Record || found.Recorded && !at.given) {
			return rs.buckets(ctx, r, at, buckets[:0], p)
		}
	}
	switch {
	case !asked:
		return buckets, &Unrecorded{Entity: at.Entity, RetryAfter: time.Second}
	case at.given:
		return buckets, invalid(r.Given.Field(), "is %q, which has no record or is being deleted; create it with admin.Entities.Create, and take the id from a verified credential", at.Entity)
	}
	return buckets, &Unrecorded{Entity: at.Entity}
}

// rereadRecord reads an entity's record again, and counts the read in the budget. looked is false, and nothing
// is read, if too many lookups have found no record. It fails if the table does not answer: then the policy
// decides.
func (rs *routes) rereadRecord(ctx context.Context, at place, p *patience) (found *config.Resolved, looked bool, err error) {
	if rs.table.Open() {
		return nil, false, rs.table.away()
	}
	budget := &rs.lookups.again
	if at.given {
		budget = &rs.lookups.given
	}
	if !budget.hasRoom(true) {
		return nil, false, nil
	}
	p.startClock(ctx)
	within, cancel := context.WithDeadline(ctx, p.bound())
	defer cancel()
	found, err = rs.configs.Reread(within, at.GivenKey)
	if within.Err() != nil && ctx.Err() == nil && err != nil {
		err = &fault.UnavailableError{Op: ReadConfig, Err: errOutOfTime}
	}
	return found, true, rs.readError(ctx, err, at.GivenKey, p)
}

// checkDepth decides a new call whose chain of parents is longer than the charged levels; from is the first
// place above them. It returns a *TooDeep if a level from there on limits money or is too far up, or if given
// is set: the call chose a parent. Otherwise it logs once and returns nil, and the nearest levels are charged.
func (rs *routes) checkDepth(ctx context.Context, r *Request, from place, given bool, p *patience) error {
	if p == nil { // of a lease that is out
		return nil
	}
	if given {
		return newTooDeep("a call charges the %d nearest levels, and %s is above those of %s; %s is %s, which may have %d levels above it",
			maxDepth, from.Entity, r.Entity, r.Given.Field(), r.Given.Parent, maxDepth-2)
	}
	at := from
	for depth := 0; at.Entity != ""; depth++ {
		if depth == maxDepth { // or a cycle
			return refuseTooDeep(r.Entity, at.Entity, "is above the levels that are read")
		}
		buckets, err := rs.buckets(ctx, r, at, nil, p)
		if err != nil {
			return err
		}
		for i := range buckets {
			if cfg := rs.fallback.LimitsOf(buckets[i].resolved, at.parent); cfg != nil && cfg.Money&^(cfg.Shadow|cfg.Uncharged) != 0 {
				return refuseTooDeep(r.Entity, at.Entity, "limits money")
			}
		}
		at = r.nextPlace(at, buckets[0].resolved)
	}
	rs.deepOnce.Do(func() {
		rs.log.WarnContext(ctx, "an entity has too many levels of parents; those from the ancestor on are not charged",
			slog.String("entity", r.Entity), slog.String("ancestor", from.Entity), slog.Int("levels", maxDepth))
	})
	return nil
}

// newTooDeep returns the reason of a call with too many levels of parents.
func newTooDeep(format string, args ...any) *TooDeep { return &TooDeep{fmt.Sprintf(format, args...)} }

// refuseTooDeep returns the reason of a call of an entity with too many parents. why describes the problem with
// the ancestor above the charged levels.
func refuseTooDeep(entity, ancestor, why string) error {
	return newTooDeep("a call charges the %d nearest levels, and %s, which is above those of %s, %s; give %s fewer parents, or detach one of them",
		maxDepth, ancestor, entity, why, entity)
}

// refuseCycle returns the error of a call with a cycle in its chain of parents. It names the call's
// parent if the chain has it, because the records alone may be right.
func (r *Request) refuseCycle(entity string, given bool) error {
	if !given {
		return invalid("entity", "%s is its own ancestor; correct the parents", entity)
	}
	g := r.Given
	return invalid(g.Field(), "is %q, and %s is an ancestor of it, so it would be its own ancestor; give another parent, or detach %s (Entity.Detached)", g.Parent, entity, entity)
}

// logDifference logs, once for each first, that a call gives another parent, or another plan, than of, the
// entity's configuration, has in its record. The record wins.
func (r *Request) logDifference(ctx context.Context, first *sync.Once, log *slog.Logger, of *config.Resolved) {
	g := r.Given
	parent := g.ByCall && of.SaysParent && (of.Detached || of.ParentID != g.Parent)
	plan := g.Plans && !of.HasGivenPlan() && of.Plan != g.Plan
	if !parent && !plan {
		return
	}
	first.Do(func() {
		log.WarnContext(ctx, "a call gives another parent or plan than the entity's record; the record wins",
			slog.String("entity", r.Entity), slog.String("given_parent", g.Parent), slog.String("given_plan", g.Plan),
			slog.String("parent", of.ParentID), slog.Bool("detached", of.Detached), slog.String("plan", of.Plan))
	})
}
