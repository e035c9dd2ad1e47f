package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// copyTree copies the files of a repository, without the ones that git ignores, into dir.
func copyTree(root, dir string) error {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", root, err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies one file with its mode, and makes missing folders for it. It ignores a missing file.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode())
}

// applyIn writes a mutant into its file in tree, calls do, restores the file, and returns do's verdict. The
// verdict is broken for a mutant that does not fit, and after an error of the file.
func (m *mutant) applyIn(tree string, do func() verdict) verdict {
	path := filepath.Join(tree, filepath.FromSlash(m.file))
	text, err := os.ReadFile(path)
	if err != nil {
		return verdict{state: broken, why: err.Error()}
	}
	changed, err := m.applyTo(string(text))
	if err != nil {
		return verdict{state: broken, why: err.Error()}
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return verdict{state: broken, why: err.Error()}
	}
	v := do()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return verdict{state: broken, why: err.Error()}
	}
	return v
}
