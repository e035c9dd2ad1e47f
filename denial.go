package dynalimit

import "github.com/dynalimit/dynalimit/internal/plan"

// roomyDenial is a denial with room for the statuses of most calls. It is one allocation, because a
// denied caller comes again and again.
type roomyDenial struct {
	LimitExceededError
	room [2]LimitStatus
}

// emptyDenial returns a denial without statuses; show adds them.
func emptyDenial(entityID, resource string) *LimitExceededError {
	d := &roomyDenial{LimitExceededError: LimitExceededError{EntityID: entityID, Resource: resource}}
	d.Statuses = d.room[:0]
	return &d.LimitExceededError
}

// next adds a status, to be filled in.
func (e *LimitExceededError) next() *LimitStatus {
	n := len(e.Statuses)
	if n < cap(e.Statuses) {
		e.Statuses = e.Statuses[:n+1] // unused room
	} else {
		e.Statuses = append(e.Statuses, LimitStatus{})
	}
	return &e.Statuses[n]
}

// show adds the statuses of the requested amounts at a level, as of the last level's decision and after
// the give-back of the level's tokens. held returns the tokens held of a limit; it may be nil.
func (e *LimitExceededError) show(r *levelReading, asked []plan.Signed, held func(limit string) int64, decided int64) {
	for _, a := range asked {
		back := int64(0)
		if held != nil {
			back = held(a.Name)
		}
		s := e.next()
		*s = r.status(a.Name, a.Amount, back)
		if age := decided - r.Now; age > 0 {
			*s = s.aged(age)
		}
	}
}
