package main

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator/archive"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestTailOnceEndsThoughNothingCanBeWritten: it says what failed, and the next run counts all.
func TestTailOnceEndsThoughNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200)
	m.at(21, 10, 16)
	m.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "UpdateItem" && r.Operation != "TransactWriteItems" {
			return ddbmem.Fault{}
		}
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "ValidationException", Message: "no room"}}
	})
	code, _, stderr := m.run("tail", "--once")
	assert.Equal(t, exitFailed, code)
	assert.Regexp(t, `failed 3 times in a row: .*no room.*; the next run goes on from the last checkpoint`, stderr)
	m.db.SetFaults(nil)
	assert.Contains(t, m.must("tail", "--once"), "Up to date: 2 counted, ")
}

// A timer delivers the open alerts, and says so; what fails is tried again by the next run.
func TestTailOnceDeliversAlerts(t *testing.T) {
	t.Parallel()
	m := metered(t)
	day, err := calendar.WindowsOf("day", "UTC")
	require.NoError(t, err)
	a := schema.Alert{Entity: "key-1", Resource: "all", Limit: "usd", Percent: 80, Amount: 1000, Used: 900, Windows: day, Window: day.At(time.Now().UnixMilli()), At: time.Now()}
	put := a.Put()
	_, err = m.db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: a.Key().Attributes(), UpdateExpression: &put.Update, ConditionExpression: &put.Condition,
		ExpressionAttributeNames: put.Names, ExpressionAttributeValues: put.Values,
	})
	require.NoError(t, err)
	var status, got atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		got.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	defer s.Close()
	hook := filepath.Join(t.TempDir(), "hook")
	require.NoError(t, os.WriteFile(hook, []byte(s.URL+"/T0/secret"), 0o600))
	run := func(answer int64) string {
		status.Store(answer)
		code, _, stderr := m.run("tail", "--once", "--alert-webhook", hook)
		assert.Equal(t, exitOK, code, stderr)
		assert.NotContains(t, stderr, "T0/secret")
		return stderr
	}
	assert.Contains(t, run(http.StatusBadGateway), "alerts: 1 were not delivered")
	assert.Contains(t, run(http.StatusOK), "alerts: 1 were delivered to")
	assert.NotContains(t, run(http.StatusOK), "delivered")
	assert.Equal(t, int64(2), got.Load())
}

// TestTailTranscript plays a timer that catches up now and then.
func TestTailTranscript(t *testing.T) {
	t.Parallel()
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

// TestUsageKeepTranscript: the first tail stores how long usage is kept, the next one obeys that and
// says so, and a command changes it.
func TestUsageKeepTranscript(t *testing.T) {
	m := metered(t)
	t.Setenv("DYNALIMIT_PRINCIPAL", "ann@example.com")
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200)
	m.at(21, 10, 16)
	m.golden("usage_keep.txt", [][]string{
		{"usage", "keep"},
		{"tail", "--once", "--keep-hours", "30d"},
		{"usage", "keep"},
		{"usage", "keep", "--hours", "180d", "--dry-run"},
	})
	m.use("key-1", "gpt-4", 5)
	m.golden("usage_keep_changed.txt", [][]string{
		{"tail", "--once", "--keep-hours", "90d"},
		{"usage", "keep", "--hours", "180d", "--months", "800d"},
		{"usage", "keep", "--json"},
		{"usage", "keep", "--days", "1d"},
		{"usage", "keep", "--hours", "90"},
		{"usage", "list", "--since", "60d", "--timezone", "Europe/Berlin"},
	})
}

// outlived is a table whose first hours of usage have expired in its stream.
func outlived(t *testing.T) *meteredTable {
	t.Helper()
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200).fold(nil)
	m.now = m.now.AddDate(0, 0, 91)
	require.Positive(t, m.db.ExpireNow())
	return m.use("key-2", "gpt-4", 300)
}

// archived are the ids of entities whose lines are in a folder.
func archived(t *testing.T, folder string) (ids []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		for line, err := range archive.Read(f) {
			require.NoError(t, err)
			if line.Kind == archive.Usage {
				ids = append(ids, line.ID)
			}
		}
		return nil
	}))
	slices.Sort(ids)
	return ids
}

// TestTailArchiveTranscript plays a timer that archives: what expired is in the folder once,
// though it runs twice.
func TestTailArchiveTranscript(t *testing.T) {
	m := outlived(t)
	t.Chdir(withTestdata(t))
	require.NoError(t, os.WriteFile("a-file", nil, 0o600))
	m.golden("tail_archive.txt", [][]string{
		{"tail", "--once", "--archive", "kept"},
		{"tail", "--once", "--archive", "kept", "--json", "--no-close"},
		{"tail", "--once", "--archive", "a-file"},
		{"tail", "--archive", "a-file/kept"},
	})
	assert.Equal(t, []string{"key-1", "team-a"}, archived(t, "kept"))
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
	ctx, stop := context.WithCancel(m.context())
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
	t.Parallel()
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

// TestTailArchives: beside the fold, with a line of its own, and on where another one was.
func TestTailArchives(t *testing.T) {
	t.Parallel()
	m, kept := outlived(t), t.TempDir()
	f := m.follow(0, "--no-close", "--archive", kept)
	f.stdout.await(t, "archive: 1 shard, up to date, 2 archived")
	f.stdout.await(t, " 3 counted")
	assert.Equal(t, exitOK, f.ends(), f.stderr.said())
	assert.True(t, strings.HasSuffix(f.stdout.said(), "Archive: 2 archived.\n"), f.stdout.said())
	assert.Equal(t, []string{"key-1", "team-a"}, archived(t, kept))

	f = m.follow(0, "--no-close", "--json", "--archive", kept)
	f.stdout.await(t, `"archive":{"shards":1,"behind_ms":0,"gathered":0,"archived":0`)
	assert.Equal(t, exitOK, f.ends(), f.stderr.said())
	assert.Equal(t, []string{"key-1", "team-a"}, archived(t, kept), "once")

	f = m.follow(120, "--no-close", "--archive", kept)
	f.stdout.await(t, "; archive: 1 shard, up to date")
	assert.Equal(t, exitOK, f.ends(), f.stderr.said())
}

// TestTailOnceEndsThoughFilesCannotBeWritten: usage is counted and closed, the failure ends
// the command, and the next run has all of it.
func TestTailOnceEndsThoughFilesCannotBeWritten(t *testing.T) {
	t.Parallel()
	m, kept := outlived(t), t.TempDir()
	inTheWay := filepath.Join(kept, "usage")
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
	m.now = m.now.Add(2 * time.Hour)
	code, stdout, stderr := m.run("tail", "--once", "--archive", kept)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "Up to date: 3 counted, ")
	assert.Contains(t, stdout, "hours closed")
	assert.Contains(t, stdout, "Archive: 0 archived, ")
	assert.Contains(t, stderr, "not all expired items were archived: archive: write usage/hour/")
	assert.Contains(t, stderr, "once "+kept+" is writable")
	require.NoError(t, os.Remove(inTheWay))
	assert.Contains(t, m.must("tail", "--once", "--archive", kept), "Archive: 2 archived.")
	assert.Equal(t, []string{"key-1", "team-a"}, archived(t, kept))
}
