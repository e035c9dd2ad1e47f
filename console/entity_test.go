package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/internal/testworld/spend"
)

// move gives an entity another parent.
func (o *office) move(t *testing.T, id, parent string) {
	t.Helper()
	e, err := o.Admin.Entities.Get(t.Context(), id)
	require.NoError(t, err)
	e.ParentID, e.Only = parent, true
	_, err = o.Admin.Entities.Update(t.Context(), e)
	require.NoError(t, err)
}

// TestUsageOfBeforeAMoveIsHidden: a visitor of the new parent sees it neither of the moved team nor of its keys.
func TestUsageOfBeforeAMoveIsHidden(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	lines := func(id string) int {
		answer, _ := o.get("/entity/" + id + "/usage.csv")
		require.Equal(t, http.StatusOK, answer.Code)
		return strings.Count(answer.Body.String(), "\n") - 1
	}
	for _, id := range []string{"acme.search", "acme.search.prod"} {
		o.access.Under = ""
		whole := lines(id)
		require.Positive(t, whole)
		o.access.Under = "acme"
		assert.Equal(t, whole, lines(id))
	}
	o.move(t, "acme.search", "globex")
	o.access.Under = "globex"
	assert.Equal(t, []int{0, 0}, []int{lines("acme.search"), lines("acme.search.prod")})
	o.access.Under = "acme.search"
	assert.Positive(t, lines("acme.search.prod"))
}

// TestChildThatLeftIsHidden: a moment later, from visitors of the parent.
func TestChildThatLeftIsHidden(t *testing.T) {
	o := newOffice(t, nil)
	o.access.Under = "acme.search"
	answer, _ := o.get("/entity/acme.search")
	require.Contains(t, answer.Body.String(), "acme.search.prod")
	o.move(t, "acme.search.prod", "globex.it")
	o.SetTime(o.Now().Add(5 * time.Second))
	answer, _ = o.get("/entity/acme.search")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.NotContains(t, answer.Body.String(), "acme.search.prod")
}

// TestSpendIsShownByModel: at the models and at an entity, with its sum unchanged.
func TestSpendIsShownByModel(t *testing.T) {
	o := newOffice(t, nil)
	for _, path := range []string{"/models", "/entity/acme"} {
		answer, _ := o.get(path)
		legend := 0
		for _, model := range spend.Models {
			legend += strings.Count(answer.Body.String(), "</i>"+model+"</span>")
		}
		assert.GreaterOrEqual(t, legend, 3, path)
	}
}
