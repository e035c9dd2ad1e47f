package term

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"
)

// patience is how long a command is silent before it prints the reason of the wait.
const patience = time.Second

// again is the time between two notes about one wait.
const again = 10 * time.Second

// silence prints the reason of a wait while nothing else is written. The nil silence prints
// nothing.
type silence struct {
	mu    sync.Mutex
	timer *time.Timer
	since time.Time
	told  bool
	ended bool
	first time.Duration
}

// Watch starts a wait: it prints what as its reason on Notes after o.Patience, a second by default, without
// output, and then every ten seconds. over ends it. An earlier Watch is silent until then.
func (o *Output) Watch(what string) (over func()) {
	s := &silence{since: time.Now(), first: cmp.Or(o.Patience, patience)}
	tell := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.ended:
			return
		case s.told:
			o.writeNoteLine("dynalimit: still waiting for %s, %v; Ctrl-C ends it", what, time.Since(s.since).Round(time.Second))
		default:
			o.writeNoteLine("dynalimit: waiting for %s; Ctrl-C ends it", what)
		}
		s.told = true
		s.timer.Reset(again)
	}
	s.mu.Lock()
	s.timer = time.AfterFunc(s.first, tell)
	s.mu.Unlock()
	before := o.silence.Swap(s)
	before.pauseNotes() // one wait is reported at a time
	return func() {
		s.endNotes()
		o.silence.Store(before)
		before.restartWait()
	}
}

// pauseNotes stops the notes about a wait until restartWait. A nil silence does nothing.
func (s *silence) pauseNotes() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
}

// endNotes stops the notes about this wait for good, so that pauseNotes and restartWait do nothing any more.
func (s *silence) endNotes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
}

// restartWait makes the next note about a wait come only after a further silence of s.first, because something
// was printed. It does nothing on a nil or ended silence.
func (s *silence) restartWait() {
	if s != nil {
		s.restartWithin(s.first)
	}
}

// restartWithin starts the wait for the next note again: that note comes after d at the earliest and counts as
// a first one. It does nothing on a nil or ended silence.
func (s *silence) restartWithin(d time.Duration) {
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

// writeNoteLine writes a formatted line to Notes. Unlike Notef it does not restart the wait of Watch.
func (o *Output) writeNoteLine(format string, args ...any) {
	o.writeNote(fmt.Sprintf(format+"\n", args...))
}

// noting is held while a note is written, because a command and its silence write from two
// goroutines.
var noting sync.Mutex

// writeNote writes text to Notes at once, under the lock noting. It ignores errors, and does nothing if Notes
// is nil.
func (o *Output) writeNote(text string) {
	noting.Lock()
	defer noting.Unlock()
	if o.Notes != nil {
		_, _ = io.WriteString(o.Notes, text)
	}
}
