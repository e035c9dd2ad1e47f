package ledger

import (
	"bytes"
	"encoding/csv"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

var noon = time.Date(2026, 1, 23, 12, 0, 0, 0, time.UTC)

func hour(n int, resource, entity string, limits ...aggregator.LimitUsage) aggregator.Usage {
	at := noon.Add(time.Duration(n) * time.Hour)
	return aggregator.Usage{Entity: entity, Resource: resource, Window: aggregator.Hour, Start: at, End: at.Add(time.Hour), Limits: limits, Entities: 1}
}

func consumed(limit string, milli int64) aggregator.LimitUsage {
	return aggregator.LimitUsage{Limit: limit, Consumed: milli}
}

// TestCellsAreNoFormulas: what a spreadsheet would calculate stays a text, and a number stays
// a number.
func TestCellsAreNoFormulas(t *testing.T) {
	var out bytes.Buffer
	c, err := NewCSV(&out, false)
	require.NoError(t, err)
	formulas := map[string]bool{`=HYPERLINK("http://x","y")`: true, "+1": true, "-1": true, "@SUM(A1)": true, "\tx": true, "\r=x": true, "\n=x": true, "＝1": true}
	names := append([]string{"a=b", "", "plain", `"quoted", it is`, "'already"}, slices.Sorted(maps.Keys(formulas))...)
	for _, name := range names {
		u := hour(0, name, name, aggregator.LimitUsage{Limit: name, Consumed: -1500, Passed: 2000})
		u.Plan, u.Parent = name, name
		require.NoError(t, c.Add(u))
	}
	require.NoError(t, c.Flush())
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(names))
	for i, row := range rows[1:] {
		name := names[i]
		for column, value := range row {
			switch rows[0][column] {
			case "resource", "entity_id", "parent_id", "plan", "limit":
				want := name
				if formulas[name] {
					want = "'" + name
				}
				assert.Equal(t, strings.ReplaceAll(want, "\r", ""), strings.ReplaceAll(value, "\r", ""))
			case "amount":
				assert.Equal(t, "-1.5", value)
			case "passed":
				assert.Equal(t, "2", value)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	u := hour(0, "all", "key-1", aggregator.LimitUsage{Limit: "tpm", Consumed: 34_567_890, Pending: 1, Passed: 2000, Unrecorded: -500, Unseen: 1},
		aggregator.LimitUsage{Limit: "usd", Unit: "usd", Consumed: 49_380_000, Passed: 1, ByModel: map[string]int64{"gpt-4": 9_000_000, "o3": 40_000_000}})
	u.Start, u.End, u.Final, u.Plan = u.Start.In(zone), u.End.In(zone), true, "pro"
	const title = "start,end,window,resource,entity_id,parent_id,plan,limit,unit,model,amount,passed,pending,unrecorded,unseen_ends,entities,state\r\n"
	const of = "2026-01-23T13:00:00+01:00,2026-01-23T14:00:00+01:00,hour,all,key-1,,pro,"
	for byModel, money := range map[bool]string{
		false: of + "usd,usd,,0.049380,0.000000001,0.000000,0.000000,0,1,final\r\n",
		true:  of + "usd,usd,o3,0.040000,,,,,1,final\r\n" + of + "usd,usd,gpt-4,0.009000,,,,,1,final\r\n" + of + "usd,usd,(others),0.000380,,,,,1,final\r\n",
	} {
		var out bytes.Buffer
		c, err := NewCSV(&out, byModel)
		require.NoError(t, err)
		require.NoError(t, c.Add(u))
		require.NoError(t, c.Flush())
		assert.Equal(t, title+of+"tpm,,,34567.89,2,0.001,-0.5,1,1,final\r\n"+money, out.String())
	}
}

// TestBook: resources that were used at different times have series of the same length.
func TestBook(t *testing.T) {
	var b Book
	for _, u := range []aggregator.Usage{hour(1, "a", "", consumed("rpm", 1), consumed("tpm", 10)), hour(3, "a", "", consumed("rpm", 2)), hour(0, "b", "", consumed("rpm", 3)), hour(2, "b", "", consumed("rpm", -4)), hour(3, "b", "", consumed("rpm", math.MaxInt64)), hour(3, "b", "", consumed("rpm", 5))} {
		b.Add(u)
	}
	totals := b.Totals()
	require.Len(t, totals, 3)
	assert.Equal(t, Total{"a", consumed("rpm", 3), []int64{0, 1, 0, 2}}, totals[0])
	assert.Equal(t, Total{"a", consumed("tpm", 10), []int64{0, 10, 0, 0}}, totals[1])
	assert.Equal(t, Total{"b", consumed("rpm", math.MaxInt64), []int64{3, 0, -4, math.MaxInt64}}, totals[2])
	assert.Empty(t, new(Book).Totals())
	var begun Book
	begun.SetWindows([]time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Hour)})
	begun.Add(hour(0, "a", "", consumed("rpm", 1)))
	assert.Equal(t, []int64{0, 1, 0}, begun.Totals()[0].Series)
}

func TestWindowText(t *testing.T) {
	for w, want := range map[aggregator.Window]string{aggregator.Hour: "2026-01-23 12:00", aggregator.Day: "2026-01-23", aggregator.Month: "2026-01"} {
		assert.Equal(t, want, WindowText(w, noon))
	}
}

func TestRanking(t *testing.T) {
	var r Ranking
	b := hour(1, "x", "b", consumed("rpm", 5), consumed("tpm", 1))
	b.Plan, b.Parent = "pro", "team"
	for _, u := range []aggregator.Usage{hour(0, "x", "a", consumed("rpm", 1)), b, hour(2, "x", "b", consumed("rpm", -1)), hour(0, "x", "c", consumed("rpm", 4)), hour(0, "y", "a", consumed("rpm", 100))} {
		r.Add(u)
	}
	var order []string
	for _, rank := range r.Of("x", "rpm") {
		order = append(order, rank.Entity)
	}
	assert.Equal(t, []string{"b", "c", "a"}, order)
	assert.Equal(t, Rank{"b", "team", "pro", "x", consumed("rpm", 4)}, r.Of("x", "rpm")[0])
	assert.Equal(t, []string{"rpm", "tpm"}, r.Limits("x"))
	assert.Empty(t, new(Ranking).Limits("x"))
}
