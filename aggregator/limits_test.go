package aggregator_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// counters are the image of a bucket whose limits all count n.
func counters(n int64, names ...string) map[string]types.AttributeValue {
	image := map[string]types.AttributeValue{}
	for _, name := range names {
		if strings.Contains(name, "#") { // by model
			image["v_"+name] = &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
			continue
		}
		image["b_"+name+"_tc"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	return image
}

// recordOf is a record of the bucket of record.
func recordOf(seq int, old, now map[string]types.AttributeValue) aggregator.Record {
	r := record(seq, noon, -1, -1)
	r.Old, r.New = old, now
	return r
}

// lateIn is a record shortly before the end of its hour.
func lateIn(r aggregator.Record) aggregator.Record {
	r.Time = r.Time.Add(time.Hour - time.Second)
	return r
}

// limitNames are n limits with the longest names.
func limitNames(from, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("l%02d", from+i)+strings.Repeat("x", 61))
	}
	return names
}

// withModels are n limits, the first of them with as many models as an item has.
func withModels(from, n int) []string {
	names := limitNames(from, n)
	for i := range schema.MostModels {
		names = append(names, schema.ModelCounter(names[0], fmt.Sprintf("m%02d", i)+strings.Repeat("y", 61), i%2 == 0))
	}
	return names
}

// TestManyLimits: whatever happens to as many limits as a bucket holds, and to more in an
// hour, can be written.
func TestManyLimits(t *testing.T) {
	for _, n := range []int{30, 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { testLimits(t, limitNames(0, n)) })
	}
	t.Run("and models", func(t *testing.T) { testLimits(t, withModels(0, 40)) })
}

func testLimits(t *testing.T, names []string) {
	const trillion = 1_000_000_000_000 // long numbers
	for name, records := range map[string][]aggregator.Record{
		"begun":                      {recordOf(10, nil, counters(trillion, names...))},
		"more":                       {recordOf(10, counters(trillion, names...), counters(2*trillion, names...))},
		"missing":                    {recordOf(10, counters(2*trillion, names...), counters(3*trillion, names...))},
		"unseen":                     {recordOf(10, nil, counters(2*trillion, names...))},
		"dropped":                    {recordOf(10, counters(trillion, names...), nil)},
		"dropped, with some missing": {recordOf(10, counters(2*trillion, names...), nil)},
		"all of that": {
			recordOf(10, nil, counters(2*trillion, names...)),
			recordOf(12, counters(3*trillion, names...), counters(4*trillion, names...)),
			recordOf(14, nil, counters(5*trillion, names...)),
			recordOf(15, counters(5*trillion, names...), nil),
		},
		"all of that, at both full hours": {
			recordOf(10, nil, counters(2*trillion, names...)),
			recordOf(12, counters(3*trillion, names...), counters(4*trillion, names...)),
			lateIn(recordOf(14, nil, counters(5*trillion, names...))),
			lateIn(recordOf(15, counters(5*trillion, names...), nil)),
		},
		"others, again and again": {
			recordOf(10, counters(trillion, names...), counters(trillion, limitNames(20, 40)...)),
			recordOf(11, counters(trillion, limitNames(20, 40)...), counters(trillion, limitNames(40, 40)...)),
			recordOf(12, counters(trillion, limitNames(40, 40)...), counters(trillion, limitNames(60, 40)...)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := newTable(t, nil)
			assert.Equal(t, aggregator.Result{Counted: 1}, process(t, p, recordOf(1, nil, counters(trillion, names...))))
			counts(t, p, records)
			for i := range records { // and in an hour that has nothing yet
				records[i].Time = records[i].Time.Add(time.Hour)
			}
			counts(t, p, records)
		})
	}
}

// counts requires that all records count once.
func counts(t *testing.T, p *aggregator.Processor, records []aggregator.Record) {
	t.Helper()
	r := process(t, p, records...)
	assert.Empty(t, r.Failures)
	assert.Equal(t, len(records), r.Counted)
	assert.Equal(t, aggregator.Result{Repeated: len(records)}, process(t, p, records...))
}

