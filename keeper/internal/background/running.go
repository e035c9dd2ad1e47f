package background

import "sync"

// Running counts what goes on in the background. Unlike a sync.WaitGroup it may
// be waited for while it falls to zero and rises again: what ends may begin
// something else.
type Running struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed when n falls to zero
}

// Add counts one more.
func (r *Running) Add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		r.ended = make(chan struct{})
	}
	r.n += n
}

// Done counts one less.
func (r *Running) Done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 {
		close(r.ended)
	}
}

// Wait is until nothing goes on.
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
