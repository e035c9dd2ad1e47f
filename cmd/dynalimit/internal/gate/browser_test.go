package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/gate"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/internal/testworld/spend"
)

// TestMain closes the one browser of all tests, and leaves nothing behind.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range chrome.stops {
		stop()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// chrome is the browser of all tests, which the first of them starts.
var chrome struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // a browser of chromedp is a context
	stops []func()
	err   error
}

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
		const missing = "NO BROWSER: install Chromium (Debian: apt-get install chromium) to test the console's pages"
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

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // a tab of chromedp is a context
	mu  sync.Mutex
	own string
	// trouble is what a page complained of, or asked for elsewhere.
	trouble []string
}

// openTab opens a tab of a width, dark or light, for the pages of one origin.
func openTab(t *testing.T, own string, width int64, dark bool) *tab {
	t.Helper()
	p := &tab{t: t, own: own}
	ctx, cancel := chromedp.NewContext(chrome.ctx)
	require.NoError(t, chromedp.Do(ctx)) // a tab lives as long as the context that it begins with
	ctx, enough := context.WithTimeout(ctx, 2*time.Minute)
	p.ctx = ctx
	t.Cleanup(func() {
		enough()
		cancel()
	})
	require.NoError(t, chromedp.Listen(ctx, p.hear))
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	return p
}

// call runs a command of the browser's protocol in a tab.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, command, params)
	require.NoError(p.t, err, command.Method)
}

// hear notes what no page should do.
func (p *tab) hear(event any) {
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

// takeTrouble returns what was heard since the last call.
func (p *tab) takeTrouble() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.trouble
	p.trouble = nil
	return all
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// eval puts the value of an expression into result.
func (p *tab) eval(expression string, result any) {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(JSON.stringify)", chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	require.NoError(p.t, json.Unmarshal([]byte(text), result), expression)
}

// waitFor waits until the text of an expression contains part. While one page replaces another, an expression may
// have no value.
func (p *tab) waitFor(expression, part string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression))
		return err == nil && strings.Contains(text, part)
	}, 20*time.Second, 50*time.Millisecond, expression)
}

// keep writes a picture of the page into the folder that DYNALIMIT_PICTURES names, if it does.
func keep(p *tab, name string) {
	p.t.Helper()
	folder := os.Getenv("DYNALIMIT_PICTURES")
	if folder == "" {
		return
	}
	picture, err := chromedp.Call(p.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{})
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(folder, name+".png"), picture.Data, 0o600))
}

// text is the value of an expression that is a text.
func (p *tab) text(expression string) (s string) {
	p.t.Helper()
	p.eval(expression, &s)
	return s
}

// served is the console of a world behind a gate on loopback.
type served struct {
	url, prefix string
	codes       chan string
}

func serveWorld(t *testing.T) served {
	t.Helper()
	w := spend.New(t, time.Date(2026, 11, 27, 18, 17, 0, 0, time.UTC), 4)
	s := served{codes: make(chan string, 64)}
	door := gate.New("7777", time.Now, func(code string) { s.codes <- code })
	handler, err := console.New(w.Repo, w.Reader, &console.Options{
		Prefix: door.Prefix, Now: w.Now, Where: "us-east-1", ReadUnits: 1e6,
		Authorize: func(r *http.Request) (console.Access, error) {
			session := door.Session(r)
			if session == "" {
				return console.Access{}, console.ErrLogin
			}
			return console.Access{Principal: "ann@dynalimit.example", Change: true, Session: session}, nil
		},
		Doctor: func(context.Context) ([]console.Finding, error) {
			return []console.Finding{{Status: "ok", Check: "table", Found: "is active"}, {Status: "wrong", Check: "clock", Found: spend.Hostile, Fix: "sudo chronyc makestep"}}, nil
		},
	})
	require.NoError(t, err)
	door.Serve(handler)
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	s.url, s.prefix = server.URL, door.Prefix
	door.Issue()
	return s
}

// login opens the console by the address that the command prints.
func (s served) login(p *tab) {
	p.t.Helper()
	p.do(chromedp.Navigate(s.url + "/#" + <-s.codes))
	p.waitFor(`document.querySelector("h1") ? document.querySelector("h1").textContent : ""`, "Overview")
	assert.Equal(p.t, s.url+s.prefix, p.text("location.href"), "the code is gone from the address")
}

// TestConsoleInABrowser: each page, on a desk and a phone, light and dark.
func TestConsoleInABrowser(t *testing.T) {
	startChrome(t)
	s := serveWorld(t)
	first := openTab(t, s.url, 1280, false)
	s.login(first)
	for _, width := range []int64{1280, 390} {
		for _, dark := range []bool{false, true} {
			p := openTab(t, s.url, width, dark)
			for _, page := range []string{
				"", "entities", "entities?q=globex.r", "entities?all=1", "entities?q=none", "entity/acme.search.prod", "entity/acme", "entity/initech.sandbox.ann", "entity/nobody", "entity/acme.search.prod/change/raise", "entity/initech.sandbox.ci/change/unblock", "entity/nobody/change/grant", "models", "plans", "audit?before=2026-11-25", "doctor",
			} {
				p.do(chromedp.Navigate(s.url + s.prefix + page))
				name := fmt.Sprintf("%q at %d px, dark %v", page, width, dark)
				assert.Empty(t, p.takeTrouble(), name)
				var seen struct {
					Wide, Styles, Scripts, Headings int
					Unnamed                         []string
				}
				p.eval(`({
					Wide: document.documentElement.scrollWidth - innerWidth,
					Styles: document.querySelectorAll("[style]").length,
					Scripts: document.querySelectorAll("script").length,
					Headings: document.querySelectorAll("h1").length,
					Unnamed: [...document.querySelectorAll("svg[role=img]")].filter(x => !x.getAttribute("aria-label")).map(x => x.outerHTML.slice(0, 80))})`, &seen)
				assert.LessOrEqual(t, seen.Wide, 0, "%s scrolls sideways", name)
				assert.Equal(t, []any{0, 1, 1}, []any{seen.Styles, seen.Scripts, seen.Headings}, name)
				assert.Empty(t, seen.Unnamed, name)
			}
		}
	}
}

