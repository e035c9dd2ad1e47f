//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package budget

import (
	"errors"
	"io/fs"
	"os"
)

// lockFile creates a file that must not exist yet, because this system has no
// lock in the standard library that ends with the process: after a crash the
// file has to be removed by hand. It reports errLocked when it is there.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errLocked
	}
	return file, err
}

func unlockFile(file *os.File) error {
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// syncFolder does nothing: folders are not synced here.
func syncFolder(string) error { return nil }
