package budget

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// standing computes an app's spend and the label that it leads to, and finds and delivers
// events. It reads the ledger, and writes events and the record of the label in use.
type standing struct {
	store   *store.Store
	ledger  *ledger.Ledger
	admin   *administration
	tenants *tenants
	opts    Options
	now     func() time.Time
	life    *background.Life

	mu      sync.Mutex // guards get-or-add on the caches
	views   *lru.Cache[string, *view]
	watches *lru.Cache[string, *watch] // by scope
}

// newStanding returns a standing on the given parts, with empty caches of what this process knows about apps'
// events. It sends no request and starts no timer.
func newStanding(s *store.Store, l *ledger.Ledger, admin *administration, opts Options, now func() time.Time, life *background.Life) *standing {
	st := &standing{store: s, ledger: l, admin: admin, tenants: admin.tenants, opts: opts, now: now, life: life}
	st.watches, _ = lru.New[string, *watch](cacheEntries) // fails only for a size below 1
	st.views, _ = lru.New[string, *view](cacheEntries)
	return st
}

// nearestQuotas returns, by label, the highest used percentage of a quota among the apps that this process
// queried in the last ten minutes. It sends no request.
func (s *standing) nearestQuotas(now time.Time) map[string]float64 {
	s.mu.Lock()
	views := s.views.Values()
	s.mu.Unlock()
	all := map[string]float64{}
	for _, v := range views {
		if n := v.near.Load(); n.isRecent(now) {
			for label, percent := range n.percent {
				all[label] = max(all[label], percent)
			}
		}
	}
	return all
}
