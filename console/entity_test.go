package console_test

import (
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
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

// TestSpendIsShownByModel: at the overview, the models and an entity, as charts and in tables.
func TestSpendIsShownByModel(t *testing.T) {
	o := newOffice(t, nil)
	spent := func(days iter.Seq2[aggregator.Usage, error]) map[string]string {
		sums, texts := map[string]int64{}, map[string]string{}
		for u, err := range days {
			require.NoError(t, err)
			for _, l := range u.Limits {
				for model, n := range l.ByModel {
					sums[model] += n
				}
			}
		}
		for model, n := range sums {
			texts[model] = fmt.Sprintf(">$%.2f<", float64(n)/1e9)
		}
		return texts
	}
	q := aggregator.Query{Resource: "all", Window: aggregator.Day, From: o.Now().AddDate(0, 0, -13), To: o.Now().Truncate(24 * time.Hour)}
	for path, table := range map[string]map[string]string{"/": nil, "/models": spent(o.Reader.Resource(t.Context(), "all", q)), "/entity/acme": spent(o.Reader.Entity(t.Context(), "acme", q))} {
		answer, _ := o.get(path)
		legend := 0
		for _, model := range spend.Models {
			legend += strings.Count(answer.Body.String(), "</i>"+model+"</span>")
			if table != nil {
				_, row, _ := strings.Cut(answer.Body.String(), "<tr><td"+map[string]string{"/models": `><b class="brk">`, "/entity/acme": `></td><td class="brk mute">`}[path]+model+"<")
				row, _, _ = strings.Cut(row, "</tr>")
				assert.Contains(t, row, table[model], path+" "+model)
			}
		}
		assert.GreaterOrEqual(t, legend, 3, path)
	}
}
