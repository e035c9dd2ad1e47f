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
	maxAnswer = 16 << 20         // bytes of an answer
	maxPause  = 10 * time.Second // the longest wait for another try that a call makes itself
)

var backoff = ddb.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// call is one request, which is safe to be sent again: it reads, or has an id under which
// it is carried out once.
type call struct {
	op     string // for errors, for example "Submit"
	method string
	path   string // below api
	body   any    // nil: none
	writes bool
	// check refuses an answer that is of another request, or none of the keeper's.
	check func() error
	into  any // what the answer is decoded into; nil: it has no body
}

// do makes a call, and again as long as it gets no answer, there are retries left and ctx
// lasts. It returns the answer's header.
func (c *core) do(ctx context.Context, r *call) (http.Header, error) {
	body, err := encoded(r)
	if err != nil {
		return nil, err
	}
	doubt := false
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, unavailable(r.op, err, doubt, 0)
		}
		header, err := c.authorized(ctx, r, body)
		var f *unanswered
		if err == nil || !errors.As(err, &f) {
			return header, err
		}
		doubt = doubt || f.sent && r.writes
		wait := max(backoff.Wait(try), f.after)
		if !f.again || try >= c.opts.Retries || wait > maxPause || beyond(ctx, wait) {
			return nil, unavailable(r.op, cause(ctx, f.err), doubt, f.after)
		}
		c.opts.Logger.DebugContext(ctx, "budgetclient: trying again", "op", r.op, "try", try+1, "wait", wait, "error", f.err)
		ddb.Sleep(ctx, wait)
	}
}

// encoded is the body of all tries.
func encoded(r *call) ([]byte, error) {
	if r.body == nil {
		return nil, nil
	}
	body, err := json.Marshal(r.body)
	if err != nil {
		err = fmt.Errorf("budgetclient: %s: %w", r.op, err)
	}
	return body, err
}

// beyond reports whether ctx ends before a wait does.
func beyond(ctx context.Context, wait time.Duration) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(end) <= wait
}

// cause is ctx's own end, where that is why a try failed.
func cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// authorized makes one try with a token; a token that is refused is replaced once.
func (c *core) authorized(ctx context.Context, r *call, body []byte) (http.Header, error) {
	for second := false; ; second = true {
		token, err := c.token(ctx)
		if err != nil {
			return nil, err
		}
		header, err := c.try(ctx, r, body, token.Reveal())
		if !errors.Is(err, ErrUnauthorized) || second {
			return header, err
		}
		c.forget(token)
	}
}

// try sends a request once and reads its answer, within Options.Timeout.
func (c *core) try(ctx context.Context, r *call, body []byte, token string) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+api+r.path, reader(body))
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
		return nil, lost(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, lost(fmt.Errorf("the answer is cut: %w", err))
	case len(answer) > maxAnswer:
		return nil, &unanswered{err: errors.New("the answer is too large"), sent: true}
	}
	return res.Header, c.read(r, res, answer)
}

// read takes an answer apart.
func (c *core) read(r *call, res *http.Response, answer []byte) error {
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return failure(r.op, res.StatusCode, res.Header, answer, c.opts.Now())
	}
	odd := func(why string) error {
		return &unanswered{err: fmt.Errorf("%d, and the answer is not the keeper's: %s", res.StatusCode, why), again: true, sent: true}
	}
	if r.into == nil {
		if res.StatusCode != http.StatusNoContent {
			return odd("there is none to be had")
		}
		return nil
	}
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return odd("it is no JSON")
	}
	if err := json.Unmarshal(answer, r.into); err != nil {
		return odd("it is no JSON that was asked for")
	}
	if r.check != nil {
		if err := r.check(); err != nil {
			return odd(err.Error())
		}
	}
	return nil
}

func reader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
