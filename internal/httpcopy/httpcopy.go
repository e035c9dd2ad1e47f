// Package httpcopy repairs the loss of a copied request. A handler that adds to a request's context
// passes a copy of it on. The server and the outer handlers keep the original, and read fields from it
// that only the copy has.
package httpcopy

import (
	"net/http"
	"strings"
)

// GiveBack sets in the original request the fields that handlers set in its copy: the parsed forms,
// whose temporary files the server removes by the original, the pattern of the route and its path
// values. Call it by defer, so that a panic gives them back too.
func GiveBack(original, copied *http.Request) {
	original.Form, original.PostForm, original.MultipartForm = copied.Form, copied.PostForm, copied.MultipartForm
	if original.Pattern == copied.Pattern {
		return
	}
	original.Pattern = copied.Pattern
	for _, segment := range strings.SplitAfter(copied.Pattern, "{")[1:] {
		name, _, _ := strings.Cut(segment, "}")
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			original.SetPathValue(name, copied.PathValue(name))
		}
	}
}
