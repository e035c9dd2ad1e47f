package budget

import "github.com/dynalimit/dynalimit/budget/internal/calendar"

// Scope says whose spend a quota counts.
type Scope = calendar.Scope

// The scopes.
const (
	ScopeOrg Scope = calendar.ScopeOrg // one total for the organisation; apps' quotas are ignored
	ScopeApp Scope = calendar.ScopeApp // each app has its own
)

// Enforcement says what happens at a quota.
type Enforcement = calendar.Enforcement

// The enforcements. The zero value means Soft.
const (
	Soft Enforcement = calendar.Soft // callers are told to move to the next label
	Hard Enforcement = calendar.Hard // money is reserved before a call; never more than the quota is held and spent
)

// Period is how long a quota runs: a day, an ISO week or a month of the
// organisation's zone.
type Period = calendar.Period

// The periods. The zero value means Day.
const (
	Day   Period = calendar.Day   // a date of the organisation's zone
	Week  Period = calendar.Week  // from Monday on, as in ISO 8601
	Month Period = calendar.Month // a calendar month
)
