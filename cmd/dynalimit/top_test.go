//go:build unix

package main

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xterm "golang.org/x/term"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestTopTranscript(t *testing.T) {
	s := inUse(t)
	require.NoError(t, s.repository().SetBlocked(t.Context(), dynalimit.Scope{Entity: "key-1"}, true))
	s.golden("top.txt", [][]string{
		{"top"},
		{"top", "--json"},
		{"top", "--resource", "gpt-4", "--once"},
		{"top", "--resource", "gpt-4", "--ask", "tpm=2000", "--ask", "rpm=61", "--sort", "name"},
		{"top", "--resource", "gpt-4", "--most", "1"},
		{"top", "--entity", "team-a", "--json"},
		{"top", "--entity", "key-1", "--entity", "team-a", "--resource", "claude"},
		{"top", "--resource", "gpt#4"},
		{"top", "--every", "1ms"},
		{"top", "--most", "0"},
		{"top", "--ask", "rpm"},
	})
}

// TestTopReadsNoMore than the bound, and writes nothing.
func TestTopReadsNoMore(t *testing.T) {
	s := newTable(t)
	repo := s.repository()
	require.NoError(t, repo.SetLimits(t.Context(), dynalimit.Scope{}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	for i := range 400 {
		_, err := limiter.Acquire(t.Context(), "key-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "gpt-4", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
	}
	require.NoError(t, limiter.Close(t.Context()))
	assert.Contains(t, s.must("top"), "\n  gpt-4\n", "a resource whose limits are the system's")
	assert.Contains(t, s.must("top", "--json"), `"gpt-4"`)
	began := s.db.Meter()
	text := s.must("top", "--resource", "gpt-4", "--most", "100")
	assert.Contains(t, text, "Not all: 100 buckets read")
	used := s.db.Meter().Sub(began)
	assert.Zero(t, used.WriteUnits())
	assert.LessOrEqual(t, used.Operations["Query"].Requests, int64(3), "pages of the index, of five: two, and a try that is repeated")
}

// screen is a pseudo terminal on which a command runs.
type screen struct {
	*shell
	keyboard *os.File
	tty      *os.File
	before   *xterm.State
	mu       sync.Mutex
	written  strings.Builder
	changed  chan struct{}
	code     chan int
	stderr   strings.Builder
	ended    chan struct{}
}

// onScreen runs a command on a pseudo terminal of a size.
func (s *shell) onScreen(width, height uint16, env map[string]string, args ...string) *screen {
	s.t.Helper()
	master, tty, err := pty.Open()
	require.NoError(s.t, err)
	x := &screen{shell: s, keyboard: master, tty: tty, changed: make(chan struct{}, 1), code: make(chan int, 1), ended: make(chan struct{})}
	x.resize(width, height)
	x.before, err = xterm.GetState(int(tty.Fd()))
	require.NoError(s.t, err)
	go func() {
		defer close(x.ended)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			x.mu.Lock()
			x.written.Write(buffer[:n])
			x.mu.Unlock()
			select {
			case x.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	out := term.New(tty, tty, func(name string) string { return env[name] })
	require.NotZero(s.t, out.Width)
	ctx := s.context()
	go func() { x.code <- run(ctx, append([]string{"--endpoint", s.endpoint}, args...), out, &x.stderr) }()
	return x
}

func (x *screen) resize(width, height uint16) {
	require.NoError(x.t, pty.Setsize(x.keyboard, &pty.Winsize{Cols: width, Rows: height}))
}

// shown is what was written so far, escape sequences and all.
func (x *screen) shown() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.written.String()
}

// await waits until a text is written that was not there after so many bytes; it returns
// how many there are then.
func (x *screen) await(after int, text string) int {
	x.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		all := x.shown()
		if strings.Contains(ansi.Strip(all[min(after, len(all)):]), text) {
			return len(all)
		}
		select {
		case <-x.changed:
		case <-limit:
			require.Fail(x.t, "not shown", "%q in %q", text, all[min(after, len(all)):])
		}
	}
}

func (x *screen) press(keys string) int {
	x.t.Helper()
	at := len(x.shown())
	_, err := x.keyboard.WriteString(keys)
	require.NoError(x.t, err)
	return at
}

// ends waits for the end of the command, and checks that the terminal is as it was.
func (x *screen) ends() int {
	x.t.Helper()
	var code int
	select {
	case code = <-x.code:
	case <-time.After(20 * time.Second):
		require.Fail(x.t, "it did not end", x.shown())
	}
	after, err := xterm.GetState(int(x.tty.Fd()))
	require.NoError(x.t, err)
	assert.Equal(x.t, x.before, after, "the terminal's modes")
	require.NoError(x.t, x.tty.Close())
	select {
	case <-x.ended:
	case <-time.After(20 * time.Second):
	}
	require.NoError(x.t, x.keyboard.Close())
	text := x.shown()
	assert.Greater(x.t, strings.LastIndex(text, "\x1b[?1049l"), strings.LastIndex(text, "\x1b[?1049h"), "the alternate screen is left")
	assert.Greater(x.t, strings.LastIndex(text, "\x1b[?25h"), strings.LastIndex(text, "\x1b[?25l"), "the cursor is shown")
	return code
}

// TestTopOnATerminal: it shows buckets, obeys keys, follows the window, and leaves the
// terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	x := inUse(t).onScreen(100, 20, nil, "top", "--resource", "gpt-4")
	x.await(0, "team-a")
	assert.Contains(t, ansi.Strip(x.shown()), "key-1")
	at := x.press("?")
	x.await(at, "scroll")
	x.press("?")
	at = x.press("p")
	x.await(at, "paused")
	at = x.press("/team")
	x.await(at, "match")
	at = x.press("\r")
	x.await(at, "filter")
	at = len(x.shown())
	x.resize(60, 12)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	x.await(at, "team-a")
	x.press("q")
	assert.Equal(t, exitOK, x.ends())
}

// TestTopFromTheListOfResources: Enter looks at one, Esc goes back, Ctrl-C quits.
func TestTopFromTheListOfResources(t *testing.T) {
	x := inUse(t).onScreen(80, 20, nil, "top")
	x.await(0, "gpt-4")
	at := x.press("\r")
	x.await(at, "team-a")
	at = x.press("\x1b")
	x.await(at, "choose")
	x.press("\x03")
	assert.Equal(t, exitOK, x.ends())
}

// TestTopOfANarrowTerminal: twenty columns are enough, without colour where NO_COLOR says
// so.
func TestTopOfANarrowTerminal(t *testing.T) {
	s := inUse(t)
	x := s.onScreen(20, 8, map[string]string{"NO_COLOR": "1"}, "top", "--entity", "team-a")
	x.await(0, "key-1")
	x.press("q")
	assert.Equal(t, exitOK, x.ends())
	for _, colour := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m"} {
		assert.NotContains(t, x.shown(), colour)
	}
}

// TestTopWhileTheTableHangs: keys are obeyed, what is waited for is told, and it ends at
// once.
func TestTopWhileTheTableHangs(t *testing.T) {
	s := inUse(t)
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
	x := s.onScreen(80, 20, nil, "top", "--resource", "gpt-4")
	x.await(0, "waiting")
	at := x.press("?")
	x.await(at, "scroll")
	x.press("q")
	assert.Equal(t, exitOK, x.ends())
}

// TestTopWhoseTableIsGone: the error stays on the screen, and the view goes on.
func TestTopWhoseTableIsGone(t *testing.T) {
	x := newShell(t).onScreen(80, 20, nil, "top", "--resource", "gpt-4", "--every", "100ms")
	x.await(0, "exist")
	x.press("q")
	assert.Equal(t, exitOK, x.ends())
}
