package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// inUse is a table with a team, a key on a plan below it, and calls that were made.
func inUse(t *testing.T) *shell {
	t.Helper()
	s := newTable(t)
	repo, ctx := s.repository(), t.Context()
	_, err := admin.New(repo).Limits.SetConfig(ctx, admin.Scope{Everyone: true}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}, OnUnavailable: dynalimit.Local, Version: admin.AnyVersion})
	require.NoError(t, err)
	require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 10_000)}))
	require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Plan: "pro", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 5_000).WithBurst(8_000)}))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "team-a"}))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-1", ParentID: "team-a", Cascade: true, Plan: "pro"}))
	require.NoError(t, admin.New(repo).Limits.SetUnlimited(ctx, admin.Scope{Entity: "root"}))
	require.NoError(t, admin.New(repo).Limits.SetBlocked(ctx, admin.Scope{Entity: "bad"}, true))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	lease, err := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpm": 50, "tpm": 6_000})
	require.NoError(t, err)
	require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 2_500}))
	require.NoError(t, lease.Settle(ctx, nil))
	require.NoError(t, limiter.Close(ctx))
	return s
}

func TestCheckTranscript(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	s.golden("check.txt", [][]string{
		{"check", "key-1", "gpt-4"},
		{"check", "key-1", "gpt-4", "rpm=5"},
		{"check", "key-1", "gpt-4", "rpm=1", "tpm=2000"},
		{"check", "key-1", "gpt-4", "tpm=2000", "--json"},
		{"check", "key-1", "gpt-4", "rpm=61"},
		{"check", "key-1", "gpt-4", "rpm=61", "--json"},
		{"check", "root", "gpt-4", "rpm=1"},
		{"check", "root", "gpt-4", "--json"},
		{"check", "bad", "gpt-4"},
		{"check", "bad", "gpt-4", "rpm=1", "--json"},
		{"check", "somebody", "claude", "rpm=1"},
		{"check", "key-1", "gpt-4", "rps=1"},
		{"check", "key-1", "gpt-4", "rpm"},
		{"check", "key-1", "gpt-4", "rpm=-1"},
		{"check", "key 1", "gpt-4"},
		{"check", "", "gpt-4"},
		{"check", "key-1"},
	})
}

// TestCheckOfGroups shows what is left at each entity of each group, and names the group that
// denies or blocks.
func TestCheckOfGroups(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	s.must("resource", "set", "gpt-4", "--group", "openai", "--group", "all", "--group", "unset")
	s.must("resource", "set", "all", "tpm=20k")
	s.must("plan", "set", "pro", "--resource", "openai", "rpm=10")
	s.must("limits", "set", "team-a", "--resource", "all", "tpm=12k")
	s.golden("check_groups.txt", [][]string{
		{"check", "key-1", "gpt-4", "rpm=1", "tpm=1"},
		{"check", "key-1", "gpt-4", "rpm=11"},
		{"limits", "resolve", "key-1", "gpt-4"},
		{"resource", "set", "gpt-5", "--group", "all"},
		{"check", "root", "gpt-5", "--json"},
		{"block", "set", "--resource", "openai"},
		{"check", "key-1", "gpt-4"},
		{"check", "key-1", "gpt-5"},
	})
}

// TestCheckOfANarrowTerminal: at 40 columns what limits and sources say is whole, and in lines
// that fit.
func TestCheckOfANarrowTerminal(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	s.width = 40
	_, stdout, _ := s.run("check", "key-1", "gpt-4", "tpm=2000")
	assert.NotContains(t, stdout, "…")
	assert.Contains(t, stdout, "  tpm 500 in debt, of 8,000, asked 2,000\n    5,000 a minute, burst 8,000\n    from plan\n    denied")
	assert.Contains(t, stdout, "  plan: in force\n    rpm 60 a minute\n    tpm 5,000 a minute, burst 8,000\n")
	for _, line := range strings.Split(stdout, "\n") {
		if strings.HasPrefix(line, "  ") { // the others are sentences
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 40, line)
		}
	}
}
