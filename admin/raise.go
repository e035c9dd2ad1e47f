package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Raise is a raise of one limit at a source, until an instant (Limits.Raise). As JSON it is
// {"name":"rpm","capacity":600,"period_seconds":60,"until":"2026-01-31T18:00:00Z"}.
type Raise struct {
	// Name is the limit's.
	Name string `json:"name"`
	// Capacity is that of the limit until the end, in whole tokens.
	Capacity int64 `json:"capacity"`
	// PeriodSeconds is the refill period of the limit that is raised: one of another period is not.
	PeriodSeconds int64 `json:"period_seconds"`
	// Until is the end, in whole seconds, by DynamoDB's clock.
	Until time.Time `json:"until"`
}

// String shows a raise: "rpm is raised to 600 until 2026-01-31T18:00:00Z".
func (r Raise) String() string {
	return fmt.Sprintf("%s is raised to %d until %s", r.Name, r.Capacity, r.Until.UTC().Format(time.RFC3339))
}

// raisesOf converts stored raises for callers, in the same order, with their ends in UTC; nil for none.
func raisesOf(stored []schema.ConfigRaise) (raises []Raise) {
	for _, r := range stored {
		raises = append(raises, Raise{r.Name, r.Capacity, r.PeriodSeconds, time.Unix(r.Until, 0).UTC()})
	}
	return raises
}

// storedRaises returns raises as schema.ConfigRaise values, sorted by name, with their ends cut to whole
// seconds.
func storedRaises(raises []Raise) (stored []schema.ConfigRaise) {
	for _, r := range raises {
		stored = append(stored, schema.ConfigRaise{Name: r.Name, Capacity: r.Capacity, PeriodSeconds: r.PeriodSeconds, Until: r.Until.Unix()})
	}
	slices.SortFunc(stored, func(a, b schema.ConfigRaise) int { return strings.Compare(a.Name, b.Name) })
	return stored
}

// checkNoNewRaise returns an error if a replacing configuration has a raise that is not stored: only
// Limits.Raise creates a raise.
func checkNoNewRaise(next, stored *schema.ConfigItem) error {
	if next == nil {
		return nil
	}
	for _, r := range next.Raises {
		if stored == nil || !slices.Contains(stored.Raises, r) {
			return withFix(invalid("config.raises", "have one of %q that is not stored; leave it out, and raise the limit", r.Name), fault.RaiseLimit)
		}
	}
	return nil
}

// raiseAction returns the action of a change of raises alone: "limit_raised" with a new raise, else
// "limit_lowered". It returns "" for any other change.
func raiseAction(was, is schema.ConfigItem) string {
	raises := was.Raises
	if was.Raises = is.Raises; !was.Same(is) || slices.Equal(raises, is.Raises) {
		return ""
	}
	if slices.ContainsFunc(is.Raises, func(r schema.ConfigRaise) bool { return !slices.Contains(raises, r) }) {
		return "limit_raised"
	}
	return "limit_lowered"
}

// raiseFields converts stored raises for an event.
func raiseFields(raises []schema.ConfigRaise) []trail.Raise {
	fields := make([]trail.Raise, len(raises))
	for i, r := range raises {
		fields[i] = trail.Raise{Name: r.Name, Capacity: r.Capacity, Period: r.PeriodSeconds, Until: time.Unix(r.Until, 0).UTC().Format(time.RFC3339)}
	}
	return fields
}
