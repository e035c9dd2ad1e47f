package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

func TestTopTranscript(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	require.NoError(t, admin.New(s.repository()).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "key-1"}, true))
	s.golden("top.txt", [][]string{
		{"top"},
		{"top", "--json"},
		{"top", "--resource", "gpt-4", "--sort", "busiest"},
		{"top", "--resource", "gpt-4", "--ask", "tpm=2000", "--ask", "rpm=61", "--sort", "name"},
		{"top", "--resource", "gpt-4", "--most", "1"},
		{"top", "--entity", "team-a", "--json"},
		{"top", "--entity", "key-1", "--entity", "team-a", "--resource", "claude"},
		{"top", "--resource", "gpt#4"},
		{"top", "--watch", "1ms"},
		{"top", "--watch", "10s", "--json"},
		{"top", "--most", "0"},
		{"top", "--ask", "rpm"},
	})
}

// TestTopFindsTheFullestOfAll buckets of a resource, however many there are; by name it reads no
// more than the bound. It writes nothing.
func TestTopFindsTheFullestOfAll(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	repo := s.repository()
	require.NoError(t, admin.New(repo).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	for i := range 399 {
		_, err := limiter.Acquire(t.Context(), "key-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "gpt-4", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
	}
	for _, full := range []string{"key-c", "key-m", "zzz"} {
		_, err = limiter.Acquire(t.Context(), full, "gpt-4", dynalimit.Amounts{"rpm": 9})
		require.NoError(t, err)
	}
	require.NoError(t, limiter.Close(t.Context()))
	assert.Contains(t, s.must("top"), "\n  gpt-4\n", "a resource whose limits are the system's")
	assert.Contains(t, s.must("top", "--json"), `"gpt-4"`)
	began := s.db.Meter()
	text := s.must("top", "--resource", "gpt-4", "--most", "100", "--sort", "name")
	assert.Contains(t, text, "Not all: 100 buckets read, and there are more: --most reads more.")
	used := s.db.Meter().Sub(began)
	assert.Zero(t, used.WriteUnits())
	assert.LessOrEqual(t, used.Operations["Query"].Requests, int64(3), "pages of the index, of five: two, and a try that is repeated")
	text = s.must("top", "--resource", "gpt-4", "--most", "30")
	assert.Equal(t, 2, strings.Count(text, "The fullest of all 400 buckets: --most shows more."), "above the rows and below")
	for _, full := range []string{"key-c", "key-m", "zzz"} {
		assert.Contains(t, text, "\n"+full+" ", "the fullest, wherever it is by name")
	}
}

// TestTopKeepsCounting: what was taken a second is told from the second reading on.
func TestTopKeepsCounting(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	ctx, cancel := context.WithCancel(s.context())
	defer cancel()
	var shown bytes.Buffer
	out := &term.Output{Writer: heard(func(p []byte) {
		if _, _ = shown.Write(p); strings.Count(shown.String(), "buckets of gpt-4") == 2 {
			cancel()
		}
	}), Patience: time.Hour}
	s.step = time.Second
	ctx = context.WithValue(ctx, clockKey{}, func() time.Time { s.now = s.now.Add(time.Second); return s.now })
	assert.Equal(t, exitOK, run(ctx, []string{"--endpoint", s.endpoint, "top", "--resource", "gpt-4", "--watch", "1s"}, out, io.Discard))
	first, second, found := strings.Cut(strings.TrimPrefix(shown.String(), "buckets of"), "\nbuckets of")
	require.True(t, found, shown.String())
	assert.NotContains(t, first, "0.0/s")
	assert.Contains(t, second, "0.0/s")
}

// heard is a Writer that tells what is written.
type heard func([]byte)

func (h heard) Write(p []byte) (int, error) {
	h(p)
	return len(p), nil
}
