package budgethttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// checkQuery refuses a query that can be read in more than one way: huma takes the first of
// two values, and net/url leaves out what it cannot read.
func checkQuery(raw string) *wire.Error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return wire.NewError(http.StatusBadRequest, wire.InvalidRequest, "the query is not as URLs have it")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) > 1 {
			field := "query." + short(name)
			return wire.NewError(http.StatusBadRequest, wire.InvalidRequest, field+": is given more than once").Field(field, "expected once")
		}
	}
	return nil
}
