package archive

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree are the files below a folder, and what is in them.
func tree(t *testing.T, top string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(top, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}

func TestFolderKeepsWholeFiles(t *testing.T) {
	top := filepath.Join(t.TempDir(), "not", "there")
	w := Folder(top)
	require.NoError(t, w.Put(t.Context(), "audit/date=2026-03-29/a.gz", []byte("one")))
	require.NoError(t, w.Put(t.Context(), "audit/date=2026-03-29/a.gz", []byte("two")))
	require.NoError(t, w.Put(t.Context(), "b", nil))
	assert.Equal(t, map[string]string{"audit/date=2026-03-29/a.gz": "two", "b": ""}, tree(t, top))
	info, err := os.Stat(filepath.Join(top, "audit", "date=2026-03-29", "a.gz"))
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077, "for the owner alone")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Put(ended, "c", []byte("three")), context.Canceled)
	require.Error(t, w.Put(t.Context(), "b/below-a-file", nil))
	require.NoError(t, os.Mkdir(filepath.Join(top, "taken"), 0o700))
	require.Error(t, w.Put(t.Context(), "taken", []byte("four")), "what is there is no file")
	assert.Equal(t, map[string]string{"audit/date=2026-03-29/a.gz": "two", "b": ""}, tree(t, top), "nothing is left of what failed")
}

func TestFolderRefusesToBeLeft(t *testing.T) {
	outside := t.TempDir()
	top := filepath.Join(outside, "top")
	w := Folder(top)
	require.NoError(t, w.Put(t.Context(), "in/a", nil))
	for _, name := range []string{
		"", ".", "..", "../a", "/a", "in/../../a", "in/../a", "in//a", "in/", "./a", `in\..\..\a`, "c:a", "a\x00b", strings.Repeat("../", 50) + "tmp/a",
	} {
		assert.Error(t, w.Put(t.Context(), name, []byte("x")), "%q", name)
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(top, "link")))
	require.Error(t, w.Put(t.Context(), "link/a", []byte("x")), "over a link")
	require.NoError(t, os.Symlink(filepath.Join(outside, "target"), filepath.Join(top, "in", "b")))
	require.NoError(t, w.Put(t.Context(), "in/b", []byte("x")), "a link of the name is replaced")
	require.NoError(t, os.Remove(filepath.Join(top, "link")))
	for name := range tree(t, outside) {
		assert.True(t, strings.HasPrefix(name, "top/"), name)
	}
}
