package dynalimit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// older is a process of the last version that knew token buckets alone.
type older struct {
	t       *testing.T
	in      io.Writer
	answers *bufio.Scanner
}

// versionOfBuckets is the commit of that version.
const versionOfBuckets = "74236e18"

// buildOlder builds it, from the history of the checkout; "" where that is not.
func buildOlder(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	show := exec.CommandContext(t.Context(), "git", "archive", versionOfBuckets)
	show.Dir = ".." // all of it
	archive, err := show.Output()
	if err != nil {
		t.Logf("NOTE: no process of the version before: the history of the project is not here: %v", err)
		return ""
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", tree)
	unpack.Stdin = bytes.NewReader(archive)
	require.NoError(t, unpack.Run())
	source, err := os.ReadFile(filepath.Join("testdata", "older", "main.go"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "older"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "older", "main.go"), source, 0o600))
	binary := filepath.Join(tree, "older.bin")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "./older")
	build.Dir, build.Env = tree, append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// runOlder starts it on a table; nil if it cannot be built.
func runOlder(t *testing.T, endpoint, table string) *older {
	t.Helper()
	binary := buildOlder(t)
	if binary == "" {
		return nil
	}
	run := exec.CommandContext(context.WithoutCancel(t.Context()), binary, endpoint, table) // it ends with its input
	in, err := run.StdinPipe()
	require.NoError(t, err)
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	run.Stderr = os.Stderr
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		_ = in.Close()
		assert.NoError(t, run.Wait())
	})
	return &older{t, in, bufio.NewScanner(out)}
}

// acquires is what an acquire of its says.
func (o *older) acquires(entity string) string {
	o.t.Helper()
	_, err := fmt.Fprintln(o.in, entity)
	require.NoError(o.t, err)
	require.True(o.t, o.answers.Scan())
	return o.answers.Text()
}

// later lets its clock go on.
func (o *older) later(d time.Duration) {
	o.t.Helper()
	_, err := fmt.Fprintf(o.in, "+%v\n", d)
	require.NoError(o.t, err)
}

// A process of the version before groups and quotas, beside one that sets the first of them,
// refuses the calls of a resource in a group, or of a source with a quota, once it reads their
// record, and the whole table once it reads the version record: it never goes on without charging
// them for longer. A bucket that holds a quota it refuses at once.
func TestOlderProcessRefusesKinds(t *testing.T) {
	e := memEngine(t)
	repo := e.repository(t, nil)
	s := (&process{engine: e, t: t}).on(repo, nil)
	s.madeBefore()
	server := httptest.NewServer(e.db)
	t.Cleanup(server.Close)
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 100))
	for _, id := range []string{"own", "paid", "shared"} {
		s.limits(admin.Scope{Entity: id}, dynalimit.PerDay("rpm", 100))
	}
	s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 5))
	o := runOlder(t, server.URL, repo.table)
	if o == nil {
		return
	}
	require.Equal(t, "ok", o.acquires("user"))
	require.Equal(t, "ok", o.acquires("own"))
	require.Equal(t, "ok", o.acquires("paid"))
	require.Equal(t, "ok", o.acquires("shared"))
	s.ofGroup(model)
	for _, id := range []string{"paid", "shared"} {
		s.limits(admin.Scope{Entity: id}, dynalimit.PerDay("rpm", 100), dynalimit.DailyQuota("usd", 5, "UTC"))
	}
	assert.Equal(t, "ok", o.acquires("user"), "as it last read")
	assert.Equal(t, "ok", o.acquires("paid"))
	s.acquire("shared", dynalimit.Amounts{"rpm": 1, "usd": 5})
	assert.Contains(t, o.acquires("shared"), "usd is of a kind that this version does not know", "the bucket has the quota by now")
	o.later(2*time.Minute + time.Second) // past its ConfigTTL, however long it serves what is stale
	assert.Contains(t, o.acquires("user"), "groups is of a kind that this version does not know")
	assert.Contains(t, o.acquires("paid"), "usd is of a kind that this version does not know")
	assert.Equal(t, "ok", o.acquires("own"), "its own record won, and the resource's is not looked into")
	o.later(10 * time.Minute) // the version's TTL
	assert.Contains(t, o.acquires("own"), "kinds_min")
	assert.Nil(t, s.itemOn("user", group), "it charged no group, and from now on admits nothing")
}
