package aggregator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const days = 24 * time.Hour

// keepHours stores for how long a table's hours are kept.
func keepHours(t *testing.T, db *ddbmem.DB, kept time.Duration) {
	t.Helper()
	item := schema.UsageRetention{Hours: kept, Days: 400 * days, Version: 1}.Item()
	_, err := db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
	require.NoError(t, err)
}

// berlin is a zone in which days and months are summed from hours.
func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return zone
}

// TestZonesKnowWhatIsKept: hours are kept for three days. A day or month of a zone that would be
// summed from hours that are gone is refused, whichever list it is of; one whose hours are there
// is right.
func TestZonesKnowWhatIsKept(t *testing.T) {
	o := newOffice(t, noon, &aggregator.CloserOptions{Retention: aggregator.Retention{Hours: 3 * days}})
	o.close(noon) // stores it
	process(t, o.p, recordOfWhom(1, noon, "a", "gpt-4"))
	o.close(noon.Add(60 * time.Hour))
	process(t, o.p, recordOfWhom(2, noon.Add(60*time.Hour), "b", "gpt-4"))
	o.close(noon.Add(108 * time.Hour))
	require.Positive(t, o.db.ExpireNow())
	day := aggregator.Query{From: noon, To: noon.Add(time.Hour), Window: aggregator.Day}
	utc := all(t, reading(t, o.db, o.now, aggregator.ReaderOptions{}).Resource(t.Context(), "gpt-4", day))
	require.Len(t, utc, 1)
	assert.EqualValues(t, 1000, utc[0].Limits[0].Consumed)
	assert.True(t, utc[0].Final)
	local := reading(t, o.db, o.now, aggregator.ReaderOptions{Location: berlin(t)})
	month, recent := day, aggregator.Query{From: noon.Add(60 * time.Hour), To: noon.Add(61 * time.Hour), Window: aggregator.Day}
	month.Window = aggregator.Month
	for name, list := range map[string]func(aggregator.Query) error{
		"resource": func(q aggregator.Query) error { return failedOutcome(local.Resource(t.Context(), "gpt-4", q)) },
		"plan":     func(q aggregator.Query) error { return failedOutcome(local.Plan(t.Context(), "pro", q)) },
		"children": func(q aggregator.Query) error { return failedOutcome(local.Children(t.Context(), "a", q)) },
		"entity":   func(q aggregator.Query) error { return failedOutcome(local.Entity(t.Context(), "a", q)) },
		"entities": func(q aggregator.Query) error { return failedOutcome(local.Entities(t.Context(), q)) },
		"used":     func(q aggregator.Query) error { _, err := local.Used(t.Context(), q); return err },
	} {
		assert.ErrorContains(t, list(day), "kept from 2026-03-31 on", name)
		assert.ErrorContains(t, list(month), "kept from 2026-03-31 on", name)
		assert.NoError(t, list(recent), name)
	}
	read := all(t, local.Resource(t.Context(), "gpt-4", recent))
	require.Len(t, read, 1)
	assert.EqualValues(t, 1000, read[0].Limits[0].Consumed)
	assert.True(t, read[0].Final)
}

// failedOutcome is the error of a list.
func failedOutcome(list func(func(aggregator.Usage, error) bool)) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestZonesAreNotFinalWhileRetentionIsUnknown: a table in which no process of this version has
// written usage does not say how long its hours are kept.
func TestZonesAreNotFinalWhileRetentionIsUnknown(t *testing.T) {
	o := newOffice(t, noon, nil)
	process(t, o.p, recordOfWhom(1, noon, "a", "gpt-4"))
	o.close(noon.Add(16 * time.Hour))
	o.close(noon.Add(60 * time.Hour))
	_, err := o.db.Client().DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("limits"), Key: schema.UsageKept().Attributes()})
	require.NoError(t, err)
	q := aggregator.Query{From: noon, To: noon.Add(time.Hour), Window: aggregator.Day}
	for zone, final := range map[*time.Location]bool{time.UTC: true, berlin(t): false} {
		read := all(t, reading(t, o.db, o.now, aggregator.ReaderOptions{Location: zone}).Resource(t.Context(), "gpt-4", q))
		require.Len(t, read, 1)
		assert.Equal(t, final, read[0].Final, zone)
	}
}

