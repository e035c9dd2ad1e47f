package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strings"
)

//go:embed assets
var assets embed.FS

// The names of the static files have a digest of their content, so that browsers may keep them.
var (
	style, script, icon             = readAsset("console.css"), readAsset("console.js"), readAsset("icon.svg")
	styleName, scriptName, iconName = digestName("console", style, ".css"), digestName("console", script, ".js"), digestName("icon", icon, ".svg")

	staticFiles = map[string]staticFile{
		styleName: {"text/css; charset=utf-8", style}, scriptName: {"text/javascript; charset=utf-8", script}, iconName: {"image/svg+xml", icon},
	}
	pages = parsePages("blank", "overview", "entities", "entity", "models", "plans", "alerts", "audit", "doctor", "change")
)

// staticFile is a file of a media type.
type staticFile struct{ kind, text string }

// readAsset returns the text of an embedded file. It panics for an unknown name.
func readAsset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// digestName returns the name of a file with 12 hexadecimal digits of its text's digest, such as
// console-0123456789ab.css. ending is the suffix with its dot.
func digestName(name, text, ending string) string {
	digest := sha256.Sum256([]byte(text))
	return name + "-" + hex.EncodeToString(digest[:6]) + ending
}

// parsePages returns the template of each named page by name, parsed with the layout and the common parts. It
// panics for a malformed or missing template.
func parsePages(names ...string) map[string]*template.Template {
	common := template.Must(template.New("").Funcs(template.FuncMap{"dict": pairArguments, "lower": strings.ToLower}).ParseFS(assets, "assets/layout.html", "assets/parts.html"))
	all := make(map[string]*template.Template, len(names))
	for _, name := range names {
		all[name] = template.Must(template.Must(common.Clone()).ParseFS(assets, "assets/"+name+".html"))
	}
	return all
}

// pairArguments returns a map of pairs of name and value: the template function dict. It skips a name that is
// not a string, and a name without a value.
func pairArguments(pairs ...any) map[string]any {
	all := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, ok := pairs[i].(string); ok {
			all[name] = pairs[i+1]
		}
	}
	return all
}

// serveStatic answers with a static file or one of the theme's, which browsers may keep for a year, because it
// never changes under its name. It answers 404 for an unknown name.
func serveStatic(w http.ResponseWriter, r *http.Request, name string, ofTheme map[string]staticFile) {
	file, known := staticFiles[name]
	if !known {
		file, known = ofTheme[name]
	}
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.kind)
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	_, _ = w.Write([]byte(file.text))
}
