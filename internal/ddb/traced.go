package ddb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// tracedRequest observes the SDK's tries of one request, as its HTTP client and as its retryer. The retryer
// decides as the request's own does, with one exception. A signature that was refused for its date is always
// sent again once, with the date of the answer, because nothing was applied.
type tracedRequest struct {
	client  *Client
	breaker *Breaker // may be nil
	ctx     context.Context
	// next and retryer are the request's own. next is nil unless the user's client is the SDK's.
	next    aws.HTTPClient
	retryer aws.RetryerV2
	// tries counts the HTTP requests. pending means that ctx ended before the last one had an outcome.
	// Otherwise last is its outcome.
	tries   int
	pending bool
	last    Diagnosis
	// answered means that DynamoDB answered a try. marked means that the last answer has a
	// mark of DynamoDB.
	answered, marked bool
	// pooled is the start of the last HTTP request if the header of its answer came on a pooled connection;
	// zero otherwise. dead means that its connection was dead.
	pooled time.Time
	dead   bool
	// waiting is the wait for the answer to an HTTP request.
	waiting waiting
	// refused means that the SDK's rate limit refused a try. redated means that a signature was refused for
	// its date, and redating that the request is being sent again for that reason.
	refused, redated, redating bool
	opts                       [3]func(*dynamodb.Options) // room for those of the request
}

// addTo makes t the HTTP client and the retryer of the SDK's request, with waits of at most
// longestRetryDelay.
func (t *tracedRequest) addTo(o *dynamodb.Options) {
	t.next, o.HTTPClient = o.HTTPClient, t
	own := o.Retryer
	if _, off := own.(aws.NopRetryer); !off {
		own = retry.AddWithMaxBackoffDelay(own, longestRetryDelay)
	}
	t.retryer = own.(aws.RetryerV2) // NopRetryer is one, and so are the SDK's wrappers
	o.Retryer = t
}

// Do sends one try of the request. It shows the answer's date to the clock, and records whether the answer
// has DynamoDB's marks. It returns the connection's error.
func (t *tracedRequest) Do(r *http.Request) (*http.Response, error) {
	t.tries++
	t.pending = true
	asked := t.client.clock.source()
	response, err := t.exchange(r)
	if err != nil {
		return response, err
	}
	t.client.clock.Observe(response.Header, asked)
	t.marked = slices.ContainsFunc(marks[:], func(name string) bool { return len(response.Header[name]) > 0 })
	return response, nil
}

// IsErrorRetryable reports whether to send the request again. The SDK calls it after each failed try. It
// records the outcome of the try, and after a dead pooled connection it waits for a probe.
func (t *tracedRequest) IsErrorRetryable(err error) bool {
	t.pending = t.pending && t.ctx.Err() != nil
	t.checkBody(err)
	if t.last = Classify(err, t.ctx); t.dead {
		t.last.Silent = false
	}
	if t.last.Answered {
		t.answered = true
		t.breaker.recordTry()
	}
	tries := t.tries
	if t.redated {
		tries--
	}
	t.redating = !t.redated && isMisdated(err)
	t.redated = t.redated || t.redating
	most := t.retryer.MaxAttempts()
	return t.redating || (t.retryer.IsErrorRetryable(err) || isCut(err)) && (most <= 0 || tries < most)
}

// MaxAttempts implements aws.RetryerV2. It adds one try for a signature that was refused for its date.
func (t *tracedRequest) MaxAttempts() int {
	if most := t.retryer.MaxAttempts(); most > 0 {
		return most + 1
	}
	return 0
}

// RetryDelay returns the request's own delay before the next try, and 0 to correct a signature's date.
func (t *tracedRequest) RetryDelay(attempt int, err error) (time.Duration, error) {
	if t.redating {
		return 0, nil
	}
	return t.retryer.RetryDelay(attempt, err)
}

// GetRetryToken returns the request's own token for a retry, and a free one to correct a signature's date.
func (t *tracedRequest) GetRetryToken(ctx context.Context, err error) (func(error) error, error) {
	if t.redating {
		return func(error) error { return nil }, nil
	}
	return t.retryer.GetRetryToken(ctx, err)
}

// GetInitialToken returns the token of the request's own retryer.
func (t *tracedRequest) GetInitialToken() func(error) error {
	return t.retryer.GetInitialToken() //nolint:staticcheck // part of the interface
}

// GetAttemptToken implements aws.RetryerV2. The adaptive mode waits here.
func (t *tracedRequest) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	release, err := t.retryer.GetAttemptToken(ctx)
	t.refused = err != nil
	return release, err
}

// isMisdated reports whether a signature was refused because its date is far from the answer's. The SDK
// compares them, and corrects the next signature.
func isMisdated(err error) bool {
	var api smithy.APIError
	var marked interface{ RetryableError() bool }
	return errors.As(err, &api) && codes[api.ErrorCode()].setting && errors.As(err, &marked) && marked.RetryableError()
}

// correctDiagnosis corrects a diagnosis by the outcomes of the tries. If the request ended while no try was
// pending, this process held the rest back. Then the last try counts or, without tries, nothing was sent.
func (t *tracedRequest) correctDiagnosis(d Diagnosis, timeout time.Duration) Diagnosis {
	switch held := !t.pending && (d.expired || t.refused); {
	case t.next == nil || d.Err == nil:
	case fromCredentials(d.Err):
		if d.expired {
			d.Err = &slowCredentialsError{timeout, d.Err}
		}
	case held && t.tries > 0:
		cause := d.Err
		d = t.last
		d.Err = fmt.Errorf("%w: %w", d.Err, cause)
	case held:
		d = Diagnosis{Verdict: Throttled, Err: fmt.Errorf("%w: %w", errHeldBack, d.Err)}
	case t.tries == 0 && d.Verdict == Unconfirmed:
		d.Verdict = Unsent
	}
	if t.answered {
		d.Answered, d.Silent = true, false
	}
	if t.dead {
		d.Silent = false
	}
	return d
}
