package gate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/browsertest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/gate"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/internal/testworld/spend"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) { os.Exit(browsertest.RunTests(m)) }

// openTab opens a tab of a width, dark or light, for the pages of one origin.
func openTab(t *testing.T, own string, width int64, dark bool) *browsertest.Tab {
	t.Helper()
	return browsertest.OpenTab(t, own, browsertest.Screen{Width: width, Height: 900, Dark: dark})
}

// served is the console of a world behind a gate on loopback.
type served struct {
	url, prefix string
	codes       chan string
}

func serveWorld(t *testing.T) served {
	t.Helper()
	w := spend.New(t, time.Date(2026, 11, 27, 18, 17, 0, 0, time.UTC), 4)
	w.CloseAlerts()
	s := served{codes: make(chan string, 64)}
	door := gate.New("7777", time.Now, func(code string) { s.codes <- code })
	handler, err := console.New(w.Repo, w.Reader, &console.Options{
		Prefix: door.Prefix, Now: w.Now, Where: "us-east-1", ReadUnits: 1e6, Prices: prices.CatalogList(),
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
	door.SetPage(handler)
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	s.url, s.prefix = server.URL, door.Prefix
	door.Issue()
	return s
}

// login opens the console by the address that the command prints.
func (s served) login(t *testing.T, p *browsertest.Tab) {
	t.Helper()
	p.Do(chromedp.Navigate(s.url + "/#" + <-s.codes))
	p.WaitFor(`document.querySelector("h1") ? document.querySelector("h1").textContent : ""`, "Overview")
	assert.Equal(t, s.url+s.prefix, p.Text("location.href"), "the code is gone from the address")
}

// TestConsoleInABrowser: each page, on a desk and a phone, light and dark.
func TestConsoleInABrowser(t *testing.T) {
	s := serveWorld(t)
	first := openTab(t, s.url, 1280, false)
	s.login(t, first)
	for _, width := range []int64{1280, 390} {
		for _, dark := range []bool{false, true} {
			p := openTab(t, s.url, width, dark)
			for _, page := range []string{
				"", "entities", "entities?q=globex.r", "entities?all=1", "entities?q=none", "entity/acme.search.prod", "entity/acme", "entity/initech.sandbox.ann", "entity/nobody", "entity/acme.search.prod/change/raise", "entity/initech.sandbox.ci/change/unblock", "entity/nobody/change/grant", "models", "plans", "alerts", "alerts?state=waiting", "alerts?entity=acme.search.prod", "audit?before=2026-11-25", "doctor",
			} {
				p.Do(chromedp.Navigate(s.url + s.prefix + page))
				name := fmt.Sprintf("%q at %d px, dark %v", page, width, dark)
				assert.Empty(t, p.TakeTrouble(), name)
				p.SavePicture(fmt.Sprintf("%s-%d-%v", strings.NewReplacer("/", "-", "?", "-").Replace(page), width, dark))
				var seen struct {
					Wide, Styles, Scripts, Headings int
					Unnamed                         []string
				}
				p.Eval(`({
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
	s := serveWorld(t)
	p := openTab(t, s.url, 1280, false)
	s.login(t, p)
	p.Do(chromedp.Focus(chromedp.CSS(".chart")), chromedp.KeyEvent(kb.ArrowLeft))
	assert.Regexp(t, `^Nov 27: \$[\d.]+ .*gpt-4.1 \$`, p.Text(`document.querySelector(".read").textContent`))
	p.Do(chromedp.KeyEvent("/"))
	p.WaitFor("location.pathname + (document.activeElement?.id ?? '')", s.prefix+"entitiesq")
	p.Do(chromedp.Navigate(s.url+s.prefix+"doctor"), chromedp.Click(chromedp.CSS("form button")))
	p.WaitFor("document.body ? document.body.textContent : ''", "sudo chronyc")
	assert.Contains(t, p.Text("document.querySelector('main').textContent"), spend.Hostile, "as text")
	assert.Empty(t, p.TakeTrouble())
}

// TestConsoleWithoutScript: only live values are missing; the code is typed.
func TestConsoleWithoutScript(t *testing.T) {
	s := serveWorld(t)
	p := openTab(t, s.url, 390, false)
	browsertest.Call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.Do(chromedp.Navigate(s.url + "/"))
	p.Do(chromedp.SendKeys(chromedp.CSS("#code"), <-s.codes), chromedp.Click(chromedp.CSS("button")))
	p.Do(chromedp.WaitVisible(chromedp.CSS("#nav a")))
	p.Do(chromedp.Click(chromedp.CSS(`#nav a[href$="/entities"]`)), chromedp.WaitVisible(chromedp.CSS("#rows")))
	assert.Empty(t, p.TakeTrouble())
}

// TestChangesInABrowser: the form, the diff and the result, on a desk and a phone, light and dark, by keyboard, and
// without script. A hostile reason is text.
func TestChangesInABrowser(t *testing.T) {
	s := serveWorld(t)
	s.login(t, openTab(t, s.url, 1280, false))
	const text = "document.body ? document.body.textContent : ''"
	for i, screen := range []struct {
		width        int64
		dark, script bool
	}{{1280, false, true}, {1280, true, true}, {390, false, true}, {390, true, false}} {
		p := openTab(t, s.url, screen.width, screen.dark)
		if !screen.script {
			browsertest.Call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		}
		p.Do(chromedp.Navigate(s.url+s.prefix+"entity/acme.search.prod/change/raise"), chromedp.SendKeys(chromedp.CSS("[name=amount]"), "900"), chromedp.SendKeys(chromedp.CSS("[name=reason]"), "the launch"+kb.Enter))
		p.Do(chromedp.WaitVisible(chromedp.CSS("[name=token] ~ .end button")))
		p.SavePicture(fmt.Sprintf("raise-review-%d", i))
		p.Do(chromedp.Navigate(s.url+s.prefix+"entity/acme.search.prod"), chromedp.Click(chromedp.CSS(`a[href$="/change/grant"]`)), chromedp.WaitVisible(chromedp.CSS("[name=amount]")))
		p.SavePicture(fmt.Sprintf("grant-form-%d", i))
		p.Do(chromedp.SendKeys(chromedp.CSS("[name=amount]"), "20"), chromedp.SendKeys(chromedp.CSS("[name=reason]"), spend.Hostile+kb.Enter), chromedp.WaitVisible(chromedp.CSS("[name=token] ~ .end button")))
		p.SavePicture(fmt.Sprintf("grant-review-%d", i))
		p.Do(chromedp.Focus(chromedp.CSS("form button.go")), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("a.btn.go")))
		p.SavePicture(fmt.Sprintf("grant-done-%d", i))
		if screen.script {
			assert.Contains(t, p.Text(text), "Granted.")
			var wide int
			p.Eval("document.documentElement.scrollWidth - innerWidth", &wide)
			assert.LessOrEqual(t, wide, 0)
		}
		p.Do(chromedp.Click(chromedp.CSS("a.btn.go")), chromedp.WaitVisible(chromedp.CSS(".limits")))
		if screen.script {
			assert.Contains(t, p.Text("document.querySelector('main').textContent"), spend.Hostile, "as text")
		}
		p.SavePicture(fmt.Sprintf("entity-%d", i))
		assert.Empty(t, p.TakeTrouble())
	}
}

// TestOtherPortsSeeNoCookie: another program on this machine that the same browser visits.
func TestOtherPortsSeeNoCookie(t *testing.T) {
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
	s.login(t, p)
	p.Do(chromedp.Navigate(other.URL + "/visit"))
	assert.Empty(t, (<-heard).Values("Cookie"))
	p.Do(chromedp.Navigate(s.url + s.prefix))
	assert.Equal(t, "Overview", p.Text(`document.querySelector("h1").textContent`), "the session goes on")
}
