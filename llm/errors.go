package llm

import (
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/prices"
)

// ErrEnded is returned by Settle after Rollback: what the call held was given
// back.
var ErrEnded = errors.New("llm: the call was given back before it was settled")

// ErrNoPrice says that a limit measures money and that the model has no price. Nothing was taken.
// The *ValidationError of the prices is in it, too.
var ErrNoPrice = errors.New("llm: the model has no price")

// ValidationError says which input is wrong: Field names it, for example
// "estimate.InputTokens", and Reason says what would be right. Nothing was written,
// unless the Reason says what. It is one type for the packages dynalimit and budget
// too; Package says which of them refuses.
type ValidationError = dynalimit.ValidationError

// UnavailableError says that DynamoDB did not answer the limiter or the keeper; see
// dynalimit.UnavailableError.
type UnavailableError = dynalimit.UnavailableError

func invalid(field, format string, args ...any) error {
	return &ValidationError{Package: "llm", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// DeniedError says that a call does not fit a limit or a quota now, or is blocked. Nothing
// was consumed. errors.Is finds dynalimit.ErrLimitExceeded, dynalimit.ErrBlocked, dynalimit.ErrPaused or
// prices.ErrQuotaExceeded in it, errors.As their details.
type DeniedError struct {
	// RetryAfter is how long to wait before the same call can be admitted:
	// exact for a limit; for a budget until the quota is reset; dynalimit.Never when the
	// prompt alone exceeds a limit's burst, when no label has a price, or when the entity
	// is blocked.
	RetryAfter time.Duration
	// Err is the denial.
	Err error
}

// Error is the denial's.
func (e *DeniedError) Error() string {
	if e.Err == nil {
		return "llm: denied"
	}
	return e.Err.Error()
}

// Unwrap returns the denial.
func (e *DeniedError) Unwrap() error { return e.Err }

// RetryIn is RetryAfter, false when no wait can help.
func (e *DeniedError) RetryIn() (time.Duration, bool) {
	return e.RetryAfter, e.RetryAfter != dynalimit.Never
}

// denied puts the wait on a denial; other errors stay as they are.
func denied(err error, now time.Time) error {
	var limit *dynalimit.LimitExceededError
	if errors.As(err, &limit) {
		return &DeniedError{RetryAfter: limit.RetryAfter, Err: err}
	}
	if paused, ok := errors.AsType[*dynalimit.PausedError](err); ok {
		return &DeniedError{RetryAfter: paused.RetryAfter, Err: err}
	}
	var exceeded *prices.QuotaExceededError
	if errors.As(err, &exceeded) && !exceeded.RetryAt.IsZero() {
		return &DeniedError{RetryAfter: max(0, exceeded.RetryAt.Sub(now)), Err: err}
	}
	if errors.Is(err, prices.ErrQuotaExceeded) || errors.Is(err, dynalimit.ErrBlocked) {
		return &DeniedError{RetryAfter: dynalimit.Never, Err: err}
	}
	return err
}

// UnsettledError says what of a call's settlement could not be written. The
// call itself happened: do not make it again, but Settle again, or Submit the
// record to the budget later; it is counted once.
type UnsettledError struct {
	// Org and App are whose budget the call was to be counted in.
	Org, App string
	// Record is the call's usage as the budget keeps it.
	Record prices.Usage
	// Lease is why the limits could not be corrected, nil when they were.
	Lease error
	// Budget is why the record could not be handed over to the budget, nil when it was.
	Budget error
}

// Error implements error.
func (e *UnsettledError) Error() string {
	return fmt.Sprintf("llm: call %s is not settled: %v", e.Record.RequestID, errors.Join(e.Budget, e.Lease))
}

// Unwrap returns the causes.
func (e *UnsettledError) Unwrap() []error {
	var causes []error
	for _, err := range []error{e.Budget, e.Lease} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}

// together runs both at once and returns both errors. When one panics, the other
// ends first, and the panic goes on here: in a goroutine of its own it would end
// the process. If the second ends its goroutine, that is its error.
func together(first, second func() error) (err, other error) {
	var ended *guard.Ended
	done := make(chan struct{})
	go func() {
		defer close(done)
		guard.Call(func() { other = second() }, func(e *guard.Ended) { ended, other = e, e })
	}()
	defer func() {
		<-done
		if ended != nil && ended.Cause != nil {
			panic(ended.Cause)
		}
	}()
	err = first()
	<-done
	return err, other
}
