package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/browsertest"
)

func TestChartsDrawWhatTheReportSays(t *testing.T) {
	r := sample()
	p := open(t, r, desk)
	var top []float64
	for i, resource := range r.Resources {
		p.Eval(fmt.Sprintf(`document.querySelector("#r%d-0 .chart").plot.data[1]`, i), &top)
		require.Len(t, top, len(r.Starts))
		for w, total := range resource.Limits[0].Total {
			assert.InDelta(t, float64(total)/1000, top[w], 1e-6, "%s in window %d", resource.Name, w)
		}
	}

	search := p.colour("s0")
	assert.Equal(t, search, p.pixel("r0-0", 100, 1530), "the spike of the one that made it")
	assert.Empty(t, p.pixel("r0-0", 99, 1530), "and not before")
	assert.Empty(t, p.pixel("r0-0", 101, 1530), "nor after")
	values := r.Resources[0].Limits[0].Entities
	below := 0.0
	for i, s := range values {
		v := float64(s.Values[60]) / 1000
		assert.Equal(t, p.colour("s"+strconv.Itoa(i)), p.pixel("r0-0", 60, below+v/2), "%s stands on the others", s.Entity)
		below += v
	}
	assert.Equal(t, p.colour("rest"), p.pixel("r0-0", 60, below+15))

	last := len(r.Starts) - 1
	assert.Equal(t, p.colour("open"), p.pixel("r0-0", last, 1930), "the last hour is open")
	assert.Empty(t, p.pixel("r0-0", last-2, 1930))
	assert.Equal(t, p.colour("gap"), p.painted("r0-0", 40, "u.bbox.top - 3"), "a gap is marked")
	assert.Empty(t, p.painted("r0-0", 41, "u.bbox.top - 3"))
}

func TestPointerReadsValues(t *testing.T) {
	p := open(t, sample(), desk)
	var at struct{ X, Y float64 }
	p.Do(chromedp.ScrollIntoView(chromedp.CSS("#r0-0 .chart")))
	p.Eval(`(() => {
		const u = document.querySelector("#r0-0 .chart").plot, d = JSON.parse(document.getElementById("data").textContent);
		const over = u.over.getBoundingClientRect();
		return {X: over.left + u.valToPos(d.starts[100] + 3500, "x"), Y: over.top + 20};
	})()`, &at)
	p.Do(chromedp.MouseEvent(chromedp.MouseMoved, at.X-1, at.Y), chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y))
	p.settle()
	total := amountText(sample().Resources[0].Limits[0].Total[100])
	assert.Equal(t, "Tue 20 Jan 2026, 04:00–05:00 · "+total+" rpm · 24 without records", p.reading("r0-0"), "the end of a window is still of it")
	assert.Equal(t, "search "+amountText(sample().Resources[0].Limits[0].Entities[0].Values[100]),
		p.Text(`(b => b.querySelector("bdi").textContent + " " + b.querySelector("b").textContent)(document.querySelector("#r0-0 .legend button"))`))
	p.Do(chromedp.MouseEvent(chromedp.MouseMoved, 2, 2))
	p.settle()
	assert.Contains(t, p.reading("r0-0"), "arrow keys")
}

func TestKeyboard(t *testing.T) {
	p := open(t, sample(), desk)
	p.focus("#r0-0 .chart")
	p.press(kb.Home)
	assert.Contains(t, p.reading("r0-0"), "Fri 16 Jan 2026, 00:00–01:00 · ")
	p.press(kb.ArrowRight, kb.ArrowRight, kb.ArrowLeft)
	assert.Contains(t, p.reading("r0-0"), "Fri 16 Jan 2026, 01:00–02:00 · ")
	p.press(kb.End)
	assert.Contains(t, p.reading("r0-0"), "Thu 22 Jan 2026, 23:00–00:00 · ")
	assert.Contains(t, p.reading("r0-0"), "open: more may come · 12.5 not in the stream yet")
	p.press(kb.ArrowRight)
	assert.Contains(t, p.reading("r0-0"), "23:00–00:00", "it stops at the end")
	p.press(kb.Escape)
	assert.Contains(t, p.reading("r0-0"), "arrow keys")

	p.press(kb.Tab)
	assert.Equal(t, "search", p.Text(`document.activeElement.querySelector("bdi").textContent`), "from the chart to its legend")
	p.press(" ")
	var top []float64
	p.Eval(`document.querySelector("#r0-0 .chart").plot.data[1]`, &top)
	l := sample().Resources[0].Limits[0]
	assert.InDelta(t, float64(l.Total[100]-l.Entities[0].Values[100])/1000, top[100], 1e-6, "without the one that is hidden")
	assert.Equal(t, "false", p.Text(`document.activeElement.getAttribute("aria-pressed")`))
	p.press(" ")
	p.Eval(`document.querySelector("#r0-0 .chart").plot.data[1]`, &top)
	assert.InDelta(t, float64(l.Total[100])/1000, top[100], 1e-6, "and with it again")

	p.focus("#r0 input")
	p.press(kb.ArrowRight)
	assert.Equal(t, "r0-1", p.Text(`[...document.querySelectorAll("#r0 .panel")].filter(e => !e.hidden).map(e => e.id).join()`), "the other limit")
	p.Eval(`document.querySelector("#r0-1 .chart").plot.data[1]`, &top)
	assert.InDelta(t, float64(sample().Resources[0].Limits[1].Total[100])/1000, top[100], 1e-6)
}

