package llmhttp

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
)

const (
	longestPause = 30 * time.Second // of dynalimit.RateLimiter.Pause
	shortPause   = time.Second      // for a provider that does not say how long
	maxPauses    = 1024             // that a process keeps
)

// pauses are the credentials whose provider has said stop, in this process.
type pauses struct {
	mu      sync.Mutex
	until   map[[32]byte]time.Time
	writing map[chan struct{}]bool // closed when a pause is written
}

// await waits for the end of a pause of the call's credential, if the call may wait so long. Else
// it returns the denial.
func (p *pauses) await(a *attempt) error {
	if a.transport.opts.Pool != nil {
		return nil // the limiter knows
	}
	for waited := time.Duration(0); ; {
		left := p.left(a)
		if left <= 0 {
			return nil
		}
		left += rand.N(left/4 + 1) // so that not all come back at once
		denial := &llm.DeniedError{RetryAfter: left, Err: &dynalimit.PausedError{EntityID: a.caller.Entity, Resource: a.caller.Resource, RetryAfter: left}}
		ctx := a.request.Context()
		if deadline, ok := ctx.Deadline(); waited+left > a.transport.opts.Wait || ok && time.Until(deadline) <= left {
			return denial
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			waited += left
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// left is how long the credential of a call is paused.
func (p *pauses) left(a *attempt) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.until) == 0 {
		return 0
	}
	return time.Until(p.until[keyOf(a)])
}

// pause pauses a credential for a while, and never shortens a pause.
func (p *pauses) pause(a *attempt, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if len(p.until) >= maxPauses {
		for k, until := range p.until {
			if !until.After(now) || len(p.until) >= maxPauses {
				delete(p.until, k)
			}
		}
	}
	if p.until == nil {
		p.until = map[[32]byte]time.Time{}
	}
	if key, until := keyOf(a), now.Add(d); until.After(p.until[key]) {
		p.until[key] = until
	}
}

// write writes a pause; nobody waits for it but wait.
func (p *pauses) write(pause func()) {
	done := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing == nil {
		p.writing = map[chan struct{}]bool{}
	}
	p.writing[done] = true
	go func() {
		defer close(done)
		pause()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.writing, done)
	}()
}

// wait waits for what is being written.
func (p *pauses) wait(ctx context.Context) error {
	p.mu.Lock()
	writing := slices.Collect(maps.Keys(p.writing))
	p.mu.Unlock()
	for _, done := range writing {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keyOf is a credential with a model, and tells neither.
func keyOf(a *attempt) [32]byte {
	h := sha256.New()
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		credential := a.request.Header.Get(name)
		if name == "Authorization" && signed(a.request) { // each request is signed anew, by one key
			credential, _, _ = strings.Cut(credential, ",")
		}
		_, _ = h.Write([]byte(credential + "\x00"))
	}
	_, _ = h.Write([]byte(a.request.URL.Query().Get("key") + "\x00" + a.request.URL.Host + "\x00" + a.model))
	return [32]byte(h.Sum(nil))
}

// pressed pauses what the provider has said stop to.
func (t *Transport) pressed(a *attempt, status int, s says, f *dialect.Failure) {
	d := pressure(a.route.Shape, status, s, f, time.Now())
	if d <= 0 {
		return
	}
	d = min(d, longestPause)
	ctx := a.request.Context()
	t.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "llmhttp: the provider says stop", slog.String("model", a.model), slog.Duration("pause", d))
	if t.opts.Pool == nil {
		t.pauses.pause(a, d)
		return
	}
	pool := t.opts.Pool(a.request)
	t.pauses.write(func() {
		if err := t.guard.Pause(context.WithoutCancel(ctx), pool.Entity, pool.Resource, d, "the provider says stop"); err != nil {
			t.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a pause could not be written", slog.Any("error", err))
		}
	})
}

// says is what the headers of an answer say of when to come back; zero times if nothing.
type says struct{ retry, refilled time.Time }

func saysOf(h http.Header, now time.Time) (s says) {
	if d := retryAfter(h, now); d > 0 {
		s.retry = now.Add(d)
	}
	if d := exhausted(h, now); d > 0 {
		s.refilled = now.Add(d)
	}
	return s
}

// pressure is for how long an answer says stop; 0 if it does not, or if no wait helps.
func pressure(shape *dialect.Shape, status int, s says, f *dialect.Failure, now time.Time) time.Duration {
	if f != nil && status < 300 {
		status = shape.StatusOf(f)
	}
	if !shape.Curable(f) {
		return 0
	}
	switch {
	case status == http.StatusTooManyRequests, status == statusOverloaded:
		if f != nil && f.RetryDelay > 0 {
			return f.RetryDelay
		}
		if d := s.retry.Sub(now); d > 0 {
			return d
		}
		return shortPause
	case status < 300:
		return s.refilled.Sub(now)
	}
	return 0
}

const statusOverloaded = 529 // of Anthropic

// retryAfter is what an answer says of when to come back.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return at.Sub(now)
	}
	return 0
}

// exhausted is the time until the last of the provider's own limits is refilled that have
// nothing left.
func exhausted(h http.Header, now time.Time) (d time.Duration) {
	for _, limit := range []string{"requests", "tokens", "input-tokens", "output-tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+limit) == "0" {
			d = max(d, reset(h.Get("X-Ratelimit-Reset-"+limit), now))
		}
		if h.Get("Anthropic-Ratelimit-"+limit+"-Remaining") == "0" {
			d = max(d, reset(h.Get("Anthropic-Ratelimit-"+limit+"-Reset"), now))
		}
	}
	return d
}

// reset reads a time until: "6m0s" of OpenAI, seconds of Azure, an instant of Anthropic.
func reset(v string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(v); err == nil {
		return d
	}
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return at.Sub(now)
	}
	return 0
}
