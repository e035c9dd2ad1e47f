package login

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// rememberedClients bounds the clients whose failed logins this process remembers.
const rememberedClients = 10_000

// failed remembers how often logins of a client failed at this process, whether it exists
// or not: each has a bucket of as many failures as a minute allows, which refills evenly.
type failed struct {
	each  time.Duration // in which one failure is forgotten
	burst time.Duration // of all that are allowed

	mu    sync.Mutex
	clear *lru.Cache[string, time.Time] // when the last failure of a client is forgotten
}

func newFailed(perMinute int64) *failed {
	known, _ := lru.New[string, time.Time](rememberedClients) // fails only for a size below 1
	return &failed{each: time.Minute / time.Duration(perMinute), burst: time.Minute, clear: known}
}

// wait is how long a client's next login must wait; 0: not at all.
func (f *failed) wait(client string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear, ok := f.clear.Get(client)
	if !ok {
		return 0
	}
	return max(0, clear.Sub(now)-f.burst+f.each)
}

// add counts a failure.
func (f *failed) add(client string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear, _ := f.clear.Get(client)
	if clear.Before(now) {
		clear = now
	}
	f.clear.Add(client, clear.Add(f.each))
}
