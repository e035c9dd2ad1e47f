package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// TestBudgetReadTranscript plays the commands that look things up, and those
// that store prices.
func TestBudgetReadTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.must("apps", "put", acme, "imports")
	keeper, err := budget.New(s.db.Client(), budget.Tables{}, &budget.Options{AllowUnknownApps: true, Now: s.clock, OnEvent: func(context.Context, budget.Event) {}})
	require.NoError(t, err)
	_, err = keeper.Submit(t.Context(), acme, "chat", prices.Usage{
		RequestID: "00000000-0000-4000-8000-000000000100", Label: "premium", Tokens: prices.Tokens{Input: 400_000},
		Tags: map[string]string{"user": "ana"},
	})
	require.NoError(t, err)
	require.NoError(t, keeper.Close(t.Context()))
	const id = "00000000-0000-4000-8000-00000000a001"
	s.golden("budget_read.txt", [][]string{
		{"adjust", acme, "imports", "standard", "--charge", "0.75", "--day", "2026-01-22", "--reason", "imported", "--id", id},
		{"adjust", acme, "imports", "standard", "--charge", "0.75", "--day", "20260122", "--reason", "imported", "--id", id},
		{"history", acme, "--to", "2026-01-22", "--days", "1"},
		{"recommend", acme, "chat"},
		{"recommend", acme, "chat", "--json"},
		{"prices", "list", "nova-micro"},
		{"prices", "list", "acme-9"},
		{"orgs", "put", acme, "--ordering", "premium,standard,bare", "--quota", "bare=1", "--model", "bare=acme-9"},
		{"prices", "set", "acme-9", "--input", "2.50", "--output", "10", "--cache-read", "1.25", "--cache-write-5m", "0"},
		{"prices", "set", "acme-9", "--input", "2", "--output", "8", "--from", "2026-03-01", "--json"},
		{"prices", "set", "acme-9", "--input", "2", "--output", "9", "--from", "2026-03-01"},
		{"prices", "list", "acme-9"},
		{"prices", "list", "acme-9", "--json"},
		{"prices", "set", "global.anthropic.claude-x", "--input", "1", "--output", "2"},
		{"prices", "set", "global.anthropic.claude-x", "--input", "1", "--output", "3"},
		{"prices", "list", "global.anthropic.claude-x"},
		{"prices", "list", "acme"},
		{"prices", "list", "acme", "--json"},
		{"prices", "list", "us.anthropic.claude-3-haiku-20240307-v1:0"},
		{"apps", "put", acme, "bare", "--ordering", "bare", "--model", "bare=no-such-model", "--json"},
		{"prices", "reset", "acme-9"},
		{"prices", "list", "acme-9"},
	})
}

// TestBudgetRefusalsTranscript: what each command says to input that it cannot use, and
// what those print for programs that other transcripts do not have so.
func TestBudgetRefusalsTranscript(t *testing.T) {
	const nobody, bare = "660e8400-e29b-41d4-a716-446655440000", "770e8400-e29b-41d4-a716-446655440000"
	const whole = "880e8400-e29b-41d4-a716-446655440000"
	s := newShell(t, "budget")
	s.acme()
	s.must("orgs", "put", bare, "--ordering", "bare", "--quota", "bare=1")
	s.must("apps", "put", bare, "chat")
	s.must("adjust", acme, "chat", "premium", "--charge", "1", "--reason", "x", "--id", bare)
	s.must("orgs", "put", whole, "--ordering", "premium", "--quota", "premium=1", "--scope", "org")
	s.golden("budget_refused.txt", [][]string{
		{"orgs", "list", "acme"},
		{"orgs", "show", nobody},
		{"orgs", "put", nobody},
		{"orgs", "put", nobody, "--ordering", "gold"},
		{"orgs", "put", acme, "--model", "premium=no-such-model", "--json"},
		{"orgs", "put", acme, "--model", "premium=no-such-model"},
		{"apps", "list", nobody},
		{"apps", "show", acme, "nobody"},
		{"apps", "put", nobody, "chat"},
		{"apps", "put", acme, "chat", "--tight", "10"},
		{"quotas", "show", acme, "nobody"},
		{"quotas", "set", acme, "gold=1"},
		{"orgs", "put", acme, "--scope", "org"},
		{"today", acme, "nobody"},
		{"history", acme, "--days", "0"},
		{"history", acme, "--to", "yesterday"},
		{"override", bare, "chat", "bare"},
		{"override", acme, "chat"},
		{"adjust", acme, "chat", "premium", "--reason", "x"},
		{"adjust", acme, "chat", "premium", "--charge", "1", "--reason", "x", "--day", "2027-01-01"},
		{"adjust", acme, "chat", "gold", "--charge", "3", "--reason", "x", "--id", "00000000-0000-4000-8000-00000000a001"},
		{"sweep", "acme"},
		{"recommend", acme, "nobody"},
		{"prices", "list", "gpt-4o", "gpt-4"},
		{"prices", "set", "gpt-4o", "--input", "1"},
		{"prices", "reset", "gpt-4o"},
		{"prices", "set", "gpt-4o", "--input", "1", "--output", "2"},
		{"prices", "reset", "gpt-4o", "--json"},
		{"prices", "set", "gpt-4o", "--input", "1", "--output", "2000000"},
		{"today", "acme"},
		{"history", acme, "nobody"},
		{"override", acme, "chat", "gold"},
		{"override", acme, "chat", "premium", "--clear"},
		{"override", acme, "chat", "premium", "--for=-1h"},
		{"override", acme, "nobody", "premium"},
		{"orgs", "put", acme, "--ordering", "premium,gold"},
		{"orgs", "put", acme, "--timezone", "Mars"},
		{"orgs", "put", acme, "--timezone", "Asia/Tokyo"},
		{"orgs", "put", acme, "--scope", "all"},
		{"quotas", "set", acme},
		{"quotas", "set", acme, "gold=1", "--app", "chat"},
		{"quotas", "set", whole, "premium=2", "--app", "chat"},
		{"adjust", acme, "chat", "premium", "--charge", "2", "--reason", "x", "--id", bare},
		{"adjust", acme, "chat", "premium", "--charge", "1", "--credit", "1", "--reason", "x"},
		{"adjust", acme, "chat", "premium", "--charge", "1e3", "--reason", "x"},
		{"orgs", "list", "--endpoint", "localhost:8000"},
	})
}

