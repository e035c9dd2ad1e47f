//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package budget

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process, whatever ends that. It
// reports errLocked when another one has it.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unlockFile leaves the file: removing it would let two processes lock two
// files of one name.
func unlockFile(file *os.File) error { return file.Close() }

// syncFolder makes a file's new name last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
