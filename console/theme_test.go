package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/prices"
)

// TestThemeIsServedAsFiles: title, accent and logo, without inline style. Prices stand beside the models.
func TestThemeIsServedAsFiles(t *testing.T) {
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	o := newOffice(t, func(o *console.Options) {
		o.Theme, o.Prices = console.Theme{Title: "Limits of <Acme>", Accent: "#7A1FA2", Logo: []byte(svg)}, prices.CatalogList()
	})
	answer, _ := o.get("/models")
	body := answer.Body.String()
	assert.Contains(t, body, "Limits of &lt;Acme&gt;")
	assert.Contains(t, body, "$2.00 in, $8.00 out", "gpt-4.1")
	assert.NotContains(t, body, "<svg width=\"20\"")
	kinds := map[string]string{}
	for _, part := range strings.Split(body, "/static/")[1:] {
		name, _, _ := strings.Cut(part, `"`)
		file, _ := o.get("/static/" + name)
		require.Equal(t, http.StatusOK, file.Code)
		kinds[file.Header().Get("Content-Type")] += file.Body.String()
		assert.Contains(t, file.Header().Get("Content-Security-Policy"), "script-src 'self'", "a script in a logo never runs")
	}
	assert.Contains(t, kinds["text/css; charset=utf-8"], ":root{--accent:#7a1fa2}:root[data-theme=dark]{--accent:#a86cc2}")
	assert.Contains(t, kinds["image/svg+xml"], svg)
}

// TestThemeIsChecked: colours that nobody can read, and other kinds of logos.
func TestThemeIsChecked(t *testing.T) {
	o := newOffice(t, nil)
	for field, theme := range map[string]console.Theme{
		"options.Theme.Accent is \"red\"; write it like #2457d6":                                             {Accent: "red"},
		"options.Theme.Accent is #ffcc00, whose contrast on white is 1.5; give a darker one, of 4.5 or more": {Accent: "#ffcc00"},
		"options.Theme.Logo is neither SVG nor PNG; give one of them":                                        {Logo: []byte("GIF89a")},
		"options.Theme.Logo has 70000 bytes; give at most 65536":                                             {Logo: make([]byte, 70_000)},
	} {
		_, err := console.New(o.Repo, nil, &console.Options{Authorize: func(*http.Request) (console.Access, error) { return console.Access{}, nil }, Theme: theme})
		var bad *dynalimit.ValidationError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, field, bad.Field+" "+bad.Reason)
	}
}
