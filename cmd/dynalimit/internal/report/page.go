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

// file is the text of an embedded file.
func file(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the build embeds it
	}
	return string(text)
}

var (
	layout = template.Must(template.New("page").Parse(file("page/page.html")))
	// style and code are what the page carries. The licence of uPlot goes with it.
	style   = file("uplot/uPlot.min.css") + "\n" + file("page/page.css")
	library = "/*!\nuPlot\n\n" + file("uplot/LICENSE") + "\n*/\n" + file("uplot/uPlot.iife.min.js")
	code    = file("page/page.js")
)

// Write writes the page. The same report gives the same bytes.
func Write(w io.Writer, r Report) error {
	if err := r.check(); err != nil {
		return err
	}
	v, d := r.outline()
	text, err := json.Marshal(d) // <, > and & are escaped: no data ends the script that it stands in
	if err != nil {
		return err
	}
	var page bytes.Buffer
	err = layout.Execute(&page, map[string]any{
		"View": v, "Policy": policy(),
		"Style": template.CSS(style), "Library": template.JS(library), "Code": template.JS(code), "Data": template.JS(text), //nolint:gosec // our own files, and escaped JSON
	})
	if err != nil {
		return err
	}
	_, err = page.WriteTo(w)
	return err
}

// policy lets the page run and show what was written into it, and load nothing.
func policy() string {
	return strings.Join([]string{
		"default-src 'none'", "script-src " + hashed(library) + " " + hashed(code), "style-src " + hashed(style),
		"base-uri 'none'", "form-action 'none'",
	}, "; ")
}

// hashed is a text as a policy names it.
func hashed(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}
