package console

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Theme is the look of a console.
type Theme struct {
	// Title replaces "dynalimit" in the frame. Defaults to none.
	Title string
	// Accent is the colour of links and buttons, as #rrggbb. Its contrast on white must be at least 4.5. On dark pages
	// it is lightened until it has that contrast. Defaults to a blue.
	Accent string
	// Logo is a picture in place of the mark beside the title: SVG or PNG, at most 64 KB. Defaults to the mark.
	Logo []byte
}

const (
	// leastContrast is the least contrast of text that people can read, by WCAG 2.
	leastContrast = 4.5
	// mostLogo bounds the bytes of a logo.
	mostLogo = 64 << 10
)

// rgb is a colour; each part is 0 to 255.
type rgb [3]float64

// lightCard and darkCard are the backgrounds of text in console.css.
var lightCard, darkCard = rgb{255, 255, 255}, rgb{0x16, 0x1a, 0x20}

var accentText = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// readColour returns the colour of a text #rrggbb, which the caller has checked. A malformed part is 0.
func readColour(text string) (c rgb) {
	for i := range c {
		n, err := strconv.ParseUint(text[1+2*i:3+2*i], 16, 8)
		if err == nil { // the caller checked the text
			c[i] = float64(n)
		}
	}
	return c
}

// String formats the colour as #rrggbb.
func (c rgb) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c[0])), int(math.Round(c[1])), int(math.Round(c[2])))
}

// relativeLuminance returns the relative luminance of WCAG 2, 0 for black to 1 for white.
func (c rgb) relativeLuminance() float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		part := c[i] / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}

// contrastOf returns the contrast of two colours by WCAG 2, 1 to 21, in either order.
func contrastOf(a, b rgb) float64 {
	x, y := a.relativeLuminance(), b.relativeLuminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// lightened returns the colour, mixed with white in steps until its contrast on dark pages is at least 4.5. A
// colour that has it is unchanged.
func (c rgb) lightened() rgb {
	for contrastOf(c, darkCard) < leastContrast {
		for i := range c {
			c[i] += (255 - c[i]) / 10
		}
	}
	return c
}

// check returns a *ValidationError for an accent that is malformed or cannot be read on white. It also does for
// a logo above 64 KB or of another kind than SVG and PNG.
func (t Theme) check() error {
	if t.Accent != "" && !accentText.MatchString(t.Accent) {
		return invalid("options.Theme.Accent", "is %q; write it like #2457d6", t.Accent)
	}
	if t.Accent != "" && contrastOf(readColour(t.Accent), lightCard) < leastContrast {
		return invalid("options.Theme.Accent", "is %s, whose contrast on white is %.1f; give a darker one, of %.1f or more", t.Accent, contrastOf(readColour(t.Accent), lightCard), leastContrast)
	}
	if len(t.Logo) > mostLogo {
		return invalid("options.Theme.Logo", "has %d bytes; give at most %d", len(t.Logo), mostLogo)
	}
	if len(t.Logo) > 0 && t.logoKind() == "" {
		return invalid("options.Theme.Logo", "is neither SVG nor PNG; give one of them")
	}
	return nil
}

// logoKind returns the media type of the logo by its first bytes, PNG or SVG; "" if unknown.
func (t Theme) logoKind() string {
	switch {
	case bytes.HasPrefix(t.Logo, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.Contains(t.Logo[:min(len(t.Logo), 1024)], []byte("<svg")):
		return "image/svg+xml"
	}
	return ""
}

// files returns the static files of the theme by name: a style sheet with the accent for light and dark pages,
// and the logo. The first results are their names, "" without the file.
func (t Theme) files() (accent, logo string, files map[string]staticFile) {
	files = map[string]staticFile{}
	if t.Accent != "" {
		light := readColour(t.Accent)
		dark := light.lightened().String()
		text := ":root{--accent:" + light.String() + "}:root[data-theme=dark]{--accent:" + dark + "}@media(prefers-color-scheme:dark){:root:not([data-theme=light]){--accent:" + dark + "}}\n"
		accent = digestName("accent", text, ".css")
		files[accent] = staticFile{"text/css; charset=utf-8", text}
	}
	if len(t.Logo) > 0 {
		logo = digestName("logo", string(t.Logo), "")
		files[logo] = staticFile{t.logoKind(), string(t.Logo)}
	}
	return accent, logo, files
}
