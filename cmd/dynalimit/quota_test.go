package main

import (
	"testing"

	"github.com/dynalimit/dynalimit"
)

// TestQuotasTranscript plays a session with quotas of a calendar, of each form that there is.
func TestQuotasTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("resource", "set", "gpt-4", "rpm=100", "--group", "all")
	s.must("resource", "set", "all", "usd=50M/daily,zone=America/Los_Angeles", "rph=30/hourly", "--as", "ann@example.com")
	s.take("key-1", "gpt-4", dynalimit.Amounts{"rpm": 1, "usd": 49_000_000, "rph": 2})
	s.golden("quotas.txt", [][]string{
		{"limits", "list"},
		{"resource", "show", "all", "--json"},
		{"limits", "set", "key-2", "rpw=7/weekly", "rpm=9/monthly,zone=Europe/Berlin", "--dry-run", "--json"},
		{"limits", "set", "key-2", "rpw=7/weekly", "rpm=9/monthly,zone=Europe/Berlin"},
		{"limits", "set", "key-2", "rpw=7/weekly,zone=Asia/Tokyo", "rpm=9/1d"},
		{"limits", "set", "key-2", "rpd=5/daily,zone=Mars"},
		{"limits", "set", "key-2", "rph=5/hourly,zone=Asia/Tokyo"},
		{"limits", "set", "key-2", "rpd=5/daily,burst=9"},
		{"limits", "set", "key-2", "rpd=5/day"},
		{"limits", "set", "key-2", "rpd=5/1d,zone=Asia/Tokyo"},
		{"limits", "show", "key-2"},
		{"limits", "resolve", "key-1", "gpt-4"},
		{"check", "key-1", "gpt-4", "usd=1_000_000"},
		{"check", "key-1", "gpt-4", "usd=1_000_001"},
		{"check", "key-1", "gpt-4", "usd=50_000_001", "--json"},
		{"entity", "buckets", "key-1", "--resource", "all"},
		{"entity", "buckets", "key-1", "--resource", "all", "--json"},
		{"top", "--resource", "all", "--ask", "usd=2M"},
		{"top", "--resource", "all", "--json"},
		{"bucket", "top-up", "key-1", "all", "usd=60M", "rph=1", "--dry-run"},
		{"bucket", "top-up", "key-1", "all", "usd=500_000", "rph=1"},
		{"bucket", "grant", "key-1", "all", "usd=59_500_000", "--dry-run"},
		{"bucket", "grant", "key-1", "all", "usd=59_500_000", "--id", "ticket-1", "--json"},
		{"bucket", "grant", "key-1", "all", "usd=59_500_000", "--id", "ticket-1"},
		{"bucket", "grant", "key-3", "all", "usd=1"},
		{"bucket", "grant", "key-1", "gpt-4", "rpm=1"},
		{"bucket", "grant", "key-1", "gpt-4", "rpm=1", "--dry-run"},
		{"entity", "buckets", "key-1", "--resource", "all"},
		{"check", "key-1", "gpt-4", "usd=50M"},
		{"top", "--resource", "all"},
		{"bucket", "reset", "key-1", "all"},
		{"audit", "--resource", "all"},
	})
}

// TestMoneyTranscript plays a session with money: a team's over all models, and a key's share of it.
func TestMoneyTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("resource", "set", "gpt-4", "--group", "all")
	s.must("entity", "create", "team-a")
	s.must("entity", "create", "key-1", "--parent", "team-a", "--cascade")
	s.golden("money_set.txt", [][]string{
		{"resource", "set", "all", "usd=$50", "--as", "ann@example.com"},
		{"resource", "set", "all", "usd=$50.0000001/daily"},
		{"resource", "set", "all", "usd=50M/daily,per-model"},
		{"system", "set", "usd=$50/daily"},
		{"resource", "set", "claude", "usd=$50/daily"},
		{"resource", "set", "claude", "usd=$0.50/daily,per-model"},
		{"resource", "set", "all", "usd=$5/daily,zone=America/Los_Angeles", "--as", "ann@example.com"},
		{"limits", "set", "team-a", "--resource", "all", "tpm=10M", "usd=$50/daily,zone=America/Los_Angeles", "--dry-run", "--json"},
		{"limits", "set", "team-a", "--resource", "all", "tpm=10M", "usd=$50/daily,zone=America/Los_Angeles", "--as", "ann@example.com"},
	})
	s.take("key-1", "gpt-4", dynalimit.Amounts{"tpm": 1, "usd": 4_983_500})
	s.golden("money.txt", [][]string{
		{"limits", "list"},
		{"limits", "resolve", "key-1", "gpt-4"},
		{"check", "key-1", "gpt-4", "tpm=500", "usd=$0.0165"},
		{"check", "key-1", "gpt-4", "usd=$0.02"},
		{"check", "key-1", "gpt-4", "usd=$0.02", "--json"},
		{"top", "--resource", "all", "--ask", "usd=$2"},
		{"entity", "buckets", "key-1", "--resource", "all"},
		{"bucket", "grant", "key-1", "all", "usd=$1.50", "--dry-run"},
		{"bucket", "grant", "key-1", "all", "usd=$1.50", "--id", "ticket-1", "--json"},
		{"bucket", "top-up", "key-1", "all", "usd=$0.01"},
		{"bucket", "grant", "key-1", "all", "usd=$0"},
		{"bucket", "reset", "key-1", "all"},
		{"manifest", "export"},
		{"audit", "--resource", "all"},
	})
}
