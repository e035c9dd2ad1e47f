//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// process is the program as a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self, args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	return command
}

// TestInterruptEndsWith130: a process that waits for an engine, and Ctrl-C.
func TestInterruptEndsWith130(t *testing.T) {
	for _, args := range [][]string{
		{"entity", "list"}, {"entity", "create", "key-1"}, {"audit", "--json"}, {"budget", "orgs", "list"}, {"namespace", "list"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			asked, release := make(chan struct{}, 100), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				asked <- struct{}{}
				<-release
			}))
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(release) })
			var stdout, stderr bytes.Buffer
			command := process(t, append([]string{"--endpoint", server.URL}, args...)...)
			command.Stdout, command.Stderr = &stdout, &stderr
			require.NoError(t, command.Start())
			<-asked
			require.NoError(t, command.Process.Signal(os.Interrupt))
			require.Error(t, command.Wait())
			assert.Equal(t, exitInterrupted, command.ProcessState.ExitCode(), stderr.String())
			assert.Contains(t, stderr.String(), "dynalimit: interrupted: nothing was changed\n", "no write was sent")
			assert.Empty(t, stdout.String())
		})
	}
}

// TestClosedPipeEndsTheProgram: as head closes it after the first line; nobody is told.
func TestClosedPipeEndsTheProgram(t *testing.T) {
	s := newTable(t)
	setups := make([]admin.EntitySetup, 1500)
	for i := range setups {
		setups[i].Entity = admin.Entity{ID: fmt.Sprintf("key-%04d", i), Name: strings.Repeat("n", 100)}
	}
	_, err := admin.New(s.repository()).Entities.CreateMany(t.Context(), setups)
	require.NoError(t, err)
	var stderr bytes.Buffer
	command := process(t, "--endpoint", s.endpoint, "entity", "list", "--json")
	command.Stderr = &stderr
	read, write, err := os.Pipe()
	require.NoError(t, err)
	command.Stdout = write
	require.NoError(t, command.Start())
	require.NoError(t, write.Close())
	line, err := bufio.NewReaderSize(read, 16).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "[\n", line)
	require.NoError(t, read.Close())
	require.Error(t, command.Wait())
	assert.Equal(t, "signal: broken pipe", command.ProcessState.String())
	assert.Empty(t, stderr.String())
}

// TestKeeperEndsThoughNobodyReadsItsLog: results and log go into one pipe, as with 2>&1. Its
// reader stops, or goes: requests are answered, and SIGTERM ends the process in order.
func TestKeeperEndsThoughNobodyReadsItsLog(t *testing.T) {
	for name, stop := range map[string]func(*os.File) error{
		"stops": func(*os.File) error { return nil },
		"goes":  (*os.File).Close,
	} {
		t.Run(name, func(t *testing.T) {
			newShell(t)
			read, write, err := os.Pipe()
			require.NoError(t, err)
			defer read.Close()
			command := process(t, "keeper", "serve", "--local", "--listen", "127.0.0.1:0", "--metrics", "off")
			command.Stdout, command.Stderr = write, write
			require.NoError(t, command.Start())
			require.NoError(t, write.Close())
			lines, url := bufio.NewReader(read), ""
			for !strings.Contains(url, `"keeper: serving"`) { // the log begins where the results end
				url, err = lines.ReadString('\n')
				require.NoError(t, err)
			}
			url, _, _ = strings.Cut(address.FindString(url), `"`)
			require.NoError(t, stop(read))
			const more = 1000 // lines than a pipe holds
			client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
			defer client.CloseIdleConnections()
			for range more {
				answer, err := client.Get(url + "/health") //nolint:noctx // this machine
				require.NoError(t, err)
				answer.Body.Close()
				require.Equal(t, http.StatusOK, answer.StatusCode)
			}
			require.NoError(t, command.Process.Signal(syscall.SIGTERM))
			require.NoError(t, command.Wait())
		})
	}
}
