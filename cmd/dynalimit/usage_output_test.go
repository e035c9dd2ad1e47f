//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOutputFiles: -o follows links, keeps the mode of what is there, writes through what is
// no regular file, and leaves what is there as it is where it fails.
func TestOutputFiles(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	hello := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	require.NoError(t, os.WriteFile(in("private"), []byte("old"), 0o600))
	require.NoError(t, os.WriteFile(in("target"), []byte("old"), 0o640))
	require.NoError(t, os.Symlink("target", in("link")))
	require.NoError(t, os.Symlink("absent", in("dangling")))
	for name, mode := range map[string]os.FileMode{"private": 0o600, "link": 0o640, "dangling": 0o644, "new": 0o644} {
		require.NoError(t, writeFileAtomically(in(name), 0o644, hello), name)
		is, err := os.Stat(in(name))
		require.NoError(t, err)
		assert.Zero(t, is.Mode().Perm()&^mode, "%s has %v", name, is.Mode())
		text, err := os.ReadFile(in(name))
		require.NoError(t, err)
		assert.Equal(t, "hello", string(text), name)
	}
	for _, name := range []string{"link", "dangling"} {
		is, err := os.Lstat(in(name))
		require.NoError(t, err)
		assert.NotZero(t, is.Mode()&os.ModeSymlink, name)
	}
	is, err := os.Stat(in("private"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), is.Mode().Perm())
	require.NoError(t, syscall.Mkfifo(in("pipe"), 0o600))
	heard := make(chan string)
	go func() {
		text, err := os.ReadFile(in("pipe"))
		assert.NoError(t, err)
		heard <- string(text)
	}()
	require.NoError(t, writeFileAtomically(in("pipe"), 0o644, hello))
	assert.Equal(t, "hello", <-heard)
	umask := syscall.Umask(0o077)
	err = writeFileAtomically(in("hidden"), 0o644, hello)
	syscall.Umask(umask)
	require.NoError(t, err)
	is, err = os.Stat(in("hidden"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), is.Mode().Perm())
	require.NoError(t, writeFileAtomically(os.DevNull, 0o644, hello))
	device, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	assert.False(t, device.Mode().IsRegular())
	require.ErrorIs(t, writeFileAtomically(in("private"), 0o644, func(w io.Writer) error { _ = hello(w); return io.ErrUnexpectedEOF }), io.ErrUnexpectedEOF)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, left, 8, "private, target, absent, new, hidden, a pipe and two links: no part is left")
}
