package dynalimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// tableHealth says whether a table answers.
type tableHealth interface {
	// Open reports whether it does not.
	Open() bool
	// Opened and Closed are closed while it is open, and while it is not.
	Opened() <-chan struct{}
	Closed() <-chan struct{}
	// Cause is why it does not, nil while it does.
	Cause() error
	// RetryAfter is the time until the next probe.
	RetryAfter() time.Duration
}

// tableState is the health of a table as its breaker knows it.
type tableState struct{ *ddb.Breaker }

func (t tableState) Open() bool   { return t.State().Open }
func (t tableState) Cause() error { return t.State().Cause }

var (
	// errTripped ends what is asked of a bucket that does not answer.
	errTripped = errors.New("the bucket does not answer; it is probed in the background")
	// errPatience ends a call that used up its time for the store.
	errPatience = errors.New("no answer within Options.Timeout")
)

// silent reports whether an error means that the store said nothing: an answer,
// throttling too, proves that it lives.
func silent(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	var u *UnavailableError
	return errors.As(err, &u) && (u.silent || ddb.Classify(u.Err, context.Background()).Silent)
}

// heard reports whether the store answered, if only with an error.
func heard(err error) bool {
	return err == nil || ddb.Classify(err, context.Background()).Answered
}

// tally counts what is not certain, by limit, in millitokens.
type tally struct {
	mu               sync.Mutex
	doubted, dropped []plan.Signed
}

// doubt counts what was perhaps charged, or given back.
func (t *tally) doubt(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubted = plan.Plus(t.doubted, plan.Absolute(amounts))
}

// drop counts what will never be charged.
func (t *tally) drop(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped = plan.Plus(t.dropped, plan.Absolute(amounts))
}

// amounts are the tallies in whole tokens.
func (t *tally) amounts() (doubted, dropped Amounts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return tokensOf(t.doubted), tokensOf(t.dropped)
}
