package budget

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"github.com/dynalimit/dynalimit/fault"
)

// segmentSize is how large the file of a spool grows before the next one begins, in bytes: some
// 2,400 records. So much is replayed, and read into memory, at a time.
const segmentSize = 1 << 20

// spool is the local files of records that the store has not taken yet: one that grows, at the
// path, and older segments beside it, which are replayed and deleted one by one. A record is
// synced to disk before its caller is answered, and leaves the spool once it is accepted or
// refused for good. A record that is replayed twice is counted once.
type spool struct {
	path  string
	limit int64        // of all segments, in bytes
	lock  *flock.Flock // of path + ".lock": no other keeper has the spool

	mu     sync.Mutex // guards what follows; not held while records are replayed
	file   *os.File   // at the path
	last   segment    // that file
	closed []segment  // the older ones, the oldest first

	replaying chan struct{} // one at a time; a mutex would be held across requests
}

// segment is a file of the spool.
type segment struct {
	path  string
	size  int64
	lines int // not finished
}

func openSpool(path string, limit int64) (*spool, error) {
	lock := flock.New(path + ".lock") // the file stays: without it two processes might lock two of one name
	locked, err := lock.TryLock()
	if err != nil {
		return nil, unusable(err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s is locked by %s.lock: give every keeper a file of its own in Options.Spool, "+
			"or start this one when the other has ended", ErrSpoolInUse, path, path)
	}
	s := &spool{path: path, limit: limit, lock: lock, replaying: make(chan struct{}, 1)}
	err = s.findSegments()
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(unusable(err), lock.Unlock())
	}
	return s, nil
}

// findSegments finds the segments that another process left.
func (s *spool) findSegments() error {
	folder, err := os.ReadDir(filepath.Dir(s.path))
	for _, entry := range folder {
		number, ok := strings.CutPrefix(entry.Name(), filepath.Base(s.path)+".")
		if !ok || len(number) != segmentDigits || strings.Trim(number, "0123456789") != "" {
			continue
		}
		file, openErr := os.Open(s.path + "." + number)
		if openErr != nil {
			return openErr
		}
		found, measureErr := measure(file)
		s.closed = append(s.closed, found)
		err = errors.Join(err, measureErr, file.Close())
	}
	return err
}

// measure counts what is in a file, without reading records.
func measure(file *os.File) (segment, error) {
	s, last, block := segment{path: file.Name()}, byte('\n'), make([]byte, 64<<10)
	for {
		n, err := file.ReadAt(block, s.size)
		if n > 0 {
			s.size, s.lines, last = s.size+int64(n), s.lines+bytes.Count(block[:n], []byte{'\n'}), block[n-1]
		}
		if err == nil {
			continue
		}
		if last != '\n' { // a line that was cut off
			s.lines++
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return s, err
	}
}

// syncFolder makes a file's new name last, where folders can be synced.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func unusable(err error) error {
	return fmt.Errorf("budget: spool: %w; name a file that this process may write, in a folder that exists (Options.Spool, --spool)", err)
}

