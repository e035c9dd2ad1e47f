package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// take makes calls of an entity that leave its bucket less than full.
func (s *shell) take(entity, resource string, amounts dynalimit.Amounts) {
	s.t.Helper()
	limiter, err := dynalimit.New(s.repository(), nil)
	require.NoError(s.t, err)
	lease, err := limiter.Acquire(s.t.Context(), entity, resource, amounts)
	require.NoError(s.t, err)
	require.NoError(s.t, lease.Settle(s.t.Context(), nil))
	require.NoError(s.t, limiter.Close(s.t.Context()))
}

// TestEntitiesTranscript plays a session with the records of entities and their buckets.
func TestEntitiesTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.golden("entity.txt", [][]string{
		{"entity", "list"},
		{"entity", "list", "--json"},
		{"entity", "list", "--limit=-1"},
		{"entity", "create", "org-1", "--name", "The organisation", "--plan", "pro", "--metadata", "@testdata/org.json", "--dry-run"},
		{"entity", "create", "org-1", "--name", "The organisation", "--plan", "pro", "--metadata", "@testdata/org.json"},
		{"entity", "create", "org-1"},
		{"entity", "create", "org-1", "--dry-run"},
		{"entity", "create", "key-1", "--parent", "org-1", "--cascade", "--json"},
		{"entity", "create", "key-2", "--parent", "org-1", "--metadata", "{team}"},
		{"entity", "create", "key-2", "--parent", "org-1", "--metadata", "@testdata/none.json"},
		{"entity", "create", "key-2", "--cascade"},
		{"entity", "create", "key-2", "--cascade", "--dry-run"},
		{"entity", "create", "key 2"},
		{"entity", "create", ""},
		{"entity", "create", "key-2", "--parent", "org-1", "--plan", "free"},
		{"entity", "show", "org-1"},
		{"entity", "show", "key-1", "--json"},
		{"entity", "show", "key-9"},
		{"entity", "list"},
		{"entity", "list", "--plan", "pro"},
		{"entity", "list", "--plan", "gold"},
		{"entity", "list", "--limit", "1", "--json"},
		{"entity", "children", "org-1"},
		{"entity", "children", "org-1", "--plan", "free", "--json"},
		{"entity", "children", "key-1"},
		{"entity", "children", "org#1"},
		{"entity", "update", "key-2", "--plan", "pro", "--name", "Second", "--dry-run"},
		{"entity", "update", "key-2", "--plan", "pro", "--name", "Second"},
		{"entity", "update", "key-2", "--plan", "pro", "--name", "Second"},
		{"entity", "update", "key-2", "--metadata", "[1, 2]", "--json"},
		{"entity", "update", "key-2", "--name", "Third", "--version", "1"},
		{"entity", "update", "key-2", "--name", "Third", "--version", "1", "--dry-run"},
		{"entity", "update", "key-1", "--parent", ""},
		{"entity", "update", "key-1", "--parent", "", "--no-cascade"},
		{"entity", "update", "org-1", "--parent", "key-2"},
		{"entity", "update", "key-1"},
		{"entity", "update", "key-9", "--name", "Nine"},
		{"entity", "buckets", "key-1"},
		{"entity", "buckets", "key-1", "--json"},
		{"entity", "buckets", "key#1"},
		{"entity", "delete", "org-1"},
		{"entity", "delete", "org-1", "--yes"},
		{"entity", "delete", "key-2"},
		{"entity", "delete", "key-2", "--dry-run"},
		{"entity", "delete", "key-2", "--yes"},
		{"entity", "delete", "key-2", "--yes", "--json"},
		{"entity", "delete", "key#2", "--yes"},
	})
}

