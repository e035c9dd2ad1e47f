package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// asksNobody are commands that need no table, and why.
var asksNobody = map[string]string{
	"console":              "it serves",
	"local":                "it serves",
	"keeper serve":         "it serves",
	"manifest schema":      "it prints what it holds",
	"manifest validate":    "it reads a file",
	"template":             "it prints a template",
	"completion":           "it prints a script",
	"budget keyset create": "it writes a file",
	"budget keyset rotate": "it writes a file",
	"schema":               "it prints what the program knows",
	"version":              "it prints what was stamped",
}

// told passes notes on to whoever waits for one.
type told struct {
	mu    sync.Mutex
	text  bytes.Buffer
	until string
	found func()
}

func (n *told) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Write(p)
	if n.found != nil && strings.Contains(n.text.String(), n.until) {
		n.found()
	}
	return len(p), nil
}

// said is what was told so far.
func (n *told) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// await waits until a text was told.
func (n *told) await(t *testing.T, text string) {
	t.Helper()
	ctx, found := context.WithTimeout(t.Context(), 20*time.Second)
	defer found()
	n.mu.Lock()
	if n.until, n.found = text, found; strings.Contains(n.text.String(), text) {
		found()
	}
	n.mu.Unlock()
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.Canceled, "%q in %q", text, n.said())
}

// silent is an engine, and a CloudFormation, that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", server.URL)
	return server.URL
}

// TestNoCommandIsSilent: with a table that does not answer, every command of the
// transcripts says what it waits for, and ends when it is interrupted, with the code of
// that.
func TestNoCommandIsSilent(t *testing.T) {
	newShell(t) // empties the environment
	engine := silent(t)
	lines := firstLines(t)
	t.Chdir(withTestdata(t))
	require.NoError(t, os.WriteFile("limits.yaml", []byte("system: {limits: {rpm: {capacity: 5}}}\n"), 0o600))
	for _, name := range leaves(t) {
		if asksNobody[name] != "" {
			continue
		}
		line, ok := lines[name]
		if !assert.True(t, ok, "%s is in no transcript", name) {
			continue
		}
		ctx, interrupt := context.WithCancel(t.Context())
		notes := &told{until: "waiting for", found: interrupt}
		giveUp := time.AfterFunc(20*time.Second, interrupt) // a silent command fails below, and does not hang
		code := run(ctx, append(unquoted(line), "--endpoint", engine), &term.Output{Writer: &bytes.Buffer{}, Patience: time.Millisecond}, notes)
		giveUp.Stop()
		assert.Contains(t, notes.text.String(), "waiting for", line)
		assert.Equal(t, exitInterrupted, code, "%s\n%s", line, notes.text.String())
		interrupt()
	}
}

// firstLines are the first lines of the transcripts that ended well, by command.
func firstLines(t *testing.T) map[string]string {
	t.Helper()
	lines := map[string]string{}
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, part := range strings.Split("\n"+string(text), "\n$ dynalimit ")[1:] {
			line, rest, _ := strings.Cut(part, "\n")
			if leaf := leafOf(line); lines[leaf] == "" && !strings.Contains(rest, "[exit ") {
				lines[leaf] = line
			}
		}
	}
	return lines
}

// unquoted takes a line of a transcript apart, as quoted put it together.
func unquoted(line string) []string {
	var words []string
	var word strings.Builder
	inside, any := false, false
	for _, r := range strings.ReplaceAll(line, `'\''`, "\x00") {
		switch {
		case r == '\'':
			inside, any = !inside, true
		case r == ' ' && !inside:
			if word.Len() > 0 || any {
				words = append(words, word.String())
			}
			word.Reset()
			any = false
		case r == 0:
			word.WriteByte('\'')
		default:
			word.WriteRune(r)
		}
	}
	if word.Len() > 0 || any {
		words = append(words, word.String())
	}
	return words
}
