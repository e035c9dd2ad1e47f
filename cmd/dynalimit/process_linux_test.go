package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFullDiskIsNoSuccess: what could not be written is told.
func TestFullDiskIsNoSuccess(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	s := newTable(t)
	s.must("entity", "create", "key-1")
	for _, args := range [][]string{{"entity", "list"}, {"entity", "show", "key-1"}, {"entity", "list", "--json"}, {"version"}, {"audit"}} {
		var stderr bytes.Buffer
		command := process(t, append([]string{"--endpoint", s.endpoint}, args...)...)
		command.Stdout, command.Stderr = full, io.Writer(&stderr)
		require.Error(t, command.Run(), args)
		assert.Equal(t, exitFailed, command.ProcessState.ExitCode())
		assert.Contains(t, stderr.String(), "no space left on device", args)
	}
}
