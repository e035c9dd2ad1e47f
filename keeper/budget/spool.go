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

// segmentSize is the size in bytes at which a spool file is closed and the next one begins:
// some 2,400 records. A replay reads one segment into memory.
const segmentSize = 1 << 20

// spool is the local files of records that the store has not accepted yet: the growing file at
// the path, and older segments beside it, which are replayed and deleted one by one. A record
// is synced to disk before its caller gets an answer. It leaves the spool once it is accepted
// or refused for good. A record that is replayed twice is counted once.
type spool struct {
	path  string
	limit int64        // of all segments, in bytes
	lock  *flock.Flock // of path + ".lock": no other keeper has the spool

	mu     sync.Mutex // guards the fields below; not held during a replay
	file   *os.File   // at the path
	last   segment    // the growing file
	closed []segment  // older segments, oldest first

	replaying chan struct{} // held by the running replay; a mutex would be held during requests
}

// segment is one file of the spool.
type segment struct {
	path  string
	size  int64
	lines int // number of pending lines
}

// openSpool opens or creates the spool at path, counts the records that an earlier process left, and locks it
// until close. limit is the most bytes of all its files. It returns ErrSpoolInUse if another keeper has the
// lock.
func openSpool(path string, limit int64) (*spool, error) {
	lock := flock.New(path + ".lock") // never deleted: otherwise two processes might lock two files of the same name
	locked, err := lock.TryLock()
	if err != nil {
		return nil, unusableSpoolError(err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s is locked by %s.lock: give every keeper a file of its own in Options.Spool, "+
			"or start this one when the other has ended", ErrSpoolInUse, path, path)
	}
	s := &spool{path: path, limit: limit, lock: lock, replaying: make(chan struct{}, 1)}
	err = s.findSegments()
	if err == nil {
		err = s.openFile()
	}
	if err != nil {
		return nil, errors.Join(unusableSpoolError(err), lock.Unlock())
	}
	return s, nil
}

// findSegments finds the segment files beside the path, sets s.closed to them, oldest first, and counts their
// lines. It ignores other files and decodes no record.
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
		found, measureErr := measureFile(file)
		s.closed = append(s.closed, found)
		err = errors.Join(err, measureErr, file.Close())
	}
	return err
}

