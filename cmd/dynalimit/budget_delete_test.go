package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestBudgetDeletionTranscript deletes apps and an organisation, and makes them again.
func TestBudgetDeletionTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.step = time.Minute
	s.must("apps", "put", acme, "batch", "--ordering", "standard", "--quota", "standard=1")
	s.golden("budget_delete.txt", [][]string{
		{"apps", "delete", acme, "batch", "--dry-run"},
		{"apps", "delete", acme, "batch"},
		{"apps", "delete", acme, "batch", "--yes"},
		{"apps", "delete", acme, "batch", "--yes"},
		{"apps", "delete", acme, "nobody", "--yes"},
		{"apps", "show", acme, "batch"},
		{"apps", "put", acme, "batch", "--ordering", "standard", "--quota", "standard=1"},
		{"apps", "delete", acme, "chat", "--dry-run", "--json"},
		{"apps", "delete", acme, "chat", "--json"},
		{"orgs", "delete", acme, "--dry-run"},
		{"orgs", "delete", acme, "--dry-run", "--json"},
		{"orgs", "delete", acme},
		{"orgs", "delete", "acme", "--yes"},
		{"orgs", "delete", "660e8400-e29b-41d4-a716-446655440000"},
		{"orgs", "delete", acme, "--yes", "--json"},
		{"orgs", "delete", acme},
		{"today", acme},
		{"orgs", "list"},
		{"orgs", "put", acme, "--ordering", "premium", "--quota", "premium=1"},
	})
}

// TestADeletionThatFailedGoesOn: what was done stays done, it says so, and the same command
// completes it without another question.
func TestADeletionThatFailedGoesOn(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(withTestdata(t))
	s.must("credentials", "create", acme, "chat", "--keyset", keyset, "--out", "chat.json")
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // all that comes after the tombstone
		if r.Operation == "UpdateItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	code, _, stderr := s.run("orgs", "delete", acme, "--yes")
	s.db.SetFaults(nil)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "the finished part stays; run the same command to continue")
	code, _, stderr = s.run("orgs", "put", acme, "--ordering", "premium", "--quota", "premium=1")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "first complete that with 'dynalimit budget orgs delete'")
	assert.NotContains(t, stderr, "try again")
	s.must("orgs", "delete", acme)
	s.must("orgs", "put", acme, "--ordering", "premium", "--quota", "premium=1")
}
