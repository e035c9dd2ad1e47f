package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/lambda"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unreliable refuses some writes for good, and loses the answers of others.
type unreliable struct {
	*dynamodb.Client
	rnd             *rand.Rand
	refused, losing int
}

func (u *unreliable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	n := u.rnd.IntN(24)
	if n < 4 {
		u.refused++
		return nil, &types.ResourceInUseException{}
	}
	out, err := u.Client.UpdateItem(ctx, in, o...)
	if n == 4 && err == nil {
		u.losing++
		return nil, errors.New("the answer was lost")
	}
	return out, err
}

// use has a limiter serve calls of a few entities on a new table.
func (e engine) use(t *testing.T, rnd *rand.Rand, calls int) (table string) {
	t.Helper()
	ctx, table := t.Context(), newTable()
	repo, err := dynalimit.NewRepository(e.client, table, &dynalimit.RepositoryOptions{Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(ctx))
	t.Cleanup(func() {
		_, _ = e.client.DeleteTable(context.WithoutCancel(ctx), &dynamodb.DeleteTableInput{TableName: &table})
	})
	limits := []dynalimit.Limit{dynalimit.PerMinute("rpm", 100_000), dynalimit.PerMinute("ttl", 100_000)}
	require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, limits))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-0", ParentID: "team", Cascade: true}))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	for range calls {
		entity, resource := fmt.Sprint("key-", rnd.IntN(3)), []string{"gpt-4", "org/claude"}[rnd.IntN(2)]
		lease, err := limiter.Acquire(ctx, entity, resource, dynalimit.Amounts{"rpm": 1 + rnd.Int64N(20), "ttl": 1})
		require.NoError(t, err)
		switch rnd.IntN(4) {
		case 0:
			require.NoError(t, lease.Rollback(ctx))
		case 1:
			require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": rnd.Int64N(40)}))
		}
	}
	require.NoError(t, limiter.Close(ctx))
	return table
}

// TestUsageIsWhatTheBucketsCount: in batches of any size, of which whole and parts come
// again, although writes fail and answers are lost.
func TestUsageIsWhatTheBucketsCount(t *testing.T) {
	testEngines(t, func(t *testing.T, e engine) {
		rnd := rand.New(rand.NewPCG(7, 1))
		table := e.use(t, rnd, 150)
		shards := e.records(t, table)
		want := e.counters(t, table)
		require.Len(t, want, 16, "three entities and a parent, two resources, two limits")

		client := &unreliable{Client: e.client, rnd: rnd}
		processor, err := aggregator.New(client, table, &aggregator.Options{Writers: 1})
		require.NoError(t, err)
		var total lambda.Report
		h, err := lambda.NewHandler(processor.Process, nil, &lambda.Options{Observe: func(r lambda.Report) {
			total.Counted += r.Counted
			total.Repeated += r.Repeated
			total.Again += r.Again
			total.Gaps += r.Gaps
		}})
		require.NoError(t, err)
		for _, records := range shards {
			deliver(t, rnd, h, records)
		}
		assert.Equal(t, want, e.usage(t, table))
		assert.Zero(t, total.Gaps)
		assert.Positive(t, client.refused)
		assert.Positive(t, client.losing)
		assert.Positive(t, total.Again)
		assert.Positive(t, total.Repeated)
	})
}

// deliver sends the records of a shard as Lambda does: what a function wants again comes
// again, from there on, in a batch that may be larger or smaller. Some come again although
// nobody asked.
func deliver(t *testing.T, rnd *rand.Rand, h *lambda.Handler, records []streamtypes.Record) {
	t.Helper()
	for next := 0; next < len(records); {
		from, to := next, next+1+rnd.IntN(min(40, len(records)-next))
		if rnd.IntN(4) == 0 {
			from -= rnd.IntN(from + 1)
		}
		var batch []any
		for _, r := range records[from:to] {
			batch = append(batch, lambdaRecord(t, r))
		}
		again := call(t.Context(), t, h, payload(t, batch...))
		if again == "" {
			next = to
			continue
		}
		at := slices.IndexFunc(records, func(r streamtypes.Record) bool { return *r.Dynamodb.SequenceNumber == again })
		require.GreaterOrEqual(t, at, from)
		require.Less(t, at, to)
		next = max(next, at) // what was taken once is not asked for again
	}
}

// object is a JSON object.
type object = map[string]any

// payload is the event that Lambda makes of records.
func payload(t testing.TB, records ...any) []byte {
	t.Helper()
	if records == nil {
		records = []any{}
	}
	text, err := json.Marshal(object{"Records": records})
	require.NoError(t, err)
	return text
}

