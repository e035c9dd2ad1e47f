//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestUsageWatchOnATerminal: it shows usage, follows it, obeys keys, and leaves the terminal
// as it was.
func TestUsageWatchOnATerminal(t *testing.T) {
	m := weekOfUse(t)
	x := m.onScreen(100, 20, nil, "usage", "watch", "--entity", "key-1", "--resource", "gpt-4", "--every", "1s")
	x.await(0, "865")
	assert.Contains(t, ansi.Strip(x.shown()), "usage of key-1 on gpt-4")
	assert.Contains(t, ansi.Strip(x.shown()), "read units")
	at := len(x.shown())
	m.use("key-1", "gpt-4", 1000)
	x.await(at, "1,865")
	at = x.press("p")
	x.await(at, "paused")
	x.press("?/s\x1b[B") // keys of other views do no harm
	x.press("q")
	assert.Equal(t, exitOK, x.ends())
}

// TestUsageWatchOfANarrowTerminal: no line is wider than it, and Ctrl-C ends it.
func TestUsageWatchOfANarrowTerminal(t *testing.T) {
	x := weekOfUse(t).onScreen(24, 6, map[string]string{"NO_COLOR": "1", "LANG": "C"}, "usage", "watch", "--entity", "key-1")
	x.await(0, "rpm")
	at := x.press("\x1b[B")
	x.await(at, "gpt-4")
	at = x.press("\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B")
	x.await(at, "Pending")
	x.press("\x03")
	assert.Equal(t, exitOK, x.ends())
	for _, r := range ansi.Strip(x.shown()) {
		assert.Less(t, r, rune(0x80), "the locale knows no more")
	}
}

// TestUsageWatchWhileTheTableHangs: it says what it waits for, and ends at once.
func TestUsageWatchWhileTheTableHangs(t *testing.T) {
	m := weekOfUse(t)
	m.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
	x := m.onScreen(80, 20, nil, "usage", "watch", "--entity", "key-1")
	x.await(0, "waiting")
	x.press("q")
	assert.Equal(t, exitOK, x.ends())
	m.db.SetFaults(nil)
}
