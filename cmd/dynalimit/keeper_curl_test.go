package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// asCurl has the binary of the tests be curl, for machines that have none.
const asCurl = "DYNALIMIT_TEST_AS_CURL"

// curl does what the printed lines ask of curl: -sS, --fail-with-body, -H and -d.
func curl(args []string) int {
	r, err := curlRequest(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 7
	}
	defer answer.Body.Close()
	_, _ = io.Copy(os.Stdout, answer.Body)
	if answer.StatusCode >= http.StatusBadRequest {
		fmt.Fprintln(os.Stderr, answer.Status)
		return 22
	}
	return 0
}

func curlRequest(args []string) (*http.Request, error) {
	method, url, body, headers := http.MethodGet, "", "", http.Header{}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		value := ""
		if word == "-H" || word == "-d" {
			value, args = args[0], args[1:]
		}
		switch word {
		case "-sS", "--fail-with-body":
		case "-d":
			method, body = http.MethodPost, value
		case "-H":
			name, content, _ := strings.Cut(value, ": ")
			headers.Set(name, content)
		default:
			url = word
		}
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body)) //nolint:noctx // the process ends with it
	if err == nil {
		r.Header = headers
	}
	return r, err
}

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

// TestKeeperPrintsLinesThatWork: a shell runs the lines exactly as they are printed, with
// this machine's curl if it has one, and with one that is part of the tests.
func TestKeeperPrintsLinesThatWork(t *testing.T) {
	folder := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	shim := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asCurl, self)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "curl"), []byte(shim), 0o700))
	paths := map[string]string{"of the tests": folder + ":" + os.Getenv("PATH")}
	if _, err := exec.LookPath("curl"); err == nil {
		paths["of the machine"] = os.Getenv("PATH")
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			k := startKeeper(t, "--local")
			lines := k.lines(t, 5)
			shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.Join(lines, "\necho\n"))
			shell.Env = append(os.Environ(), "PATH="+path)
			out, err := shell.CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, want := range []string{
				`"recommended_model":{"label":"premium"`, `"status":"accepted"`, `"cost_usd_micros":16500`, `"requests":1`, `"org_name":"Demo"`,
			} {
				assert.Contains(t, string(out), want)
			}
			code, _ := k.stop()
			assert.Equal(t, exitOK, code, k.logged())
			assert.Contains(t, k.logged(), `"msg":"keeper: ended"`)
		})
	}
}
