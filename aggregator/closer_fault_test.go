package aggregator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// busyDay is an office whose last two hours of a month were used, and whose first of the
// next are over.
func busyDay(t *testing.T) *office {
	t.Helper()
	last := time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC)
	o := newOffice(t, last, nil)
	require.NoError(t, admin.New(o.repo).Limits.Set(t.Context(), admin.Scope{Plan: "pro"}, limits(1)))
	o.entity("team", "", false, "pro")
	o.entity("key-1", "team", true, "pro")
	o.update(schema.NewKeys("").UsageClosed(), schema.UsageCursor{Closed: last, Final: last}.ReplaceCursor(schema.UsageCursor{}))
	o.used("team", "gpt-4", last, -1, 5)
	o.used("team", "gpt-4", last.Add(time.Hour), 5, 9)
	o.passed("key-1", "gpt-4", last, -1, 5)
	o.passed("key-1", "gpt-4", last.Add(time.Hour), 5, 9)
	o.now = last.Add(3 * time.Hour)
	return o
}

// update updates an item.
func (o *office) update(key schema.Key, st schema.Statement) {
	o.t.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: key.Attributes(), UpdateExpression: &st.Update, ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	}
	if st.Condition != "" {
		in.ConditionExpression = &st.Condition
	}
	_, err := o.db.Client().UpdateItem(o.t.Context(), in)
	require.NoError(o.t, err)
}

// everything is every item of the table that says something of usage.
func (o *office) everything() map[string]map[string]types.AttributeValue {
	o.t.Helper()
	all := map[string]map[string]types.AttributeValue{}
	for _, item := range append(scan(o.t, o.db), summed(o.t, o.db)...) {
		all[text(item, "PK")+" "+text(item, "SK")] = item
	}
	return all
}

// TestClosersAtOnce write what one writes.
func TestClosersAtOnce(t *testing.T) {
	whole := busyDay(t)
	whole.close(whole.now)
	o := busyDay(t)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, err := o.closer.CloseDue(context.Background())
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, whole.everything(), o.everything())
}

// TestClosingSaysThatItsCallEnded while it waited to repeat a throttled request.
func TestClosingSaysThatItsCallEnded(t *testing.T) {
	for operation, nth := range map[string]int64{"Query": 1, "PutItem": 1, "UpdateItem": 2} {
		o := busyDay(t)
		ctx, cancel := context.WithCancel(t.Context())
		var made atomic.Int64
		o.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
			if q.Operation == operation && made.Add(1) >= nth {
				cancel()
				f.Error = &ddbmem.Error{Code: "ThrottlingException", Message: "busy"}
			}
			return f
		})
		_, err := o.closer.CloseDue(ctx)
		require.ErrorIs(t, err, context.Canceled, operation)
	}
}

// TestAnOlderSumReplacesNoNewer: neither one that was read before, nor one that is not
// final after one that is.
func TestAnOlderSumReplacesNoNewer(t *testing.T) {
	o := busyDay(t)
	over := o.now
	o.close(over.Add(31 * time.Hour))
	want := o.everything()
	for _, behind := range []time.Duration{0, 30 * time.Hour} {
		o.now = over.Add(behind)
		_, err := o.closer.Close(t.Context(), over.Add(-3*time.Hour), over)
		require.NoError(t, err)
		assert.Equal(t, want, o.everything(), "read when it was over for %v", behind)
	}
}

// TestOneOfManyCloses: of several that run, one closes what is due, another once that is
// gone; a run with nothing due writes nothing but its lease.
func TestOneOfManyCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := busyDay(t)
		began, now := time.Now(), o.now
		clock := func() time.Time { return now.Add(time.Since(began)) }
		o.runs = clock
		run := func() (stop func()) {
			c, err := aggregator.NewCloser(o.db.Client(), "limits", &aggregator.CloserOptions{Now: clock, Failed: func(err error) { assert.NoError(t, err) }})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				assert.ErrorIs(t, c.Run(ctx), context.Canceled)
			}()
			return func() { cancel(); <-ended }
		}
		first, second := run(), run()
		<-time.After(time.Minute)
		got := sums(t, o.db)
		assert.Equal(t, "rpm.n=9 of 1", got["RESOURCE#gpt-4 #USAGE_MONTH#gpt-4#2026-03"])
		first()
		<-time.After(26 * time.Hour)
		got = sums(t, o.db)
		assert.Equal(t, "rpm.n=9 of 1 final", got["RESOURCE#gpt-4 #USAGE_MONTH#gpt-4#2026-03"])
		second()
	})
}

// TestNamespacesAreClosedApart: each by its own entities, and none that is not asked for.
func TestNamespacesAreClosedApart(t *testing.T) {
	o := newOffice(t, noon, nil)
	err := admin.New(o.repo).Namespaces.Register(t.Context(), "eu")
	require.NoError(t, err)
	o.close(noon)
	there := record(1, noon, -1, 7)
	there.Keys["PK"] = &types.AttributeValueMemberS{Value: "eu/ENTITY#key-1"}
	process(t, o.p, record(1, noon, -1, 5), there)
	o.close(noon.Add(2 * time.Hour))
	assert.Equal(t, map[string]string{
		"RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z":    "rpm.n=5 of 1",
		"eu/RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z": "rpm.n=7 of 1",
	}, sums(t, o.db))
}
