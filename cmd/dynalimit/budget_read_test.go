package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestBudgetReadTranscript plays the commands that look things up, and those
// that store prices.
func TestBudgetReadTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	keeper, err := budget.New(s.db.Client(), budget.Tables{}, &budget.Options{Now: s.clock, OnEvent: func(context.Context, budget.Event) {}})
	require.NoError(t, err)
	_, err = keeper.Submit(t.Context(), acme, "chat", budget.Usage{
		RequestID: "00000000-0000-4000-8000-000000000100", Label: "premium", Tokens: budget.Tokens{Input: 400_000},
		Tags: map[string]string{"user": "ana"},
	})
	require.NoError(t, err)
	require.NoError(t, keeper.Close(t.Context()))
	const id = "00000000-0000-4000-8000-00000000a001"
	s.golden("budget_read.txt", [][]string{
		{"adjustments", acme},
		{"adjust", acme, "imports", "standard", "--charge", "0.75", "--day", "2026-01-22", "--reason", "imported", "--id", id},
		{"adjust", acme, "imports", "standard", "--charge", "0.75", "--day", "20260122", "--reason", "imported", "--id", id},
		{"adjustments", acme},
		{"adjustments", acme, "imports", "--json"},
		{"adjustments", acme, "chat"},
		{"history", acme, "--to", "2026-01-22", "--days", "1"},
		{"recommend", acme, "chat"},
		{"recommend", acme, "chat", "--json"},
		{"tags", acme, "user"},
		{"tags", acme, "user", "--app", "chat", "--day", "2026-01-23", "--json"},
		{"tags", acme, "team"},
		{"events", acme, "chat"},
		{"events", acme, "chat", "--json"},
		{"events", acme, "imports"},
		{"prices", "list", "nova-micro"},
		{"prices", "list", "gpt-4o"},
		{"orgs", "put", acme, "--ordering", "premium,standard,bare", "--quota", "bare=1", "--model", "bare=gpt-4o"},
		{"prices", "set", "gpt-4o", "--input", "2.50", "--output", "10", "--cache-read", "1.25", "--cache-write-5m", "0"},
		{"prices", "set", "gpt-4o", "--input", "2", "--output", "8", "--from", "2026-03-01", "--json"},
		{"prices", "set", "gpt-4o", "--input", "2", "--output", "9", "--from", "2026-03-01"},
		{"prices", "list", "gpt-4o"},
		{"prices", "list", "gpt-4o", "--json"},
		{"prices", "set", "global.anthropic.claude-x", "--input", "1", "--output", "2"},
		{"prices", "set", "global.anthropic.claude-x", "--input", "1", "--output", "3"},
		{"prices", "list", "global.anthropic.claude-x"},
		{"prices", "list", "us.anthropic.claude-3-haiku-20240307-v1:0"},
		{"apps", "put", acme, "bare", "--ordering", "bare", "--model", "bare=no-such-model", "--json"},
		{"prices", "reset", "gpt-4o"},
		{"prices", "list", "gpt-4o"},
	})
}

// TestAdjustedAppIsInTheOrganisation: an app's first charge may be by hand.
func TestAdjustedAppIsInTheOrganisation(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.must("adjust", acme, "imports", "standard", "--charge", "1.50", "--reason", "imported")
	assert.Contains(t, s.must("today", acme), "$2.10 of")
	assert.Contains(t, s.must("today", acme, "imports"), "$1.50 of")
}

// TestAdjustNamesTheIDToRepeatItWith when it is not known whether it landed.
func TestAdjustNamesTheIDToRepeatItWith(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.db.SetFaults(loseWrites)
	code, _, stderr := s.run("adjust", acme, "chat", "standard", "--charge", "1.50", "--reason", "imported")
	s.db.SetFaults(nil)
	require.Equal(t, exitFailed, code)
	_, repeat, ok := strings.Cut(stderr, "repeat it with ")
	require.True(t, ok, stderr)
	flags, _, _ := strings.Cut(repeat, ",")
	s.must(append([]string{"adjust", acme, "chat", "standard", "--charge", "1.50", "--reason", "imported"}, strings.Fields(flags)...)...)
	assert.Contains(t, s.must("today", acme, "chat"), "$2.10 of", "once")
}

// TestHelpNamesNoEmptyDefault: flags that stay as they are have none.
func TestHelpNamesNoEmptyDefault(t *testing.T) {
	_, stdout, _ := runPlain(t, "budget", "orgs", "put", "--help")
	assert.NotContains(t, stdout, `=""`)
	assert.Contains(t, stdout, "--scope=org|app")
	assert.Contains(t, stdout, "--enforcement=soft|hard")
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
