package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMisspeltNamesAreTold: a plan or a parent that stands nowhere is accepted, and told of by
// each command that meets it; one that is there is not.
func TestMisspeltNamesAreTold(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("system", "set", "rpm=5")
	s.must("plan", "set", "pro", "--resource", "gpt-4", "rpm=100")
	s.must("entity", "create", "team", "--plan", "pro")
	s.must("entity", "create", "key-1", "--plan", "pro", "--parent", "team")
	assert.NotContains(t, s.must("check", "key-1", "gpt-4"), "says nothing here")
	s.must("resource", "set", "gpt-4", "rpm=100", "--group", "all")
	assert.Regexp(t, `warning +names +the group "all" of gpt-4 has no limits\n.*\n +\$ dynalimit resource show gpt-4 `, s.must("doctor"))
	s.must("limits", "set", "team", "--resource", "all", "rpm=200")
	assert.Regexp(t, `ok +names +2 records; all named plans, parents and groups exist`, s.must("doctor"))

	for _, args := range [][]string{
		{"entity", "create", "key-2", "--plan", "prro", "--parent", "ghost", "--dry-run"},
		{"entity", "create", "key-2", "--plan", "prro", "--parent", "ghost"},
		{"entity", "update", "key-1", "--plan", "prro", "--parent", "ghost", "--json"},
	} {
		code, _, stderr := s.run(args...)
		require.Equal(t, exitOK, code, args)
		assert.Contains(t, stderr, `the plan "prro" has no limits yet`, args)
		assert.Contains(t, stderr, `the parent "ghost" has no record`, args)
	}
	s.must("entity", "update", "key-1", "--name", "x") // what is not changed is not told of
	assert.Contains(t, s.must("check", "key-2", "gpt-4"), "! the plan prro says nothing here")
	assert.Regexp(t, `warning +names +the plan "prro" of key-\d has no limits; the parent "ghost" of key-\d has no record; the plan "prro" of key-\d has no limits; and 1 more`, s.must("doctor"))
}
