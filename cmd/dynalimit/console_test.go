package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// pipes is a listener whose connections are pipes in this process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestConsoleCutsOffSlowClients: slow headers, slow bodies, answers that nobody reads and idle connections. Above 64
// connections the next one waits for a place.
func TestConsoleCutsOffSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		server := newConsoleServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write(make([]byte, 1<<20))
		}))
		served := make(chan error, 1)
		go func() {
			served <- server.Serve(&boundedListener{Listener: listener, places: make(chan struct{}, mostConnections)})
		}()
		connect := func() net.Conn {
			ours, theirs := net.Pipe()
			go func() { listener <- theirs }()
			return ours
		}
		for name, c := range map[string]struct {
			text          string
			writes, reads bool
			after         time.Duration
		}{
			"headers": {"GET / HTTP/1.1\r\n", true, true, consoleHeaderTime},
			"body":    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", true, true, consoleReadTime},
			"nothing": {"", false, true, consoleHeaderTime},
			"idle":    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", false, true, consoleIdleTime},
			"reader":  {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, false, consoleWriteTime},
		} {
			conn, began, ended, over := connect(), time.Now(), make(chan struct{}, 2), make(chan struct{})
			_, err := conn.Write([]byte(c.text))
			require.NoError(t, err, name)
			if c.reads {
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					ended <- struct{}{}
				}()
			}
			if c.writes {
				go func() {
					for open := true; open; {
						select {
						case <-time.After(time.Second):
							_, err := conn.Write([]byte("x"))
							open = err == nil
						case <-over:
							return
						}
					}
					ended <- struct{}{}
				}()
			}
			<-ended
			assert.InDelta(t, c.after, time.Since(began), float64(time.Second), name)
			close(over)
			conn.Close()
		}
		var open []net.Conn
		for range mostConnections {
			open = append(open, connect())
		}
		synctest.Wait()
		next := make(chan struct{})
		go func() {
			_, theirs := net.Pipe()
			listener <- theirs
			close(next)
		}()
		synctest.Wait()
		select {
		case <-next:
			t.Error("above the bound")
		default:
		}
		open[0].Close()
		<-next
		for _, conn := range open {
			conn.Close()
		}
		close(listener)
		require.Error(t, <-served)
		require.NoError(t, server.Close())
	})
}
