package login

import (
	"testing"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// scan lists the keys of a table's items.
func scan(t testing.TB, db *ddbmem.DB, table string) []string {
	t.Helper()
	var keys []string
	for _, item := range fixture.Items(t, db.Client(), table, "") {
		keys = append(keys, fixture.Text(item, "PK"))
	}
	return keys
}
