package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

const keyset = "testdata/keyset.json"

// TestBudgetCredentialsTranscript plays the life of an app's credentials.
func TestBudgetCredentialsTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	s.step = time.Minute
	t.Chdir(withTestdata(t))
	t.Setenv(keysetVariable, "")
	require.NoError(t, os.WriteFile("there.json", nil, 0o600))
	s.golden("budget_credentials.txt", [][]string{
		{"credentials", "show", acme, "chat"},
		{"credentials", "create", acme, "chat", "--keyset", keyset, "--out", "chat.json"},
		{"credentials", "create", acme, "chat", "--keyset", keyset, "--out", "other.json"},
		{"credentials", "create", acme, "--keyset", keyset, "--show", "--json"},
		{"credentials", "create", acme, "nobody", "--keyset", keyset, "--show"},
		{"credentials", "create", acme, "chat", "--keyset", keyset},
		{"credentials", "create", acme, "chat", "--keyset", keyset, "--show", "--out", "other.json"},
		{"credentials", "create", acme, "chat", "--keyset", keyset, "--out", "there.json"},
		{"credentials", "create", acme, "chat", "--keyset", keyset, "--out", "nowhere/chat.json"},
		{"credentials", "create", acme, "chat", "--show"},
		{"credentials", "create", acme, "chat", "--show", "--keyset", "none.json"},
		{"credentials", "create", acme, "chat", "--show", "--keyset", "there.json"},
		{"credentials", "show", acme, "chat"},
		{"credentials", "show", acme, "chat", "--json"},
		{"credentials", "rotate", acme, "chat", "--keyset", keyset, "--show"},
		{"credentials", "rotate", acme, "chat", "--keyset", keyset, "--grace", "7d", "--out", "chat-2.json", "--json"},
		{"credentials", "rotate", acme, "chat", "--keyset", keyset, "--grace", "7d", "--out", "chat-3.json"},
		{"credentials", "rotate", acme, "chat", "--keyset", keyset, "--grace", "90m", "--show"},
		{"credentials", "rotate", acme, "batch", "--keyset", keyset, "--show"},
		{"credentials", "revoke", acme, "chat"},
		{"credentials", "revoke", acme, "chat", "--yes"},
		{"credentials", "revoke", acme, "chat", "--yes", "--json"},
		{"credentials", "show", acme, "chat"},
		{"credentials", "revoke", acme, "batch", "--yes"},
	})
}

// TestBudgetKeysTranscript plays the life of a key.
func TestBudgetKeysTranscript(t *testing.T) {
	s := newShell(t, "budget", "--as", "ann@example.com")
	s.acme()
	t.Chdir(withTestdata(t))
	document, err := os.ReadFile(keyset)
	require.NoError(t, err)
	t.Setenv(keysetVariable, string(document))
	s.golden("budget_keys.txt", [][]string{
		{"keys", "list"},
		{"keys", "create", "deploy", "--out", "deploy.key", "--keyset", keyset},
		{"keys", "create", "deploy", "--show"},
		{"keys", "create", "console", "--show"},
		{"keys", "create", "ci", "--show", "--json"},
		{"keys", "create", "acme", "--org", fleetOrg, "--out", "acme.key"},
		{"keys", "create", "acme2", "--org", "acme", "--out", "acme2.key"},
		{"keys", "create", "a key", "--show"},
		{"keys", "create", "deploy"},
		{"keys", "list"},
		{"keys", "list", "--json"},
		{"keys", "list", "deploy"},
		{"keys", "revoke", "deploy"},
		{"keys", "revoke", "deploy", "--yes"},
		{"keys", "revoke", "deploy", "--yes"},
		{"keys", "revoke", "ci", "--yes", "--json"},
	})
}

// TestBudgetKeysetTranscript plays the life of a file of keys.
func TestBudgetKeysetTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.step = time.Hour
	t.Chdir(withTestdata(t))
	s.golden("budget_keyset.txt", [][]string{
		{"keyset", "create", "--out", "keys.json", "--dry-run"},
		{"keyset", "create", "--out", "keys.json"},
		{"keyset", "create", "--out", "keys.json"},
		{"keyset", "create", "--out", "others.json", "--json"},
		{"keyset", "create"},
		{"keyset", "rotate", "keys.json", "--dry-run"},
		{"keyset", "rotate", "keys.json"},
		{"keyset", "rotate", "keys.json", "--json"},
		{"keyset", "rotate", "none.json"},
		{"keyset", "rotate", "keys.json", "--longest", "soon"},
	})
	for _, name := range []string{"keys.json", "others.json"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode())
	}
}

