package keeper

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logRoom is the maximal size of the waiting lines, in bytes: some 4,000 lines.
const logRoom = 1 << 20

// Log writes lines on its own goroutine, so that a slow or blocked reader delays no request. It
// drops and counts a line that finds no room. When there is room again, it writes a line with
// the number of dropped ones. Make one with NewLog, and Close it. It is safe for concurrent
// use.
type Log struct {
	to    io.Writer
	ended chan struct{} // closed when everything from before Close is written

	mu       sync.Mutex
	more     *sync.Cond // signals new lines and Close
	waiting  []byte
	closed   bool
	dropping bool  // the last line was dropped or could not be written
	dropped  int64 // all dropped lines
	told     int64 // dropped lines that were reported, or cannot be
}

// NewLog returns a log that writes to the writer to, and starts the goroutine that writes. Only the log may use
// that writer until Close, which ends the goroutine.
func NewLog(to io.Writer) *Log {
	l := &Log{to: to, ended: make(chan struct{})}
	l.more = sync.NewCond(&l.mu)
	go l.writeLoop()
	return l
}

// Write queues a copy of the line for the log's goroutine; beyond 1 MiB it drops and counts the line. It
// returns the full length and never an error. After Close it writes directly, or drops if the reader is stuck.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed && l.hasEnded():
		_, err := l.to.Write(line)
		l.recordResult(line, err)
	case l.closed, len(l.waiting)+len(line) > logRoom:
		l.dropped, l.dropping = l.dropped+1, true
	default:
		l.waiting = append(l.waiting, line...)
		l.more.Signal()
	}
	return len(line), nil
}

// hasEnded reports whether the writing goroutine has written all queued lines after Close and ended.
func (l *Log) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// writeLoop writes queued lines, with notes about dropped ones, until Close and the last line; it then closes
// l.ended. It holds l.mu except while it writes to the writer.
func (l *Log) writeLoop() {
	defer close(l.ended)
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []byte
	for {
		for len(l.waiting) == 0 && l.dropped == l.told {
			if l.closed {
				return
			}
			l.more.Wait()
		}
		lines, l.waiting = l.waiting, lines[:0]
		lines = l.appendDropped(lines)
		l.mu.Unlock()
		_, err := l.to.Write(lines)
		l.mu.Lock()
		l.recordResult(lines, err)
	}
}

// appendDropped appends a warning with the number of lines dropped since the last such warning, and counts them
// as reported. Without such lines it returns lines unchanged. l.mu must be held.
func (l *Log) appendDropped(lines []byte) []byte {
	n := l.dropped - l.told
	if n == 0 {
		return lines
	}
	l.told = l.dropped
	about := bytes.NewBuffer(lines)
	slog.New(slog.NewJSONHandler(about, nil)).Warn("keeper: log lines were dropped because their reader was too slow", "lines", n)
	return about.Bytes()
}

// recordResult records whether a write failed, for Dropped. The lines of a failed write count as dropped and as
// reported already, so the log will not mention them. l.mu must be held.
func (l *Log) recordResult(lines []byte, err error) {
	l.dropping = err != nil
	if err != nil {
		n := int64(bytes.Count(lines, []byte("\n")))
		l.dropped, l.told = l.dropped+n, l.told+n
	}
}

// Close makes the goroutine write the queued lines and end, and waits at most patience for that, because a
// reader may be blocked. Later lines are written directly or dropped. It leaves the writer open.
func (l *Log) Close(patience time.Duration) {
	l.mu.Lock()
	l.closed = true
	l.more.Signal()
	l.mu.Unlock()
	select {
	case <-l.ended:
	case <-time.After(patience):
	}
}

// Dropped returns the number of lines dropped since NewLog, and whether the last line was dropped or its write
// failed.
func (l *Log) Dropped() (lines int64, dropping bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped, l.dropping
}
