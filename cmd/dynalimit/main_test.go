package main

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// asProgram has the binary of the tests be the program.
const asProgram = "DYNALIMIT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if os.Getenv(asCurl) != "" {
		os.Exit(curl(os.Args[1:]))
	}
	if err := withoutAWS(); err != nil {
		panic(err)
	}
	time.Local = time.FixedZone("Local", 0) // transcripts show times in the zone of the machine
	goleak.VerifyTestMain(m)
}

// runPlain runs the command line args to its end and returns what it printed.
func runPlain(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &term.Output{Writer: &out}, &errs)
	return code, out.String(), errs.String()
}

// TestHelpTextHasASectionPerCommand: help.txt speaks of every command, and of none that there is not.
func TestHelpTextHasASectionPerCommand(t *testing.T) {
	commands := append(leaves(t), "dynalimit")
	assert.Equal(t, len(commands), strings.Count("\n"+helpText, "\n# "), "one section each")
	assert.ElementsMatch(t, commands, slices.Collect(maps.Keys(helpSections())))
}

// TestHelpBeginsWithWhereToStart: asked in any way, the program says what to run first, and
// names its commands in groups.
func TestHelpBeginsWithWhereToStart(t *testing.T) {
	_, help, _ := runPlain(t, "--help")
	for _, args := range [][]string{{}, {"help"}} {
		code, stdout, stderr := runPlain(t, args...)
		assert.Equal(t, exitOK, code, args)
		assert.Empty(t, stderr, args)
		assert.Equal(t, help, stdout, args)
	}
	start, groups, found := strings.Cut(help, "\nLimits, and those they are of:\n")
	require.True(t, found)
	assert.Contains(t, start, "Start here:")
	assert.NotContains(t, help, "\nCommands:\n", "a command without a group")
	for _, name := range leaves(t) {
		noun, _, _ := strings.Cut(name, " ")
		assert.Contains(t, "\n"+groups, "\n  "+noun+" ", "the list of commands")
	}
	_, ofCommand, _ := runPlain(t, "limits", "set", "--help")
	code, stdout, _ := runPlain(t, "help", "limits", "set")
	assert.Equal(t, exitOK, code)
	assert.Equal(t, ofCommand, stdout)
}

func TestHelpShowsAnExamplePerCommand(t *testing.T) {
	for _, name := range leaves(t) {
		_, page, _ := runPlain(t, append(strings.Fields(name), "--help")...)
		_, examples, found := strings.Cut(page, "Examples:")
		assert.True(t, found, "%s --help has no examples", name)
		assert.Contains(t, examples, "dynalimit "+name)
	}
}

func TestUsageErrorsSayWhatToDoNext(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"half a command":   {[]string{"limits"}, []string{`expected one of "show"`, "dynalimit limits --help"}},
		"unknown command":  {[]string{"serve"}, []string{"serve", "dynalimit --help"}},
		"unknown flag":     {[]string{"local", "--prot", "1"}, []string{"--prot", "dynalimit local --help"}},
		"word for a port":  {[]string{"local", "--port", "http"}, []string{"--port", "dynalimit local --help"}},
		"port too large":   {[]string{"local", "--port", "70000"}, []string{"--port 70000", "1 to 65535", "dynalimit local --help"}},
		"negative port":    {[]string{"local", "--port=-1"}, []string{"--port -1", "1 to 65535"}},
		"every interface":  {[]string{"local", "--host", "0.0.0.0"}, []string{"--host 0.0.0.0", "loopback", "127.0.0.1"}},
		"another machine":  {[]string{"local", "--host", "192.0.2.1"}, []string{"--host 192.0.2.1", "loopback"}},
		"name of somebody": {[]string{"local", "--host", "example.com"}, []string{"--host example.com", "loopback"}},
		"empty host":       {[]string{"local", "--host", ""}, []string{"loopback"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runPlain(t, test.args...)
			assert.Equal(t, exitUsage, code)
			assert.Empty(t, stdout)
			for _, want := range test.want {
				assert.Contains(t, stderr, want)
			}
		})
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A result that cannot be written is an error, which says what to do, however it is written.
func TestResultsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	for _, line := range [][]string{{"entity", "list"}, {"entity", "list", "--json"}, {"manifest", "export"}, {"manifest", "schema"}, {"version", "--json"}, {"template"}} {
		var stderr bytes.Buffer
		code := run(t.Context(), append(line, "--endpoint", s.endpoint), &term.Output{Writer: full{}, Patience: time.Hour}, &stderr)
		assert.Equal(t, exitFailed, code, line)
		assert.Contains(t, stderr.String(), "the result cannot be written: no space left on device; make room for it, or send it elsewhere", line)
	}
}
