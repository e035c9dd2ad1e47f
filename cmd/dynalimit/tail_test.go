package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// TestTailTranscript plays a timer that catches up now and then.
func TestTailTranscript(t *testing.T) {
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200).use("key-2", "gpt-4", 300)
	m.at(21, 10, 16)
	in := m.repository().TableInput()
	in.TableName, in.StreamSpecification = aws.String("without-stream"), nil
	_, err := m.db.Client().CreateTable(t.Context(), in)
	require.NoError(t, err)
	m.golden("tail.txt", [][]string{
		{"tail", "--once"},
		{"tail", "--once", "--json", "--no-close"},
		{"usage", "list", "--since", "2h"},
		{"usage", "list", "--since", "2h", "--by", "hour", "--plan", "pro"},
		{"tail", "--once", "--table", "none"},
		{"tail", "--once", "--table", "without-stream"},
		{"tail", "--fold-every", "6m"},
		{"tail", "--grace", "26h"},
		{"tail", "--keep-hours", "90"},
		{"tail", "--keep-hours", "1m"},
		{"tail", "--every", "1ms"},
	})
}

// following is a tail that runs.
type following struct {
	*meteredTable
	stdout, stderr *told
	stop           func()
	code           chan int
}

// follow begins one on a terminal of a width, 0 for none.
func (m *meteredTable) follow(width int, args ...string) *following {
	m.t.Helper()
	ctx, stop := context.WithCancel(context.WithValue(m.t.Context(), clockKey{}, m.clock))
	f := &following{m, &told{}, &told{}, stop, make(chan int, 1)}
	to := &term.Output{Writer: f.stdout, Width: width, Patience: time.Hour}
	go func() {
		f.code <- run(ctx, append([]string{"tail", "--endpoint", m.endpoint, "--fold-every=-1s", "--every", "100ms"}, args...), to, f.stderr)
	}()
	return f
}

// ends stops it, and returns its exit code.
func (f *following) ends() int {
	f.t.Helper()
	f.stop()
	select {
	case code := <-f.code:
		return code
	case <-time.After(20 * time.Second):
		require.Fail(f.t, "it does not end")
		return -1
	}
}

// TestTailUntilItIsStopped: it counts what is used while it runs, says so, and ends well; a
// second one goes on where it was.
func TestTailUntilItIsStopped(t *testing.T) {
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200)
	f := m.follow(0)
	f.stdout.await(t, "2 counted") // of key-1 and team-a
	m.use("key-2", "gpt-4", 300)
	f.stdout.await(t, "3 counted")
	assert.Equal(t, exitOK, f.ends(), f.stderr.said())
	assert.Contains(t, f.stdout.said(), "Stopped: 3 counted")
	assert.Contains(t, f.stderr.said(), "Ctrl-C")

	m.use("key-2", "gpt-4", 5)
	f = m.follow(0, "--json", "--no-close")
	f.stdout.await(t, `"counted":1`)
	assert.Equal(t, exitOK, f.ends(), f.stderr.said())
	lines := strings.Split(strings.TrimSpace(f.stdout.said()), "\n")
	for i, line := range lines {
		checkJSON(t, "tail --json", line)
		assert.Equal(t, i == len(lines)-1, strings.Contains(line, `"ended":true`), line)
	}
	assert.Contains(t, m.must("usage", "list", "--entity", "key-2", "--since", "1h"), "305")
}

// TestTailOnATerminal: there is one line, which changes.
func TestTailOnATerminal(t *testing.T) {
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200)
	f := m.follow(40, "--no-close")
	f.stdout.await(t, "\r\x1b[K1 shard, up to date, 2 counted")
	assert.Equal(t, exitOK, f.ends())
	text := f.stdout.said()
	assert.Equal(t, 1, strings.Count(text, "\n"))
	assert.True(t, strings.HasSuffix(text, "\r\x1b[KStopped: 2 counted.\n"), "%q", text)
}