// hostile are names that are markup, code, or break lines, or the direction of a text.
var hostile = []string{
	`<img src=x onerror="alert(1)">`, `</script><script>alert(2)</script>`, `"quoted" 'and' & {{.}} ${1} <!--`, "\u202etxet\u202c עברית العربية",
	strings.Repeat("W", 256), `javascript:alert(3)`, "]]>\u2028\x00\x1b[31m", `' onmouseover='alert(4)`,
}

func hostileReport() Report {
	r := sampleOf(24)
	for i, name := range hostile {
		l := r.Resources[0].Limits[0]
		l.Name = name
		l.Entities = nil
		for k, entity := range hostile {
			values := make([]int64, len(r.Starts))
			values[k] = 1000 * int64(k+1)
			l.Entities = append(l.Entities, Series{Entity: entity, Parent: hostile[(i+k)%len(hostile)], Values: values})
		}
		r.Resources = append(r.Resources, Resource{Name: name, Limits: []Limit{l, r.Resources[1].Limits[0]}})
	}
	r.Table, r.Namespace, r.Entity, r.Notes = hostile[1], hostile[0], hostile[0], hostile
	return r
}

func TestHostileNamesStayText(t *testing.T) {
	for _, on := range []browsertest.Screen{desk, phone} {
		p := open(t, hostileReport(), on)
		var names []string
		p.Eval(`[...document.querySelectorAll("#r2-0 .legend bdi")].map(e => e.textContent)`, &names)
		require.Len(t, names, len(hostile)+1)
		for i, name := range hostile {
			assert.Equal(t, name, names[i], "the script keeps it as it is")
			p.focus("#r2-0 .legend li:nth-child(" + strconv.Itoa(i+1) + ") button")
		}
		p.Eval(`[...document.querySelectorAll("#r2-0 .shares th[scope=row] > bdi")].map(e => e.textContent)`, &names)
		for i, name := range hostile {
			assert.Equal(t, strings.ReplaceAll(name, "\x00", "\ufffd"), names[i], "as does the page")
		}
		p.click("#r2-0 summary")
		var count int
		p.Eval(`document.querySelectorAll("img, iframe, a[href^='javascript'], [onerror], [onmouseover]").length`, &count)
		assert.Zero(t, count, "no name became an element")
		p.Eval(`document.scripts.length`, &count)
		assert.Equal(t, 3, count)
		p.fits(t)
	}
}

// fits asserts that nothing scrolls sideways, and that nothing is cut off.
func (p tab) fits(t *testing.T) {
	t.Helper()
	var wide []string
	p.Eval(`(() => {
		const width = document.documentElement.clientWidth;
		const scrolls = e => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
		return [...document.querySelectorAll("body *")].filter(e => {
			const r = e.getBoundingClientRect();
			return r.width > 0 && r.right > width + 0.5 && !scrolls(e.parentElement) && !e.closest("[hidden]");
		}).map(e => e.tagName + "." + e.className + " " + e.getBoundingClientRect().right).slice(0, 9);
	})()`, &wide)
	assert.Empty(t, wide, "these are wider than the screen")
	var size [2]int
	p.Eval(`[document.documentElement.scrollWidth, document.documentElement.clientWidth]`, &size)
	assert.LessOrEqual(t, size[0], size[1], "it scrolls sideways")
}

