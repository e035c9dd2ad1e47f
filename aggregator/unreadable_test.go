package aggregator_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// put puts an item as somebody else would.
func (o *office) put(key schema.Key, item schema.Item) {
	o.t.Helper()
	whole := key.Attributes()
	for name, v := range item {
		whole[name] = v
	}
	_, err := o.db.Client().PutItem(o.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: whole})
	require.NoError(o.t, err)
}

// edit sets an attribute of an item by hand.
func (o *office) edit(key schema.Key, name string, to types.AttributeValue) {
	o.t.Helper()
	_, err := o.db.Client().UpdateItem(o.t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: key.Attributes(), UpdateExpression: aws.String("SET #a = :v"),
		ExpressionAttributeNames: map[string]string{"#a": name}, ExpressionAttributeValues: map[string]types.AttributeValue{":v": to},
	})
	require.NoError(o.t, err)
}

// TestRecordsOfAnUnreadableSnapshot can never be counted, those of others are, and the error
// names the item and what to do.
func TestRecordsOfAnUnreadableSnapshot(t *testing.T) {
	for attr, value := range map[string]types.AttributeValue{
		"total_events": schema.String("many"), "u_rpm_n": schema.String("x"), "u_rpm_l": schema.Number(7), "window": schema.String("weekly"),
	} {
		o := newOffice(t, noon.Add(time.Minute), nil)
		o.used("key-1", "gpt-4", noon, -1, 1000)
		key := schema.Keys{}.Usage("key-1", "gpt-4", noon)
		o.edit(key, attr, value)
		if attr != "total_events" { // the counter is not where the record begins, so what is stored is read
			o.edit(key, "u_rpm_l", schema.String("x"))
		}
		other := recordOfWhom(3, noon, "key-2", "gpt-4")
		r := process(t, o.p, record(2, noon, 1000, 2000), other)
		assert.Equal(t, 1, r.Counted, attr)
		require.Len(t, r.Failures, 1, attr)
		assert.True(t, r.Failures[0].Unreadable, attr)
		assert.ErrorContains(t, r.Failures[0].Err, `item "ENTITY#key-1", "#USAGE#gpt-4#2026-03-29T12:00:00Z"`, attr)
		assert.ErrorContains(t, r.Failures[0].Err, "correct the item, or delete it", attr)
	}
}

// TestAnUnreadableSnapshotHoldsNothingUp: the hour, its day and its month are closed without
// it, the error names it, and once it was corrected the sums are made anew.
func TestAnUnreadableSnapshotHoldsNothingUp(t *testing.T) {
	o := newOffice(t, time.Date(2026, 4, 1, 20, 0, 0, 0, time.UTC), nil)
	hour := time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC)
	o.used("bad", "gpt-4", hour, -1, 1000)
	o.used("good", "gpt-4", hour, -1, 2000)
	o.used("bad", "gpt-4", hour.Add(time.Hour), 1000, 5000)
	key := schema.Keys{}.Usage("bad", "gpt-4", hour)
	o.edit(key, "u_rpm_n", schema.String("x"))
	const named = `item "ENTITY#bad", "#USAGE#gpt-4#2026-03-31T22:00:00Z": attribute u_rpm_n`

	closed, err := o.closer.CloseDue(t.Context())
	require.ErrorContains(t, err, named)
	require.ErrorContains(t, err, "correct the item, or delete it")
	assert.Greater(t, closed.Hours, 24, "all that are due")
	again, err := o.closer.CloseDue(t.Context())
	require.NoError(t, err)
	assert.Zero(t, again.Hours)
	r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
	month := aggregator.Query{From: hour, To: hour.Add(2 * time.Hour), Window: aggregator.Month, Resource: "gpt-4"}
	total := func() (sum int64) {
		for _, n := range consumed(t, all(t, r.Resource(t.Context(), "gpt-4", month))) {
			sum += n
		}
		return sum
	}
	assert.EqualValues(t, 2000+4000, total())
	require.ErrorContains(t, firstOf(r.Entity(t.Context(), "bad", aggregator.Query{From: hour, To: hour.Add(time.Hour)})), named)

	o.edit(key, "u_rpm_n", schema.Number(1000))
	_, err = o.closer.Close(t.Context(), hour, hour.Add(2*time.Hour))
	require.NoError(t, err)
	assert.EqualValues(t, 1000+2000+4000, total())
}

// TestSnapshotsOfOtherTools are neither read, closed nor changed: also where a day of theirs
// has the key of an hour, and where an index lists what is none.
func TestSnapshotsOfOtherTools(t *testing.T) {
	day := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)
	o := newOffice(t, day.Add(40*time.Hour), nil)
	flat := func(window string) schema.Item {
		return schema.Item{
			"entity_id": schema.String("a"), "resource": schema.String("gpt-4"), "window": schema.String(window), "window_start": schema.String("2026-03-29T00:00:00Z"),
			"rpm": schema.Number(5), "total_events": schema.Number(3),
		}
	}
	theirs := schema.Keys{}.Usage("a", "gpt-4", day)
	o.put(theirs, flat("daily"))
	o.put(schema.Keys{}.Usage("a", "gpt-4", day.Add(time.Hour)), flat("hourly"))
	listed := flat("weekly")
	listed[schema.GSI3PK], listed[schema.GSI3SK] = schema.String(schema.Keys{}.UsageHour(noon, 0)), schema.String("x")
	o.put(schema.Key{PK: "OTHER#a", SK: "x"}, listed)
	o.used("a", "gpt-4", noon, -1, 1000)
	before := scan(t, o.db)
	_, err := o.closer.CloseDue(t.Context())
	require.NoError(t, err)
	r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
	want := map[string]int64{"gpt-4 2026-03-29T12:00:00Z": 1000}
	q := aggregator.Query{From: day, To: day.Add(24 * time.Hour)}
	assert.Equal(t, want, consumed(t, all(t, r.Entity(t.Context(), "a", q))))
	assert.Len(t, all(t, r.Entity(t.Context(), "a", q)), 1)
	assert.Equal(t, want, consumed(t, all(t, r.Resource(t.Context(), "gpt-4", q))))
	assert.Equal(t, want, consumed(t, all(t, r.Entities(t.Context(), q))))
	for _, item := range before {
		if text(item, "window") == "daily" {
			assert.Contains(t, scan(t, o.db), item, "it is as it was")
		}
	}
}