// notice is where a test reads what a command said while it waits.
type notice chan string

func (n notice) Write(text []byte) (int, error) {
	select {
	case n <- string(text):
	default:
	}
	return len(text), nil
}

// TestSlowEndpointIsNamed: who waits knows for what.
func TestSlowEndpointIsNamed(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	said := make(notice, 1)
	code := make(chan int)
	go func() {
		code <- run(t.Context(), []string{"budget", "--endpoint", server.URL, "orgs", "list"}, &term.Output{Writer: &bytes.Buffer{}, Patience: time.Millisecond}, said)
	}()
	assert.Equal(t, "dynalimit: waiting for DynamoDB at "+server.URL+"; Ctrl-C ends it\n", <-said)
	close(release)
	assert.Equal(t, exitFailed, <-code)
}

func loseWrites(r *ddbmem.Request) ddbmem.Fault {
	return ddbmem.Fault{Lose: r.Operation == "TransactWriteItems"}
}

// TestHostileBudgetsDoNotReachTheTerminal: what a client of the budgets, or whoever names them,
// has put there obeys nothing on the terminal of who looks.
func TestHostileBudgetsDoNotReachTheTerminal(t *testing.T) {
	const hostile = "a\u009b31m\u202eb\x1b]0;x\x07"
	s := newShell(t, "budget")
	s.acme()
	s.width = 80
	keeper, err := budget.New(s.db.Client(), budget.Tables{}, &budget.Options{AllowUnknownApps: true, Now: s.clock, AllowAnonymous: true})
	require.NoError(t, err)
	_, err = keeper.Setup().Adjust(t.Context(), acme, "chat", budget.Adjustment{Label: "premium", DeltaMicros: 1, Reason: hostile})
	require.NoError(t, err)
	_, err = keeper.Setup().PutApp(t.Context(), acme, budget.App{ID: "named", Name: hostile, Models: map[string]string{"premium": "model-\u009b2J"}})
	require.NoError(t, err)
	require.NoError(t, keeper.Close(t.Context()))
	for _, args := range [][]string{
		{"apps", "list", acme},
		{"apps", "show", acme, "named"},
		{"apps", "put", acme, "named", "--name", hostile},
		{"orgs", "put", acme, "--name", hostile},
		{"orgs", "show", acme},
		{"orgs", "list"},
		{"recommend", acme, "named"},
		{"prices", "list", hostile},
		{"credentials", "show", acme, hostile},
		{"keys", "revoke", hostile},
	} {
		for _, args := range [][]string{args, append(args[:len(args):len(args)], "--json")} {
			_, stdout, stderr := s.run(args...)
			for _, r := range stdout + stderr {
				assert.False(t, r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == '\u202e', "%v: %q", args, r)
			}
		}
	}
}