// open opens the file at the path, or makes it.
func (s *spool) open() error {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	last, err := measure(file)
	if err == nil {
		err = syncFolder(filepath.Dir(s.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file, s.last = file, last
	return nil
}

// follow opens the path again if the file there is not the open one, because somebody
// moved or removed that. It copies what waits in the open file, so that every record is in a
// file that is replayed. The lock must be held.
func (s *spool) follow() error {
	mine, err := s.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(s.path)
	if err == nil && os.SameFile(mine, there) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	waiting, err := io.ReadAll(io.NewSectionReader(s.file, 0, mine.Size()))
	if err != nil {
		return err
	}
	moved, was := s.file, s.last
	if err := s.open(); err != nil {
		return err
	}
	if err := s.write(waiting, was.lines); err != nil {
		err = errors.Join(err, s.file.Close())
		s.file, s.last = moved, was
		return err
	}
	return moved.Close()
}

// append keeps records, all or none.
func (s *spool) append(entries ...SpooledUsage) error {
	var text []byte
	for _, entry := range entries {
		line, err := frame(entry)
		if err != nil {
			return fmt.Errorf("budget: spool: %w", err)
		}
		text = append(text, line...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, size := s.total(); size+int64(len(text)) > s.limit {
		return fmt.Errorf("%w: %s has %d bytes; raise Options.SpoolBytes, or see why the store takes nothing", ErrSpoolFull, s.path, size)
	}
	err := s.follow()
	if err == nil {
		err = s.write(text, len(entries))
	}
	if err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	if s.last.size >= segmentSize {
		_ = s.rotate() // the records are kept; the next one tries again
	}
	return nil
}

// write appends lines. It takes back what it could not write completely, and never joins
// text to a line that was cut off before. The lock must be held.
func (s *spool) write(text []byte, lines int) error {
	info, err := s.file.Stat()
	if err != nil || len(text) == 0 {
		return err
	}
	size := info.Size()
	if size > 0 {
		var last [1]byte
		if _, err := s.file.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	if _, err = s.file.Write(text); err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.file.Truncate(size))
	}
	s.last.size, s.last.lines = size+int64(len(text)), s.last.lines+lines
	return nil
}

const segmentDigits = 8

// rotate makes a segment of the file at the path, and begins another file. The lock must be held.
func (s *spool) rotate() error {
	if info, err := s.file.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	number := 1
	if n := len(s.closed); n > 0 {
		before := s.closed[n-1].path
		if _, err := fmt.Sscanf(before[len(before)-segmentDigits:], "%d", &number); err != nil {
			return err
		}
		number++
	}
	closed, name := s.file, fmt.Sprintf("%s.%0*d", s.path, segmentDigits, number)
	if err := os.Rename(s.path, name); err != nil {
		return err
	}
	was, err := measure(closed) // also what others wrote there
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return errors.Join(err, os.Rename(name, s.path))
	}
	was.path = name
	s.closed = append(s.closed, was)
	return closed.Close()
}

// total is how many lines wait, and their size. The lock must be held.
func (s *spool) total() (lines int, size int64) {
	lines, size = s.last.lines, s.last.size
	for _, c := range s.closed {
		lines, size = lines+c.lines, size+c.size
	}
	return lines, size
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.follow(), s.file.Close(), s.lock.Unlock())
}

// refuse keeps a line that will never be accepted, in the refused file.
func (s *spool) refuse(line []byte) error {
	file, err := os.OpenFile(s.path+".refused", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(bytes.Clone(line), '\n'))
	return errors.Join(err, file.Sync(), file.Close(), syncFolder(filepath.Dir(s.path)))
}

// replayBatch is how many records are sent at once: two full transactions of
// one counter, and some for others.
const replayBatch = 256

// sendLines sends records, and reports which are finished.
type sendLines func(batch []spoolLine) (done []bool, err error)

// replay passes the records to send, many at once, segment by segment, and drops those that it
// finishes. It stops when the store fails and takes none of a batch.
func (s *spool) replay(send sendLines) error {
	s.replaying <- struct{}{}
	defer func() { <-s.replaying }()
	waiting, err := s.segments(false)
	if err == nil && len(waiting) == 0 {
		waiting, err = s.segments(true)
	}
	if err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	for _, c := range waiting {
		stop, segmentErr := s.replaySegment(c, send)
		if err == nil || misconfigured(err) && !misconfigured(segmentErr) && segmentErr != nil {
			err = segmentErr
		}
		if stop {
			break
		}
	}
	return err
}

// segments are those that are closed; with rotate also the one that grew until now.
func (s *spool) segments(rotate bool) ([]segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if rotate {
		if err = s.follow(); err == nil {
			err = s.rotate()
		}
	}
	return slices.Clone(s.closed), err
}

// replaySegment replays a segment and deletes it. Lines that are not finished go to the end of the
// spool; a large segment of which nothing is finished stays as it is. stop says that the store
// fails.
func (s *spool) replaySegment(c segment, send sendLines) (stop bool, err error) {
	file, err := os.Open(c.path)
	if err != nil {
		return true, fmt.Errorf("budget: spool: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	var left []byte
	finished, waiting := 0, 0
	for text, more := bufio.NewReaderSize(file, 64<<10), true; more && !stop; {
		batch, readErr := readBatch(text)
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return true, fmt.Errorf("budget: spool: %w", readErr)
		}
		if more = readErr == nil; len(batch) == 0 {
			break
		}
		done, sendErr := send(batch)
		if err == nil {
			err = sendErr
		}
		stop = sendErr != nil && !misconfigured(sendErr) && !slices.Contains(done, true)
		before := waiting
		left, waiting = appendUnfinished(left, waiting, batch, done)
		finished += len(batch) - (waiting - before)
		s.progress(c.path, c.lines-finished)
		if stop && c.size < 4*segmentSize {
			rest, readErr := io.ReadAll(text)
			if readErr != nil {
				return true, errors.Join(err, readErr)
			}
			left, waiting = append(left, rest...), waiting+bytes.Count(rest, []byte{'\n'})
		}
	}
	if stop && c.size >= 4*segmentSize || finished == 0 && c.size >= segmentSize/2 {
		s.progress(c.path, c.lines)
		return stop, err
	}
	if dropErr := s.drop(c, left, waiting); dropErr != nil {
		s.progress(c.path, c.lines)
		return true, errors.Join(err, fmt.Errorf("budget: spool: %w", dropErr))
	}
	return stop, err
}

// readBatch reads up to replayBatch lines. At the end of the segment the error is io.EOF.
func readBatch(text *bufio.Reader) (batch []spoolLine, err error) {
	for err == nil && len(batch) < replayBatch {
		var line []byte
		line, err = text.ReadBytes('\n')
		batch = append(batch, splitSpool(line)...)
	}
	return batch, err
}

// appendUnfinished appends the lines of a batch that are not finished, and counts them.
func appendUnfinished(left []byte, lines int, batch []spoolLine, done []bool) ([]byte, int) {
	for i, line := range batch {
		if i >= len(done) || !done[i] {
			left, lines = append(append(left, line.text...), '\n'), lines+1
		}
	}
	return left, lines
}

// progress notes how many lines of a segment are not finished.
func (s *spool) progress(path string, lines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.closed {
		if s.closed[i].path == path {
			s.closed[i].lines = max(lines, 0)
		}
	}
}

// drop deletes a segment, after it moved the lines that are left to the end of the spool.
func (s *spool) drop(c segment, left []byte, lines int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil {
		return err
	}
	if err := s.write(left, lines); err != nil {
		return err
	}
	s.closed = slices.DeleteFunc(s.closed, func(other segment) bool { return other.path == c.path })
	return os.Remove(c.path)
}

// misconfigured reports whether the configuration, or this keeper's options, lack a
// model or its price. The record then waits until that is corrected.
func misconfigured(err error) bool {
	var bad *fault.ValidationError
	return errors.As(err, &bad) && bad.Code == fault.InvalidConfig
}
