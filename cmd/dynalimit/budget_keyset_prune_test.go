package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBudgetKeysetPruneTranscript: peppers go once nobody's secret is hashed under them.
func TestBudgetKeysetPruneTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(withTestdata(t))
	s.must("keyset", "create", "--out", "keys.json")
	s.must("keyset", "create", "--out", "others.json")
	s.step = 25 * time.Hour
	s.golden("budget_keyset_prune.txt", [][]string{
		{"keyset", "prune", keyset, "--dry-run"},
		{"credentials", "create", acme, "chat", "--keyset", "keys.json", "--out", "chat.json"},
		{"keys", "create", "deploy", "--keyset", "keys.json", "--out", "deploy.key"},
		{"keyset", "rotate", "keys.json"},
		{"keyset", "rotate", "keys.json"},
		{"keyset", "rotate", "keys.json"},
		{"keyset", "prune", "keys.json", "--dry-run"},
		{"keyset", "prune", "keys.json", "--dry-run", "--json"},
		{"keyset", "prune", "keys.json"},
		{"keyset", "prune", "keys.json", "--yes"},
		{"credentials", "rotate", acme, "chat", "--keyset", "keys.json", "--out", "chat-2.json", "--grace", "0"},
		{"keys", "revoke", "deploy", "--yes"},
		{"keyset", "prune", "keys.json", "--yes", "--json"},
		{"keyset", "prune", "keys.json"},
		{"keyset", "rotate", "others.json"},
		{"keyset", "rotate", "others.json"},
		{"keyset", "prune", "others.json", "--yes"},
		{"keyset", "prune", "none.json"},
	})
}

// TestKeysRotateForEver: the seventeenth pepper is refused with what to do, which helps, and
// secrets of before log in all the while.
func TestKeysRotateForEver(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(t.TempDir())
	s.must("keyset", "create", "--out", "keys.json")
	s.must("credentials", "create", acme, "chat", "--keyset", "keys.json", "--out", "chat.json")
	s.must("keys", "create", "deploy", "--keyset", "keys.json", "--out", "deploy.key")
	month := func() { s.now = s.now.AddDate(0, 1, 0) }
	for range 15 {
		month()
		s.must("keyset", "rotate", "keys.json")
	}
	month()
	before, err := os.ReadFile("keys.json")
	require.NoError(t, err)
	code, _, stderr := s.run("keyset", "rotate", "keys.json")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "keys.json has 16 peppers, as many as there may be")
	assert.Contains(t, stderr, "'dynalimit budget keyset prune keys.json'")
	after, err := os.ReadFile("keys.json")
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))

	works := func() {
		t.Helper()
		id, secret := handedTo(t, "chat.json")
		_, err := s.login("keys.json").Verify(t.Context(), id, secret)
		require.NoError(t, err)
	}
	s.answers = strings.NewReader("keys.json\n")
	code, stdout, stderr := s.run("keyset", "prune", "keys.json")
	s.answers = nil
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "is held by org-"+acme+"-app-chat, the key deploy")
	works()
	month()
	s.must("keyset", "rotate", "keys.json")
	works()
}
