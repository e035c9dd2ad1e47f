package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// TestNamespacesTranscript plays the life of a tenant.
func TestNamespacesTranscript(t *testing.T) {
	s := newTable(t)
	t.Setenv("DYNALIMIT_PRINCIPAL", "ann@example.com")
	s.step = time.Second
	s.golden("namespace.txt", [][]string{
		{"namespace", "list"},
		{"namespace", "list", "--json"},
		{"namespace", "list", "eu"},
		{"namespace", "register", "eu", "--dry-run"},
		{"namespace", "register", "eu"},
		{"namespace", "register", "eu"},
		{"namespace", "register", "eu", "--dry-run"},
		{"namespace", "register", "us", "--json"},
		{"namespace", "register", "e u"},
		{"system", "set", "rpm=5", "--namespace", "eu"},
		{"entity", "create", "key-1", "--namespace", "eu"},
		{"entity", "create", "key-1", "--namespace", "ue"},
		{"namespace", "list", "--namespace", "eu"},
		{"namespace", "purge", "eu", "--yes"},
		{"namespace", "purge", "ue", "--dry-run"},
		{"namespace", "delete", "eu"},
		{"namespace", "delete", "eu", "--dry-run"},
		{"namespace", "delete", "ue", "--yes"},
		{"namespace", "delete", "ue", "--dry-run"},
		{"namespace", "delete", "eu", "--yes"},
		{"namespace", "delete", "eu", "--yes", "--json"},
		{"namespace", "register", "eu"},
		{"system", "show", "--namespace", "eu"},
		{"entity", "create", "key-2", "--namespace", "eu"},
		{"namespace", "purge", "eu", "--dry-run"},
		{"namespace", "purge", "eu", "--yes"},
		{"audit", "--of-namespace", "eu"},
		{"audit", "--of-namespace", "eu", "--namespace", "us", "--limit", "1"},
	})
	s.now = s.now.Add(12 * time.Minute)
	s.golden("namespace_purge.txt", [][]string{
		{"namespace", "purge", "eu", "--dry-run"},
		{"namespace", "purge", "eu"},
		{"namespace", "purge", "eu", "--yes"},
		{"namespace", "purge", "eu", "--yes", "--json"},
		{"namespace", "register", "eu", "--dry-run"},
		{"namespace", "list", "--json"},
	})
}

// TestProgressEstimates what is left of a look through the table.
func TestProgressEstimates(t *testing.T) {
	at := time.Unix(0, 0)
	var notes bytes.Buffer
	p := &progress{out: &term.Output{Notes: &notes}, now: func() time.Time { return at }, total: 10_000, began: at, told: at}
	p.reportPass(1, 0, "0 removed")
	at = at.Add(time.Second)
	p.reportPass(1, 1000, "5 removed")
	require.Empty(t, notes.String(), "within two seconds")
	at = at.Add(9 * time.Second)
	p.reportPass(1, 2500, "9 removed")
	at = at.Add(20 * time.Second)
	p.reportPass(2, 10_000, "9 removed")
	at = at.Add(10 * time.Second)
	p.reportPass(2, 15_000, "9 removed")
	at = at.Add(10 * time.Second)
	p.reportPass(2, 22_000, "9 removed") // more than was counted
	assert.Equal(t, "dynalimit: pass 1: 2500 items read, 25 % of the table, about 30s left of this pass, 9 removed\n"+
		"dynalimit: pass 2: 10000 items read, 9 removed\n"+
		"dynalimit: pass 2: 15000 items read, 50 % of the table, about 10s left of this pass, 9 removed\n"+
		"dynalimit: pass 2: 22000 items read, 9 removed\n", notes.String())
}

// In a namespace that nobody registered there is nothing to read: every command says so.
func TestReadingANamespaceThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("namespace", "register", "eu")
	for _, line := range [][]string{
		{"limits", "show", "a"},
		{"limits", "list"},
		{"limits", "list", "--resource", "gpt-4"},
		{"limits", "resolve", "a", "b"},
		{"check", "a", "b"},
		{"entity", "list"},
		{"entity", "children", "a"},
		{"entity", "buckets", "a"},
		{"plan", "list"},
		{"resource", "list"},
		{"block", "list"},
		{"audit"},
		{"manifest", "export"},
		{"top", "--resource", "b"},
	} {
		code, stdout, stderr := s.run(append(line, "--namespace", "ue")...)
		assert.Equal(t, exitFailed, code, line)
		assert.Empty(t, stdout, line)
		assert.Contains(t, stderr, `namespace "ue" is not registered: check the name, or register it with 'dynalimit namespace register'`, line)
		code, _, stderr = s.run(append(line, "--namespace", "eu")...)
		assert.NotEqual(t, exitFailed, code, "%v: %s", line, stderr)
	}
}
