package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// example is the manifest that the documentation shows.
const example = "../../examples/manifest/limits.yaml"

// file writes a manifest into the working directory of a test.
func file(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// TestManifestTranscript plays limits as code, from a new table to changes by hand.
func TestManifestTranscript(t *testing.T) {
	s := newTable(t)
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	t.Chdir(withTestdata(t))
	file(t, "limits.yaml", string(text))
	file(t, "bad.yaml", "system:\n  limts: {rpm: 60}\nplans: {pro: {default: {limits: {rpm: {burst: 1.5}}}}}\n")
	file(t, "small.yaml", "name: gateway\nsystem: {limits: {rpm: 90}}\nentities: {search-team: {plan: free}, nightly-report: {}}\n")
	file(t, "other.yaml", "name: other\nsystem: {limits: {rpm: 1}}\nresources: {gpt-4: {limits: {rpm: 20, tpm: {capacity: 10k, burst: 20k}}, only: true}}\n")
	file(t, "tenant.yaml", "namespace: eu\nsystem: {limits: {rpm: 1}}\n")
	s.golden("manifest.txt", [][]string{
		{"manifest", "validate", "limits.yaml"},
		{"manifest", "validate", "small.yaml"},
		{"manifest", "validate", "small.yaml", "--json"},
		{"manifest", "validate", "bad.yaml"},
		{"manifest", "validate", "bad.yaml", "--json"},
		{"manifest", "validate", "missing.yaml"},
		{"manifest", "plan", "limits.yaml"},
		{"manifest", "plan", "bad.yaml"},
		{"manifest", "plan", "limits.yaml", "--exit-code", "--json"},
		{"manifest", "apply", "limits.yaml"},
		{"manifest", "apply", "limits.yaml", "--dry-run", "--json"},
		{"manifest", "apply", "limits.yaml", "--yes"},
		{"manifest", "apply", "limits.yaml", "--yes"},
		{"manifest", "apply", "limits.yaml", "--wait=-1s"},
		{"manifest", "plan", "limits.yaml", "--exit-code"},
		{"block", "set", "--entity", "search-key-1"},
		{"manifest", "plan", "limits.yaml", "--exit-code"},
		{"block", "lift", "--entity", "search-key-1"},
		{"system", "set", "rpm=1000"},
		{"resource", "set", "by-hand", "rpm=5"},
		{"limits", "add", "search-key-2", "--resource", "gpt-4", "rpm=50"},
		{"manifest", "plan", "limits.yaml"},
		{"manifest", "plan", "small.yaml"},
		{"manifest", "plan", "small.yaml", "--prune-entities", "--exit-code"},
		{"manifest", "apply", "small.yaml", "--prune-entities", "--only", "--dry-run"},
		{"manifest", "apply", "other.yaml", "--yes"},
		{"manifest", "apply", "other.yaml", "--yes", "--adopt-from", "gateway", "--json"},
		{"manifest", "apply", "tenant.yaml", "--yes"},
		{"--namespace", "us", "manifest", "plan", "tenant.yaml"},
		{"manifest", "export"},
		{"manifest", "export", "--name", "other", "--managed", "--json"},
		{"manifest", "export", "--name", "other", "--managed", "--adopt"},
		{"manifest", "export", "--name", "-"},
	})
}

func TestManifestSchema(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	text := s.must("manifest", "schema")
	assert.Equal(t, text, s.must("manifest", "schema", "--json"))
	assert.Equal(t, string(manifest.Schema), text)
	code, _, stderr := s.run("manifest", "schema", "limits.yaml")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "unexpected argument limits.yaml")
}

// On a terminal the signs of a plan are coloured.
func TestManifestPlanIsColouredOnATerminal(t *testing.T) {
	s := newTable(t)
	repo := s.repository()
	require.NoError(t, admin.New(repo).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1), dynalimit.PerMinute("x", 1)}))
	name := filepath.Join(t.TempDir(), "limits.yaml")
	file(t, name, "system: {limits: {rpm: 60}}\nentities: {a: {}}\n")
	screen, terminal, err := pty.Open()
	require.NoError(t, err)
	defer screen.Close()
	getenv := func(string) string { return "" }
	ctx := s.context()
	code := run(ctx, []string{"--endpoint", s.endpoint, "manifest", "plan", name, "--adopt"}, term.New(terminal, terminal, getenv), terminal)
	assert.Equal(t, exitOK, code)
	want := "\x1b[32m+ create record of entity a\x1b[0m\r\n" +
		"\x1b[33m~ update limits of system\x1b[0m\r\n" +
		"    \x1b[33m~ rpm.capacity  \x1b[0m\x1b[31m1\x1b[0m -> \x1b[32m60\x1b[0m\r\n" +
		"    \x1b[31m- x  1 a minute\x1b[0m\r\n" +
		"    \x1b[32m+ managed_by  manifest\x1b[0m\r\n" +
		"Plan: 1 to create, 1 to update.\r\n"
	got := make([]byte, len(want))
	_, err = io.ReadFull(screen, got)
	require.NoError(t, err)
	assert.Equal(t, want, string(got))
	require.NoError(t, terminal.Close())
}

