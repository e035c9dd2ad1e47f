// Package browsertest opens pages in Chromium, for tests. A test without an installed browser is skipped, in CI it
// fails.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// chrome is the browser of all tests of a package, which the first of them starts.
var chrome struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // a browser of chromedp is a context
	stops []func()
	err   error
}

// RunTests runs the tests of a package, for its TestMain, then ends the browser, and returns the exit code of
// the process. Goroutines that are left make it 1.
func RunTests(m *testing.M) int {
	code := m.Run()
	for _, stop := range chrome.stops {
		stop()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// startChrome starts the browser of all tests of the package at its first call. Without an installed browser it
// skips the test, or fails it in CI. It fails each test if the browser did not start.
func startChrome(t *testing.T) {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		const missing = "NO BROWSER: install Chromium (Debian: apt-get install chromium) to test what pages draw"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing) //nolint:forbidigo // CI asserts all of it
	}
	chrome.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
		alloc, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		chrome.ctx, _ = chromedp.NewContext(alloc)
		chrome.stops = []func(){func() { _ = chromedp.Cancel(chrome.ctx) }, cancel, chromedp.FromContext(chrome.ctx).Allocator.Wait}
		chrome.err = chromedp.Do(chrome.ctx)
	})
	require.NoError(t, chrome.err)
}

// Screen is the screen of a page. A screen below 500 pixels is a phone's.
type Screen struct {
	Width, Height int64
	Dark          bool
}

// Tab is a page in the browser. A failed command fails its test.
type Tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // a tab of chromedp is a context
	own string

	mu      sync.Mutex
	trouble []string
}

// OpenTab opens an empty tab for pages below the address own, and records their troubles for TakeTrouble. The
// tab closes at the end of the test, and its commands fail after two minutes.
func OpenTab(t *testing.T, own string, on Screen) *Tab {
	t.Helper()
	startChrome(t)
	p := &Tab{t: t, own: own}
	ctx, cancel := chromedp.NewContext(chrome.ctx)
	require.NoError(t, chromedp.Do(ctx)) // a tab lives as long as the context that it begins with
	ctx, enough := context.WithTimeout(ctx, 2*time.Minute)
	p.ctx = ctx
	t.Cleanup(func() {
		enough()
		cancel()
	})
	require.NoError(t, chromedp.Listen(ctx, p.recordTrouble))
	scheme := "light"
	if on.Dark {
		scheme = "dark"
	}
	Call(p, network.Enable, network.EnableParams{})
	Call(p, log.Enable, cdp.Empty{})
	Call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: on.Width, Height: on.Height, DeviceScaleFactor: 1, Mobile: on.Width < 500})
	Call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	return p
}

// Call runs a command of the browser's protocol in a tab and returns its result. An error fails the test.
func Call[P, R any](p *Tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	result, err := chromedp.Call(p.ctx, command, params)
	require.NoError(p.t, err, command.Method)
	return result
}

// recordTrouble is called for each event of the tab. It appends console messages, exceptions, log entries and
// requests to other addresses to p.trouble, for TakeTrouble. Addresses with data do not count, because the
// browser draws its own controls so.
func (p *Tab) recordTrouble(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		p.trouble = append(p.trouble, fmt.Sprintf("console: %s", e.Args[0].Value))
	case *runtime.EventExceptionThrown:
		p.trouble = append(p.trouble, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		p.trouble = append(p.trouble, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.own) && !strings.HasPrefix(e.Request.URL, "data:") {
			p.trouble = append(p.trouble, "request: "+e.Request.URL)
		}
	}
}

// TakeTrouble returns the console messages, exceptions, log entries and foreign requests of the pages since the
// last call, as texts, and forgets them. It returns nil without any.
func (p *Tab) TakeTrouble() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.trouble
	p.trouble = nil
	return all
}

// Do runs browser actions in the tab, one after the other. An error fails the test.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// Eval stores the value of a JavaScript expression in the page, or of its promise, in result, a pointer. An
// error fails the test.
func (p *Tab) Eval(expression string, result any) {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(JSON.stringify)", chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	require.NoError(p.t, json.Unmarshal([]byte(text), result), expression)
}

// Text returns the value of a JavaScript expression in the page, or of its promise, which must be a text. An
// error fails the test.
func (p *Tab) Text(expression string) (s string) {
	p.t.Helper()
	p.Eval(expression, &s)
	return s
}

// WaitFor waits until the text of a JavaScript expression in the page contains part, and fails the test after
// 20 s. While one page replaces another, an expression may have no value; it waits then too.
func (p *Tab) WaitFor(expression, part string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression))
		return err == nil && strings.Contains(text, part)
	}, 20*time.Second, 50*time.Millisecond, expression)
}

// SavePicture writes a screenshot of the page as name.png into the folder that DYNALIMIT_PICTURES names. It
// does nothing if that is not set. An error fails the test.
func (p *Tab) SavePicture(name string) {
	p.t.Helper()
	folder := os.Getenv("DYNALIMIT_PICTURES")
	if folder == "" {
		return
	}
	picture := Call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	require.NoError(p.t, os.WriteFile(filepath.Join(folder, name+".png"), picture.Data, 0o600))
}
