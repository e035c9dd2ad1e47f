package budget

import (
	"context"
	"maps"
	"sync"
	"time"
)

// watch is who looks for events of one scope, and when.
type watch struct {
	org, scope string

	mu    sync.Mutex
	apps  map[string]bool // that asked
	timer *time.Timer     // of the look that follows the last write; nil when none is due
}

func (k *Keeper) watch(org, scope string) *watch {
	k.watches.Lock()
	defer k.watches.Unlock()
	if w, ok := k.watches.byScope.Get(scope); ok {
		return w
	}
	w := &watch{org: org, scope: scope, apps: map[string]bool{}}
	k.watches.byScope.Add(scope, w)
	return w
}

// asked notes an app whose thresholds are of interest.
func (w *watch) asked(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps[app] = true
}

// wrote makes one more query follow the last write within a staleness period, so
// that no threshold is missed.
func (k *Keeper) wrote(org, scope string) {
	w := k.watch(org, scope)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil || !k.life.Begin(false) {
		return
	}
	w.timer = time.AfterFunc(k.opts.Staleness, func() {
		defer k.life.Done()
		w.mu.Lock()
		w.timer = nil
		w.mu.Unlock()
		k.observeScope(k.life.Context(), w)
	})
}

// observeScope looks once more for every app that asked, if there is news.
func (k *Keeper) observeScope(ctx context.Context, w *watch) {
	w.mu.Lock()
	apps := maps.Clone(w.apps)
	w.mu.Unlock()
	if !k.ledger.Board(w.org, w.scope).Unseen() {
		return
	}
	for app := range apps {
		t, err := k.tenants.get(ctx, w.org, app)
		if err != nil {
			continue
		}
		if _, err := k.look(ctx, t, true); err != nil {
			k.opts.Logger.WarnContext(ctx, "budget: looking for events", "scope", w.scope, "error", err)
		}
	}
}

func (k *Keeper) allWatches() []*watch {
	k.watches.Lock()
	defer k.watches.Unlock()
	return k.watches.byScope.Values()
}

// observeAll is the last look of a keeper that closes.
func (k *Keeper) observeAll(ctx context.Context) {
	for _, w := range k.allWatches() {
		if k.opts.OnEvent != nil && ctx.Err() == nil {
			k.observeScope(ctx, w)
		}
	}
}

// stopTimers leaves what they would have seen to the last look.
func (k *Keeper) stopTimers() {
	for _, w := range k.allWatches() {
		w.mu.Lock()
		if w.timer != nil && w.timer.Stop() {
			w.timer = nil
			k.life.Done()
		}
		w.mu.Unlock()
	}
}