// A plan says that nobody sends the alerts of its limits, or that it must not read that; a Deliverer ends that.
func TestManifestPlanWarnsOfAlerts(t *testing.T) {
	s := newTable(t)
	name := filepath.Join(t.TempDir(), "limits.yaml")
	file(t, name, "system: {limits: {rpd: {capacity: 60, window: day, alert_at: [80]}}}\n")
	plan := func() string {
		code, out, _ := s.run("manifest", "plan", name)
		require.Equal(t, exitOK, code)
		return out
	}
	assert.Contains(t, plan(), "limits have alerts, and nobody sends them")
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if strings.Contains(string(r.Body), "TAIL#alerts") {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	assert.Contains(t, plan(), "cannot be checked whether anybody sends them: AccessDeniedException: no")
	s.db.SetFaults(nil)
	item := schema.EncodeLease(schema.TailKeys{Name: "alerts"}.Lease(), schema.Lease{Holder: "host", Token: "t", Until: s.clock().Add(time.Minute).UnixMilli()})
	_, err := s.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
	require.NoError(t, err)
	assert.NotContains(t, plan(), "nobody sends")
}

func TestManifestApplyTellsHowLongItTakes(t *testing.T) {
	at := time.Now()
	var notes bytes.Buffer
	ctx := context.WithValue(t.Context(), clockKey{}, func() time.Time { return at })
	r := &applyRun{out: &term.Output{Notes: &notes}}
	progress := r.progressPrinter(ctx)
	for _, step := range []struct {
		after time.Duration
		done  int
	}{{0, 0}, {time.Second, 90}, {time.Second, 200}, {time.Second, 300}, {time.Second, 400}, {4 * time.Second, 1000}} {
		at = at.Add(step.after)
		progress(step.done, 1000)
	}
	assert.Equal(t, "dynalimit: 200 of 1000 changes made, about 8s left; Ctrl-C stops after the changes in flight\n"+
		"dynalimit: 400 of 1000 changes made, about 6s left; Ctrl-C stops after the changes in flight\n", notes.String())
}

// Ctrl-C stops an apply after the changes under way, says what is left, and the next one
// goes on.
func TestManifestApplyInterrupted(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	ctx, interrupt := context.WithCancel(s.context())
	defer interrupt()
	var writes atomic.Int64
	s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "TransactWriteItems" && writes.Add(1) == 3 {
			interrupt()
		}
		return ddbmem.Fault{}
	})
	var out, errs bytes.Buffer
	args := []string{"--endpoint", s.endpoint, "manifest", "apply", example, "--yes"}
	assert.Equal(t, exitInterrupted, run(ctx, args, &term.Output{Writer: &out}, &errs))
	assert.Contains(t, errs.String(), "interrupted: ")
	assert.Contains(t, errs.String(), " are left: run the command again to go on\n")
	s.db.SetFaults(nil)
	s.must("manifest", "apply", example, "--yes", "--wait", "0s")
	assert.Contains(t, s.must("manifest", "plan", example, "--exit-code"), "Nothing to change")
}

// withTestdata is a new folder in which the goldens of this one are found.
func withTestdata(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"testdata", "internal"} {
		from, err := filepath.EvalSymlinks(filepath.Join(here, name))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(from, filepath.Join(dir, name)))
	}
	return dir
}

// notes calls a function with what is written.
type notes func(string)

func (n notes) Write(p []byte) (int, error) {
	n(string(p))
	return len(p), nil
}

