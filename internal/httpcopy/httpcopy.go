// Package httpcopy repairs the loss of a copied request. A handler that adds to a request's context
// passes a copy of it on. The server and the outer handlers keep the original, and read fields from it
// that only the copy has.
package httpcopy

import (
	"net/http"
	"strings"
)

// RestoreFields sets in the original request the fields that handlers set in its copy: parsed forms, the
// pattern of the route, and its path values. The server removes temporary files of forms by the original. Call
// it by defer, so that a panic restores them too.
func RestoreFields(original, copied *http.Request) {
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
