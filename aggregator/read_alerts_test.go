package aggregator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// newAlertTable returns an empty table at a time.
func newAlertTable(t require.TestingT, now time.Time) *ddbmem.DB {
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(context.Background()))
	return db
}

// putAlert stores an alert as a Processor does, and closes it as a Deliverer does.
func putAlert(t require.TestingT, db *ddbmem.DB, a schema.Alert, closed bool) {
	write := func(st schema.Statement) {
		_, err := db.Client().UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: aws.String("limits"), Key: a.Key().Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		})
		require.NoError(t, err)
	}
	if write(a.Put()); closed {
		write(a.Close(a.At.Add(time.Minute), true))
	}
}

// alertAt is an alert of an entity, decided at a time. n tells it from others.
func alertAt(namespace, entity string, at time.Time, n int) schema.Alert {
	windows, _ := calendar.Parse("day UTC")
	return schema.Alert{
		Keys: schema.NewKeys(namespace), Entity: entity, Resource: "all", Limit: "usd", Percent: 50, Amount: int64(1000 + n), Used: 900, Unit: "usd",
		Windows: windows, Window: windows.At(at.UnixMilli()), Bucket: "00", At: at,
	}
}

// readAlertPages reads all pages of a query. Each costs few requests.
func readAlertPages(t require.TestingT, db *ddbmem.DB, r *aggregator.Reader, q *aggregator.AlertQuery) (ids []string) {
	last := time.Time{}
	for pages := 0; q != nil; pages++ {
		require.Less(t, pages, 400, "it does not end")
		before, limit := db.Meter(), q.Limit
		page, err := r.Alerts(context.Background(), *q)
		require.NoError(t, err)
		require.LessOrEqual(t, db.Meter().Sub(before).Requests(), int64(18))
		require.LessOrEqual(t, len(page.Alerts), limit)
		for _, a := range page.Alerts {
			require.False(t, !last.IsZero() && a.At.After(last), "the newest first")
			ids, last = append(ids, a.ID), a.At
		}
		q = page.Older
	}
	return ids
}

// TestAlertPagesHaveEachOnce: of a namespace, of an entity, and the open ones, also of equal times and of other days.
func TestAlertPagesHaveEachOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db := newAlertTable(rt, noon)
		defer db.Close()
		var all []schema.Alert
		var closed []bool
		for n := range rapid.IntRange(0, 40).Draw(rt, "alerts") {
			at := noon.AddDate(0, 0, -rapid.IntRange(0, 5).Draw(rt, "day")).Add(-time.Duration(rapid.IntRange(0, 3).Draw(rt, "ms")) * time.Millisecond)
			a := alertAt(rapid.SampledFrom([]string{"", "a"}).Draw(rt, "namespace"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "entity"), at, n)
			all, closed = append(all, a), append(closed, rapid.Bool().Draw(rt, "closed"))
			putAlert(rt, db, a, closed[n])
		}
		for _, namespace := range []string{"", "a"} {
			r, err := aggregator.NewReader(db.Client(), "limits", &aggregator.ReaderOptions{Namespace: namespace, Now: func() time.Time { return noon }})
			require.NoError(rt, err)
			q := aggregator.AlertQuery{Limit: rapid.IntRange(1, 9).Draw(rt, "limit"), Entity: rapid.SampledFrom([]string{"", "x"}).Draw(rt, "of"), Open: rapid.Bool().Draw(rt, "open")}
			var want []string
			for i, a := range all {
				if a.Keys == schema.NewKeys(namespace) && (q.Entity == "" || a.Entity == q.Entity) && !(q.Open && closed[i]) {
					want = append(want, a.Shown().ID)
				}
			}
			assert.ElementsMatch(rt, want, readAlertPages(rt, db, r, &q))
		}
	})
}

// TestManyAlertsOfOneMomentAreReached: with the older one behind them.
func TestManyAlertsOfOneMomentAreReached(t *testing.T) {
	db := newAlertTable(t, noon)
	defer db.Close()
	for n := range 230 {
		putAlert(t, db, alertAt("", fmt.Sprint("key-", n), noon, n), n%3 == 0)
	}
	putAlert(t, db, alertAt("", "old", noon.Add(-time.Hour), 0), true)
	r := reading(t, db, noon, aggregator.ReaderOptions{})
	ids := readAlertPages(t, db, r, &aggregator.AlertQuery{Limit: 40})
	slices.Sort(ids)
	assert.Len(t, slices.Compact(ids), 231)
	assert.Len(t, ids, 231)
}

// TestAlertsOfOtherNamespacesCostLittle: a thousand open ones before the own ones, which are found all the same.
func TestAlertsOfOtherNamespacesCostLittle(t *testing.T) {
	db := newAlertTable(t, noon)
	defer db.Close()
	for n := range 1000 {
		putAlert(t, db, alertAt("other", "key", noon.Add(-time.Duration(n)*time.Second), n), false)
	}
	for n := range 3 {
		putAlert(t, db, alertAt("", "mine", noon.Add(-time.Duration(n)*8*time.Minute), n), false)
	}
	ids := readAlertPages(t, db, reading(t, db, noon, aggregator.ReaderOptions{}), &aggregator.AlertQuery{Limit: 40})
	assert.Len(t, ids, 3)
	assert.True(t, strings.HasPrefix(ids[0], "ENTITY#mine "), ids[0])
}

// TestBadQueriesOfAlerts: before anything is read.
func TestBadQueriesOfAlerts(t *testing.T) {
	db := newAlertTable(t, noon)
	defer db.Close()
	r := reading(t, db, noon, aggregator.ReaderOptions{})
	for field, q := range map[string]aggregator.AlertQuery{
		"query.Limit": {Limit: 101}, "query.Skip": {Skip: -1}, "query.Entity": {Entity: "a#b"}, "query.Before": {Before: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		before := db.Meter()
		_, err := r.Alerts(context.Background(), q)
		var bad *dynalimit.ValidationError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, field, bad.Field)
		assert.Zero(t, db.Meter().Sub(before).Requests())
	}
}
