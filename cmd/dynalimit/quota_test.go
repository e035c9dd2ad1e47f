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