// TestConsoleByKeyboard: "/" searches, arrows read charts, and a form asks the doctor.
func TestConsoleByKeyboard(t *testing.T) {
	startChrome(t)
	s := serveWorld(t)
	p := openTab(t, s.url, 1280, false)
	s.login(p)
	p.do(chromedp.Focus(chromedp.CSS(".chart")), chromedp.KeyEvent(kb.ArrowLeft))
	assert.Regexp(t, `^Nov 27: \$[\d.]+ acme \$`, p.text(`document.querySelector(".read").textContent`))
	p.do(chromedp.KeyEvent("/"))
	p.waitFor("location.pathname + (document.activeElement?.id ?? '')", s.prefix+"entitiesq")
	p.do(chromedp.Navigate(s.url+s.prefix+"doctor"), chromedp.Click(chromedp.CSS("form button")))
	p.waitFor("document.body ? document.body.textContent : ''", "sudo chronyc")
	assert.Contains(t, p.text("document.querySelector('main').textContent"), spend.Hostile, "as text")
	assert.Empty(t, p.takeTrouble())
}

// TestConsoleWithoutScript: only live values are missing; the code is typed.
func TestConsoleWithoutScript(t *testing.T) {
	startChrome(t)
	s := serveWorld(t)
	p := openTab(t, s.url, 390, false)
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.do(chromedp.Navigate(s.url + "/"))
	p.do(chromedp.SendKeys(chromedp.CSS("#code"), <-s.codes), chromedp.Click(chromedp.CSS("button")))
	p.do(chromedp.WaitVisible(chromedp.CSS("#nav a")))
	p.do(chromedp.Click(chromedp.CSS(`#nav a[href$="/entities"]`)), chromedp.WaitVisible(chromedp.CSS("#rows")))
	assert.Empty(t, p.takeTrouble())
}

// TestChangesInABrowser: the form, the diff and the result, on a desk and a phone, light and dark, by keyboard, and
// without script. A hostile reason is text.
func TestChangesInABrowser(t *testing.T) {
	startChrome(t)
	s := serveWorld(t)
	s.login(openTab(t, s.url, 1280, false))
	const text = "document.body ? document.body.textContent : ''"
	for i, screen := range []struct {
		width        int64
		dark, script bool
	}{{1280, false, true}, {1280, true, true}, {390, false, true}, {390, true, false}} {
		p := openTab(t, s.url, screen.width, screen.dark)
		if !screen.script {
			call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		}
		p.do(chromedp.Navigate(s.url+s.prefix+"entity/acme.search.prod/change/raise"), chromedp.SendKeys(chromedp.CSS("[name=amount]"), "900"), chromedp.SendKeys(chromedp.CSS("[name=reason]"), "the launch"+kb.Enter))
		p.do(chromedp.WaitVisible(chromedp.CSS("[name=token] ~ .end button")))
		keep(p, fmt.Sprintf("raise-review-%d", i))
		p.do(chromedp.Navigate(s.url+s.prefix+"entity/acme.search.prod"), chromedp.Click(chromedp.CSS(`a[href$="/change/grant"]`)), chromedp.WaitVisible(chromedp.CSS("[name=amount]")))
		keep(p, fmt.Sprintf("grant-form-%d", i))
		p.do(chromedp.SendKeys(chromedp.CSS("[name=amount]"), "20"), chromedp.SendKeys(chromedp.CSS("[name=reason]"), spend.Hostile+kb.Enter), chromedp.WaitVisible(chromedp.CSS("[name=token] ~ .end button")))
		keep(p, fmt.Sprintf("grant-review-%d", i))
		p.do(chromedp.Focus(chromedp.CSS("form button.go")), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("a.btn.go")))
		keep(p, fmt.Sprintf("grant-done-%d", i))
		if screen.script {
			assert.Contains(t, p.text(text), "Granted.")
			var wide int
			p.eval("document.documentElement.scrollWidth - innerWidth", &wide)
			assert.LessOrEqual(t, wide, 0)
		}
		p.do(chromedp.Click(chromedp.CSS("a.btn.go")), chromedp.WaitVisible(chromedp.CSS(".limits")))
		if screen.script {
			assert.Contains(t, p.text("document.querySelector('main').textContent"), spend.Hostile, "as text")
		}
		keep(p, fmt.Sprintf("entity-%d", i))
		assert.Empty(t, p.takeTrouble())
	}
}

// TestOtherPortsSeeNoCookie: another program on this machine that the same browser visits.
func TestOtherPortsSeeNoCookie(t *testing.T) {
	startChrome(t)
	s := serveWorld(t)
	heard := make(chan http.Header, 8)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/visit" {
			heard <- r.Header.Clone()
		}
		_, _ = fmt.Fprint(w, "<!doctype html><title>other</title><link rel=icon href='data:,'><form method=post action='"+s.url+"/login'><button>x</button></form>")
	}))
	t.Cleanup(other.Close)
	p := openTab(t, "http://127.0.0.1:", 1280, false)
	s.login(p)
	p.do(chromedp.Navigate(other.URL + "/visit"))
	assert.Empty(t, (<-heard).Values("Cookie"))
	p.do(chromedp.Navigate(s.url + s.prefix))
	assert.Equal(t, "Overview", p.text(`document.querySelector("h1").textContent`), "the session goes on")
}
