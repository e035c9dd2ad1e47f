package keeper

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logRoom bounds the lines that wait to be written, in bytes: some 4,000 of them.
const logRoom = 1 << 20

// Log writes lines from a goroutine of its own, so that whoever reads them, and stops
// reading, keeps no request waiting. A line that finds no room is dropped and counted; when
// there is room again, a line says how many were. Make one with NewLog, and Close it. It is
// safe for concurrent use.
type Log struct {
	to    io.Writer
	ended chan struct{} // is closed when all was written that was given before Close

	mu       sync.Mutex
	more     *sync.Cond // there are lines to write, or the end has come
	waiting  []byte
	closed   bool
	dropping bool  // the last line found no room, or could not be written
	dropped  int64 // lines in all
	told     int64 // those of them that are told of, or cannot be
}

// NewLog writes to a writer, which nobody else writes to until Close.
func NewLog(to io.Writer) *Log {
	l := &Log{to: to, ended: make(chan struct{})}
	l.more = sync.NewCond(&l.mu)
	go l.run()
	return l
}

// Write takes a line, or drops it. It never fails. After Close it writes at once, unless the
// reader had stopped reading by then.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed && l.over():
		_, err := l.to.Write(line)
		l.wrote(line, err)
	case l.closed, len(l.waiting)+len(line) > logRoom:
		l.dropped, l.dropping = l.dropped+1, true
	default:
		l.waiting = append(l.waiting, line...)
		l.more.Signal()
	}
	return len(line), nil
}

// over reports whether nothing is being written any more.
func (l *Log) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// run writes what waits, until Close and then the rest.
func (l *Log) run() {
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
		lines = l.tell(lines)
		l.mu.Unlock()
		_, err := l.to.Write(lines)
		l.mu.Lock()
		l.wrote(lines, err)
	}
}

// tell adds a line about those that were dropped.
func (l *Log) tell(lines []byte) []byte {
	n := l.dropped - l.told
	if n == 0 {
		return lines
	}
	l.told = l.dropped
	about := bytes.NewBuffer(lines)
	slog.New(slog.NewJSONHandler(about, nil)).Warn("keeper: lines of the log were dropped: whatever reads it was too slow", "lines", n)
	return about.Bytes()
}

// wrote notes whether lines could be written. Of those that could not, no line tells.
func (l *Log) wrote(lines []byte, err error) {
	l.dropping = err != nil
	if err != nil {
		n := int64(bytes.Count(lines, []byte("\n")))
		l.dropped, l.told = l.dropped+n, l.told+n
	}
}

// Close writes what waits, for so long at most: a reader that has stopped keeps no process
// from ending.
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

// Dropped is how many lines were dropped so far, and whether the last one was.
func (l *Log) Dropped() (lines int64, dropping bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped, l.dropping
}
