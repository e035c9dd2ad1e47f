//go:build unix

package credentials

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A path that leads to a pipe, which nobody may ever write into, is refused at once: a process
// that waits for it reads no keys again, and cannot be ended.
func TestKeysFileThatIsAPipeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	refused := make(chan error, 1)
	go func() {
		_, err := KeysFile(path)(t.Context())
		refused <- err
	}()
	select {
	case err := <-refused:
		assert.ErrorContains(t, err, "keys.json is no file")
	case <-time.After(time.Minute):
		f, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0) // whoever waits goes on
		require.NoError(t, err)
		require.NoError(t, syscall.Close(f))
		<-refused
		t.Fatal("it waits for somebody to write")
	}
}
