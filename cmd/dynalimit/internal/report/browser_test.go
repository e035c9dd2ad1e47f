package report

import (
	"bytes"
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
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain closes the one browser of all tests, and leaves nothing behind.
func TestMain(m *testing.M) {
	code := m.Run()
	chrome.stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// chrome is the browser of all tests, which the first of them starts.
var chrome browser

type browser struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // a browser of chromedp is a context
	stops []func()
	err   error
}

// program is a browser that is installed here.
func program() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func (b *browser) start(path string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	b.ctx, _ = chromedp.NewContext(alloc)
	b.stops = []func(){func() { _ = chromedp.Cancel(b.ctx) }, cancel, chromedp.FromContext(b.ctx).Allocator.Wait}
	b.err = chromedp.Do(b.ctx)
}

func (b *browser) stop() {
	for _, stop := range b.stops {
		stop()
	}
}

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // a tab of chromedp is a context
	mu  sync.Mutex
	// trouble is what the page complained of, or asked for besides itself.
	trouble []string
}

// screen is what a page is shown on.
type screen struct {
	width, height int64
	dark          bool
}

var (
	desk  = screen{width: 1200, height: 900}
	phone = screen{width: 360, height: 640}
)

// open shows a report. A page that complains, or loads anything, fails its test.
func open(t *testing.T, r Report, on screen) *tab {
	t.Helper()
	path, err := program()
	if err != nil {
		const missing = "NO BROWSER: install Chromium (Debian: apt-get install chromium) to test what the page draws"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing) //nolint:forbidigo // CI asserts all of it
	}
	chrome.once.Do(func() { chrome.start(path) })
	require.NoError(t, chrome.err)

	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, page(t, r), 0o600))
	p := &tab{t: t}
	ctx, cancel := chromedp.NewContext(chrome.ctx)
	require.NoError(t, chromedp.Do(ctx)) // a tab lives as long as the context that it begins with
	ctx, enough := context.WithTimeout(ctx, time.Minute)
	p.ctx = ctx
	t.Cleanup(func() {
		assert.Empty(t, p.troubles())
		enough()
		cancel()
	})
	require.NoError(t, chromedp.Listen(ctx, func(event any) { p.hear(event, "file://"+file) }))
	scheme := "light"
	if on.dark {
		scheme = "dark"
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: on.width, Height: on.height, DeviceScaleFactor: 1, Mobile: on.width < 500,
	})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	p.do(chromedp.Navigate("file://" + file))
	p.settle()
	return p
}

// call runs a command of the browser's protocol in a tab.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, command, params)
	require.NoError(p.t, err, command.Method)
}

// page is the report as it is written.
func page(t *testing.T, r Report) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, r))
	return b.Bytes()
}

// hear notes what no page should do.
func (p *tab) hear(event any, self string) {
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
		if e.Request.URL != self {
			p.trouble = append(p.trouble, "request: "+e.Request.URL)
		}
	case *network.EventLoadingFailed:
		p.trouble = append(p.trouble, "failed: "+e.ErrorText)
	}
}

func (p *tab) troubles() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.trouble...)
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
	p.settle()
}

// click clicks on the first element of a selector.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
	p.settle()
}

// focus gives the keyboard to the first element of a selector.
func (p *tab) focus(selector string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)))
}

// settle waits until the page has drawn what it is to draw.
func (p *tab) settle() {
	p.t.Helper()
	p.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))", new(int))
}

// eval puts the value of an expression into result.
func (p *tab) eval(expression string, result any) {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(JSON.stringify)", chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	require.NoError(p.t, json.Unmarshal([]byte(text), result), expression)
}

// text is the value of an expression that is a text.
func (p *tab) text(expression string) (s string) {
	p.t.Helper()
	p.eval(expression, &s)
	return s
}

// reading is what a panel says of the window that is pointed at.
func (p *tab) reading(panel string) string {
	p.t.Helper()
	return p.text(`document.querySelector("#` + panel + ` .reading").textContent`)
}

// pixel is the colour of a panel's chart at a value in the middle of a window, as
// #rrggbb; empty where nothing is drawn.
func (p *tab) pixel(panel string, window int, value float64) string {
	p.t.Helper()
	return p.painted(panel, window, fmt.Sprintf(`u.valToPos(%f, "y", true)`, value))
}

// painted is the colour at a height of the canvas in the middle of a window.
func (p *tab) painted(panel string, window int, y string) string {
	p.t.Helper()
	return p.text(fmt.Sprintf(`(() => {
		const u = document.querySelector("#%s .chart").plot, d = JSON.parse(document.getElementById("data").textContent), i = %d;
		const end = i + 1 < d.starts.length ? d.starts[i + 1] : d.to;
		const copy = document.createElement("canvas");
		copy.width = copy.height = 1;
		const ctx = copy.getContext("2d", { willReadFrequently: true });
		ctx.drawImage(u.ctx.canvas, -Math.round(u.valToPos((d.starts[i] + end) / 2, "x", true)), -Math.round(%s));
		const [r, g, b, a] = ctx.getImageData(0, 0, 1, 1).data;
		return a === 0 ? "" : "#" + [r, g, b].map(v => v.toString(16).padStart(2, "0")).join("");
	})()`, panel, window, y))
}

// colour is a colour of the page, as #rrggbb.
func (p *tab) colour(name string) string {
	p.t.Helper()
	return strings.TrimSpace(p.text(`getComputedStyle(document.documentElement).getPropertyValue("--` + name + `")`))
}
