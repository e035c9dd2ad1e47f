package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asCurl has the binary of the tests be curl, for machines that have none.
const asCurl = "DYNALIMIT_TEST_AS_CURL"

// curl does what the printed lines ask of curl: -sSf, -H and -d.
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
	if answer.StatusCode >= http.StatusBadRequest {
		fmt.Fprintln(os.Stderr, answer.Status)
		return 22
	}
	_, _ = io.Copy(os.Stdout, answer.Body)
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
		case "-sSf":
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
			code, stdout := k.stop()
			assert.Equal(t, exitOK, code, k.logged())
			assert.Contains(t, stdout, "Stopped.")
		})
	}
}
