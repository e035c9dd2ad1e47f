package aggregator_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// silent is a firm with a bucket that was used twice, and nothing was written to for longer
// than the stream keeps records.
func silent(t *testing.T, lost bool) (o *outage, began time.Time, acquire func(int64)) {
	t.Helper()
	o = &outage{firm: newFirm(t, 1), lost: map[string]bool{}}
	acquire = func(n int64) {
		_, err := o.limiter.Acquire(t.Context(), "org", "gpt-4", dynalimit.Amounts{"rpm": n})
		require.NoError(t, err)
	}
	began = o.clock()
	o.closeDue() // later ones go on from here
	acquire(5)
	o.take(false)
	o.now.Add(int64(2 * time.Hour))
	acquire(3)
	o.take(lost)
	o.now.Add(int64(27 * time.Hour))
	return o, began, acquire
}

// TestBucketThatIsUsedWhileItIsRepaired: a bucket that was silent when it was read, and is
// used and followed before it is booked, is not booked back to what it held then.
func TestBucketThatIsUsedWhileItIsRepaired(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o, began, acquire := silent(t, lost)
			var read, used atomic.Bool
			o.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation == "BatchGetItem" && strings.Contains(string(q.Body), "#BUCKET#gpt-4") {
					read.Store(true)
				}
				if read.Load() && q.Operation == "Query" && used.CompareAndSwap(false, true) {
					acquire(4)
					o.take(false)
				}
				return ddbmem.Fault{}
			})
			done, err := o.closer.Repair(t.Context(), aggregator.RepairOptions{Principal: "ops", From: began})
			o.db.SetFaults(nil)
			require.NoError(t, err)
			require.True(t, used.Load())
			assert.Empty(t, done.Bookings, "lost: %v", lost)
			acquire(1)
			o.stream.read()
			assert.Empty(t, o.deliver(o.p).Gaps, "lost: %v: every record of the hour came", lost)
			o.now.Add(int64(30 * time.Hour))
			_, err = o.closer.Repair(t.Context(), aggregator.RepairOptions{Principal: "ops", From: began})
			require.NoError(t, err)
			got := int64(0)
			counted, _ := usage(t, o.db)
			for _, n := range counted {
				got += n
			}
			assert.EqualValues(t, 13_000, got)
		})
	}
}

// TestAnswersThatAreLostWhileBucketsAreRepaired: what was booked without an answer is in the
// sums all the same.
func TestAnswersThatAreLostWhileBucketsAreRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, began, _ := silent(t, true)
		o.closeDue()
		require.EqualValues(t, 5000, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"))
		var lost atomic.Bool
		o.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: q.Operation == "UpdateItem" && lost.CompareAndSwap(false, true)}
		})
		_, err := o.closer.Repair(t.Context(), aggregator.RepairOptions{Principal: "ops", From: began})
		o.db.SetFaults(nil)
		require.NoError(t, err)
		require.True(t, lost.Load())
		assert.EqualValues(t, 8000, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"))
	})
}

// TestSumsOfClosersWhoseClocksDiffer: what is repaired by one whose clock is behind that of
// whoever wrote the sums is in the sums.
func TestSumsOfClosersWhoseClocksDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{0, 7 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			o, began, _ := silent(t, true)
			fast, err := aggregator.NewCloser(o.db.Client(), "limits", &aggregator.CloserOptions{Now: func() time.Time { return o.clock().Add(ahead) }})
			require.NoError(t, err)
			_, err = fast.CloseDue(t.Context())
			require.NoError(t, err)
			o.now.Add(int64(time.Second))
			done, err := o.closer.Repair(t.Context(), aggregator.RepairOptions{Principal: "ops", From: began})
			require.NoError(t, err)
			require.Len(t, done.Bookings, 1)
			assert.EqualValues(t, 8000, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"), "%v", ahead)
			assert.EqualValues(t, 8000, summedUp(t, o.db, "ENTITY#org #USAGE_DAY#"), "%v", ahead)
		})
	}
}
