package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestBudgetDryRunTranscript: what each command that changes something would write, and
// nothing is written.
func TestBudgetDryRunTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.must("prices", "set", "acme-1", "--input", "1", "--output", "2")
	writes := s.db.Meter().WriteUnits()
	s.golden("budget_dry_run.txt", [][]string{
		{"orgs", "put", acme, "--tight", "80", "--dry-run"},
		{"orgs", "put", acme, "--tight", "80", "--dry-run", "--json"},
		{"orgs", "put", acme, "--tight", "10", "--dry-run"},
		{"apps", "put", acme, "batch", "--ordering", "standard", "--dry-run"},
		{"apps", "put", acme, "batch", "--ordering", "standard", "--dry-run", "--json"},
		{"quotas", "set", acme, "premium=9.25", "--dry-run"},
		{"quotas", "set", acme, "premium=9.25", "--dry-run", "--json"},
		{"override", acme, "chat", "standard", "--for", "2h", "--dry-run"},
		{"override", acme, "chat", "standard", "--for", "2h", "--dry-run", "--json"},
		{"adjust", acme, "chat", "premium", "--credit", "0.0165", "--reason", "a failed call", "--id", "00000000-0000-4000-8000-00000000a001", "--dry-run"},
		{"adjust", acme, "chat", "premium", "--credit", "0.0165", "--reason", "a failed call", "--id", "00000000-0000-4000-8000-00000000a001", "--dry-run", "--json"},
		{"prices", "set", "gpt-4o", "--input", "1", "--output", "2", "--dry-run"},
		{"prices", "set", "gpt-4o", "--input", "1", "--output", "2", "--dry-run", "--json"},
		{"prices", "reset", "gpt-4o", "--dry-run"},
		{"prices", "reset", "acme-1", "--dry-run"},
		{"prices", "reset", "acme-1", "--dry-run", "--json"},
		{"prices", "about", "acme-1", "--tier", "premium", "--dry-run"},
		{"prices", "about", "acme-1", "--tier", "premium", "--dry-run", "--json"},
		{"prices", "about", "acme-1"},
		{"sweep", "--dry-run"},
	})
	assert.InDelta(t, writes, s.db.Meter().WriteUnits(), 0)
}
