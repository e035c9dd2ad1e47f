package leanddb

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// attempt is the first try of one call. If the SDK has to go on, the attempt is the HTTP client,
// the retryer and the credentials of the SDK's call: it gives the SDK the outcome of the try as that
// of its own first one. The SDK uses it from one goroutine.
type attempt struct {
	client  *Client
	options dynamodb.Options
	// next is the call's HTTP client.
	next aws.HTTPClient
	// release is the token of the try, or releaseErr the reason for none. hasToken is set once either
	// is known.
	release    func(error) error
	releaseErr error
	hasToken   bool
	// credentials sign the try, or credentialsErr is the reason for none. retrieved is set once
	// either is known.
	credentials    aws.Credentials
	credentialsErr error
	retrieved      bool
	// response and err are the outcome of a sent try that the SDK has not seen yet: it is pending.
	response *http.Response
	err      error
	pending  bool
	// learns is the key of the template to make from the SDK's request; nil for none.
	learns *templateKey
}

// attempts are attempts of ended calls, for later ones: each has a kilobyte of options. The SDK keeps the attempt
// of a call that it goes on with.
var attempts = sync.Pool{New: func() any { return new(attempt) }}

// sendUpdate sends the try, and returns its result and true if that is a success or a failed condition. It
// returns false if the SDK has to continue, with the token, credentials and outcome of the try kept in a. It
// sends nothing without a usable template.
func (a *attempt) sendUpdate(ctx context.Context, in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error, bool) {
	retryer, ok := a.options.Retryer.(aws.RetryerV2)
	if !ok || ctx.Err() != nil {
		return nil, nil, false
	}
	a.release, a.releaseErr = retryer.GetAttemptToken(ctx)
	a.hasToken = true
	if a.releaseErr != nil {
		return nil, nil, false
	}
	a.credentials, a.credentialsErr = a.options.Credentials.Retrieve(ctx)
	a.retrieved = true
	if a.credentialsErr != nil {
		return nil, nil, false
	}
	k := newTemplateKey(&a.credentials, a.options.Retryer)
	t := a.client.findTemplate(k)
	if t == nil {
		a.learns = &k
	}
	if t == nil || t.refused {
		return nil, nil, false
	}
	w := workspaces.Get().(*workspace)
	defer w.returnToPool()
	if w.body, ok = appendUpdate(w.body[:0], in); !ok {
		return nil, nil, false
	}
	a.response, a.err = a.client.exchange(a.options.HTTPClient, t.newRequest(ctx, w, &a.credentials, retryer.MaxAttempts(), a.skewNow())) //nolint:bodyclose // readAnswer or the SDK closes it
	a.pending = true
	return a.finishTry(w, retryer)
}

// skewNow returns the offset of DynamoDB's clock from this machine's to sign with. It is 0 if the client does
// not correct it.
func (a *attempt) skewNow() time.Duration {
	if a.options.DisableClockSkewCorrection {
		return 0
	}
	return a.client.skew.value()
}

// exchange sends a request through an HTTP client and returns its answer or error. An answer with a Date also
// updates the client's clock offset.
func (c *Client) exchange(client aws.HTTPClient, r *http.Request) (*http.Response, error) {
	asked := time.Now()
	answer, err := client.Do(r)
	if answer != nil {
		c.skew.observe(answer.Header, asked, time.Now())
	}
	return answer, err
}

// finishTry reads the answer of a try. For a success or a failed condition it returns the token to the retryer,
// and the result with true. It returns false for any other answer, with its body restored for the SDK.
func (a *attempt) finishTry(w *workspace, retryer aws.RetryerV2) (*dynamodb.UpdateItemOutput, error, bool) {
	if a.err != nil || a.response == nil || !a.readAnswer(w) {
		return nil, nil, false //nolint:nilerr // the SDK returns it, or tries again
	}
	if a.response.StatusCode == http.StatusOK {
		if out, ok := decodeUpdate(w.answer); ok {
			_ = a.release(nil) // the SDK ignores the error of a success too
			return out, nil, true
		}
	} else if failed, ok := decodeFailedCondition(w.answer); ok {
		err := newConditionError(failed, a.response)
		if !retryer.IsErrorRetryable(err.Err) && a.release(err.Err) == nil {
			return nil, err, true
		}
	}
	a.replaceBody(w.answer, nil)
	return nil, nil, false
}

// prepareSDK changes the call's options so that the SDK continues from the attempt: its HTTP client, retryer
// and credentials. It returns the context for the SDK, which does not end while the SDK has to take over a part
// of the attempt.
func (a *attempt) prepareSDK(ctx context.Context) context.Context {
	o := &a.options
	a.next, o.HTTPClient = o.HTTPClient, a
	if _, free := o.Retryer.(*retry.Standard); free {
		a.hasToken = false
	} else if a.hasToken {
		o.Retryer = &heldRetryer{o.Retryer.(aws.RetryerV2), a}
	}
	if a.retrieved {
		o.Credentials = &heldCredentials{&provider{o.Credentials}, a}
	}
	if a.isHeld() {
		return &heldContext{ctx, a}
	}
	return ctx
}

// isHeld reports whether the SDK has still to take over the token or the credentials of the try. It takes over
// the outcome right after these, without a look at the context.
func (a *attempt) isHeld() bool { return a.hasToken || a.retrieved }

// Do returns the pending outcome of the try once, and afterwards sends the SDK's requests, as an
// aws.HTTPClient. If the attempt has no template, it first makes one from the first request.
func (a *attempt) Do(r *http.Request) (*http.Response, error) {
	if a.pending {
		a.pending = false
		return a.response, a.err
	}
	if k := a.learns; k != nil {
		a.learns = nil
		a.client.addTemplate(learnTemplate(*k, r, &a.credentials))
	}
	return a.client.exchange(a.next, r)
}

// heldRetryer is the retryer of the SDK's call. Its first token is that of the attempt. The standard
// retryer needs none: its tokens count only when they are released.
type heldRetryer struct {
	aws.RetryerV2
	a *attempt
}

// GetAttemptToken returns the token of the attempt, or the reason for none, once; then those of the call's own
// retryer.
func (h *heldRetryer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	if h.a.hasToken {
		h.a.hasToken = false
		return h.a.release, h.a.releaseErr
	}
	return h.RetryerV2.GetAttemptToken(ctx)
}

// heldCredentials are the credentials of the SDK's call. The first are those of the attempt, or the
// reason for none.
type heldCredentials struct {
	*provider
	a *attempt
}

// Retrieve returns the credentials of the attempt, or the reason for none, once; then those of the call's own
// provider.
func (h *heldCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	if h.a.retrieved {
		h.a.retrieved = false
		return h.a.credentials, h.a.credentialsErr
	}
	return h.provider.Retrieve(ctx)
}

// heldContext is a context that has not ended while the SDK has to take over a part of the attempt.
type heldContext struct {
	context.Context
	a *attempt
}

// Done returns the channel of the wrapped context; nil while the SDK has to take over a part of the attempt.
func (h *heldContext) Done() <-chan struct{} {
	if h.a.isHeld() {
		return nil
	}
	return h.Context.Done()
}

// Err returns the error of the wrapped context; nil while the SDK has to take over a part of the attempt.
func (h *heldContext) Err() error {
	if h.a.isHeld() {
		return nil
	}
	return h.Context.Err()
}
