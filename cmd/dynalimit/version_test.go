package main

import (
	"testing"
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
