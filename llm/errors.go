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

// ErrEnded is returned by Settle after Rollback: the call's amounts were given
// back.
var ErrEnded = errors.New("llm: the call was given back before it was settled")

// ErrNoPrice means that a limit measures money and the model has no price. Nothing was taken.
// It wraps the *ValidationError of the prices, too.
var ErrNoPrice = errors.New("llm: the model has no price")

// ValidationError describes a bad input: Field names it, for example
// "estimate.InputTokens", and Reason has the fix. Nothing was written,
// unless Reason lists writes. The packages dynalimit and budget return the same type;
// Package names the refusing one.
type ValidationError = dynalimit.ValidationError

// UnavailableError means that DynamoDB did not answer the limiter or the keeper; see
// dynalimit.UnavailableError.
type UnavailableError = dynalimit.UnavailableError

// invalid returns the *ValidationError of a field, with a formatted reason.
func invalid(field, format string, args ...any) error {
	return &ValidationError{Package: "llm", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// DeniedError means that a call does not fit a limit or a quota now, or is blocked. Nothing
// was consumed. errors.Is finds dynalimit.ErrLimitExceeded, dynalimit.ErrBlocked, dynalimit.ErrPaused or
// prices.ErrQuotaExceeded in it, errors.As their details.
type DeniedError struct {
	// RetryAfter is the wait until the same call can be admitted. It is
	// exact for a limit. For a budget it is the time until the quota is reset. It is dynalimit.Never if the
	// prompt alone exceeds a limit's burst, if no label has a price, or if the entity
	// is blocked.
	RetryAfter time.Duration
	// Err is the denial.
	Err error
}

// Error returns the denial's text.
func (e *DeniedError) Error() string {
	if e.Err == nil {
		return "llm: denied"
	}
	return e.Err.Error()
}

// Unwrap returns the denial, Err.
func (e *DeniedError) Unwrap() error { return e.Err }

// RetryIn returns RetryAfter and true. It returns false if no wait helps.
func (e *DeniedError) RetryIn() (time.Duration, bool) {
	return e.RetryAfter, e.RetryAfter != dynalimit.Never
}

// wrapDenial wraps a denial, a pause, a spent quota or a block in a *DeniedError with its wait from now on. The
// wait is Never if no wait helps. It returns other errors unchanged.
func wrapDenial(err error, now time.Time) error {
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

// UnsettledError lists the failed writes of a call's settlement. The
// call itself happened: do not repeat it, but Settle again, or Submit the
// record to the budget later; it counts once.
type UnsettledError struct {
	// Org and App are the owner and the program of the call's budget.
	Org, App string
	// Record is the call's usage as the budget keeps it.
	Record prices.Usage
	// Lease is the error of the limits' correction; nil after a success.
	Lease error
	// Budget is the error of handing the record to the budget; nil after a success.
	Budget error
}

// Error returns a text with the request id and both failures, of the budget and of the lease.
func (e *UnsettledError) Error() string {
	return fmt.Sprintf("llm: call %s is not settled: %v", e.Record.RequestID, errors.Join(e.Budget, e.Lease))
}

// Unwrap returns the failures of the budget and of the lease that are not nil.
func (e *UnsettledError) Unwrap() []error {
	var causes []error
	for _, err := range []error{e.Budget, e.Lease} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}

// runTogether runs both functions at once, waits for both and returns both errors. If one panics, the other
// ends first, and the panic continues here. If second ends its goroutine without a result, its error reports
// that.
func runTogether(first, second func() error) (err, other error) {
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
