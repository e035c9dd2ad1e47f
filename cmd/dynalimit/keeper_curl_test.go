package main

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/credentials"
)

// TestKeeperInMemoryTakesTheKeysThatAreNamed: --keyset, and the environment, hold with --local
// too; without them the keys are its own.
func TestKeeperInMemoryTakesTheKeysThatAreNamed(t *testing.T) {
	newShell(t)
	keys, err := credentials.NewKeySet(nil, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(file, []byte(keys.Document().Reveal()), 0o600))
	for name, args := range map[string][]string{"its own": nil, "a file": {"--keyset", file}, "the environment": nil} {
		t.Run(name, func(t *testing.T) {
			if name == "the environment" {
				t.Setenv(keysetVariable, keys.Document().Reveal())
			}
			k := startKeeper(t, append([]string{"--local"}, args...)...)
			login := regexp.MustCompile(`"client_id":"([^"]*)","client_secret":"([^"]*)"`).FindStringSubmatch(k.lines(t, 5)[0])
			require.Len(t, login, 3)
			token := k.login(t, credentials.Credentials{Identity: credentials.Identity{ClientID: login[1]}, Secret: credentials.NewSecret(login[2])})
			header, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
			require.NoError(t, err)
			assert.Equal(t, name != "its own", strings.Contains(string(header), keys.Signer(time.Now()).ID), "%s", header)
			k.stop()
		})
	}
}

// TestKeeperPrintsLinesThatWork: a shell runs the lines exactly as they are printed.
func TestKeeperPrintsLinesThatWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("this machine has no curl")
	}
	k := startKeeper(t, "--local")
	lines := k.lines(t, 5)
	out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.Join(lines, "\necho\n")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		`"recommended_model":{"label":"premium"`, `"status":"accepted"`, `"cost_usd_micros":16500`, `"requests":1`, `"org_name":"Demo"`,
	} {
		assert.Contains(t, string(out), want)
	}
	code, _ := k.stop()
	assert.Equal(t, exitOK, code, k.logged())
	assert.Contains(t, k.logged(), `"msg":"keeper: ended"`)
}
