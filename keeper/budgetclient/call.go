package budgetclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

const (
	api       = "/api/v1"
	maxAnswer = 16 << 20         // bytes of a response
	maxPause  = 10 * time.Second // the longest wait between two tries within a call
)

var backoff = ddb.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// call is one request. It is safe to repeat: it reads, or has an id under which the keeper
// executes it once.
type call struct {
	op     string // for errors, for example "Submit"
	method string
	path   string // below api
	body   any    // nil without a body
	writes bool
	// check refuses a response to another request, and one that is not the keeper's.
	check func() error
	into  any // target for decoding the response; nil if it has no body
}

// doCall sends r, decodes the response into r.into and returns its header. Without a response it waits and
// sends again, up to Options.Retries or ctx's end, then returns a *fault.UnavailableError. Unconfirmed there
// means that a write may have happened.
func (c *core) doCall(ctx context.Context, r *call) (http.Header, error) {
	body, err := encodeBody(r)
	if err != nil {
		return nil, err
	}
	doubt := false
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, unavailable(r.op, err, doubt, 0)
		}
		header, err := c.tryAuthorized(ctx, r, body)
		var f *noResponse
		if err == nil || !errors.As(err, &f) {
			return header, err
		}
		doubt = doubt || f.sent && r.writes
		wait := max(backoff.Wait(try), f.after)
		if !f.again || try >= c.opts.Retries || wait > maxPause || endsWithin(ctx, wait) {
			return nil, unavailable(r.op, withContextError(ctx, f.err), doubt, f.after)
		}
		c.opts.Logger.DebugContext(ctx, "budgetclient: trying again", "op", r.op, "try", try+1, "wait", wait, "error", f.err)
		ddb.Sleep(ctx, wait)
	}
}

// encodeBody returns r.body as JSON, or nil if the call has no body. An error names the operation.
func encodeBody(r *call) ([]byte, error) {
	if r.body == nil {
		return nil, nil
	}
	body, err := json.Marshal(r.body)
	if err != nil {
		err = fmt.Errorf("budgetclient: %s: %w", r.op, err)
	}
	return body, err
}

// endsWithin reports whether ctx has ended, or its deadline comes before wait has passed, so that waiting is
// useless. It does not wait.
func endsWithin(ctx context.Context, wait time.Duration) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(end) <= wait
}

// withContextError returns err, with the error of ctx in front if ctx has ended and err does not match it. Both
// then match errors.Is.
func withContextError(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// tryAuthorized sends r once with an access token, logging in if necessary, and decodes the response. If the
// keeper refuses the token, it drops the session's tokens, logs in and sends once more. It returns the
// response's header.
func (c *core) tryAuthorized(ctx context.Context, r *call, body []byte) (http.Header, error) {
	for second := false; ; second = true {
		token, err := c.accessToken(ctx)
		if err != nil {
			return nil, err
		}
		header, err := c.tryOnce(ctx, r, body, token.Reveal())
		if !errors.Is(err, ErrUnauthorized) || second {
			return header, err
		}
		c.dropTokens(token)
	}
}

// tryOnce sends r once within Options.Timeout, decodes the response into r.into and returns its header. An
// empty token means none. A *noResponse error means that the keeper gave no proper answer.
func (c *core) tryOnce(ctx context.Context, r *call, body []byte, token string) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+api+r.path, bodyReader(body))
	if err != nil {
		return nil, fmt.Errorf("budgetclient: %s: %w", r.op, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, newNoResponse(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, newNoResponse(fmt.Errorf("the answer is cut: %w", err))
	case len(answer) > maxAnswer:
		return nil, &noResponse{err: errors.New("the answer is too large"), sent: true}
	}
	return res.Header, c.decodeResponse(r, res, answer)
}

// decodeResponse decodes answer, the body of a 2xx response, into r.into and calls r.check. Any other status
// gives the error of decodeFailure. An answer that is not the keeper's gives a *noResponse, so that the request
// is sent again.
func (c *core) decodeResponse(r *call, res *http.Response, answer []byte) error {
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return decodeFailure(r.op, res.StatusCode, res.Header, answer, c.opts.Now())
	}
	odd := func(why string) error {
		return &noResponse{err: fmt.Errorf("%d, and the answer is not the keeper's: %s", res.StatusCode, why), again: true, sent: true}
	}
	if r.into == nil {
		if res.StatusCode != http.StatusNoContent {
			return odd("none was expected")
		}
		return nil
	}
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return odd("it is no JSON")
	}
	if err := json.Unmarshal(answer, r.into); err != nil {
		return odd("its JSON has other fields or types")
	}
	if r.check != nil {
		if err := r.check(); err != nil {
			return odd(err.Error())
		}
	}
	return nil
}

// bodyReader returns a reader of body. It returns a nil reader for a nil body, so that the
// request has none.
func bodyReader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
