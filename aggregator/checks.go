package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Years between these can be written, and sort, as keys have them.
const firstYear, lastYear = 1970, 9998

const (
	defaultRetention = 90 * 24 * time.Hour
	defaultWriters   = 16
)

// longestRetention is how long anything is kept that is not kept for ever: times to live are
// moments that DynamoDB can hold.
const longestRetention = 100 * 365 * 24 * time.Hour

// invalid returns the *ValidationError of an argument or option.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "aggregator", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// checkCalled returns a *ValidationError for a nil context, or if made is false: no constructor
// made the receiver. The error names the receiver (on) and the constructor (by).
func checkCalled(ctx context.Context, made bool, on, by string) error {
	if !made {
		return invalid(on, "is nil or was not made; make one with %s", by)
	}
	return problem.CheckContext(ctx, "aggregator")
}

// checkRetention returns a *ValidationError for a retention above longestRetention, which a time
// to live cannot express.
func checkRetention(field string, kept time.Duration) error {
	if kept > longestRetention {
		return invalid(field, "is %v; give at most %v, or a negative one for ever", kept, longestRetention)
	}
	return nil
}

// checkYears returns a *ValidationError that names field for a time before 1970 or after 9998, in UTC, because
// keys cannot hold it.
func checkYears(field string, at time.Time) error {
	if year := at.UTC().Year(); year < firstYear || year > lastYear {
		return invalid(field, "is %s; give a time from the year %d to %d", at.Format(time.RFC3339), firstYear, lastYear)
	}
	return nil
}

// checkSpan returns a *ValidationError unless from is before to and both are in years that keys can express.
func checkSpan(fromField string, from time.Time, toField string, to time.Time) error {
	if !from.Before(to) {
		return invalid(fromField, "is %s, not before %s, %s; exchange them", from.Format(time.RFC3339), toField, to.Format(time.RFC3339))
	}
	return cmp.Or(checkYears(fromField, from), checkYears(toField, to))
}
