package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestExportsSayTheSame: CSV, lines of JSON and the list have the same windows and amounts.
func TestExportsSayTheSame(t *testing.T) {
	m := weekOfUse(t)
	t.Chdir(t.TempDir())
	which := []string{"--entity", "key-1", "--by", "hour", "--from", "2026-01-21", "--to", "2026-01-23", "--timezone", "Asia/Kolkata"}
	var listed []aggregator.Usage
	require.NoError(t, json.Unmarshal([]byte(m.must(append([]string{"usage", "list", "--json"}, which...)...)), &listed))
	require.Len(t, listed, 6)

	m.must(append([]string{"usage", "export", "--format", "jsonl", "-o", "key-1.jsonl"}, which...)...)
	text, err := os.ReadFile("key-1.jsonl")
	require.NoError(t, err)
	var lines []aggregator.Usage
	for line := range strings.Lines(string(text)) {
		var row aggregator.Usage
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		lines = append(lines, row)
	}
	assert.Equal(t, listed, lines)

	rows, err := csv.NewReader(strings.NewReader(m.must(append([]string{"usage", "export"}, which...)...))).ReadAll()
	require.NoError(t, err)
	i := 1
	for _, u := range listed {
		for _, l := range u.Limits {
			assert.Equal(t, []string{u.Start.Format(time.RFC3339), u.Resource, l.Limit}, []string{rows[i][0], rows[i][3], rows[i][7]})
			i++
		}
	}
	assert.Len(t, rows, i)

	printed := m.must(append([]string{"usage", "export"}, which...)...)
	assert.Equal(t, printed, m.must(append([]string{"usage", "export", "-o", "-"}, which...)...), "- is the terminal")
	_, err = os.Stat("-")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestExportOfHalfIsNone: a file that cannot be whole is not there, and one that was there
// stays as it was.
func TestExportOfHalfIsNone(t *testing.T) {
	m := weekOfUse(t)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("old.csv", []byte("as it was"), 0o600))
	var reads atomic.Int64
	m.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "Query" && reads.Add(1) > 4 { // after some windows
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	for _, name := range []string{"old.csv", "new.csv"} {
		reads.Store(0)
		code, stdout, stderr := m.run("usage", "export", "--entity", "key-1", "-o", name)
		assert.Equal(t, exitFailed, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "AccessDenied")
	}
	text, err := os.ReadFile("old.csv")
	require.NoError(t, err)
	assert.Equal(t, "as it was", string(text))
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Len(t, files, 1, "nothing is left behind")
}

// TestLongExportsTellHowFarTheyAre, beside the result.
func TestLongExportsTellHowFarTheyAre(t *testing.T) {
	t.Parallel()
	m := weekOfUse(t)
	at := m.now
	clock := func() time.Time { at = at.Add(time.Second); return at } // each look at it takes a second
	var out, notes bytes.Buffer
	ctx := context.WithValue(t.Context(), clockKey{}, clock)
	code := run(ctx, []string{"usage", "export", "--entity", "key-1", "--by", "hour", "--since", "3d", "--endpoint", m.endpoint}, &term.Output{Writer: &out, Patience: time.Hour}, &notes)
	require.Equal(t, exitOK, code, notes.String())
	assert.Contains(t, notes.String(), "windows so far, at 2026-01-2")
	assert.NotContains(t, out.String(), "so far")
}
