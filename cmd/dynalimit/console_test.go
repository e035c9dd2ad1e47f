package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// TestConsoleServesWhoHasTheCode: by the printed address, once, below a secret path, until Ctrl-C.
func TestConsoleServesWhoHasTheCode(t *testing.T) {
	engine := serve(t, "--port", "0")
	defer engine.stop()
	code, _, _ := runPlain(t, "table", "create", "--endpoint", engine.url)
	require.Equal(t, exitOK, code)
	ctx, interrupt := context.WithCancel(t.Context())
	read, write := io.Pipe()
	codes := make(chan int, 1)
	go func() {
		codes <- run(ctx, []string{"console", "--port", "0", "--changes", "--as", "ann", "--endpoint", engine.url}, &term.Output{Writer: write}, t.Output())
		write.Close()
	}()
	lines := bufio.NewScanner(read)
	var at, printed string
	for at == "" && lines.Scan() {
		at, printed = address.FindString(lines.Text()), printed+lines.Text()
	}
	assert.Contains(t, printed, "changes allowed: every session makes them as ann.")
	go func() {
		for lines.Scan() { // until it ends
			continue
		}
	}()
	base, secret, found := strings.Cut(at, "/#")
	require.True(t, found, at)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	get := func(c *http.Client, u string) (int, string) {
		answer, err := c.Get(u) //nolint:noctx // of a test
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	_, page := get(browser, base)
	assert.Contains(t, page, "Code from the terminal")
	answer, err := browser.PostForm(base+"/login", url.Values{"code": {secret}}) //nolint:noctx // of a test
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	answer.Body.Close()
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	assert.Contains(t, string(text), "Nothing is here yet")
	assert.Contains(t, string(text), "ann")
	home := answer.Request.URL.String()
	status, _ := get(http.DefaultClient, home)
	assert.Equal(t, http.StatusUnauthorized, status, "who knows the path has no session")
	answer, err = browser.PostForm(home+"doctor", nil) //nolint:noctx // of a test
	require.NoError(t, err)
	text, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	answer.Body.Close()
	assert.Contains(t, string(text), "Look again")
	_, page = get(browser, home+"entity/key-1/change/block")
	assert.Contains(t, page, "Show the change")
	interrupt()
	assert.Equal(t, exitOK, <-codes)
}
