package main

import (
	"html"
	"strings"

	"github.com/alecthomas/chroma/v2"
	formatter "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
)

// colours writes classes, to which the style sheet gives one colour by day and another
// by night.
var colours = formatter.New(formatter.WithClasses(true), formatter.PreventSurroundingPre(true))

// colourCode is code in a language that may be unknown.
func colourCode(code, language string) string {
	inside := html.EscapeString(code)
	if lexer := lexers.Get(language); lexer != nil && language != "" && language != "text" {
		if tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code); err == nil {
			var b strings.Builder
			if colours.Format(&b, styles.Fallback, tokens) == nil {
				inside = b.String()
			}
		}
	}
	return "<pre class=\"chroma\" tabindex=\"0\"><code>" + inside + "</code></pre>\n"
}

// codeStyle is the style sheet of coloured code.
func codeStyle() (string, error) {
	var light, dark strings.Builder
	if err := colours.WriteCSS(&light, styles.Get("github")); err != nil {
		return "", err
	}
	if err := colours.WriteCSS(&dark, styles.Get("github-dark")); err != nil {
		return "", err
	}
	return light.String() + "@media (prefers-color-scheme: dark) {\n" + dark.String() + "}\n", nil
}
