//go:build linux

package budget

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSpoolOnAFullDisk: a record that does not fit is not acknowledged, and
// spoils none that comes later. It runs in a process of its own, whose files
// alone have no room.
func TestSpoolOnAFullDisk(t *testing.T) {
	const child = "DYNALIMIT_FULL_DISK"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSpoolOnAFullDisk$") //nolint:gosec // this test
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	w, k, path := spooling(t)
	w.db.SetFaults(refuseAll("AccessDeniedException"))
	spoolOne(t, k, call(1))
	size := fileSize(t, path)

	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size + 100), Max: old.Max}))
	_, err := k.Submit(t.Context(), orgO, appA, call(2))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	require.ErrorIs(t, err, syscall.EFBIG)
	assert.Equal(t, size, fileSize(t, path), "what was written of it is taken back")

	spoolOne(t, k, call(3))
	w.db.SetFaults(nil)
	require.NoError(t, k.Replay(t.Context()))
	assert.Equal(t, int64(3), w.total(appA, "premium", "").Requests, "the first, and two of the spool")
	assert.Zero(t, fileSize(t, path))
}
