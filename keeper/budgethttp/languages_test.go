package budgethttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keeperPage is the page for users, which shows the examples between these lines.
const (
	keeperPage    = "../docs/keeper.md"
	examplesBegin = "<!-- examples: made from the OpenAPI document by go test -run Languages -update -->\n"
	examplesEnd   = "<!-- end of examples -->\n"
)

// The operations that the examples show, in order; the first logs in.
var shown = []string{"login", "selectModel", "submitUsage", "appToday"}

// step is an operation as a client calls it, as the document describes it.
type step struct {
	id, method, route, summary string
	path                       string // filled
	body                       json.RawMessage
	status                     string // of success
}

// steps reads the operations that are shown from the document.
func (d *described) steps(t *testing.T) []step {
	t.Helper()
	var summaries struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	require.NoError(t, json.Unmarshal(d.raw, &summaries))
	all := make([]step, len(shown))
	d.each(func(path, method string, op *describedOperation) {
		i := slices.Index(shown, op.OperationID)
		if i < 0 {
			return
		}
		s := step{id: op.OperationID, method: method, route: path, path: filled(path), summary: summaries.Paths[path][strings.ToLower(method)].Summary}
		if op.RequestBody != nil {
			var err error
			s.body, err = wireJSON(op.RequestBody.Content["application/json"].Example)
			require.NoError(t, err)
		}
		for status, r := range op.Responses {
			if strings.HasPrefix(status, "2") && r.Content != nil {
				s.status = max(s.status, status)
			}
		}
		all[i] = s
	})
	for i, s := range all {
		require.NotEmpty(t, s.summary, shown[i])
		require.NotEmpty(t, s.status, shown[i])
	}
	return all
}

// curlLines is a script for a shell: it logs in and calls the others.
func curlLines(all []step) string {
	const isJSON = ` -H 'Content-Type: application/json'`
	var b strings.Builder
	b.WriteString(`uuid() { od -An -tx1 -N16 /dev/urandom | tr -d ' \n' | sed 's/\(.\{8\}\)\(.\{4\}\)\(.\{4\}\)\(.\{4\}\)/\1-\2-\3-\4-/'; }` + "\n")
	for i, s := range all {
		fmt.Fprintf(&b, "\n# %s\n", s.summary)
		url := `"$KEEPER` + s.path + `"`
		if i == 0 {
			fmt.Fprintf(&b, "TOKEN=$(curl -sS --fail-with-body %s%s \\\n  -d '%s' |\n  sed 's/.*\"access_token\":\"\\([^\"]*\\)\".*/\\1/')\n", url, isJSON,
				`{"client_id":"'"$CLIENT_ID"'","client_secret":"'"$CLIENT_SECRET"'"}`)
			continue
		}
		fmt.Fprintf(&b, "curl -sS --fail-with-body %s \\\n  -H \"Authorization: Bearer $TOKEN\"", url)
		if s.body != nil {
			fmt.Fprintf(&b, "%s \\\n  -d '%s'", isJSON, ofNow(strings.ReplaceAll(string(s.body), "'", `'\''`), `"'"$(uuid)"'"`, `"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'"`))
		}
		b.WriteString("\n")
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// ofNow is a body whose call is made now, and is not the one that was sent before.
func ofNow(body, id, at string) string {
	return strings.NewReplacer(fmt.Sprintf("%q", exampleUsage["request_id"]), id, fmt.Sprintf("%q", exampleUsage["timestamp"]), at).Replace(body)
}

// pythonProgram does the same, with the standard library alone.
func pythonProgram(t *testing.T, all []step) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`import json, os, urllib.error, urllib.request, uuid
from datetime import datetime, timezone

KEEPER = os.environ["KEEPER"]


def ask(method, path, body=None, token=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(KEEPER + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        raise SystemExit(refusal.read().decode())

`)
	for i, s := range all {
		fmt.Fprintf(&b, "\n# %s\n", s.summary)
		if i == 0 {
			fmt.Fprintf(&b, "credentials = {\"client_id\": os.environ[\"CLIENT_ID\"], \"client_secret\": os.environ[\"CLIENT_SECRET\"]}\n"+
				"token = ask(%q, %q, credentials)[\"access_token\"]\n", s.method, s.path)
			continue
		}
		body := ""
		if s.body != nil {
			fmt.Fprintf(&b, "body = %s\n", pythonOf(t, s.body))
			body = "body, "
		}
		fmt.Fprintf(&b, "print(json.dumps(ask(%q, %q, %stoken=token)))\n", s.method, s.path, body)
	}
	return b.String()
}

