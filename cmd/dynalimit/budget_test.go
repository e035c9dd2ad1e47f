package main

import (
	"bytes"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

const acme = "550e8400-e29b-41d4-a716-446655440000"

// acme makes an organisation with an app that has spent.
func (s *shell) acme() {
	s.t.Helper()
	s.must("orgs", "put", acme, "--create-tables", "--name", "Acme", "--timezone", "America/New_York", "--sticky",
		"--ordering", "premium,standard", "--quota", "premium=10", "--quota", "standard=2.50",
		"--model", "premium=anthropic.claude-3-5-sonnet-20241022-v2:0", "--model", "standard=anthropic.claude-3-5-haiku-20241022-v1:0")
	keeper, err := budget.New(s.db.Client(), budget.Tables{}, &budget.Options{AllowUnknownApps: true, Now: s.clock})
	require.NoError(s.t, err)
	for n, u := range []prices.Usage{
		{Label: "premium", Tokens: prices.Tokens{Input: 1_000_000, Output: 400_000}},
		{Label: "standard", Tokens: prices.Tokens{Input: 250_000, Output: 100_000}},
		{Label: "premium", Tokens: prices.Tokens{Input: 500_000}, Time: s.now.Add(-20 * time.Hour)},
	} {
		u.RequestID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		_, err := keeper.Submit(s.t.Context(), acme, "chat", u)
		require.NoError(s.t, err)
	}
	require.NoError(s.t, keeper.Close(s.t.Context()))
}

// TestBudgetTranscript plays a session, as people see it and as programs do.
func TestBudgetTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.golden("budget.txt", [][]string{
		{"orgs", "list"},
		{"orgs", "show", acme},
		{"today", acme, "chat"},
		{"history", acme, "--days", "3"},
		{"quotas", "show", acme, "chat"},
		{"quotas", "set", acme, "premium=9.25", "--app", "chat"},
		{"apps", "list", acme},
		{"apps", "put", acme, "batch", "--name", "Nightly", "--ordering", "standard"},
		{"apps", "show", acme, "batch"},
		{"adjust", acme, "chat", "premium", "--credit", "0.0165", "--reason", "a failed call"},
		{"adjust", acme, "chat", "premium", "--charge", "1", "--day", "20260122", "--reason", "imported"},
		{"override", acme, "chat", "standard", "--for", "2h"},
		{"override", acme, "chat", "--clear"},
		{"orgs", "put", acme, "--tight", "80"},
		{"sweep"},
		{"settings", "show"},
		{"settings", "show", "--all"},
		{"settings", "set"},
		{"settings", "set", "--keep-days", "7"},
		{"settings", "set", "--keep-days", "60", "--model", "premium=gpt-4o", "--model", "basic=gpt-4o-mini"},
		{"settings", "set", "--no-model", "basic", "--json"},
		{"settings", "show", "--json"},
		{"orgs", "list", "--json"},
		{"orgs", "show", acme, "--json"},
		{"apps", "list", acme, "--json"},
		{"apps", "show", acme, "chat", "--json"},
		{"apps", "put", acme, "batch", "--quota", "standard=0.000001", "--json"},
		{"quotas", "show", acme, "chat", "--json"},
		{"quotas", "set", acme, "premium=8", "--json"},
		{"today", acme, "chat", "--json"},
		{"history", acme, "chat", "--to", "20260122", "--days", "2", "--json"},
		{"override", acme, "chat", "premium", "--json"},
		{"override", acme, "chat", "--clear", "--json"},
		{"adjust", acme, "chat", "standard", "--charge", "0.5", "--reason", "x", "--id", "00000000-0000-4000-8000-00000000a001", "--json"},
		{"sweep", acme, "--json"},
	})
}

// TestOperatorsAtOnceLoseNoQuota: six commands at once set a label each, of an organisation, of
// an app that is new, and six add a price from a day on.
func TestOperatorsAtOnceLoseNoQuota(t *testing.T) {
	s := newShell(t, "budget")
	labels := []string{"a", "b", "c", "d", "e", "f"}
	put := []string{"orgs", "put", acme, "--create-tables", "--ordering", strings.Join(labels, ",")}
	for _, l := range labels {
		put = append(put, "--quota", l+"=1")
	}
	s.must(put...)
	atOnce := func(args func(i int, label string) []string) {
		t.Helper()
		var running sync.WaitGroup
		for i, l := range labels {
			running.Go(func() {
				var out, errs bytes.Buffer
				code := run(s.context(), append([]string{"--endpoint", s.endpoint, "budget"}, args(i, l)...), &term.Output{Writer: &out, Patience: time.Hour}, &errs)
				assert.Equal(t, exitOK, code, errs.String())
			})
		}
		running.Wait()
	}
	atOnce(func(_ int, l string) []string { return []string{"quotas", "set", acme, l + "=7.50"} })
	assert.NotContains(t, s.must("quotas", "show", acme), "$1.00")
	atOnce(func(_ int, l string) []string { return []string{"quotas", "set", acme, l + "=9.25", "--app", "new"} })
	assert.NotContains(t, s.must("quotas", "show", acme, "new"), "$7.50")
	atOnce(func(i int, _ string) []string {
		return []string{"prices", "set", "some-model", "--input", "1", "--output", "2", "--from", fmt.Sprintf("2027-01-0%d", i+1)}
	})
	assert.Equal(t, 6, strings.Count(s.must("prices", "list", "some-model"), "stored"))
}

