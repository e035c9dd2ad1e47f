package budget

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
)

// watch schedules the search for events of one scope.
type watch struct {
	org, scope string

	mu    sync.Mutex
	apps  map[string]bool // apps with calls
	timer *time.Timer     // timer of the next look; nil if none is due
}

// watchFor returns the watch of a scope: its apps and its timer. It makes one without apps if none is cached.
func (s *standing) watchFor(org, scope string) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.watches.Get(scope); ok {
		return w
	}
	w := &watch{org: org, scope: scope, apps: map[string]bool{}}
	s.watches.Add(scope, w)
	return w
}

// addApp adds an app to the scope's apps, whose thresholds the timer then checks.
func (w *watch) addApp(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps[app] = true
}

// scheduleQuery schedules a query of an operation's scope for events, so that no threshold is missed; without
// Options.OnEvent it does nothing. The query is repeated while writes may be pending, because an operation
// continues after its caller has left.
func (s *standing) scheduleQuery(o *ledger.Operation) {
	if s.opts.OnEvent != nil {
		s.queryLater(s.watchFor(o.Org, o.Scope))
	}
}

// queryLater starts a timer that reads a scope's spend and delivers events after Options.Staleness, unless one
// runs. It starts again as long as writes of the scope are pending.
func (s *standing) queryLater(w *watch) {
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
		more := s.ledger.HasPendingWrites(w.scope) // before the look: writes that end meanwhile are seen below
		s.deliverScope(s.life.Context(), w)
		if more {
			s.queryLater(w)
		}
	})
}

// deliverScope reads the spend of a scope again and delivers events for each of its watched apps. It does
// nothing unless this process has written since the last read. It logs failed reads.
func (s *standing) deliverScope(ctx context.Context, w *watch) {
	w.mu.Lock()
	apps := maps.Clone(w.apps)
	w.mu.Unlock()
	if !s.ledger.Board(w.scope).HasNewWrites() {
		return
	}
	for app := range apps {
		t, err := s.tenants.get(ctx, w.org, app)
		if err != nil {
			continue
		}
		if _, err := s.readOutlook(ctx, t, true); err != nil {
			s.opts.Logger.WarnContext(ctx, "budget: looking for events", "scope", w.scope, "error", err)
		}
	}
}

// allWatches returns the cached watches: the scopes that this process has read or written.
func (s *standing) allWatches() []*watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches.Values()
}

// deliverAll reads the spend of every watched scope once more and delivers events, when the keeper closes. It
// stops when ctx ends, and does nothing without Options.OnEvent.
func (s *standing) deliverAll(ctx context.Context) {
	for _, w := range s.allWatches() {
		if s.opts.OnEvent != nil && ctx.Err() == nil {
			s.deliverScope(ctx, w)
		}
	}
}

// stopTimers stops the timers of queryLater. Close then reads each scope once more itself.
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