// pythonOf is a body as Python writes it: as JSON, which has no true, false or null here.
func pythonOf(t *testing.T, body []byte) string {
	t.Helper()
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, body, "", "    "))
	for _, word := range []string{"true", "false", "null"} {
		require.NotContains(t, indented.String(), ": "+word, "Python writes it otherwise")
	}
	return ofNow(indented.String(), "str(uuid.uuid4())", "datetime.now(timezone.utc).isoformat()")
}

// TestLanguagesAreInTheDocs: the page shows the examples that are run below, as the
// document of today has them.
func TestLanguagesAreInTheDocs(t *testing.T) {
	all := describe(t, newWorld(t).a).steps(t)
	want := "```sh\n" + curlLines(all) + "```\n\n```python\n" + pythonProgram(t, all) + "```\n"
	page, err := os.ReadFile(keeperPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), examplesBegin)
	require.True(t, ok, "%s has no line %q", keeperPage, examplesBegin)
	is, after, ok := strings.Cut(rest, examplesEnd)
	require.True(t, ok, "%s has no line %q", keeperPage, examplesEnd)
	if *update {
		require.NoError(t, os.WriteFile(keeperPage, []byte(before+examplesBegin+want+examplesEnd+after), 0o644))
		is = want
	}
	assert.Equal(t, want, is, "go test -run Languages -update . writes it anew")
}

// TestLanguagesRun: what the page shows for a shell and for Python runs as it is, and is
// answered as the document says.
func TestLanguagesRun(t *testing.T) {
	for name, test := range map[string]struct {
		interpreter, flag, with, missing string
		program                          func(*testing.T, []step) string
	}{
		"curl": {"sh", "-ec", "curl", "NO CURL: install curl (Debian: apt-get install curl)", func(_ *testing.T, all []step) string { return curlLines(all) }},
		"python": {
			"python3", "-c", "python3", "NO PYTHON: install Python 3 (Debian: apt-get install python3)", pythonProgram,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(test.with); err != nil {
				missing := test.missing + " to test the examples of docs/keeper.md"
				if os.Getenv("CI") == "true" {
					t.Fatal(missing)
				}
				t.Skip(missing) //nolint:forbidigo // CI asserts all of it
			}
			w := newWorld(t)
			n := w.a
			w.clock.Set(time.Now()) // which the examples read
			d := describe(t, n)
			all := d.steps(t)
			prepared(n, all[1].route)
			rotated := n.as("key").do(http.MethodPost, pathA+"/credentials/rotate", exampleRotate).is(http.StatusOK)
			secret := n.secretOf(pathA, rotated.text("retrieval_token"))
			run := func(secret string) (stdout, stderr bytes.Buffer, err error) {
				command := exec.CommandContext(t.Context(), test.interpreter, test.flag, test.program(t, all))
				command.Env = append(os.Environ(), "KEEPER="+n.url, "CLIENT_ID="+exampleLogin["client_id"].(string), "CLIENT_SECRET="+secret, "no_proxy=*")
				command.Stdout, command.Stderr = &stdout, &stderr
				err = command.Run()
				return stdout, stderr, err
			}
			stdout, stderr, err := run("wrong")
			require.Error(t, err)
			if name == "python" { // a shell keeps it for the sed behind it
				assert.Contains(t, stderr.String(), "UNAUTHORIZED", "it says why")
			}
			for range 2 { // two calls, also a second time
				stdout, stderr, err = run(secret)
				require.NoError(t, err, "%s%s", stdout.String(), stderr.String())
			}
			c := d.checker(t)
			answers := json.NewDecoder(&stdout)
			for _, s := range all[1:] {
				var answer json.RawMessage
				require.NoError(t, answers.Decode(&answer), s.id)
				require.NoError(t, c.check(schemaOf(s.route, s.method, "responses", s.status), answer), "%s: %s", s.id, answer)
			}
			require.ErrorIs(t, answers.Decode(new(json.RawMessage)), io.EOF, "nothing else is printed")
			day := n.as("a").get(pathA + "/aggregates/today").is(http.StatusOK)
			assert.Equal(t, "33000", fmt.Sprint(day.at("cost_usd_micros")), "both were counted")
		})
	}
}
