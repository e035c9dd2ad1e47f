package dynalimit

import "github.com/dynalimit/dynalimit/internal/plan"

// roomyDenial is a denial with room for the statuses of most calls, so that it is one
// allocation: a caller who is denied comes again and again.
type roomyDenial struct {
	LimitExceededError
	room [2]LimitStatus
}

// emptyDenial is a denial to which statuses are added by show.
func emptyDenial(entityID, resource string) *LimitExceededError {
	d := &roomyDenial{LimitExceededError: LimitExceededError{EntityID: entityID, Resource: resource}}
	d.Statuses = d.room[:0]
	return &d.LimitExceededError
}

// next adds a status, to be filled in.
func (e *LimitExceededError) next() *LimitStatus {
	n := len(e.Statuses)
	if n < cap(e.Statuses) {
		e.Statuses = e.Statuses[:n+1] // room that nobody has used
	} else {
		e.Statuses = append(e.Statuses, LimitStatus{})
	}
	return &e.Statuses[n]
}

// show adds the statuses of what was asked of a level, as they are when the last level
// has decided and once what the level holds has been given back. held says what that is of a limit; nil
// stands for nothing.
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
