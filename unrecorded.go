package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
)

// UnrecordedPolicy is the decision of a limiter about calls of an entity without a record.
type UnrecordedPolicy string

const (
	// AdmitUnrecorded treats an entity without a record as any other, by the sources that apply to it.
	AdmitUnrecorded UnrecordedPolicy = "admit"
	// RefuseUnrecorded refuses the calls of an entity without a record.
	RefuseUnrecorded UnrecordedPolicy = "refuse"
)

// ErrUnrecorded matches every *UnrecordedError.
var ErrUnrecorded = errors.New("dynalimit: the entity has no record")

// UnrecordedError says that an entity has no record and Options.Unrecorded is RefuseUnrecorded, or that the
// record of an entity or of a given parent (WithParent) was not looked up. Nothing was consumed.
type UnrecordedError struct {
	// EntityID is the entity of the call, or its given parent.
	EntityID string
	// RetryAfter is the wait before the next lookup of the record. It is above 0 if the table was not
	// asked, because too many lookups found no record. It is 0 if the table has no record.
	RetryAfter time.Duration
}

// Error names the entity.
func (e *UnrecordedError) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("dynalimit: %s was not looked up, because too many entities have no record; retry after %v", e.EntityID, e.RetryAfter)
	}
	return fmt.Sprintf("dynalimit: %s has no record (Options.Unrecorded); create it with admin.Entities.Create", e.EntityID)
}

// RetryIn is RetryAfter; Never and false if the table has no record.
func (e *UnrecordedError) RetryIn() (time.Duration, bool) {
	if e.RetryAfter > 0 {
		return e.RetryAfter, true
	}
	return Never, false
}

// Is matches ErrUnrecorded.
func (e *UnrecordedError) Is(target error) bool { return target == ErrUnrecorded }

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

// room reports whether one more read may find no record. take counts it.
func (l *lookupBudget) room(take bool) bool {
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

// spend counts a read that found no record. Concurrent reads may exceed the room. Then the next ones
// wait longer, but at most a second.
func (l *lookupBudget) spend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grow()
	l.left = max(l.left-1, -l.most)
}

// grow adds the room for the time since the last call.
func (l *lookupBudget) grow() {
	now := l.now()
	if l.at.IsZero() {
		l.left = l.most
	} else if passed := now.Sub(l.at).Seconds(); passed > 0 {
		l.left = min(l.most, l.left+passed*l.most)
	}
	l.at = now
}

// checkUnread refuses a new call that would have to look up its entity's record, while too many lookups
// find no record.
func (rs *routes) checkUnread(at place) error {
	if !rs.lookups.refuse || rs.table.Open() || rs.lookups.first.room(false) || rs.configs.Last(at.GivenKey) != nil {
		return nil
	}
	return &UnrecordedError{EntityID: at.Entity, RetryAfter: time.Second}
}

// checkRecord refuses a new call at an entity without a record: the call's own, or its given parent. It
// reads a record again if the last read is more than a second old. It returns the buckets of that read.
func (rs *routes) checkRecord(ctx context.Context, r *request, buckets []route, p *patience) ([]route, error) {
	at := buckets[0].place
	has := buckets[0].resolved.Record
	if !at.given {
		has = slices.ContainsFunc(buckets, func(b route) bool { return b.resolved.Recorded })
	}
	if has {
		return buckets, nil
	}
	if buckets[0].read && !at.given {
		rs.lookups.first.spend()
	}
	old, asked := buckets[0].resolved, true
	if age := rs.clock.NowMS() - old.ReadAt; age < 0 || age >= believed {
		found, looked, err := rs.lookAgain(ctx, at, p)
		if err != nil {
			return buckets, err
		}
		if asked = looked; looked && (found.Record || found.Recorded && !at.given) {
			return rs.buckets(ctx, r, at, buckets[:0], p)
		}
	}
	switch {
	case !asked:
		return buckets, &UnrecordedError{EntityID: at.Entity, RetryAfter: time.Second}
	case at.given:
		return buckets, invalid(r.opts.given.field(), "is %q, which has no record or is being deleted; create it with admin.Entities.Create, and take the id from what was verified", at.Entity)
	}
	return buckets, &UnrecordedError{EntityID: at.Entity}
}

// lookAgain reads an entity's record again. looked is false if too many lookups have found no record.
// It fails if the table does not answer: then the policy decides.
func (rs *routes) lookAgain(ctx context.Context, at place, p *patience) (found *config.Resolved, looked bool, err error) {
	if rs.table.Open() {
		return nil, false, rs.table.away()
	}
	budget := &rs.lookups.again
	if at.given {
		budget = &rs.lookups.given
	}
	if !budget.room(true) {
		return nil, false, nil
	}
	p.begin(ctx)
	within, cancel := context.WithDeadline(ctx, p.bound())
	defer cancel()
	found, err = rs.configs.Reread(within, at.GivenKey)
	if within.Err() != nil && ctx.Err() == nil && err != nil {
		err = &UnavailableError{Op: readConfig, Err: errOutOfTime}
	}
	return found, true, rs.readError(ctx, err, at.GivenKey, p)
}
