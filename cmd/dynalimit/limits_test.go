package main

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestAddedLimitsTranscript raises a limit of a customer as an operator does, who need not know what
// other sources say.
func TestAddedLimitsTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("resource", "set", "gpt-4", "--group", "all")
	s.must("resource", "set", "all", "rpm=20,burst=50", "usd=$2/daily,zone=America/Los_Angeles")
	s.must("system", "set", "tpm=10k")
	s.golden("limits_add.txt", [][]string{
		{"limits", "set", "acme", "--resource", "all", "rpm=600"},
		{"limits", "add", "acme", "--resource", "all", "rpm=600", "--dry-run"},
		{"limits", "add", "acme", "--resource", "all", "rpm=30"},
		{"limits", "add", "acme", "--resource", "all", "usd=$5", "--json"},
		{"limits", "add", "acme", "--resource", "all", "usd=5"},
		{"limits", "add", "acme", "--resource", "all", "rpm=5", "rpm=6"},
		{"limits", "add", "acme", "--resource", "gpt-4", "usd=$5"},
		{"limits", "add", "acme", "--resource", "gpt-4", "img=unlimited"},
		{"limits", "add", "acme", "tpm=unlimited"},
		{"limits", "add", "acme", "--resource", "all", "usd=unlimited"},
		{"limits", "resolve", "acme", "gpt-4"},
		{"limits", "remove", "acme", "--resource", "all", "rpm", "--dry-run"},
		{"limits", "remove", "acme", "--resource", "all", "rpm", "usd"},
		{"limits", "remove", "acme", "--resource", "all", "rpm"},
		{"limits", "remove", "acme", "tpm", "--json"},
		{"limits", "add", "a b", "rpm=1"},
		{"plan", "add", "pro", "tpm=20k"},
		{"plan", "add", "pro", "tpm=20k", "--json"},
		{"plan", "add", "pro"},
		{"plan", "remove", "pro", "tpm", "--json"},
		{"plan", "remove", "pro", "tpm"},
		{"plan", "add", "pro", "rpm=5"},
		{"plan", "add", "pro", "img=5"},
		{"plan", "remove", "pro", "img"},
		{"resource", "add", "gpt-4", "tpm=20k"},
		{"resource", "add", "gpt-4", "tpm=20k", "--json"},
		{"resource", "add", "gpt-4"},
		{"resource", "remove", "gpt-4", "tpm", "--json"},
		{"resource", "remove", "gpt-4", "tpm"},
		{"resource", "add", "gpt-4", "img=5"},
		{"resource", "remove", "gpt-4", "img"},
		{"upgrade", "--dry-run"},
		{"upgrade", "--dry-run", "--json"},
		{"upgrade", "--yes"},
		{"upgrade", "now"},
		{"limits", "set", "acme", "--counted", "tpm=1"},
		{"limits", "set", "acme", "--unlimited", "--counted"},
		{"limits", "show", "acme"},
		{"limits", "resolve", "acme", "gpt-5"},
		{"check", "acme", "gpt-5", "tpm=20k"},
		{"limits", "add", "acme", "tpm=1"},
		{"limits", "set", "acme", "--unlimited"},
	})
}

// TestRaisedLimitsTranscript raises limits until a time as an operator does in an incident.
func TestSetNamesTheSourcesThatHideANewLimit(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	for id, plan := range map[string]string{"acme": "pro", "other": "free"} {
		s.must("plan", "set", plan, "rpm=80")
		s.must("entity", "create", id, "--plan", plan)
	}
	s.must("system", "set", "rpm=100")
	for _, id := range []string{"acme", "other"} {
		s.must("limits", "set", id, "rpm=50")
	}
	s.must("limits", "add", "extends", "rpm=50")
	s.must("plan", "set", "gold", "rpm=70", "tpm=7")
	assert.Contains(t, s.must("system", "set", "rpm=100", "tpm=5"), "4 sources have a list that does not extend, and hides tpm: plan free, plan pro, entity acme, 1 more")
	shown := s.must("plan", "set", "pro", "rpm=80", "tpm=5")
	assert.Contains(t, shown, "1 source has a list that does not extend, and hides tpm: entity acme")
	assert.NotContains(t, s.must("system", "set", "rpm=90", "tpm=5"), "hides", "no name is new")
}

func TestAddDuringARaiseKeepsTheLimitWithoutIt(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("system", "set", "tpm=1000,refill=100", "rpm=100,burst=200")
	s.must("limits", "add", "acme", "--resource", "gpt-4", "tpm=10000", "rpm=1000", "--until", "2h")
	s.must("limits", "add", "acme", "--resource", "gpt-4", "tpm=1200", "rpm=150")
	s.must("limits", "lower", "acme", "--resource", "gpt-4", "tpm", "rpm")
	shown := s.must("limits", "show", "acme", "--resource", "gpt-4")
	assert.Contains(t, shown, "tpm  1,200, refilled by 100 a minute")
	assert.Contains(t, shown, "rpm  150 a minute, burst 200")
}

func TestRaisedLimitsTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("resource", "set", "gpt-4", "--group", "all")
	s.must("resource", "set", "all", "img=20")
	s.must("system", "set", "rpm=100", "tpm=10k", "rpd=1000/daily")
	s.golden("limits_raise.txt", [][]string{
		{"limits", "add", "acme", "rpm=600", "--until", "18:00"},
		{"limits", "add", "acme", "rpm=700", "--until", "2h"},
		{"limits", "add", "acme", "rpm=500", "tpm=20k", "--until", "2026-01-24 12:00", "--replace", "--json"},
		{"limits", "show", "acme"},
		{"limits", "list"},
		{"limits", "resolve", "acme", "gpt-4"},
		{"check", "acme", "gpt-4"},
		{"limits", "add", "acme", "rpd=5000", "--until", "18:00"},
		{"limits", "add", "acme", "img=50", "--until", "18:00"},
		{"limits", "add", "acme", "img=50"},
		{"limits", "add", "acme", "rmp=50", "--until", "18:00"},
		{"limits", "add", "other", "rpm=90", "--until", "18:00"},
		{"limits", "add", "other", "rpm=600", "--until", "15:00"},
		{"limits", "add", "other", "rpm=600", "--until", "soon"},
		{"limits", "add", "other", "rpm=600", "--until", ""},
		{"limits", "add", "other", "rpm=600", "nosuch=5", "--until", "18:00"},
		{"limits", "add", "other", "rpm=600/1h", "--until", "18:00"},
		{"limits", "add", "other", "rpm=600,burst=900", "--until", "18:00"},
		{"limits", "add", "other", "rpm=600", "--replace"},
		{"limits", "add", "other", "rpm=600", "--until", "18:00", "--only"},
		{"limits", "add", "other", "rpm=600", "--until", "18:00", "--dry-run"},
		{"limits", "lower", "acme", "rpm", "--dry-run"},
		{"limits", "lower", "acme", "rpm"},
		{"limits", "lower", "acme", "rpm"},
		{"limits", "lower", "acme", "tpm", "--json"},
		{"plan", "add", "pro", "rpm=200", "tpm=20k", "--until", "2h"},
		{"plan", "lower", "pro", "rpm"},
		{"plan", "lower", "pro", "tpm", "--json"},
		{"plan", "lower", "pro", "tpm"},
		{"resource", "add", "gpt-4", "rpm=200", "tpm=20k", "--until", "2h"},
		{"resource", "lower", "gpt-4", "rpm"},
		{"resource", "lower", "gpt-4", "tpm", "--json"},
		{"resource", "lower", "gpt-4", "tpm"},
	})
	_, events, _ := s.run("audit", "--target", "acme")
	assert.Contains(t, events, "limit raised of acme\n  + rpm raised  to 600 until 2026-01-23 18:00:00 +00:00")
	assert.Contains(t, events, "limit lowered of acme\n  - rpm raised  to 500 until 2026-01-24 12:00:00 +00:00")
}

