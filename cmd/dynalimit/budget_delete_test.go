package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
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

// TestDeletingEndsCredentials: those of the organisation and of its apps, in the name of who
// deletes them.
func TestDeletingEndsCredentials(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(withTestdata(t))
	s.must("credentials", "create", acme, "chat", "--keyset", keyset, "--out", "chat.json")
	s.must("credentials", "create", acme, "--keyset", keyset, "--out", "acme.json")
	s.must("orgs", "delete", acme, "--dry-run")
	works := func(file string) bool {
		id, secret := handedTo(t, file)
		_, err := s.login(keyset).Verify(t.Context(), id, secret)
		if err != nil {
			require.ErrorIs(t, err, credentials.ErrInvalidCredentials)
		}
		return err == nil
	}
	assert.True(t, works("chat.json") && works("acme.json"), "a dry run ends nothing")
	s.must("--as", "bob@example.com", "apps", "delete", acme, "chat", "--yes")
	assert.False(t, works("chat.json"))
	assert.True(t, works("acme.json"), "the organisation is still there")
	s.must("--as", "bob@example.com", "orgs", "delete", acme, "--yes")
	assert.False(t, works("acme.json"))
	keeper, err := budget.New(s.db.Client(), budget.Tables{}, &budget.Options{AllowUnknownApps: true, Now: s.clock})
	require.NoError(t, err)
	defer func() { assert.NoError(t, keeper.Close(context.Background())) }()
	var who []string
	for event, err := range keeper.Setup().Audit(t.Context(), acme, s.now.Add(-time.Hour), s.now.Add(time.Hour)) {
		require.NoError(t, err)
		if strings.HasSuffix(event.Action, "_deleted") {
			who = append(who, event.Principal)
		}
	}
	require.NotEmpty(t, who)
	for _, by := range who {
		assert.Equal(t, "bob@example.com", by)
	}
}

// TestADeletionThatFailedGoesOn: what was done stays done, it says so, and the same command
// completes it without another question.
func TestADeletionThatFailedGoesOn(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(withTestdata(t))
	s.must("credentials", "create", acme, "chat", "--keyset", keyset, "--out", "chat.json")
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { // all that comes after the marks
		if r.Operation == "DeleteItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	code, _, stderr := s.run("orgs", "delete", acme, "--yes")
	s.db.SetFaults(nil)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "what was done stays done, and the same command goes on")
	code, _, stderr = s.run("orgs", "put", acme, "--ordering", "premium", "--quota", "premium=1")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "complete that with 'dynalimit budget orgs delete' first")
	assert.NotContains(t, stderr, "try again")
	s.must("orgs", "delete", acme)
	s.must("orgs", "put", acme, "--ordering", "premium", "--quota", "premium=1")
}