// measureFile reads a file and returns it as a segment: path, size in bytes, and number of lines, a truncated
// last one included. It decodes nothing and leaves the file's position alone.
func measureFile(file *os.File) (segment, error) {
	s, last, block := segment{path: file.Name()}, byte('\n'), make([]byte, 64<<10)
	for {
		n, err := file.ReadAt(block, s.size)
		if n > 0 {
			s.size, s.lines, last = s.size+int64(n), s.lines+bytes.Count(block[:n], []byte{'\n'}), block[n-1]
		}
		if err == nil {
			continue
		}
		if last != '\n' { // a truncated line
			s.lines++
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return s, err
	}
}

// syncFolder syncs a folder to disk, so that a new file name survives a crash. On Windows it does nothing.
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

// unusableSpoolError returns err, why the spool's file cannot be used, with the advice for the operator and the
// option that names the file.
func unusableSpoolError(err error) error {
	return fmt.Errorf("budget: spool: %w; name a file that this process may write, in a folder that exists (Options.Spool, --spool)", err)
}

// openFile opens or creates the growing file at the path and sets s.file and s.last, with the size and lines
// that it has already. It syncs the folder. After an error both fields are unchanged.
func (s *spool) openFile() error {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	last, err := measureFile(file)
	if err == nil {
		err = syncFolder(filepath.Dir(s.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file, s.last = file, last
	return nil
}

// reopenMoved does nothing while the path is the open file. If another program moved or removed that, it opens
// a new file at the path and copies all records of the old one to it. s.mu must be held.
func (s *spool) reopenMoved() error {
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
	if err := s.openFile(); err != nil {
		return err
	}
	if err := s.writeLines(waiting, was.lines); err != nil {
		err = errors.Join(err, s.file.Close())
		s.file, s.last = moved, was
		return err
	}
	return moved.Close()
}

// appendRecords appends records to the spool, all or none, and returns once they are synced to disk. Beyond the
// limit it returns ErrSpoolFull. If the file has become large, it begins a new segment.
func (s *spool) appendRecords(entries ...SpooledUsage) error {
	var text []byte
	for _, entry := range entries {
		line, err := encodeRecord(entry)
		if err != nil {
			return fmt.Errorf("budget: spool: %w", err)
		}
		text = append(text, line...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, size := s.countPending(); size+int64(len(text)) > s.limit {
		return fmt.Errorf("%w: %s has %d bytes; raise Options.SpoolBytes, or see why the store takes nothing", ErrSpoolFull, s.path, size)
	}
	err := s.reopenMoved()
	if err == nil {
		err = s.writeLines(text, len(entries))
	}
	if err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	if s.last.size >= segmentSize {
		_ = s.rotateFile() // the records are written; the next append tries again
	}
	return nil
}

// writeLines appends text, with the given number of lines, to the growing file, syncs it, and updates s.last.
// It ends a truncated last line first, and cuts the file back after a failure. The lock s.mu must be held.
func (s *spool) writeLines(text []byte, lines int) error {
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

// rotateFile renames the file at the path to the next numbered segment, adds that to s.closed, and opens a new
// file. It does nothing if the file is empty; an error undoes the renaming. s.mu must be held.
func (s *spool) rotateFile() error {
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
	was, err := measureFile(closed) // includes lines of other writers
	if err == nil {
		err = s.openFile()
	}
	if err != nil {
		return errors.Join(err, os.Rename(name, s.path))
	}
	was.path = name
	s.closed = append(s.closed, was)
	return closed.Close()
}

// countPending returns the number of records that wait in all files of the spool, by their lines, and the size
// of those files in bytes. s.mu must be held.
func (s *spool) countPending() (lines int, size int64) {
	lines, size = s.last.lines, s.last.size
	for _, c := range s.closed {
		lines, size = lines+c.lines, size+c.size
	}
	return lines, size
}

// close closes the growing file and releases the lock; the records stay on disk for the next keeper. If another
// program moved the file, it first copies the records to a new file at the path.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.reopenMoved(), s.file.Close(), s.lock.Unlock())
}

// writeRefused appends line and a newline to the file of refused records, the path with ".refused", and syncs
// it to disk. It creates the file if it is missing.
func (s *spool) writeRefused(line []byte) error {
	file, err := os.OpenFile(s.path+".refused", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(bytes.Clone(line), '\n'))
	return errors.Join(err, file.Sync(), file.Close(), syncFolder(filepath.Dir(s.path)))
}

// replayBatch is the number of records sent at once: two full transactions of one counter, and
// some for others.
const replayBatch = 256

// sendLines sends records and reports which are finished.
type sendLines func(batch []spoolLine) (done []bool, err error)

// replayAll passes all spooled records to send, in batches, oldest segment first, and drops those that send
// finishes. It waits for a running replay first, and stops when the store accepts none of a batch. It returns
// the first error, preferably one of the store.
func (s *spool) replayAll(send sendLines) error {
	s.replaying <- struct{}{}
	defer func() { <-s.replaying }()
	waiting, err := s.listSegments(false)
	if err == nil && len(waiting) == 0 {
		waiting, err = s.listSegments(true)
	}
	if err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	for _, c := range waiting {
		stop, segmentErr := s.replaySegment(c, send)
		if err == nil || isMisconfigured(err) && !isMisconfigured(segmentErr) && segmentErr != nil {
			err = segmentErr
		}
		if stop {
			break
		}
	}
	return err
}

// listSegments returns a copy of the list of closed segments. With rotate it first closes the growing file as a
// segment and begins a new one. It locks s.mu.
func (s *spool) listSegments(rotate bool) ([]segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if rotate {
		if err = s.reopenMoved(); err == nil {
			err = s.rotateFile()
		}
	}
	return slices.Clone(s.closed), err
}

// replaySegment passes a segment's lines to send, appends unfinished lines to the growing file, and deletes the
// segment. A large one without a finished line stays. stop is true if the store accepts nothing or a file
// fails; err is the first error.
func (s *spool) replaySegment(c segment, send sendLines) (stop bool, err error) {
	file, err := os.Open(c.path)
	if err != nil {
		return true, fmt.Errorf("budget: spool: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
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
		stop = sendErr != nil && !isMisconfigured(sendErr) && !slices.Contains(done, true)
		before := waiting
		left, waiting = appendUnfinished(left, waiting, batch, done)
		finished += len(batch) - (waiting - before)
		s.setPending(c.path, c.lines-finished)
		if stop && c.size < 4*segmentSize {
			rest, readErr := io.ReadAll(text)
			if readErr != nil {
				return true, errors.Join(err, readErr)
			}
			left, waiting = append(left, rest...), waiting+bytes.Count(rest, []byte{'\n'})
		}
	}
	if stop && c.size >= 4*segmentSize || finished == 0 && c.size >= segmentSize/2 {
		s.setPending(c.path, c.lines)
		return stop, err
	}
	if dropErr := s.dropSegment(c, left, waiting); dropErr != nil {
		s.setPending(c.path, c.lines)
		return true, errors.Join(err, fmt.Errorf("budget: spool: %w", dropErr))
	}
	return stop, err
}

// readBatch reads and decodes up to replayBatch lines, damaged ones as several pieces. At the end of the file
// it returns the last lines with io.EOF.
func readBatch(text *bufio.Reader) (batch []spoolLine, err error) {
	for err == nil && len(batch) < replayBatch {
		var line []byte
		line, err = text.ReadBytes('\n')
		batch = append(batch, splitSpool(line)...)
	}
	return batch, err
}

// appendUnfinished returns left with the raw text of the batch's unfinished lines appended, and lines raised by
// their number. done[i] is about batch[i]; lines beyond done count as unfinished.
func appendUnfinished(left []byte, lines int, batch []spoolLine, done []bool) ([]byte, int) {
	for i, line := range batch {
		if i >= len(done) || !done[i] {
			left, lines = append(append(left, line.text...), '\n'), lines+1
		}
	}
	return left, lines
}

// setPending sets the number of waiting lines, at least 0, of the closed segment with a path, for countPending.
// It changes no file. It locks s.mu.
func (s *spool) setPending(path string, lines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.closed {
		if s.closed[i].path == path {
			s.closed[i].lines = max(lines, 0)
		}
	}
}

// dropSegment appends left, a number of unfinished lines, to the growing file, removes c from s.closed, and
// deletes its file. If the lines cannot be written, the segment stays. It locks s.mu.
func (s *spool) dropSegment(c segment, left []byte, lines int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reopenMoved(); err != nil {
		return err
	}
	if err := s.writeLines(left, lines); err != nil {
		return err
	}
	s.closed = slices.DeleteFunc(s.closed, func(other segment) bool { return other.path == c.path })
	return os.Remove(c.path)
}

// isMisconfigured reports whether err is a *fault.ValidationError with the code fault.InvalidConfig, such as a
// missing model or price. A spooled record then waits until the configuration is corrected.
func isMisconfigured(err error) bool {
	var bad *fault.ValidationError
	return errors.As(err, &bad) && bad.Code == fault.InvalidConfig
}
