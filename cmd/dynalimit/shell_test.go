package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/version"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// shell runs commands against an engine of its own, at one instant, in ann's name.
type shell struct {
	t        *testing.T
	prefix   []string
	endpoint string
	db       *ddbmem.DB
	now      time.Time
	// width is that of the terminal; 0 for none.
	width int
	// step is how much time passes with each command of a transcript.
	step time.Duration
	// answers is what is typed where something is asked; nil where nobody is.
	answers *strings.Reader
}

// newShell is a shell whose commands begin with prefix.
func newShell(t *testing.T, prefix ...string) *shell {
	t.Helper()
	s := &shell{t: t, prefix: prefix, now: time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)}
	s.db = ddbmem.New(ddbmem.WithClock(s.clock))
	server := httptest.NewServer(s.db)
	t.Cleanup(func() { server.Close(); s.db.Close() })
	s.endpoint = server.URL
	return s
}

// withoutAWS empties the environment of what commands read from it.
func withoutAWS() error {
	var err error
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_CLOUDFORMATION", "DYNALIMIT_TABLE", "DYNALIMIT_NAMESPACE", "DYNALIMIT_PRINCIPAL"} {
		err = errors.Join(err, os.Unsetenv(name))
	}
	return err
}

// newTable is a shell with the table of limits, made.
func newTable(t *testing.T, prefix ...string) *shell {
	t.Helper()
	s := newShell(t, prefix...)
	require.NoError(t, s.repository().CreateTable(t.Context()))
	return s
}

// repository is the shell's table as Go sees it.
func (s *shell) repository() *dynalimit.Repository {
	s.t.Helper()
	repo, err := dynalimit.NewRepository(s.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: s.clock, Principal: "ann@example.com"})
	require.NoError(s.t, err)
	return repo
}

func (s *shell) clock() time.Time { return s.now }

// hurried is a pace for streams of which one read shows all that there is.
var hurried = pace{poll: 20 * time.Millisecond, settle: 150 * time.Millisecond, others: 45 * time.Second, look: 10 * time.Millisecond, tries: 3, drain: 300 * time.Millisecond}

// context is what commands of the shell run with.
func (s *shell) context() context.Context {
	return context.WithValue(context.WithValue(s.t.Context(), clockKey{}, s.clock), paceKey{}, hurried)
}

// run runs `dynalimit` with args.
func (s *shell) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	ctx := s.context()
	to := &term.Output{Writer: &out, Width: s.width, Patience: time.Hour} // however slow the machine is
	if s.answers != nil {
		to.In = s.answers
	}
	args = append(append([]string{}, s.prefix...), args...)
	before := s.db.Meter()
	code = run(ctx, append([]string{"--endpoint", s.endpoint}, args...), to, &errs)
	s.promises(args, before, code, out.String(), errs.String())
	return code, out.String(), errs.String()
}

// must runs a command that has to succeed.
func (s *shell) must(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.run(args...)
	require.Equal(s.t, exitOK, code, stderr)
	require.Empty(s.t, stderr)
	return stdout
}

// golden runs commands one after the other and compares what people see with the
// transcript testdata/FILE. JSON is checked against the command's schema as well, see
// checkJSON. What a command says besides results, and an exit code other than 0, are in
// the transcript too: TestEveryCommandHasATranscript reads what was tested there.
func (s *shell) golden(file string, commands [][]string) {
	s.t.Helper()
	var transcript strings.Builder
	for _, args := range commands {
		code, stdout, stderr := s.run(args...)
		s.now = s.now.Add(s.step)
		line := strings.Join(append(append([]string{}, s.prefix...), quoted(args)...), " ")
		fmt.Fprintf(&transcript, "$ dynalimit %s\n%s", line, stdout)
		if stderr != "" {
			fmt.Fprintf(&transcript, "[stderr] %s\n", strings.ReplaceAll(strings.TrimSuffix(stderr, "\n"), "\n", "\n[stderr] "))
		}
		if code != exitOK {
			fmt.Fprintf(&transcript, "[exit %d]\n", code)
		}
		transcript.WriteString("\n")
		if strings.Contains(" "+line+" ", " --json ") && stdout != "" && code != exitUsage {
			checkJSON(s.t, line, stdout)
		}
	}
	text := strings.ReplaceAll(transcript.String(), s.endpoint, "http://127.0.0.1:8000")
	text = strings.NewReplacer(version.Current().String(), "dynalimit devel (go1.26.0, linux/amd64)",
		runtime.Version(), "go1.26.0", runtime.GOOS+"/"+runtime.GOARCH, "linux/amd64").Replace(text)
	text = drawn.ReplaceAllString(text, `"id": "00000000000000000000000000"`)
	text = aSecret.ReplaceAllStringFunc(text, func(s string) string { return s[:4] + strings.Repeat("x", 43) })
	text = ignored.ReplaceAllString(text, `"ignored":${1}40`)
	assert.NotContains(s.t, text, "\x1b", "colour outside a terminal")
	compareGolden(s.t, filepath.Join("testdata", file), text)
}

// drawn are the ids that a run draws.
var drawn = regexp.MustCompile(`"id": "[0-9A-HJKMNP-TV-Z]{26}"`)

// ignored counts the records of a tail's own leases too: the longer it takes, the more.
var ignored = regexp.MustCompile(`"ignored":( ?)[1-9][0-9]*`)

// quoted puts words that a shell would take apart into quotes.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if out[i] = arg; arg == "" || strings.ContainsAny(arg, " '\"$*;&|<>\n") {
			out[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return out
}

func compareGolden(t *testing.T, path, text string) {
	t.Helper()
	if *testworld.Update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "if this is meant, run the test with -update")
}

// schemas are the compiled ones of commands.
var schemas sync.Map

// checkJSON compares what a command printed with its schema.
func checkJSON(t *testing.T, line, text string) {
	t.Helper()
	assert.True(t, json.Valid([]byte(text)), text)
	name := leafOf(line)
	compiled, ok := schemas.Load(name)
	if !ok {
		printed, err := schemaOf(name)
		require.NoError(t, err, "%s prints JSON that no schema describes", line)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(printed))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("schema.json", value))
		compiled, err = c.Compile("schema.json")
		require.NoError(t, err, "%s\n%s", name, printed)
		schemas.Store(name, compiled)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, "%s\n%s", line, text)
	assert.NoError(t, compiled.(*jsonschema.Schema).Validate(value), "%s\n%s", line, text)
}
