package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// TestBlocksTranscript plays a session with blocks of every source.
func TestBlocksTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("plan", "set", "free", "rpm=5")
	s.golden("block.txt", [][]string{
		{"block", "list"},
		{"block", "set"},
		{"block", "set", "--entity", "key-1", "--plan", "free"},
		{"block", "set", "--system", "--resource", "gpt-4"},
		{"block", "set", "--entity", "key 1"},
		{"block", "set", "--entity", "key-1", "--dry-run"},
		{"block", "set", "--entity", "key-1"},
		{"block", "set", "--entity", "key-1"},
		{"block", "set", "--plan", "free", "--resource", "gpt-4", "--json"},
		{"block", "set", "--plan", "free"},
		{"block", "set", "--resource", "claude"},
		{"block", "set", "--system"},
		{"block", "set", "--system", "--dry-run"},
		{"block", "set", "--system", "--yes"},
		{"block", "list"},
		{"block", "list", "--json"},
		{"block", "list", "key-1"},
		{"limits", "resolve", "key-1", "gpt-4"},
		{"block", "lift", "--system", "--dry-run"},
		{"block", "lift", "--system"},
		{"block", "lift", "--system"},
		{"block", "lift", "--plan", "free", "--json"},
		{"block", "lift"},
		{"plan", "show", "free"},
		{"block", "list"},
		{"block", "set", "--resource", "gpt-4", "--except"},
		{"block", "admit", "--plan", "free", "--dry-run"},
		{"block", "admit", "--plan", "free"},
		{"block", "lift", "--plan", "free", "--dry-run"},
		{"block", "admit", "--plan", "free", "--resource", "gpt-4", "--end", "--dry-run"},
		{"block", "admit", "--plan", "free", "--resource", "gpt-4", "--dry-run"},
		{"block", "lift", "--plan", "free", "--resource", "gpt-4"},
		{"block", "admit", "--entity", "key-1", "--resource", "gpt-4"},
		{"block", "lift", "--entity", "key-1"},
		{"block", "admit", "--entity", "key-1", "--resource", "gpt-4", "--json"},
		{"entity", "create", "key-2", "--plan", "free"},
		{"check", "key-2", "gpt-4"},
		{"limits", "resolve", "key-2", "gpt-4"},
		{"block", "set", "--resource", "gpt-4", "--except", "--json"},
		{"block", "set", "--plan", "free"},
		{"block", "lift", "--plan", "free"},
		{"block", "list"},
		{"block", "set", "--resource", "gpt-4"},
		{"limits", "resolve", "key-2", "gpt-4"},
		{"block", "admit", "--entity", "key-1", "--resource", "gpt-4", "--end"},
		{"block", "admit", "--resource", "gpt-4"},
		{"block", "admit", "--system"},
		{"limits", "list"},
		{"limits", "show", "key-1"},
	})
}

// TestManyBlocksAreFound: more sources than are read at once.
func TestManyBlocksAreFound(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	changes := make([]admin.ScopedConfig, 2*batch+7)
	blocked := 0
	for i := range changes {
		changes[i].Scope.Entity = "key-" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		if changes[i].Config.Blocked = i%3 == 0; changes[i].Config.Blocked {
			blocked++
		} else {
			changes[i].Config.Unlimited = true
		}
	}
	failed, err := admin.New(s.repository()).Limits.SetConfigs(t.Context(), changes)
	require.NoError(t, err)
	for _, err := range failed {
		require.NoError(t, err)
	}
	assert.Equal(t, 1+blocked, strings.Count(s.must("block", "list"), "\n"))
}
