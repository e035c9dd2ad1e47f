package budget

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
)

// watch is who looks for events of one scope, and when.
type watch struct {
	org, scope string

	mu    sync.Mutex
	apps  map[string]bool // that asked
	timer *time.Timer     // of the look that follows the last write; nil when none is due
}

func (s *standing) watch(org, scope string) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.watches.Get(scope); ok {
		return w
	}
	w := &watch{org: org, scope: scope, apps: map[string]bool{}}
	s.watches.Add(scope, w)
	return w
}

// asked notes an app whose thresholds are of interest.
func (w *watch) asked(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps[app] = true
}

// follow makes one more query follow an operation that was given to the ledger, so
// that no threshold is missed: within a staleness period, and again for as long as
// there may be more to write, since an operation goes on when its caller has left.
func (s *standing) follow(o *ledger.Operation) {
	if s.opts.OnEvent != nil {
		s.lookLater(s.watch(o.Org, o.Scope))
	}
}

// lookLater looks at a scope after a staleness period, once.
func (s *standing) lookLater(w *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil || !s.life.Begin(false) {
		return
	}
	w.timer = time.AfterFunc(s.opts.Staleness, func() {
		defer s.life.Done()
		w.mu.Lock()
		w.timer = nil
		w.mu.Unlock()
		more := s.ledger.Busy(w.scope) // asked first: what ends meanwhile is seen below
		s.observeScope(s.life.Context(), w)
		if more {
			s.lookLater(w)
		}
	})
}

// observeScope looks once more for every app that asked, if there is news.
func (s *standing) observeScope(ctx context.Context, w *watch) {
	w.mu.Lock()
	apps := maps.Clone(w.apps)
	w.mu.Unlock()
	if !s.ledger.Board(w.scope).Unseen() {
		return
	}
	for app := range apps {
		t, err := s.tenants.get(ctx, w.org, app)
		if err != nil {
			continue
		}
		if _, err := s.look(ctx, t, true); err != nil {
			s.opts.Logger.WarnContext(ctx, "budget: looking for events", "scope", w.scope, "error", err)
		}
	}
}

func (s *standing) allWatches() []*watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches.Values()
}

// observeAll is the last look of a keeper that closes.
func (s *standing) observeAll(ctx context.Context) {
	for _, w := range s.allWatches() {
		if s.opts.OnEvent != nil && ctx.Err() == nil {
			s.observeScope(ctx, w)
		}
	}
}

// stopTimers leaves what they would have seen to the last look.
func (s *standing) stopTimers() {
	for _, w := range s.allWatches() {
		w.mu.Lock()
		if w.timer != nil && w.timer.Stop() {
			w.timer = nil
			s.life.Done()
		}
		w.mu.Unlock()
	}
}
