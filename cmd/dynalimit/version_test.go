package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestVersionTranscript: which release, with and without a table.
func TestVersionTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.golden("version.txt", [][]string{
		{"version"},
		{"version", "--json"},
		{"version", "--table-version"},
		{"version", "--table-version", "--json"},
		{"version", "--table-version", "--table", "none"},
		{"version", "1"},
	})
	s = newTable(t)
	s.olderLayout()
	s.golden("version_older.txt", [][]string{{"version", "--table-version"}, {"version", "--table-version", "--json"}})
}

// TestVersionAsksNobody: neither DynamoDB nor the configuration of AWS.
func TestVersionAsksNobody(t *testing.T) {
	code, stdout, stderr := runPlain(t, "version", "--endpoint", "http://127.0.0.1:1", "--profile", "no such profile")
	assert.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "dynalimit ")
}