// One that waits says for whom, and applies once it can.
func TestManifestApplyWaitsUntilItCan(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	begun, seen, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- admin.New(s.repository()).Alone(t.Context(), "manifest", nil, func(context.Context) error {
			close(begun)
			<-seen
			return nil
		})
	}()
	<-begun
	var out bytes.Buffer
	said := notes(func(text string) {
		if text == "dynalimit: ann@example.com applies a manifest to this table: waiting for up to 1m0s\n" {
			close(seen)
		}
	})
	ctx := s.context()
	args := []string{"--endpoint", s.endpoint, "manifest", "apply", example, "--yes"}
	require.Equal(t, exitOK, run(ctx, args, &term.Output{Writer: &out}, said))
	require.NoError(t, <-done)
	assert.Contains(t, out.String(), "Applied 14 of 14 changes.")
}

// answer is read by whoever asks, after something was done.
type answer func() string

func (a answer) Read(p []byte) (int, error) { return copy(p, a()), nil }

// What somebody changes between the plan and the question's answer is not overwritten.
func TestManifestApplyIsOfThePlanThatWasShown(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	at := admin.Scope{Plan: "pro", Resource: "by-hand"}
	byHand := answer(func() string {
		_, err := admin.New(s.repository()).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}, ManagedBy: "gateway"})
		assert.NoError(t, err)
		return "apply\n"
	})
	var out, errs bytes.Buffer
	ctx := s.context()
	args := []string{"--endpoint", s.endpoint, "manifest", "apply", example}
	assert.Equal(t, exitConflict, run(ctx, args, &term.Output{Writer: &out, In: byHand}, &errs))
	assert.Contains(t, errs.String(), "the table was changed since the plan was shown, nothing was applied")
	_, err := admin.New(s.repository()).Limits.GetConfig(t.Context(), at)
	require.NoError(t, err)
	assert.Contains(t, s.must("manifest", "plan", example), "Plan: 14 to create, 1 to delete.")
}

// Of a plan whose warnings are others since it was shown nothing is applied either.
func TestManifestApplyIsOfTheWarningsThatWereShown(t *testing.T) {
	s := newTable(t)
	at := admin.Scope{Plan: "ghost"}
	require.NoError(t, admin.New(s.repository()).Limits.Set(t.Context(), at, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}))
	gone := answer(func() string {
		assert.NoError(t, admin.New(s.repository()).Limits.Delete(t.Context(), at))
		return "apply\n"
	})
	name := filepath.Join(t.TempDir(), "limits.yaml")
	file(t, name, "entities: {x: {plan: ghost}}\n")
	var out, errs bytes.Buffer
	assert.Equal(t, exitConflict, run(s.context(), []string{"--endpoint", s.endpoint, "manifest", "apply", name}, &term.Output{Writer: &out, In: gone}, &errs))
	assert.NotContains(t, out.String(), "ghost has no limits")
	assert.Contains(t, errs.String(), "the table was changed since the plan was shown, nothing was applied")
	_, err := admin.New(s.repository()).Entities.Get(t.Context(), "x")
	require.ErrorIs(t, err, admin.ErrNotFound)
}

func TestManifestApplyAsks(t *testing.T) {
	t.Parallel()
	s := newTable(t, "--as", "bob@example.com")
	s.answers = strings.NewReader("no\n")
	code, stdout, stderr := s.run("manifest", "apply", example)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stdout, "+ create limits of system\n    + rpm  60 a minute\n")
	assert.Contains(t, stderr, "not confirmed, nothing was changed")

	s.answers = strings.NewReader("apply\n")
	code, stdout, stderr = s.run("manifest", "apply", example)
	assert.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "Applied 14 of 14 changes.")
	config, err := admin.New(s.repository()).Limits.GetConfig(t.Context(), admin.Scope{Plan: "pro"})
	require.NoError(t, err)
	assert.Equal(t, "gateway", config.ManagedBy)
}

// Long plans are folded, unless they are asked for.
func TestManifestPlanIsFolded(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	var b strings.Builder
	b.WriteString("entities:\n")
	for i := range 50 {
		b.WriteString("  key-" + strings.Repeat("x", i) + ": {}\n")
	}
	name := filepath.Join(t.TempDir(), "limits.yaml")
	file(t, name, b.String())
	folded := s.must("manifest", "plan", name)
	assert.Equal(t, 20, strings.Count(folded, "+ create"))
	assert.Contains(t, folded, "  ... and 30 more to create: --full shows them\nPlan: 50 to create.\n")
	assert.Equal(t, 50, strings.Count(s.must("manifest", "plan", name, "--full"), "+ create"))
}
