package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// Folder returns a Writer that keeps files below a folder of this machine, which it makes at
// the first file. A file appears whole under its name once it is on the disk. Files and
// folders are for their owner alone. A file that a process did not finish is left with a
// name that begins with a dot; it can be deleted.
//
// Put refuses names that lead out of the folder, also over symbolic links.
func Folder(name string) Writer { return folder(name) }

type folder string

// Put writes a temporary file, and renames it to name after it is on the disk; after an error it removes it. It
// makes missing folders, and refuses a name that leads out of the folder.
func (f folder) Put(ctx context.Context, name string, data []byte) (err error) {
	if err := problem.CheckContext(ctx, "archive"); err != nil {
		return err
	}
	if f == "" {
		return invalid("folder", "has no name; give its path, or \".\" for the working directory")
	}
	if err := checkName(name); err != nil {
		return err
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	within := filepath.FromSlash(path.Dir(name))
	if err := root.MkdirAll(within, 0o700); err != nil {
		return err
	}
	unfinished := filepath.Join(within, "."+rand.Text()+".unfinished")
	err = writeFile(root, unfinished, data)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = root.Rename(unfinished, filepath.FromSlash(name))
	}
	if err != nil {
		_ = root.Remove(unfinished) // which may not be there
		return err
	}
	return syncUp(root, within)
}

// checkName returns an error for a path that is not clean and local.
func checkName(name string) error {
	if name == "" || strings.ContainsAny(name, "\\:\x00") || path.Clean(name) != name || !filepath.IsLocal(filepath.FromSlash(name)) || name == "." {
		return fmt.Errorf("archive: the name %q is empty, not clean, or leads out of the folder; give a path of names below it", name)
	}
	return nil
}

// writeFile creates a file, which must not exist, and returns after its data is on the disk.
func writeFile(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncUp syncs a folder and all folders above it, up to the root. It ignores errors of the syncs, because some
// systems, such as Windows, cannot sync a folder.
func syncUp(root *os.Root, within string) error {
	for {
		d, err := root.Open(within)
		if err != nil {
			return err
		}
		_ = d.Sync()
		if err := d.Close(); err != nil || within == "." {
			return err
		}
		within = filepath.Dir(within)
	}
}
