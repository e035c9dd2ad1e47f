package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.RunTests(m)) }

// tab is a report in the browser.
type tab struct{ *browsertest.Tab }

var (
	desk  = browsertest.Screen{Width: 1200, Height: 900}
	phone = browsertest.Screen{Width: 360, Height: 640}
)

// open shows a report. A page that complains, or loads anything, fails its test.
func open(t *testing.T, r Report, on browsertest.Screen) tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, page(t, r), 0o600))
	p := tab{browsertest.OpenTab(t, "file://"+file, on)}
	t.Cleanup(func() { assert.Empty(t, p.TakeTrouble()) })
	p.Do(chromedp.Navigate("file://" + file))
	p.settle()
	return p
}

// page is the report as it is written.
func page(t *testing.T, r Report) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, r))
	return b.Bytes()
}

// press presses keys, one after the other.
func (p tab) press(keys ...string) {
	for _, key := range keys {
		p.Do(chromedp.KeyEvent(key))
	}
	p.settle()
}

// click clicks on the first element of a selector.
func (p tab) click(selector string) {
	p.Do(chromedp.Click(chromedp.CSS(selector)))
	p.settle()
}

// focus gives the keyboard to the first element of a selector.
func (p tab) focus(selector string) {
	p.Do(chromedp.Focus(chromedp.CSS(selector)))
}

// settle waits until the page has drawn what it is to draw.
func (p tab) settle() {
	p.Eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))", new(int))
}

// reading is what a panel says of the window that is pointed at.
func (p tab) reading(panel string) string {
	return p.Text(`document.querySelector("#` + panel + ` .reading").textContent`)
}

// pixel is the colour of a panel's chart at a value in the middle of a window, as
// #rrggbb; empty where nothing is drawn.
func (p tab) pixel(panel string, window int, value float64) string {
	return p.painted(panel, window, fmt.Sprintf(`u.valToPos(%f, "y", true)`, value))
}

// painted is the colour at a height of the canvas in the middle of a window.
func (p tab) painted(panel string, window int, y string) string {
	return p.Text(fmt.Sprintf(`(() => {
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
func (p tab) colour(name string) string {
	return strings.TrimSpace(p.Text(`getComputedStyle(document.documentElement).getPropertyValue("--` + name + `")`))
}
