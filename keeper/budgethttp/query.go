package budgethttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// checkQuery returns a 400 response to an ambiguous query, and nil for any other. An ambiguous one has a value
// twice, which huma would drop, or an invalid part, which net/url would skip.
func checkQuery(raw string) *wire.Error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return wire.NewError(http.StatusBadRequest, wire.InvalidRequest, "the query is not as URLs have it")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) > 1 {
			field := "query." + shorten(name)
			return wire.NewError(http.StatusBadRequest, wire.InvalidRequest, field+": is given more than once").Field(field, "expected once")
		}
	}
	return nil
}