// TestKeysThatCannotBeWrittenStay: the file has the keys that it had, and what to do is said
// in words of this command.
func TestKeysThatCannotBeWrittenStay(t *testing.T) {
	s := newShell(t, "budget")
	t.Chdir(t.TempDir())
	s.must("keyset", "create", "--out", "keys.json")
	was, err := os.ReadFile("keys.json")
	require.NoError(t, err)
	long := strings.Repeat("k", 250) // no name is left for a file beside it
	require.NoError(t, os.WriteFile(long, was, 0o600))
	s.now = s.now.Add(time.Hour)
	code, stdout, stderr := s.run("keyset", "rotate", long)
	assert.Equal(t, exitFailed, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "cannot be written")
	assert.Contains(t, stderr, "it keeps its old keys")
	assert.NotContains(t, stderr, "-o")
	is, err := os.ReadFile(long)
	require.NoError(t, err)
	assert.Equal(t, string(was), string(is))
}

// TestSecretsOutliveARotationOfKeys: what was hashed before logs in after, and what is
// hashed after is under the new pepper.
func TestSecretsOutliveARotationOfKeys(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(t.TempDir())
	s.must("keyset", "create", "--out", "keys.json")
	s.must("credentials", "create", acme, "chat", "--keyset", "keys.json", "--out", "chat.json")
	s.now = s.now.Add(time.Hour)
	s.must("keyset", "rotate", "keys.json")
	s.now = s.now.Add(time.Hour)
	s.must("credentials", "create", acme, "--keyset", "keys.json", "--out", "acme.json")
	store := s.login("keys.json")
	for _, file := range []string{"chat.json", "acme.json"} {
		id, secret := handedTo(t, file)
		_, err := store.Verify(t.Context(), id, secret)
		require.NoError(t, err, file)
	}
}

// aSecret is one that is handed over.
var aSecret = regexp.MustCompile(`dl[skr]_[A-Za-z0-9_-]{43}`)

// login is a store of the shell's credentials, as a service has it.
func (s *shell) login(keyset string) *credentials.Store {
	s.t.Helper()
	document, err := os.ReadFile(keyset)
	require.NoError(s.t, err)
	keys, err := credentials.ParseKeySet(document)
	require.NoError(s.t, err)
	store, err := credentials.New(s.db.Client(), "control", &credentials.Options{Keys: keys, Now: s.clock})
	require.NoError(s.t, err)
	return store
}

// handedTo is the secret in a file of --out.
func handedTo(t *testing.T, path string) (clientID string, secret credentials.Secret) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var body map[string]string
	require.NoError(t, json.Unmarshal(text, &body))
	require.Regexp(t, aSecret, body["client_secret"])
	return body["client_id"], credentials.NewSecret(body["client_secret"])
}

// TestNoSecretIsLost: where a file cannot be written, or says something already, nothing is
// changed; where nothing was changed, no file is left.
func TestNoSecretIsLost(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	t.Chdir(withTestdata(t))
	require.NoError(t, os.WriteFile("there.json", []byte("mine"), 0o600))
	before := s.db.Meter().WriteUnits()
	for _, out := range []string{"there.json", "nowhere/chat.json", "testdata", ""} {
		code, stdout, stderr := s.run("credentials", "create", acme, "chat", "--keyset", keyset, "--out", out)
		assert.Equal(t, exitUsage, code, out)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "--out")
	}
	assert.InDelta(t, before, s.db.Meter().WriteUnits(), 0)
	text, err := os.ReadFile("there.json")
	require.NoError(t, err)
	assert.Equal(t, "mine", string(text))

	s.db.SetFaults(loseWrites)
	code, _, stderr := s.run("credentials", "create", acme, "chat", "--keyset", keyset, "--out", "chat.json")
	s.db.SetFaults(nil)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "nobody has it, and 'rotate' makes another")
	assert.NoFileExists(t, "chat.json")

	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Lose: r.Operation == "UpdateItem"} })
	code, _, stderr = s.run("credentials", "rotate", acme, "chat", "--keyset", keyset, "--out", "chat.json")
	s.db.SetFaults(nil)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "make another with 'dynalimit budget credentials rotate "+acme+" chat --grace 0'")
	assert.NotRegexp(t, aSecret, stderr)
	assert.NoFileExists(t, "chat.json")
}
