package aggregator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestBatchesMoveForward: one that takes longer than a call has, and is given again from its
// first failure on, as Lambda does, comes further with each call.
func TestBatchesMoveForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := newTable(t, nil)
		var records []aggregator.Record
		for i := range 400 { // in another order than their keys
			r := record(i+1, noon, -1, 1000)
			r.Keys["PK"] = &types.AttributeValueMemberS{Value: fmt.Sprintf("ENTITY#key-%03d", (i*37)%400)}
			records = append(records, r)
		}
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 20 * time.Millisecond} })
		calls := 0
		for ; len(records) > 0; calls++ {
			require.Less(t, calls, 12, "%d records are left", len(records))
			ctx, cancel := context.WithTimeout(t.Context(), 110*time.Millisecond) // some 80 writes
			result, err := p.Process(ctx, records)
			cancel()
			if err == nil {
				break
			}
			failed := map[string]bool{}
			for _, f := range result.Failures {
				failed[f.Record.Sequence] = true
			}
			first := 0
			for first < len(records) && !failed[records[first].Sequence] {
				first++
			}
			require.Positive(t, first, "call %d", calls)
			records = records[first:]
		}
		db.SetFaults(nil)
		got, _ := usage(t, db)
		assert.Len(t, got, 400)
		assert.Greater(t, calls, 2)
	})
}

// TestWritesThatAreNeverAnswered are made again: nothing waits for ever, and nothing counts
// twice.
func TestWritesThatAreNeverAnswered(t *testing.T) {
	for _, lands := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t, noon, nil)
			o.close(noon)
			var silent atomic.Bool
			silent.Store(true)
			o.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if (q.Operation == "UpdateItem" || q.Operation == "PutItem") && silent.CompareAndSwap(true, false) {
					if lands {
						return ddbmem.Fault{After: 24 * time.Hour}
					}
					return ddbmem.Fault{Before: 24 * time.Hour}
				}
				return ddbmem.Fault{}
			})
			began := time.Now()
			o.used("key-1", "gpt-4", noon, -1, 5)
			for range 6 { // each write of the closer is silent once
				silent.Store(true)
				o.close(o.now.Add(75 * time.Minute))
			}
			assert.Less(t, time.Since(began), 10*time.Minute, "lands: %v", lands)
			assert.EqualValues(t, 5, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"))
		})
	}
}

// TestCloserWhoseClockIsAhead closes no more than is over by DynamoDB's clock.
func TestCloserWhoseClockIsAhead(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, 80 * time.Hour, -3 * time.Hour} {
		o := newOffice(t, noon, nil)
		o.close(noon)
		o.used("key-1", "gpt-4", noon, -1, 5)
		wrong, err := aggregator.NewCloser(o.db.Client(), "limits", &aggregator.CloserOptions{Now: func() time.Time { return o.now.Add(ahead) }})
		require.NoError(t, err)
		o.now = noon.Add(75 * time.Minute)
		done, err := wrong.CloseDue(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, done.Hours, "%v ahead", ahead)
		o.used("key-1", "gpt-4", noon.Add(80*time.Minute), 5, 9)
		o.close(noon.Add(30 * time.Hour))
		assert.EqualValues(t, 9, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"), "%v ahead", ahead)
	}
}

// TestSnapshotsWhoseSequenceIsNone: of another tool, or mistyped; their records can never be
// counted, which is said at once.
func TestSnapshotsWhoseSequenceIsNone(t *testing.T) {
	for _, seq := range []types.AttributeValue{schema.Number(7), schema.String("x")} {
		o := newOffice(t, noon.Add(time.Minute), nil)
		o.put(schema.Keys{}.Usage("key-1", "gpt-4", noon), schema.Item{
			"window": schema.String("hourly"), "window_start": schema.String("2026-03-29T12:00:00Z"), "seq": seq, "total_events": schema.Number(1),
		})
		process(t, o.p, recordOfWhom(1, noon, "other", "gpt-4")) // it reads how long usage is kept
		before := o.db.Meter()
		r := process(t, o.p, record(2, noon, 1000, 2000))
		require.Len(t, r.Failures, 1)
		assert.True(t, r.Failures[0].Unreadable)
		assert.ErrorContains(t, r.Failures[0].Err, "attribute seq is no sequence number")
		assert.LessOrEqual(t, o.db.Meter().Sub(before).Requests(), int64(2))
	}
}

// TestRecordsAfterAnUnreadableOne of their item wait for it; those of others do not.
func TestRecordsAfterAnUnreadableOne(t *testing.T) {
	db, p := newTable(t, nil)
	bad := record(2, noon, 1000, 2000)
	bad.New["b_rpm_tc"] = &types.AttributeValueMemberS{Value: "many"}
	r := process(t, p, record(1, noon, -1, 1000), bad, record(3, noon, 2000, 3000), recordOfWhom(4, noon, "key-2", "gpt-4"))
	assert.Equal(t, 2, r.Counted)
	require.Len(t, r.Failures, 2)
	assert.Equal(t, []bool{true, false}, []bool{r.Failures[0].Unreadable, r.Failures[1].Unreadable})
	assert.Equal(t, "3", r.Failures[1].Record.Sequence)
	assert.Empty(t, r.Gaps)
	r = process(t, p, record(3, noon, 2000, 3000)) // the other one was skipped
	assert.Equal(t, 1, r.Counted)
	assert.Len(t, r.Gaps, 1)
	got, _ := usage(t, db)
	assert.EqualValues(t, 2000, got[key1])
}

// TestMonthThatWasBegunLate is not final before its first days were closed, and Close makes it
// anew, also where the days are in its middle.
func TestMonthThatWasBegunLate(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 3, n, 10, 0, 0, 0, time.UTC) }
	o := newOffice(t, day(10).Add(2*time.Hour), nil)
	counter := int64(0)
	use := func(n int) {
		o.used("key-1", "gpt-4", day(n), counter, counter+10)
		counter += 10
	}
	for n := 1; n <= 9; n++ {
		use(n)
	}
	o.close(o.now)
	for n := 10; n <= 31; n++ {
		use(n)
		o.close(day(n).Add(5 * time.Hour))
	}
	o.close(time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC))
	month := func() (total, own int64, final bool) {
		r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
		q := aggregator.Query{From: day(1), To: day(31).Add(time.Hour), Window: aggregator.Month}
		for _, u := range all(t, r.Resource(t.Context(), "gpt-4", q)) {
			final = u.Final
			total += u.Limits[0].Consumed
		}
		for _, u := range all(t, r.Entity(t.Context(), "key-1", q)) {
			own += u.Limits[0].Consumed
		}
		return total, own, final
	}
	_, _, final := month()
	assert.False(t, final)
	_, err := o.closer.Close(t.Context(), day(1).Add(-10*time.Hour), day(10).Add(-10*time.Hour))
	require.NoError(t, err)
	total, own, final := month()
	assert.EqualValues(t, 310, total)
	assert.EqualValues(t, 310, own)
	assert.True(t, final)
}
