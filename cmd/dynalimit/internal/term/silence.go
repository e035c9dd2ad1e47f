package term

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"
)

// patience is how long a command is silent before it says what it waits for.
const patience = time.Second

// again is the time between two notes of one wait.
const again = 10 * time.Second

// silence says what is waited for while nothing else is written. The nil silence says
// nothing.
type silence struct {
	mu    sync.Mutex
	timer *time.Timer
	since time.Time
	told  bool
	ended bool
	first time.Duration
}

// Watch says on Notes what is waited for whenever nothing was written for a second, and
// every ten seconds from then on, until over is called.
func (o *Output) Watch(what string) (over func()) {
	s := &silence{since: time.Now(), first: cmp.Or(o.Patience, patience)}
	tell := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.ended:
			return
		case s.told:
			o.line("dynalimit: still waiting for %s, %v; Ctrl-C ends it", what, time.Since(s.since).Round(time.Second))
		default:
			o.line("dynalimit: waiting for %s; Ctrl-C ends it", what)
		}
		s.told = true
		s.timer.Reset(again)
	}
	s.mu.Lock()
	s.timer = time.AfterFunc(s.first, tell)
	s.mu.Unlock()
	before := o.silence.Swap(s)
	before.pause() // one wait is told at a time
	return func() {
		s.end()
		o.silence.Store(before)
		before.broken()
	}
}

// pause has nothing said until the silence is broken.
func (s *silence) pause() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
}

// end has nothing said from now on.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
}

// broken starts the wait anew: something was written.
func (s *silence) broken() {
	if s != nil {
		s.quiet(s.first)
	}
}

// quiet starts the wait anew, and has nothing said for this time.
func (s *silence) quiet(d time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.since, s.told = time.Now(), false
	s.timer.Reset(d)
}

// line writes a note without breaking the silence that it is about.
func (o *Output) line(format string, args ...any) { o.note(fmt.Sprintf(format+"\n", args...)) }

// noting is held while a note is written: what a command says and what is said of its
// silence come from two goroutines.
var noting sync.Mutex

func (o *Output) note(text string) {
	noting.Lock()
	defer noting.Unlock()
	if o.Notes != nil {
		_, _ = io.WriteString(o.Notes, text)
	}
}