// TestResetSparesAPriceThatSomebodyStoresMeanwhile: it drops the prices that it read alone.
func TestResetSparesAPriceThatSomebodyStoresMeanwhile(t *testing.T) {
	s := newShell(t, "budget")
	set := []string{"prices", "set", "some-model", "--create-tables", "--input", "1", "--output", "2"}
	s.must(set...)
	var reads atomic.Int32
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "GetItem" && bytes.Contains(r.Body, []byte("PRICE#some-model")) && reads.Add(1) == 2 {
			s.must(append(set, "--from", "2027-01-01")...)
		}
		return ddbmem.Fault{}
	})
	code, _, stderr := s.run("prices", "reset", "some-model")
	assert.NotEqual(t, exitOK, code)
	assert.Contains(t, stderr, "somebody else changed it at the same time: try again")
	assert.Equal(t, 2, strings.Count(s.must("prices", "list", "some-model"), "stored"))
}

// TestBarsOfBudgetsFitTheScreen: where there is no room for a bar there is none, and no line wraps.
func TestBarsOfBudgetsFitTheScreen(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	for _, s.width = range []int{30, 40, 60, 120} {
		for _, args := range [][]string{{"today", acme, "chat"}, {"recommend", acme, "chat"}} {
			drawn := 0
			for line := range strings.Lines(s.must(args...)) {
				if strings.ContainsAny(line, "%█░") {
					assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), s.width, line)
					drawn++
				}
			}
			assert.GreaterOrEqual(t, drawn, 2)
		}
	}
}

// TestBudgetSaysHowToBegin: where there are no tables, and where there is no engine.
func TestBudgetSaysHowToBegin(t *testing.T) {
	s := newShell(t, "budget")
	code, _, stderr := s.run("orgs", "list")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "--create-tables")
	code, _, stderr = s.run("orgs", "list", "--endpoint", "http://127.0.0.1:1")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "'dynalimit local'")
	assert.Contains(t, s.must("orgs", "list", "--create-tables"), "orgs put --help")
	assert.Equal(t, "[]\n", s.must("orgs", "list", "--json"))
}

func TestBudgetNeedsARegion(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_DYNAMODB"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	code, _, stderr := runPlain(t, "budget", "orgs", "list")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "--region")
	assert.Contains(t, stderr, "--endpoint")
}

// TestChangesNameWhoMadeThem: the user of this machine, unless somebody else is named.
func TestChangesNameWhoMadeThem(t *testing.T) {
	t.Setenv("DYNALIMIT_PRINCIPAL", "")
	s := newShell(t, "budget")
	s.must("orgs", "put", acme, "--create-tables", "--ordering", "a", "--quota", "a=1")
	s.must("quotas", "set", acme, "a=2", "--principal", "ann@example.com")
	t.Setenv("DYNALIMIT_PRINCIPAL", "deploy")
	s.must("apps", "put", acme, "chat")
	keeper, err := budget.New(s.db.Client(), budget.Tables{}, &budget.Options{AllowUnknownApps: true, Now: s.clock})
	require.NoError(t, err)
	who := map[string]string{}
	for e, err := range keeper.Setup().Audit(t.Context(), acme, time.Time{}, time.Time{}) {
		require.NoError(t, err)
		who[e.Action] = e.Principal
	}
	require.NoError(t, keeper.Close(t.Context()))
	me, err := user.Current()
	require.NoError(t, err)
	assert.Contains(t, who["org_created"], me.Username)
	assert.Equal(t, []string{"ann@example.com", "deploy"}, []string{who["org_updated"], who["app_created"]})

	code, _, stderr := s.run("quotas", "set", acme, "a=3", "--principal", "a\tb")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "--principal")
}

func TestDollars(t *testing.T) {
	for text, want := range map[string]int64{
		"12.50": 12_500_000, "$0.0165": 16_500, "0": 0, "3": 3_000_000, "0.000001": 1, "1000000": 1_000_000_000_000,
	} {
		var d dollars
		require.NoError(t, d.UnmarshalText([]byte(text)))
		assert.Equal(t, want, int64(d), text)
	}
	for _, text := range []string{"", "$", ".5", "1.", "-1", "+1", "1e3", "1.0000001", "1,5", "9999999999999", "1.-5", "1_0"} {
		assert.Error(t, new(dollars).UnmarshalText([]byte(text)), text)
	}
	for n, want := range map[dollars]string{0: "$0.00", 16_500: "$0.0165", 12_500_000: "$12.50", -1: "-$0.000001", 2_883_500: "$2.8835"} {
		assert.Equal(t, want, n.String())
	}
}

// TestDollarsHaveTheirThousandsApart: as the counts beside them.
func TestDollarsHaveTheirThousandsApart(t *testing.T) {
	for micros, want := range map[dollars]string{0: "$0.00", 999_990_000: "$999.99", 8_252_508_000: "$8,252.508", -1_000_000_000_000: "-$1,000,000.00"} {
		assert.Equal(t, want, micros.String())
	}
}
