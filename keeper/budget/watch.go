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

// watchFor returns the cached watch of a scope, which has its apps and the timer of its next query. It caches
// one without apps and timer if none is cached, which may evict another scope's.
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

// addApp adds an app to the scope's watched apps, whose thresholds later queries check. A repetition changes
// nothing.
func (w *watch) addApp(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps[app] = true
}

// scheduleQuery schedules a query of o's scope after Options.Staleness, to deliver the events that the
// operation causes. It is repeated while writes are pending. Without Options.OnEvent it does nothing.
func (s *standing) scheduleQuery(o *ledger.Operation) {
	if s.opts.OnEvent != nil {
		s.queryLater(s.watchFor(o.Org, o.Scope))
	}
}

// queryLater starts a timer that, after Options.Staleness, reads a scope's spend and delivers events, and
// starts again while writes of the scope are pending. It does nothing if the timer runs, or after Close.
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

// deliverScope reads a scope's spend again and delivers events for each of its watched apps. It does nothing
// unless this process has written since the last read. It logs a failed read of spend, and skips apps without a
// readable configuration.
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

// deliverAll reads the spend of every watched scope with own later writes once more, and delivers the events
// found, when the keeper closes. It stops when ctx ends, and does nothing without Options.OnEvent.
func (s *standing) deliverAll(ctx context.Context) {
	for _, w := range s.allWatches() {
		if s.opts.OnEvent != nil && ctx.Err() == nil {
			s.deliverScope(ctx, w)
		}
	}
}

// stopTimers stops the pending timers of queryLater and ends their background tasks. A query that runs already
// continues. Close then reads each scope once more itself.
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