// A paused bucket serves again once a command has ended its pause; a dry run ends nothing.
func TestBucketResumeEndsAPause(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("system", "set", "rpm=100")
	s.take("key-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
	inProcess := func(do func(l *dynalimit.RateLimiter) error) error {
		limiter, err := dynalimit.New(s.repository(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, limiter.Close(t.Context())) }()
		return do(limiter)
	}
	take := func(l *dynalimit.RateLimiter) error {
		_, err := l.Acquire(t.Context(), "key-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
		return err
	}
	require.NoError(t, inProcess(func(l *dynalimit.RateLimiter) error {
		return l.Pause(t.Context(), "key-1", "gpt-4", 30*time.Second, "a test")
	}))
	s.must("bucket", "resume", "key-1", "gpt-4", "--dry-run")
	require.ErrorIs(t, inProcess(take), dynalimit.ErrPaused)
	s.must("bucket", "resume", "key-1", "gpt-4")
	require.NoError(t, inProcess(take))
}

// TestBucketsTranscript plays a session with buckets that are in use, and in debt.
func TestBucketsTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("system", "set", "rpm=100", "tpm=1000")
	s.take("key-1", "gpt-4", dynalimit.Amounts{"rpm": 60, "tpm": 1000})
	s.take("key-1", "claude", dynalimit.Amounts{"rpm": 95})
	limiter, err := dynalimit.New(s.repository(), nil)
	require.NoError(t, err)
	lease, err := limiter.Acquire(t.Context(), "key-2", "gpt-4", dynalimit.Amounts{"tpm": 10})
	require.NoError(t, err)
	require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1500}))
	require.NoError(t, lease.Settle(t.Context(), nil))
	require.NoError(t, limiter.Close(t.Context()))
	s.golden("bucket.txt", [][]string{
		{"entity", "buckets", "key-1"},
		{"entity", "buckets", "key-1", "--resource", "gpt-4", "--json"},
		{"entity", "buckets", "key-2"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=10", "--dry-run"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=10", "tpm=9223372036854775807", "--dry-run"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=10", "--id", "ticket-1"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=10", "--id", "ticket-1"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=11", "--id", "ticket-1"},
		{"bucket", "top-up", "key-2", "gpt-4", "tpm=510", "--id", "ticket-2", "--json"},
		{"bucket", "top-up", "key-1", "gpt-4"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=0"},
		{"bucket", "top-up", "key-1", "gpt-4", "rpm=1", "rpm=2"},
		{"bucket", "top-up", "key-1", "gpt-4", "rps=1"},
		{"bucket", "top-up", "key-1", "gpt-4", "rps=1", "--dry-run"},
		{"bucket", "reset", "key-1", "gpt-4", "--dry-run"},
		{"bucket", "reset", "key-1", "gpt-4", "--limit", "rpm"},
		{"bucket", "reset", "key-1", "gpt-4", "--id", "incident-7", "--json"},
		{"bucket", "reset", "key-1", "gpt-3"},
		{"bucket", "reset", "key-1", "gpt-3", "--dry-run"},
		{"bucket", "reset", "key-1", "gpt-4", "--limit", "rps"},
		{"bucket", "reset", "key-1", ""},
		{"bucket", "resume", "key-1", "gpt-4", "--dry-run"},
		{"bucket", "resume", "key-1", "gpt-4"},
		{"bucket", "resume", "key-1", "gpt-4", "--json"},
		{"bucket", "resume", "key-1", "gpt-3"},
		{"bucket", "resume", "key-1", ""},
		{"entity", "delete", "key-1", "--dry-run"},
		{"entity", "delete", "key-1", "--dry-run", "--json"},
		{"entity", "delete", "key-1", "--yes"},
		{"entity", "buckets", "key-1"},
	})
}

// TestManyEntitiesAreOneArray: pages and filters of a list do not show.
func TestManyEntitiesAreOneArray(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	setups := make([]admin.EntitySetup, 1200)
	for i := range setups {
		setups[i].Entity = admin.Entity{ID: fmt.Sprintf("key-%04d", i), Plan: []string{"free", "pro"}[i%2]}
	}
	failed, err := admin.New(s.repository()).Entities.CreateMany(t.Context(), setups)
	require.NoError(t, err)
	for _, err := range failed {
		require.NoError(t, err)
	}
	var all []entityJSON
	require.NoError(t, json.Unmarshal([]byte(s.must("entity", "list", "--json")), &all))
	assert.Len(t, all, 1200)
	require.NoError(t, json.Unmarshal([]byte(s.must("entity", "list", "--json", "--plan", "pro", "--limit", "250")), &all))
	assert.Len(t, all, 250)
	for _, e := range all {
		assert.Equal(t, "pro", e.Plan)
	}
	assert.Equal(t, 1+1200, strings.Count(s.must("entity", "list"), "\n"))
}

// TestHostileRecordsDoNotReachTheTerminal: not what users stored, in any command.
func TestHostileRecordsDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.width = 60
	const name = "a\u009b31m\u202eb"
	e := admin.Entity{ID: "key-1", Name: name, Metadata: json.RawMessage("{\"k\":\"\u009b2J\\u001b]0;x\\u0007\"}")}
	require.NoError(t, admin.New(s.repository()).Entities.Create(t.Context(), e))
	for _, args := range [][]string{
		{"entity", "show", "key-1"},
		{"entity", "show", "key-1", "--json"},
		{"entity", "list"},
		{"entity", "list", "--json"},
		{"entity", "update", "key-1", "--name", "b\u009b", "--dry-run"},
		{"entity", "update", "key-1", "--name", "b", "--version", "9"},
		{"entity", "delete", "key-1", "--dry-run", "--json"},
		{"audit", "--target", "key-1"},
		{"audit", "--target", "key-1", "--json"},
	} {
		_, stdout, stderr := s.run(args...)
		for _, r := range stdout + stderr {
			assert.False(t, r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == '\u202e', "%v: %q", args, r)
		}
	}
	var shown entityJSON
	require.NoError(t, json.Unmarshal([]byte(s.must("entity", "show", "key-1", "--json")), &shown))
	assert.Equal(t, name, shown.Name)
}
