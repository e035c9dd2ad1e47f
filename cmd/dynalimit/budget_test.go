package main

import (
	"fmt"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
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
	for n, u := range []budget.Usage{
		{Label: "premium", Tokens: budget.Tokens{Input: 1_000_000, Output: 400_000}},
		{Label: "standard", Tokens: budget.Tokens{Input: 250_000, Output: 100_000}},
		{Label: "premium", Tokens: budget.Tokens{Input: 500_000}, Time: s.now.Add(-20 * time.Hour)},
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

func TestBudgetErrorsSayWhatToDoNext(t *testing.T) {
	s := newShell(t, "budget")
	code, _, stderr := s.run("orgs", "list")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "--create-tables")
	assert.Contains(t, s.must("orgs", "list", "--create-tables"), "orgs put --help")
	assert.Equal(t, "[]\n", s.must("orgs", "list", "--json"))
	s.acme()

	const other = "660e8400-e29b-41d4-a716-446655440000"
	const third = "770e8400-e29b-41d4-a716-446655440000"
	s.must("orgs", "put", third, "--ordering", "bare", "--quota", "bare=1")
	s.must("apps", "put", third, "chat")
	s.must("adjust", acme, "chat", "premium", "--charge", "1", "--reason", "x", "--id", third)
	for name, test := range map[string]struct {
		code int
		args []string
		want []string
	}{
		"unknown organisation": {exitFailed, []string{"orgs", "show", other}, []string{"not found", "budget orgs list"}},
		"its apps":             {exitFailed, []string{"apps", "list", other}, []string{"not found", "budget orgs list"}},
		"unknown app":          {exitFailed, []string{"apps", "show", acme, "nobody"}, []string{"not found", "budget apps list"}},
		"no UUID":              {exitUsage, []string{"today", "acme"}, []string{"org_id", "--help"}},
		"label not in order":   {exitUsage, []string{"override", acme, "chat", "gold"}, []string{"gold", "--help"}},
		"quota without label":  {exitUsage, []string{"orgs", "put", acme, "--ordering", "premium,gold"}, []string{"gold", "--help"}},
		"future day":           {exitUsage, []string{"adjust", acme, "chat", "premium", "--charge", "1", "--reason", "x", "--day", "20270101"}, []string{"2027-01-01", "future"}},
		"no amount":            {exitUsage, []string{"adjust", acme, "chat", "premium", "--reason", "x"}, []string{"--charge", "--credit", "budget adjust"}},
		"id of another":        {exitFailed, []string{"adjust", acme, "chat", "premium", "--charge", "2", "--reason", "x", "--id", third}, []string{"used with other contents", "another --id"}},
		"both amounts":         {exitUsage, []string{"adjust", acme, "chat", "premium", "--reason", "x", "--charge", "1", "--credit", "1"}, []string{"--charge", "--credit"}},
		"not dollars":          {exitUsage, []string{"adjust", acme, "chat", "premium", "--reason", "x", "--charge", "1e3"}, []string{"write it like 12.50"}},
		"no label":             {exitUsage, []string{"override", acme, "chat"}, []string{"--clear", "budget override"}},
		"label and clear":      {exitUsage, []string{"override", acme, "chat", "premium", "--clear"}, []string{"leave it out"}},
		"time passed":          {exitUsage, []string{"override", acme, "chat", "premium", "--for=-1h"}, []string{"90m"}},
		"nothing to set":       {exitUsage, []string{"quotas", "set", acme}, []string{"LABEL=USD", "quotas set"}},
		"no days":              {exitUsage, []string{"history", acme, "--days", "0"}, []string{"--days 0", "3700"}},
		"no day":               {exitUsage, []string{"history", acme, "--to", "yesterday"}, []string{"2026-01-31", "20260131"}},
		"today of no app":      {exitFailed, []string{"today", acme, "nobody"}, []string{"nobody", "budget apps list"}},
		"history of no app":    {exitFailed, []string{"history", acme, "nobody"}, []string{"nobody", "budget apps list"}},
		"quotas of no app":     {exitFailed, []string{"quotas", "show", acme, "nobody"}, []string{"nobody", "budget apps list"}},
		"override of no app":   {exitFailed, []string{"override", acme, "nobody", "premium"}, []string{"nobody", "budget apps list"}},
		"recommend to no app":  {exitFailed, []string{"recommend", acme, "nobody"}, []string{"nobody", "budget apps list"}},
		"events of no app":     {exitFailed, []string{"events", acme, "nobody"}, []string{"nobody", "budget apps list"}},
		"tags of no app":       {exitFailed, []string{"tags", acme, "user", "--app", "nobody"}, []string{"nobody", "budget apps list"}},
		"adjusted is no app":   {exitFailed, []string{"adjustments", acme, "nobody"}, []string{"nobody", "budget apps list"}},
		"no ordering":          {exitUsage, []string{"orgs", "put", other}, []string{"--ordering", "--help"}},
		"ordering, no quota":   {exitUsage, []string{"orgs", "put", other, "--ordering", "gold"}, []string{"--quota gold=USD"}},
		"no zone":              {exitUsage, []string{"orgs", "put", acme, "--timezone", "Mars"}, []string{"--timezone"}},
		"tight too early":      {exitUsage, []string{"orgs", "put", acme, "--tight", "10"}, []string{"--tight"}},
		"quota of no label":    {exitUsage, []string{"quotas", "set", acme, "gold=1"}, []string{`"gold"`, "premium → standard", "--ordering"}},
		"another zone":         {exitUsage, []string{"orgs", "put", acme, "--timezone", "Asia/Tokyo"}, []string{"cannot be changed", "--timezone"}},
		"app's of no label":    {exitUsage, []string{"quotas", "set", acme, "gold=1", "--app", "chat"}, []string{`"gold"`, "--ordering"}},
		"override unpriced":    {exitUsage, []string{"override", third, "chat", "bare"}, []string{"bare"}},
		"nothing to reset":     {exitFailed, []string{"prices", "reset", "gpt-4o"}, []string{"prices list gpt-4o"}},
		"no price":             {exitUsage, []string{"prices", "set", "gpt-4o", "--input", "1"}, []string{"--output"}},
		"price too high":       {exitUsage, []string{"prices", "set", "gpt-4o", "--input", "1", "--output", "2000000"}, []string{"--output"}},
		"scope":                {exitUsage, []string{"orgs", "put", acme, "--scope", "all"}, []string{"--scope", "org"}},
		"endpoint":             {exitFailed, []string{"orgs", "list", "--endpoint", "localhost:8000"}, []string{"http://127.0.0.1:8000"}},
		"nobody there":         {exitFailed, []string{"orgs", "list", "--endpoint", "http://127.0.0.1:1"}, []string{"dynalimit local", "--endpoint"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := s.run(test.args...)
			assert.Equal(t, test.code, code, stderr)
			assert.Empty(t, stdout)
			for _, want := range test.want {
				assert.Contains(t, stderr, want)
			}
		})
	}

	s.must("orgs", "put", other, "--ordering", "premium", "--quota", "premium=1", "--scope", "org")
	code, _, stderr = s.run("quotas", "set", other, "premium=2", "--app", "chat")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "leave out --app")
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

// TestBudgetTablesHaveNames: two budgets in one account.
func TestBudgetTablesHaveNames(t *testing.T) {
	s := newShell(t, "budget")
	tables := []string{"--control", "control-2", "--usage", "usage-2"}
	s.must(append([]string{"orgs", "put", acme, "--create-tables", "--ordering", "a", "--quota", "a=1"}, tables...)...)
	assert.Contains(t, s.must(append([]string{"orgs", "list"}, tables...)...), acme)
	code, _, stderr := s.run("orgs", "list")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, `"control"`)
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
