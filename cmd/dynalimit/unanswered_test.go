package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// refusedByAWS runs a line of each command that asks AWS and checks how it ends
// when nothing is answered: soon, with a sentence that says what to do next.
func refusedByAWS(t *testing.T, timeout time.Duration, want string, args ...string) {
	t.Helper()
	lines := firstLines(t)
	t.Chdir(withTestdata(t))
	require.NoError(t, os.WriteFile("limits.yaml", []byte("system: {limits: {rpm: {capacity: 5}}}\n"), 0o600))
	t.Setenv(keysetVariable, "")
	var all sync.WaitGroup
	room := make(chan struct{}, 8) // more would be slow for want of processors
	for _, name := range leaves(t) {
		if asksNobody[name] != "" || name == "version" || name == "doctor" { // whose findings it is
			continue
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			ctx, giveUp := context.WithCancel(context.WithValue(t.Context(), timeoutKey{}, timeout))
			defer time.AfterFunc(time.Minute, giveUp).Stop() // a command that waits fails below
			var stdout, stderr bytes.Buffer
			code := run(ctx, append(unquoted(lines[name]), args...), &term.Output{Writer: &stdout, Patience: time.Hour}, &stderr)
			assert.Equal(t, exitFailed, code, "%s\n%s", lines[name], stderr.String())
			assert.Contains(t, stderr.String(), want, lines[name])
			assert.Regexp(t, `check --|'dynalimit doctor'|try again|run the command again`, stderr.String(), lines[name])
			assert.NotRegexp(t, `operation error|context deadline|the client`, stderr.String(), lines[name])
		})
	}
	all.Wait()
}

// TestNoCommandWaitsForEver: with an engine that accepts connections and never answers, every
// command ends by itself.
func TestNoCommandWaitsForEver(t *testing.T) {
	newShell(t) // empties the environment
	engine := silent(t)
	refusedByAWS(t, 500*time.Millisecond, "no answer within the request timeout", "--endpoint", engine)
}

// TestNoCommandWithoutCredentials: where nobody is logged in, every command says so, and how
// to log in.
func TestNoCommandWithoutCredentials(t *testing.T) {
	newShell(t)
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	refusedByAWS(t, time.Minute, "there are no credentials of AWS", "--region", "eu-west-1")
}

// TestThrottledCommandsSayWhatToDo: to look at the table, not at the credentials.
func TestThrottledCommandsSayWhatToDo(t *testing.T) {
	s := newTable(t)
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException", Message: "exceeded"}}
	})
	for _, line := range [][]string{{"entity", "list"}, {"table", "status"}, {"limits", "resolve", "key-1", "gpt-4"}} {
		code, _, stderr := s.run(line...)
		assert.Equal(t, exitFailed, code, line)
		assert.Contains(t, stderr, "the table throttles: try again, or give it more throughput", line)
		assert.NotContains(t, stderr, "credentials", line)
	}
}
