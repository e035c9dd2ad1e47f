package llmhttp

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
)

const (
	longestPause = 30 * time.Second // of dynalimit.RateLimiter.Pause
	maxPauses    = 1024             // that a process keeps
)

// pauses hold back calls in this process after a provider has said stop.
type pauses struct {
	mu      sync.Mutex
	by      map[[32]byte]pause     // by credential and model
	writing map[chan struct{}]bool // closed when a pause is written
}

// pause holds back calls with one credential to one model: those of all entities, and those of one.
type pause struct {
	all    time.Time
	one    time.Time
	caller string // that one is of
}

// awaitPause waits while calls with a's credential and model are paused, for all entities or for a's, with up
// to a quarter of jitter. It returns a *llm.DeniedError at once if its waits together would exceed Options.Wait
// or the context's deadline, and ctx's error if ctx ends.
func (p *pauses) awaitPause(a *attempt) error {
	for waited := time.Duration(0); ; {
		left := p.pauseLeft(a)
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

// pauseLeft returns the remaining time of the pauses that hold the call back; not above 0 if none does.
func (p *pauses) pauseLeft(a *attempt) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.by) == 0 {
		return 0
	}
	at := p.by[credentialKey(a)]
	left := time.Until(at.all)
	if at.caller == a.payer {
		left = max(left, time.Until(at.one))
	}
	return left
}

// pauseAll holds back all calls with the credential and model of a, in this process, until d from now. A longer
// pause stays.
func (p *pauses) pauseAll(a *attempt, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.by[credentialKey(a)]
	at.all = laterOf(at.all, time.Now().Add(d))
	p.storePause(credentialKey(a), at)
}

// pauseEntity holds back, until d from now, the calls of a's entity with its credential and model; a longer
// pause stays. It returns true, and changes nothing, if another entity is held back already: then the provider
// refuses more than one entity.
func (p *pauses) pauseEntity(a *attempt, d time.Duration) (second bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	at := p.by[credentialKey(a)]
	if at.caller != a.payer {
		if at.one.After(now) {
			return true
		}
		at.caller, at.one = a.payer, time.Time{}
	}
	at.one = laterOf(at.one, now.Add(d))
	p.storePause(credentialKey(a), at)
	return false
}

// storePause stores a pause under the hash of its credential and model. If there are 1,024 or more, it removes
// the ended ones, and any others until there is room. Hold the lock.
func (p *pauses) storePause(key [32]byte, at pause) {
	now := time.Now()
	if len(p.by) >= maxPauses {
		for k, other := range p.by {
			if !laterOf(other.all, other.one).After(now) || len(p.by) >= maxPauses {
				delete(p.by, k)
			}
		}
	}
	if p.by == nil {
		p.by = map[[32]byte]pause{}
	}
	p.by[key] = at
}

// laterOf returns the later of two times.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// writePause runs pause, which writes a pause to a bucket, on a new goroutine and returns at once. Only
// waitWritten waits for it.
func (p *pauses) writePause(pause func()) {
	done := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing == nil {
		p.writing = map[chan struct{}]bool{}
	}
	p.writing[done] = true
	go func() {
		defer close(done)
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.writing, done)
		}()
		pause()
	}()
}

// waitWritten waits for the writes in progress. It returns ctx's error if ctx ends before.
func (p *pauses) waitWritten(ctx context.Context) error {
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

// credentialKey returns the SHA-256 of a call's credential, host and model, the key of its pauses. A signed
// request counts by its signing key, not by its signature.
func credentialKey(a *attempt) [32]byte {
	h := sha256.New()
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		credential := a.request.Header.Get(name)
		if name == "Authorization" && isSigned(a.request) { // each request is signed anew, by one key
			credential, _, _ = strings.Cut(credential, ",")
		}
		_, _ = h.Write([]byte(credential + "\x00"))
	}
	_, _ = h.Write([]byte(a.request.URL.Query().Get("key") + "\x00" + a.request.URL.Host + "\x00" + a.model))
	return [32]byte(h.Sum(nil))
}

// pauseRefused pauses calls, for at most 30 s, if a provider's answer says stop: the entity's calls, or all
// with the credential. It pauses this process or, in the background, Options.Pool's bucket, and logs that. The
// arguments describe the answer.
func (t *Transport) pauseRefused(a *attempt, status int, s says, f *dialect.Failure) {
	p := pressureOf(a.route.Shape, status, s, f, time.Now())
	d := min(p.wait, longestPause)
	if d <= 0 {
		return
	}
	all := !p.one || t.pauses.pauseEntity(a, d)
	ctx := a.request.Context()
	t.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "llmhttp: the provider says stop",
		slog.String("model", a.model), slog.String("entity", a.caller.Entity), slog.Bool("all", all), slog.Duration("pause", d))
	switch {
	case !all:
		return
	case t.opts.Pool == nil:
		t.pauses.pauseAll(a, d)
		return
	}
	pool := t.opts.Pool(a.request)
	t.pauses.writePause(func() {
		err := guard.Apart(func() error {
			return t.guard.Pause(context.WithoutCancel(ctx), pool.Entity, pool.Resource, d, "the provider says stop")
		})
		if err != nil {
			t.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a pause could not be written", slog.Any("error", err))
		}
	})
}