// TestRetentionIsThatOfTheTable: the first process that writes usage stores its retention. Each
// other obeys that, and says so once if it was asked for another.
func TestRetentionIsThatOfTheTable(t *testing.T) {
	o := newOffice(t, noon, &aggregator.CloserOptions{Retention: aggregator.Retention{Hours: 30 * days, Days: 50 * days, Months: 500 * days}})
	o.close(noon.Add(time.Hour)) // stores it
	stored := aggregator.Retention{Hours: 30 * days, Days: 50 * days, Months: 500 * days}
	var heard []aggregator.Retention
	hear := func(r aggregator.Retention) { heard = append(heard, r) }
	p, err := aggregator.New(o.db.Client(), "limits", &aggregator.Options{Retention: 90 * days, RetentionDiffers: hear})
	require.NoError(t, err)
	process(t, p, recordOfWhom(1, noon, "a", "gpt-4"))
	process(t, p, recordOfWhom(2, noon, "b", "gpt-4"))
	assert.Equal(t, []aggregator.Retention{stored}, heard)
	closer, err := aggregator.NewCloser(o.db.Client(), "limits", &aggregator.CloserOptions{
		Retention: aggregator.Retention{Days: 400 * days}, RetentionDiffers: hear, Now: func() time.Time { return o.now },
	})
	require.NoError(t, err)
	o.now = noon.Add(40 * time.Hour)
	_, err = closer.CloseDue(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []aggregator.Retention{stored, stored}, heard)
	for _, opts := range []*aggregator.Options{nil, {Retention: 30 * days, RetentionDiffers: hear}} {
		silent, err := aggregator.New(o.db.Client(), "limits", opts)
		require.NoError(t, err)
		process(t, silent, recordOfWhom(3, noon, "c", "gpt-4"))
	}
	assert.Len(t, heard, 2, "what is not asked for, or is stored, does not differ")
	day := noon.Truncate(days)
	for key, want := range map[schema.Key]time.Time{
		schema.Keys{}.Usage("a", "gpt-4", noon): noon.Add(time.Hour + 30*days),
		schema.UsageSeries{Kind: schema.UsageOfResource, ID: "gpt-4", Resource: "gpt-4", Window: schema.UsageHourly}.Key(schema.Keys{}, noon): noon.Add(time.Hour + 30*days),
		schema.UsageSeries{Kind: schema.UsageOfResource, ID: "gpt-4", Resource: "gpt-4", Window: schema.UsageDaily}.Key(schema.Keys{}, day):   day.AddDate(0, 0, 1).Add(50 * days),
	} {
		out, err := o.db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: key.Attributes()})
		require.NoError(t, err)
		assert.Equal(t, schema.Number(want.Unix()), out.Item[schema.TTL], key.SK)
	}
}

// TestUnknownRetentionCountsNothing: while it cannot be read, records are to come again.
func TestUnknownRetentionCountsNothing(t *testing.T) {
	db, p := newTable(t, nil)
	db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "GetItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	done, err := p.Process(context.Background(), []aggregator.Record{recordOfWhom(1, noon, "a", "gpt-4")})
	require.NoError(t, err)
	require.Len(t, done.Failures, 1)
	assert.False(t, done.Failures[0].Unreadable)
	db.SetFaults(nil)
	assert.Equal(t, 1, process(t, p, recordOfWhom(1, noon, "a", "gpt-4")).Counted)
}

// expiryIn is when the snapshot of an entity's hour goes.
func expiryIn(t *testing.T, db *ddbmem.DB, entity string) any {
	t.Helper()
	out, err := db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: schema.Keys{}.Usage(entity, "gpt-4", noon).Attributes()})
	require.NoError(t, err)
	return out.Item[schema.TTL]
}

// TestRetentionIsReadOnceInAWhile: once in ten minutes, so that a change is obeyed. If that read
// fails the last answer holds.
func TestRetentionIsReadOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := newTable(t, nil)
		defer db.Close()
		after := func(kept time.Duration) any { return schema.Number(noon.Add(time.Hour + kept).Unix()) }
		reads := func(entity string, seq int) int64 {
			before := db.Meter()
			require.Equal(t, 1, process(t, p, recordOfWhom(seq, noon, entity, "gpt-4")).Counted)
			return db.Meter().Sub(before).Operations["GetItem"].Requests
		}
		assert.EqualValues(t, 1, reads("a", 1))
		keepHours(t, db, 30*days)
		assert.Zero(t, reads("b", 2))
		assert.Equal(t, after(90*days), expiryIn(t, db, "b"))
		<-time.After(11 * time.Minute)
		assert.EqualValues(t, 1, reads("c", 3))
		assert.Equal(t, after(30*days), expiryIn(t, db, "c"))
		<-time.After(11 * time.Minute)
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "GetItem" {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
			}
			return ddbmem.Fault{}
		})
		process(t, p, recordOfWhom(4, noon, "d", "gpt-4"))
		db.SetFaults(nil)
		assert.Equal(t, after(30*days), expiryIn(t, db, "d"))
	})
}

// TestTwoProcessesStoreOneRetention: of two that find none stored the first one's holds, and a
// Closer adds the days and months that a Processor does not know.
func TestTwoProcessesStoreOneRetention(t *testing.T) {
	o := newOffice(t, noon, &aggregator.CloserOptions{Retention: aggregator.Retention{Hours: 60 * days, Days: 50 * days}})
	_, err := o.db.Client().DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("limits"), Key: schema.UsageKept().Attributes()})
	require.NoError(t, err)
	first, raced := schema.UsageRetention{Hours: 30 * days, Version: 1, HoursOnly: true}, false
	o.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "UpdateItem" && !raced {
			raced = true
			_, err := o.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: first.Item()})
			assert.NoError(t, err)
		}
		return ddbmem.Fault{}
	})
	p, err := aggregator.New(o.db.Client(), "limits", nil)
	require.NoError(t, err)
	process(t, p, recordOfWhom(1, noon, "a", "gpt-4"))
	require.True(t, raced)
	assert.Equal(t, any(schema.Number(noon.Add(time.Hour+30*days).Unix())), expiryIn(t, o.db, "a"))
	o.close(noon.Add(time.Hour))
	out, err := o.db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: schema.UsageKept().Attributes()})
	require.NoError(t, err)
	stored, err := schema.DecodeUsageRetention(out.Item)
	require.NoError(t, err)
	assert.Equal(t, schema.UsageRetention{Hours: 30 * days, Days: 50 * days, Version: 1}, stored)
}
