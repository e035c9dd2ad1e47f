package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/gofrs/flock"

	"github.com/dynalimit/dynalimit/fault"
)

// spool is the local file of records that the store has not taken yet. A record is
// synced to disk before its caller is answered, and leaves the file once it is accepted
// or refused for good. A record that is replayed twice is counted once.
type spool struct {
	path string
	lock *flock.Flock // of path + ".lock": no other keeper has the spool

	mu      sync.Mutex
	file    *os.File
	pending int // records in the file

	replaying chan struct{} // one at a time; a mutex would be held across requests
}

func openSpool(path string) (*spool, error) {
	lock := flock.New(path + ".lock") // the file stays: without it two processes might lock two of one name
	locked, err := lock.TryLock()
	if err != nil {
		return nil, unusable(err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s is locked by %s.lock: give every keeper a file of its own in Options.Spool, "+
			"or start this one when the other has ended", ErrSpoolInUse, path, path)
	}
	s := &spool{path: path, lock: lock, replaying: make(chan struct{}, 1)}
	if err := s.open(); err != nil {
		return nil, errors.Join(unusable(err), lock.Unlock())
	}
	return s, nil
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
	lines, err := readSpool(file)
	if err == nil {
		err = syncFolder(filepath.Dir(s.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file, s.pending = file, len(lines)
	return nil
}

// follow opens the path again if the file there is not the open one, because somebody
// moved or removed that. It copies the records that wait in the open file, so that every
// record is in a file that is replayed. The lock must be held.
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
	waiting, err := readSpool(s.file)
	if err != nil {
		return err
	}
	moved := s.file
	if err := s.open(); err != nil {
		s.file = moved
		return err
	}
	if err := s.write(join(waiting)); err != nil {
		err = errors.Join(err, s.file.Close())
		s.file, s.pending = moved, len(waiting)
		return err
	}
	s.pending += len(waiting)
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
	err := s.follow()
	if err == nil {
		err = s.write(text)
	}
	if err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	s.pending += len(entries)
	return nil
}

// write appends text. It takes back what it could not write completely, and never joins
// text to a line that was cut off before. The lock must be held.
func (s *spool) write(text []byte) error {
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
	return nil
}

// readSpool gives the records of a file, and what is damaged between them.
func readSpool(file *os.File) ([]spoolLine, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return splitSpool(text), nil
}

// join is the text of lines.
func join(lines []spoolLine) []byte {
	var text []byte
	for _, line := range lines {
		text = append(append(text, line.text...), '\n')
	}
	return text
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

// replay passes the records to send, many at once, and drops those that it finishes. It
// stops when the store fails and takes none of a batch.
func (s *spool) replay(send func(batch []spoolLine) (done []bool, err error)) error {
	s.replaying <- struct{}{}
	defer func() { <-s.replaying }()
	lines, err := s.waiting()
	if err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	var all []bool
	for from := 0; from < len(lines); from += replayBatch {
		done, sendErr := send(lines[from:min(from+replayBatch, len(lines))])
		all = append(all, done...)
		if err == nil {
			err = sendErr
		}
		if sendErr != nil && !misconfigured(sendErr) && !slices.Contains(done, true) {
			break
		}
	}
	if dropErr := s.drop(finished(lines, all)); dropErr != nil {
		err = errors.Join(err, fmt.Errorf("budget: spool: %w", dropErr))
	}
	return err
}

func (s *spool) waiting() ([]spoolLine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil {
		return nil, err
	}
	return readSpool(s.file)
}

// finished counts the lines that are done, by their text.
func finished(lines []spoolLine, done []bool) map[string]int {
	texts := map[string]int{}
	for i, ok := range done {
		if ok {
			texts[string(lines[i].text)]++
		}
	}
	return texts
}

// drop removes finished lines from the file at the path, by their text: other lines may have
// been appended meanwhile, or another file put there. An empty file stays as it is, which
// needs no room on a full disk.
func (s *spool) drop(done map[string]int) error {
	if len(done) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil {
		return err
	}
	lines, err := readSpool(s.file)
	if err != nil {
		return err
	}
	var left []spoolLine
	for _, line := range lines {
		if done[string(line.text)]--; done[string(line.text)] < 0 {
			left = append(left, line)
		}
	}
	if len(left) == 0 {
		err = errors.Join(s.file.Truncate(0), s.file.Sync())
	} else {
		err = s.rewrite(left)
	}
	if err == nil {
		s.pending = len(left)
	}
	return err
}

// rewrite replaces the open file by one with these lines.
func (s *spool) rewrite(lines []spoolLine) error {
	temporary := s.path + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_RDWR|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(join(lines))
	if err = errors.Join(err, file.Sync()); err == nil {
		err = os.Rename(temporary, s.path)
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(temporary))
	}
	old := s.file
	s.file = file
	return errors.Join(old.Close(), syncFolder(filepath.Dir(s.path)))
}

// misconfigured reports whether the configuration, or this keeper's options, lack a
// model or its price. The record then waits until that is corrected.
func misconfigured(err error) bool {
	var bad *fault.ValidationError
	return errors.As(err, &bad) && bad.Code == fault.InvalidConfig
}