// lambdaRecord is a record as Lambda sends it.
func lambdaRecord(t testing.TB, r streamtypes.Record) object {
	t.Helper()
	change := object{
		"ApproximateCreationDateTime": float64(r.Dynamodb.ApproximateCreationDateTime.Unix()),
		"Keys":                        lambdaItem(t, r.Dynamodb.Keys), "SequenceNumber": *r.Dynamodb.SequenceNumber,
		"SizeBytes": aws.ToInt64(r.Dynamodb.SizeBytes), "StreamViewType": string(r.Dynamodb.StreamViewType),
	}
	if r.Dynamodb.OldImage != nil {
		change["OldImage"] = lambdaItem(t, r.Dynamodb.OldImage)
	}
	if r.Dynamodb.NewImage != nil {
		change["NewImage"] = lambdaItem(t, r.Dynamodb.NewImage)
	}
	out := object{
		"eventID": aws.ToString(r.EventID), "eventName": string(r.EventName), "eventVersion": "1.1", "eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
		"eventSourceARN": "arn:aws:dynamodb:us-east-1:111122223333:table/limits/stream/2026-01-01T00:00:00.000", "dynamodb": change,
	}
	if r.UserIdentity != nil {
		out["userIdentity"] = object{"type": aws.ToString(r.UserIdentity.Type), "principalId": aws.ToString(r.UserIdentity.PrincipalId)}
	}
	return out
}

func lambdaItem(t testing.TB, item map[string]streamtypes.AttributeValue) object {
	out := object{}
	for name, v := range item {
		out[name] = lambdaValue(t, v)
	}
	return out
}

func lambdaValue(t testing.TB, v streamtypes.AttributeValue) object {
	switch v := v.(type) {
	case *streamtypes.AttributeValueMemberB:
		return object{"B": v.Value}
	case *streamtypes.AttributeValueMemberBOOL:
		return object{"BOOL": v.Value}
	case *streamtypes.AttributeValueMemberBS:
		return object{"BS": v.Value}
	case *streamtypes.AttributeValueMemberL:
		list := []object{}
		for _, e := range v.Value {
			list = append(list, lambdaValue(t, e))
		}
		return object{"L": list}
	case *streamtypes.AttributeValueMemberM:
		return object{"M": lambdaItem(t, v.Value)}
	case *streamtypes.AttributeValueMemberN:
		return object{"N": v.Value}
	case *streamtypes.AttributeValueMemberNS:
		return object{"NS": v.Value}
	case *streamtypes.AttributeValueMemberNULL:
		return object{"NULL": true}
	case *streamtypes.AttributeValueMemberS:
		return object{"S": v.Value}
	case *streamtypes.AttributeValueMemberSS:
		return object{"SS": v.Value}
	}
	require.Fail(t, "a value of no type", "%T", v)
	return nil
}

// embeddedLine is what the metrics of a batch look like in the log.
func embeddedLine(t *testing.T, observe func(io.Writer, string) func(lambda.Report)) []byte {
	t.Helper()
	var log bytes.Buffer
	observe(&log, "limits")(lambda.Report{
		At: time.Unix(noon, 0), Records: 10, Age: 2500 * time.Millisecond, Counted: 1, Repeated: 2, Ignored: 3, Skipped: 4, Again: 5, Gaps: 6,
	})
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")))
	return log.Bytes()
}

// TestMisuseIsSaid: a call without a context, of what was never made, or with a closer that is
// a nil pointer.
func TestMisuseIsSaid(t *testing.T) {
	process := func(context.Context, []aggregator.Record) (aggregator.Result, error) { return aggregator.Result{}, nil }
	h, err := lambda.NewHandler(process, nil, nil)
	require.NoError(t, err)
	var nobody context.Context
	records := []byte(`{"Records":[]}`)
	_, err = h.Invoke(nobody, records)
	require.ErrorContains(t, err, "ctx is nil")
	_, err = (*lambda.Handler)(nil).Invoke(t.Context(), records)
	require.ErrorContains(t, err, "make one with NewHandler")
	_, err = new(lambda.Handler).Invoke(t.Context(), records)
	require.ErrorContains(t, err, "make one with NewHandler")
	_, err = lambda.NewHandler(process, (*aggregator.Closer)(nil), nil)
	require.ErrorContains(t, err, "closer is a nil *aggregator.Closer")
	assert.NotPanics(t, func() { lambda.EmbeddedMetrics(nil, "limits")(lambda.Report{Records: 1}) })
}

// TestProcessPanics: the panic is the caller's, who has the whole batch come again.
func TestProcessPanics(t *testing.T) {
	h, err := lambda.NewHandler(func(context.Context, []aggregator.Record) (aggregator.Result, error) { panic("oh") }, nil, nil)
	require.NoError(t, err)
	assert.PanicsWithValue(t, "oh", func() {
		_, _ = h.Invoke(t.Context(), []byte(`{"Records":[{"eventID":"1","dynamodb":{"SequenceNumber":"1","Keys":{"PK":{"S":"a"}}}}]}`))
	})
}
