package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// alertLines returns the rows of a page of alerts as text, without those words that only phones show.
func alertLines(body string) (lines []string) {
	_, table, _ := strings.Cut(body, `class="stack alerts"`)
	_, table, _ = strings.Cut(table, "<tbody>")
	table, _, _ = strings.Cut(table, "</table>")
	for _, row := range strings.Split(table, "<tr>")[1:] {
		var words []string
		for part := range strings.SplitSeq(row, "<") {
			if _, text, _ := strings.Cut(part, ">"); strings.TrimSpace(text) != "" && !strings.Contains(part, `"so`) {
				words = append(words, strings.TrimSpace(text))
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// alertsAt returns the rows of a page of alerts.
func (o *office) alertsAt(t *testing.T, path string) []string {
	t.Helper()
	answer, used := o.get(path)
	require.Equal(t, http.StatusOK, answer.Code, path)
	assert.Zero(t, used.WriteUnits())
	return alertLines(answer.Body.String())
}

// TestAlertsAreListed: the newest first, with their delivery, of all entities, of one, and those that wait.
func TestAlertsAreListed(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	stored := o.CloseAlerts()
	var all []string
	for path := "/alerts"; path != ""; {
		answer, _ := o.get(path)
		body := answer.Body.String()
		all = append(all, alertLines(body)...)
		at := strings.Index(body, ">Older<")
		if path = ""; at >= 0 && len(all) < stored {
			path = routes(body[strings.LastIndex(body[:at], "<a "):])[0]
		}
	}
	assert.Len(t, all, stored)
	assert.Equal(t, "Nov 27, 18:17 acme.platform.batch usd day, all 50 % $21.57 $30.00 waiting", all[0])
	assert.Contains(t, all, "Nov 27, 16:58 acme usd day, all 50 % $83.89 $150.00 17:00")
	assert.Contains(t, all, "Nov 27, 13:58 acme.support.prod usd day, all 50 % $16.03 $20.00 failed")
	assert.Len(t, o.alertsAt(t, "/alerts?state=waiting"), 3)
	own := o.alertsAt(t, "/alerts?entity=acme.support.prod")
	assert.ElementsMatch(t, slices.DeleteFunc(slices.Clone(all), func(line string) bool { return !strings.Contains(line, " acme.support.prod ") }), own)
	assert.NotEmpty(t, own)

	answer, _ := o.get("/alerts")
	assert.NotContains(t, answer.Body.String(), "<script>alert")
	assert.Contains(t, answer.Body.String(), "&lt;script&gt;alert")
	assert.Contains(t, answer.Body.String(), "Nobody delivers alerts")
	answer, _ = o.get("/alerts?entity=%3Cscript%3E")
	assert.Contains(t, answer.Body.String(), "No entity has such an id")
	assert.NotContains(t, answer.Body.String(), "<script>")
	for path, code := range map[string]int{
		"/alerts?before=2026-11-27T12:00:00Z&skip=-1": 404, "/alerts?before=2026-11-27T12:00:00Z&skip=100000": 404, "/alerts?before=0002-01-01T00:00:00Z": 404,
		"/alerts?before=2999-01-01T00:00:00Z": 200, "/alerts?before=x&skip=y": 200, "/alerts?poll=1": 200, "/alerts/": 404,
	} {
		answer, _ := o.get(path)
		assert.Equal(t, code, answer.Code, path)
	}
}

// TestAlertPagesCostReadUnits: a hostile address gives no read units back.
func TestAlertPagesCostReadUnits(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 20 })
	o.get("/alerts?before=2026-11-27T12:00:00Z&skip=-9000000000000")
	codes := map[int]int{}
	for hour := range 3 {
		answer, _ := o.get(fmt.Sprintf("/alerts?before=2026-11-27T%02d:00:00Z", 9+hour))
		codes[answer.Code]++
	}
	assert.LessOrEqual(t, codes[http.StatusOK], 1, "%v", codes)
}

// TestAlertsOfBeforeAMoveAreHidden: from visitors of the new parent, of the moved team and of its keys.
func TestAlertsOfBeforeAMoveAreHidden(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	count := func() (all []int) {
		for _, id := range []string{"acme.support", "acme.support.prod"} {
			all = append(all, len(o.alertsAt(t, "/alerts?entity="+id)))
		}
		return all
	}
	whole := count()
	o.access.Under = "acme"
	assert.Equal(t, whole, count())
	assert.NotContains(t, whole, 0)
	o.move(t, "acme.support", "globex")
	o.access.Under = "globex"
	assert.Equal(t, []int{0, 0}, count())
	o.access.Under = "acme.support"
	assert.Equal(t, whole, count(), "the team itself sees its own")
	o.access.Under = ""
	assert.Equal(t, whole, count())

	entities := o.Admin.Entities
	require.NoError(t, entities.Delete(t.Context(), "acme.support.prod"))
	o.SetTime(o.Now().Add(time.Second))
	require.NoError(t, entities.Create(t.Context(), admin.Entity{ID: "acme.support.prod", ParentID: "acme.search"}))
	o.access.Under = "acme.search"
	assert.Empty(t, o.alertsAt(t, "/alerts?entity=acme.support.prod"), "those of a namesake before it")
}

// TestManyAlertsCostNoMore: 100,000 of two days, of which a fifth waits.
func TestManyAlertsCostNoMore(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	o.CloseAlerts()
	o.addAlerts(t, 100_000)
	o.get("/plans")
	seen := 0
	for _, path := range []string{"/alerts", "/alerts?state=waiting", "/alerts?before=2026-11-27T12:00:00Z&skip=200", "/alerts?before=2026-11-26T12:00:00Z", "/alerts?entity=acme.search.prod"} {
		answer, used := o.get(path)
		require.Equal(t, http.StatusOK, answer.Code, path)
		rows := alertLines(answer.Body.String())
		t.Logf("%-52s %3d requests %5.1f read units %6d bytes %d rows", path, used.Requests(), used.ReadUnits(), answer.Body.Len(), len(rows))
		assert.LessOrEqual(t, used.Requests(), int64(20), path)
		assert.LessOrEqual(t, used.ReadUnits(), 120.0, path)
		assert.Less(t, answer.Body.Len(), 300_000, path)
		seen += len(rows)
	}
	assert.GreaterOrEqual(t, seen, 140)
}

// addAlerts stores n copies of alerts of the last two days, at other times and of other entities.
func (o *office) addAlerts(t *testing.T, n int) {
	t.Helper()
	out, err := o.DB.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(t, err)
	var models []schema.Item
	for _, item := range out.Items {
		if schema.IsAlert(schema.KeyOf(item)) {
			models = append(models, item)
		}
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	o.putItems(t, n, func(i int) schema.Item {
		item := maps.Clone(models[i%len(models)])
		at := o.Now().Add(-time.Duration(i) * 42 * time.Hour / time.Duration(n)).Truncate(100 * time.Millisecond)
		entity := fmt.Sprintf("acme.search.k%06d", i)
		item["PK"], item["entity_id"] = text("ENTITY#"+entity), text(entity)
		item["a_at"], item["GSI3SK"] = text(schema.AlertTime(at)), text(schema.AlertTime(at))
		if item["GSI3PK"] = text(schema.OpenAlerts(i % schema.AlertShards)); i%5 > 0 {
			item["GSI3PK"] = text(schema.ClosedAlerts("", at, fmt.Sprint(i%schema.AlertShards)))
			item["a_sent"] = text(schema.AlertTime(at.Add(time.Minute)))
		}
		return item
	})
}