// TestLimitsTranscript plays a session with the limits of every source, as people see it
// and as programs do.
func TestLimitsTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.golden("limits.txt", [][]string{
		{"limits", "list"},
		{"limits", "list", "--json"},
		{"limits", "list", "--resource", "#"},
		{"system", "show"},
		{"system", "set", "rpm=1000", "tpm=1_000_000", "--on-unavailable", "local", "--dry-run"},
		{"system", "set", "rpm=1000", "tpm=1_000_000", "--on-unavailable", "local"},
		{"system", "set", "rpm=1000", "tpm=1_000_000"},
		{"system", "set", "rpm=2000/1h", "--json"},
		{"system", "set"},
		{"system", "set", "rpm=lots"},
		{"system", "set", "rpm=0"},
		{"system", "set", "rpm=0", "--dry-run"},
		{"system", "set", "rpm=5", "--version", "7"},
		{"system", "show", "--json"},
		{"system", "show", "everything"},
		{"resource", "list"},
		{"resource", "set", "gpt-4", "rpm=100,burst=200", "tpd=5000/1d"},
		{"resource", "set", "gpt-4", "rpm=150", "--json"},
		{"resource", "set", "gpt#4", "rpm=100"},
		{"resource", "set", "gpt-4", "--group", "openai", "--group", "all", "--dry-run"},
		{"resource", "set", "gpt-4", "--group", "openai", "--group", "all"},
		{"resource", "set", "gpt-4", "--group", "all", "--json"},
		{"resource", "set", "gpt-4", "rpm=150", "--no-groups"},
		{"resource", "set", "gpt-4", "--group", "all,openai", "--on-unavailable", "none"},
		{"resource", "set", "gpt-4", "--group", "gpt-4"},
		{"resource", "set", "gpt-4", "--group", "a b"},
		{"resource", "set", "gpt-4", "--group", "all", "--no-groups"},
		{"resource", "set", "gpt-4"},
		{"plan", "set", "pro", "--group", "all"},
		{"resource", "list"},
		{"resource", "list", "--json"},
		{"resource", "list", "gpt-4"},
		{"resource", "show", "gpt-4"},
		{"resource", "show", "gpt-4", "--json"},
		{"resource", "show", "gpt#4"},
		{"plan", "list"},
		{"plan", "set", "pro", "rpm=500"},
		{"plan", "set", "pro", "--resource", "gpt-4", "--unlimited"},
		{"plan", "set", "pro", "--unlimited", "rpm=1"},
		{"plan", "set", "free", "rpm=5", "--json"},
		{"plan", "list"},
		{"plan", "list", "--json"},
		{"plan", "list", "pro"},
		{"plan", "show", "pro", "--resource", "gpt-4"},
		{"plan", "show", "pro", "--json"},
		{"plan", "show", "no plan"},
		{"limits", "set", "key-1", "rpm=10"},
		{"limits", "set", "key-1", "--resource", "gpt-4", "tpm=1000,refill=500"},
		{"limits", "set", "key-1", "--resource", "gpt-4", "tpm=1000,refill=500", "--only", "--json"},
		{"limits", "set", "key 1", "rpm=10"},
		{"limits", "show", "key-1"},
		{"limits", "show", "key-1", "--resource", "gpt-4", "--json"},
		{"limits", "show", "key-2"},
		{"limits", "show", ""},
		{"limits", "set", "", "rpm=1"},
		{"plan", "set", "", "rpm=1"},
		{"resource", "delete", ""},
		{"limits", "list"},
		{"limits", "list", "--resource", "gpt-4"},
		{"limits", "resolve", "key-1", "gpt-4"},
		{"limits", "resolve", "key-2", "claude"},
		{"limits", "resolve", "key-1", "gpt-4", "--json"},
		{"limits", "resolve", "key-1"},
		{"limits", "delete", "key-1", "--dry-run"},
		{"limits", "delete", "key-1"},
		{"limits", "delete", "key-1"},
		{"limits", "delete", "key-1", "--resource", "gpt-4", "--json"},
		{"limits", "delete", "key#1"},
		{"plan", "delete", "free"},
		{"plan", "delete", "pro", "--json"},
		{"plan", "delete"},
		{"resource", "delete", "gpt-4"},
		{"resource", "delete", "gpt-4", "--json"},
		{"resource", "delete", "gpt#4"},
		{"system", "delete", "--dry-run"},
		{"system", "delete"},
		{"system", "delete", "--json"},
		{"system", "delete", "all"},
	})
}

// TestWhoMaySetTheFirstGroup: who may not mark the table is told who may.
func TestWhoMaySetTheFirstGroup(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	made := &dynamodb.UpdateItemInput{TableName: new("limits"), Key: schema.VersionKey().Attributes(), UpdateExpression: new("REMOVE kinds_min")}
	_, err := s.db.Client().UpdateItem(t.Context(), made) // as an older version makes the table
	require.NoError(t, err)
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "UpdateItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	code, _, stderr := s.run("resource", "set", "gpt-4", "--group", "all")
	assert.Equal(t, exitFailed, code)
	assert.Equal(t, "dynalimit: set kinds_min in the version record (by an administrator of the whole table): no (AccessDeniedException); that is once for a table, with its first group, and with its first quota: run this under the role that administers the whole table, not a namespace of it; any role that sets limits can set more then\n", stderr)
	s.db.SetFaults(nil)
	s.must("resource", "set", "gpt-4", "--group", "all")
}

// TestSetKeepsWhatIsNotNamed: a block stays when limits are set, limits when a policy is.
func TestSetKeepsWhatIsNotNamed(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	repo, at := s.repository(), admin.Scope{Plan: "pro"}
	require.NoError(t, admin.New(repo).Limits.SetBlocked(t.Context(), at, true))
	s.must("plan", "set", "pro", "rpm=5")
	s.must("plan", "set", "pro", "--on-unavailable", "allow")
	c, err := admin.New(repo).Limits.GetConfig(t.Context(), at)
	require.NoError(t, err)
	assert.True(t, c.Blocked)
	assert.Len(t, c.Limits, 1)
	assert.Equal(t, dynalimit.Allow, c.OnUnavailable)
	s.must("plan", "set", "pro", "--on-unavailable", "none", "--unlimited")
	c, err = admin.New(repo).Limits.GetConfig(t.Context(), at)
	require.NoError(t, err)
	assert.True(t, c.Blocked && c.Unlimited && len(c.Limits) == 0 && c.OnUnavailable == "", "%+v", c)
}