// contrasts are the ratios of the colours of every text of the page to what is behind it.
const contrasts = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255]; };
	const out = {};
	for (const e of document.querySelectorAll("body *")) {
		const shown = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.getClientRects().length && !e.closest("svg, script, style");
		if (!shown) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
		out[e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 20)] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	}
	return out;
})()`

func (p tab) readable(t *testing.T) {
	t.Helper()
	var found map[string]float64
	p.Eval(contrasts, &found)
	assert.Greater(t, len(found), 20)
	for what, ratio := range found {
		assert.GreaterOrEqual(t, ratio, 4.5, "the contrast of %s", what)
	}
	card := luminance(t, p.colour("card"))
	for _, name := range []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "rest", "gap"} {
		assert.GreaterOrEqual(t, ratio(luminance(t, p.colour(name)), card), 3.0, "the contrast of the colour %s", name)
	}
	assert.GreaterOrEqual(t, ratio(luminance(t, p.colour("soft")), card), 4.5, "the contrast of axes")
}

func ratio(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

// luminance is that of a colour such as #3b74b4, as WCAG defines it.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	require.NoError(t, err, colour)
	sum := 0.0
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		v := float64(n>>(8*i)&0xff) / 255
		if v <= 0.03928 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

func TestLightAndDarkAreReadable(t *testing.T) {
	p := open(t, sample(), desk)
	p.readable(t)
	light := p.colour("s0")
	assert.Equal(t, light, p.pixel("r0-0", 100, 1530))
	assert.Equal(t, "Switch to dark colours", p.Text(`document.getElementById("theme").getAttribute("aria-label")`))

	p.click("#theme")
	p.readable(t)
	assert.NotEqual(t, light, p.colour("s0"))
	assert.Equal(t, p.colour("s0"), p.pixel("r0-0", 100, 1530), "charts are drawn anew")
	assert.Equal(t, "Switch to light colours", p.Text(`document.getElementById("theme").getAttribute("aria-label")`))
	dark := p.colour("s0")

	p = open(t, sample(), browsertest.Screen{Width: 1200, Height: 900, Dark: true})
	p.readable(t)
	assert.Equal(t, dark, p.colour("s0"), "as the system wants it")
	assert.Equal(t, dark, p.pixel("r0-0", 100, 1530))
	p.click("#theme")
	assert.Equal(t, light, p.pixel("r0-0", 100, 1530), "and as its reader does")
}

// TestTimesAreThoseOfTheZone: ticks and labels are local, also where the clock is put back.
func TestTimesAreThoseOfTheZone(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	from := time.Date(2026, 10, 25, 0, 0, 0, 0, zone)
	r := Report{Table: "limits", Window: "hour", Zone: "Europe/Berlin", From: from, To: from.AddDate(0, 0, 1), Made: from.AddDate(0, 0, 1)}
	for at := from; at.Before(r.To); at = at.Add(time.Hour) {
		r.Starts = append(r.Starts, at.In(zone))
	}
	require.Len(t, r.Starts, 25)
	r.Resources = []Resource{{Name: "gpt-4", Limits: []Limit{{Name: "rpm", Total: make([]int64, 25)}}}}
	p := open(t, r, desk)
	var ticks []string
	p.Eval(`document.querySelector("#r0-0 .chart").plot.axes[0]._values`, &ticks)
	assert.Equal(t, "00:00\n25 Oct", ticks[0])
	assert.Contains(t, ticks, "12:00")
	p.focus("#r0-0 .chart")
	p.press(kb.End)
	assert.Contains(t, p.reading("r0-0"), "Sun 25 Oct 2026, 23:00–00:00")
}

// TestPageRunsNothingElse: a script that gets into the page all the same does not run.
func TestPageRunsNothingElse(t *testing.T) {
	p := open(t, sample(), desk)
	var ran bool
	p.Eval(`(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s); return !!window.ran; })()`, &ran)
	assert.False(t, ran)
	p.Eval(`fetch("http://127.0.0.1:1/").then(() => true, () => false)`, &ran)
	assert.False(t, ran)
	p.settle()
	troubles := p.TakeTrouble()
	for _, trouble := range troubles {
		assert.Contains(t, trouble, "Content Security Policy")
	}
	assert.NotEmpty(t, troubles)
}
