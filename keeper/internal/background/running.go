package background

import "sync"

// Running counts background tasks. Unlike a sync.WaitGroup it allows Wait while the count falls
// to zero and rises again: a task may begin another as it ends.
type Running struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed when n falls to zero
}

// Add raises the number of running tasks by n, which Wait waits for. It may be called while Wait blocks.
func (r *Running) Add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		r.ended = make(chan struct{})
	}
	r.n += n
}

// Done counts one task as ended, and wakes Wait after the last.
func (r *Running) Done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		close(r.ended)
	}
}

// Wait blocks until the number of running tasks is 0. It returns at once if no task runs.
func (r *Running) Wait() {
	for {
		r.mu.Lock()
		n, ended := r.n, r.ended
		r.mu.Unlock()
		if n == 0 {
			return
		}
		<-ended
	}
}
