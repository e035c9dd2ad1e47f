package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
	"strings"
)

//go:embed page/* uplot/LICENSE uplot/uPlot.iife.min.js uplot/uPlot.min.css
var files embed.FS

// embeddedFile returns the text of a file that is embedded in the program. It panics for an unknown
// name.
func embeddedFile(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the build embeds it
	}
	return string(text)
}

var (
	layout = template.Must(template.New("page").Parse(embeddedFile("page/page.html")))
	// style and code are part of the page, with the licence of uPlot.
	style   = embeddedFile("uplot/uPlot.min.css") + "\n" + embeddedFile("page/page.css")
	library = "/*!\nuPlot\n\n" + embeddedFile("uplot/LICENSE") + "\n*/\n" + embeddedFile("uplot/uPlot.iife.min.js")
	code    = embeddedFile("page/page.js")
)

// Write writes the report as one HTML page with its script and style. Equal reports give equal
// bytes. It writes nothing after an error of the report.
func Write(w io.Writer, r Report) error {
	if err := r.checkReport(); err != nil {
		return err
	}
	v, d := r.buildPage()
	text, err := json.Marshal(d) // <, > and & are escaped, so data cannot end its script element
	if err != nil {
		return err
	}
	var page bytes.Buffer
	err = layout.Execute(&page, map[string]any{
		"View": v, "Policy": securityPolicy(),
		"Style": template.CSS(style), "Library": template.JS(library), "Code": template.JS(code), "Data": template.JS(text), //nolint:gosec // our own files, and escaped JSON
	})
	if err != nil {
		return err
	}
	_, err = page.WriteTo(w)
	return err
}

// securityPolicy returns a Content-Security-Policy that permits the page's own contents and loads
// nothing.
func securityPolicy() string {
	return strings.Join([]string{
		"default-src 'none'", "script-src " + policyHash(library) + " " + policyHash(code), "style-src " + policyHash(style),
		"base-uri 'none'", "form-action 'none'",
	}, "; ")
}

// policyHash returns the hash of a text in the form of a policy.
func policyHash(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}