// TestSeveralWritesOfAnHour: where one write cannot hold the limits of an hour, and one of
// several fails, those after it are not made, and all comes again.
func TestSeveralWritesOfAnHour(t *testing.T) {
	db, p := newTable(t, nil)
	a, b := limitNames(0, 20), limitNames(20, 20)
	records := []aggregator.Record{
		recordOf(1, nil, counters(1000, a...)),
		recordOf(2, counters(1000, a...), counters(5000, b...)),
		recordOf(3, counters(5000, b...), counters(6000, b...)),
	}
	denied := 0
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		denied++
		if denied == 1 {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
		}
		return ddbmem.Fault{}
	})
	r := process(t, p, records...)
	assert.Len(t, r.Failures, 3)
	assert.Equal(t, 1, denied)
	assert.Empty(t, scan(t, db))

	assert.Equal(t, aggregator.Result{Counted: 3}, process(t, p, records...))
	got, missing := usage(t, db)
	assert.Empty(t, missing)
	for i := range a {
		assert.EqualValues(t, 1000, got[spent{key1.entity, key1.resource, a[i], key1.hour}])
		assert.EqualValues(t, 6000, got[spent{key1.entity, key1.resource, b[i], key1.hour}])
	}
}

// TestLimitsCalledLikeFields: no counter of a limit is one of another, when it is made, and
// when it is read to tell what is missing.
func TestLimitsCalledLikeFields(t *testing.T) {
	db, p := newTable(t, nil)
	want := map[spent]int64{}
	images := make([]map[string]types.AttributeValue, 3)
	for i := range images {
		images[i] = map[string]types.AttributeValue{}
	}
	for i, name := range []string{"n", "f", "l", "a", "a_n", "a_n_n", "a_", "x_l", "x", "seq", "ttl", "window", "a-b", "a.b", "u_a"} {
		for j, image := range images {
			image["b_"+name+"_tc"] = counters(int64(100*j+i+1), name)["b_"+name+"_tc"]
		}
		want[spent{key1.entity, key1.resource, name, key1.hour}] = int64(i) + 101
	}
	process(t, p, recordOf(1, nil, images[0]))
	r := process(t, p, recordOf(3, images[1], images[2]))
	assert.Len(t, r.Gaps, len(want))
	for _, gap := range r.Gaps {
		assert.EqualValues(t, 100, gap.Missing, gap.Limit)
	}
	got, _ := usage(t, db)
	assert.Equal(t, want, got)
}

// TestSnapshotWithoutSequence: one that lost its number gets one, with what is missing.
func TestSnapshotWithoutSequence(t *testing.T) {
	db, p := newTable(t, nil)
	process(t, p, record(1, noon, -1, 5))
	_, err := db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: snapshotKey("key-1", "gpt-4", noon), UpdateExpression: aws.String("REMOVE seq"),
	})
	require.NoError(t, err)
	before := db.Meter()
	r := process(t, p, record(3, noon, 7, 9))
	assert.Equal(t, aggregator.Result{Counted: 1, Gaps: []aggregator.Gap{{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: noon, Missing: 2}}}, r)
	assert.EqualValues(t, 2, db.Meter().Sub(before).Requests())
	assert.Equal(t, aggregator.Result{Repeated: 1}, process(t, p, record(3, noon, 7, 9)))
}

// TestSumThat64BitsDoNotHold is written as the most that they hold, and the error says so;
// the hour is closed.
func TestSumThat64BitsDoNotHold(t *testing.T) {
	o := newOffice(t, noon, nil)
	for i, entity := range []string{"a", "b", "c", "d", "e"} {
		o.used(entity, "gpt-4", noon, int64(-1), 1<<61-int64(i))
	}
	o.now = noon.Add(2 * time.Hour)
	closed, err := o.closer.CloseDue(t.Context())
	require.ErrorContains(t, err, `the sum of limit "rpm" of resource "gpt-4" on "gpt-4"`)
	assert.Positive(t, closed.Sums)
	assert.Equal(t, "rpm.n=9223372036854775807 of 5", sums(t, o.db)["RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z"])
	_, err = o.closer.CloseDue(t.Context())
	require.NoError(t, err, "it holds nothing up")
}

// TestModelsCostUnits: a fold of a bucket with requests, tokens and money of 16 models costs two write units, where one
// without models costs one.
func TestModelsCostUnits(t *testing.T) {
	for models, want := range map[int]float64{0: 1, schema.MostModels: 2} {
		names := []string{"rpm", "tpm", "usd"}
		for i := range models {
			names = append(names, schema.ModelCounter("usd", fmt.Sprintf("claude-sonnet-%d", i), i%2 == 0))
		}
		db, p := newTable(t, nil)
		process(t, p, recordOf(1, nil, counters(50_000_000_000, names...))) // fifty dollars
		before := db.Meter().Operations["UpdateItem"].WriteUnits
		process(t, p, recordOf(2, counters(50_000_000_000, names...), counters(60_000_000_000, names...)))
		assert.InDelta(t, want, db.Meter().Operations["UpdateItem"].WriteUnits-before, 0, "%d models", models)
	}
}
