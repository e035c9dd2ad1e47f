package infra

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/aggregator/archive"
)

// tailPolicy is the policy of what follows the stream here.
func tailPolicy(t *testing.T) string {
	t.Helper()
	return policyOf(t, "Tail", Options{Tail: true}, here)
}

// heard counts delivered alerts.
type heard int

func (h *heard) Send(_ context.Context, m alert.Message) error {
	*h += heard(len(m.Alerts))
	return nil
}

// follow follows the stream under a policy, as `dynalimit tail --archive` does: one of two
// stands by, the other stops, alerts are delivered, hours are closed, and what expires is archived.
func (w world) follow(policy string) *guarded {
	w.Helper()
	g := &guarded{next: w.db, policy: readPolicy(w.T, policy), place: here}
	client, streams := w.db.Client(g.through), w.db.StreamsClient(func(o *dynamodbstreams.Options) { o.HTTPClient = g })
	p, err := aggregator.New(client, tableName, nil)
	require.NoError(w, err)
	files := &puts{}
	kept, err := archive.New(files, nil)
	require.NoError(w, err)
	closer, err := aggregator.NewCloser(client, tableName, nil)
	require.NoError(w, err)
	follow := func(name string, process aggregator.ProcessFunc) (end func()) {
		tail, err := aggregator.NewTail(streams, client, tableName, process, &aggregator.TailOptions{Name: name, FoldEvery: -1})
		require.NoError(w, err)
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- tail.Run(ctx) }()
		return func() {
			stop()
			require.NoError(w, <-ended)
		}
	}
	w.use()
	counted := false
	first := follow("usage", func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
		result, err := p.Process(ctx, records)
		counted = counted || result.Counted > 0
		return result, err
	})
	elapse(time.Minute)
	require.NoError(w, w.db.SplitStream(tableName, 1))
	second := follow("usage", p.Process)
	elapse(2 * time.Minute)
	first()
	second()
	alerts := new(heard)
	deliverer, err := alert.New(client, tableName, alerts, nil)
	require.NoError(w, err)
	ctx, stop := context.WithTimeout(w.Context(), time.Minute)
	defer stop()
	require.ErrorIs(w, deliverer.Run(ctx), context.DeadlineExceeded)
	require.Equal(w, heard(6), *alerts, "of a child and its parent in each namespace")
	w.closeMonth(closer)
	elapse(500 * 24 * time.Hour)
	w.db.ExpireNow()
	archiving := follow("archive", kept.Process)
	elapse(time.Minute)
	archiving()
	require.True(w, counted)
	require.NotEmpty(w, files.calls)
	return g
}

// TestTailCanDoWhatItMust: under its policy what follows the stream counts it, closes hours of
// all namespaces and archives; each statement, action, resource and attribute of the policy is
// there for something.
func TestTailCanDoWhatItMust(t *testing.T) {
	inWorld(t, func(w world) {
		policy := tailPolicy(t)
		g := w.follow(policy)
		g.permits(t)
		needed(t, policy, g.seen())
	})
}

// TestTailChangesNoLimit: under its policy what follows the stream can neither state a limit
// nor fill a bucket, delete anything, nor write the history of changes.
func TestTailChangesNoLimit(t *testing.T) {
	p := readPolicy(t, tailPolicy(t))
	for _, action := range []string{"UpdateItem", "PutItem"} {
		assert.True(t, p.allows(written(action, "TAIL#usage", "token")))
		assert.True(t, p.allows(written(action, "eu/ENTITY#key", "u_rpm_n")))
		for _, name := range []string{"l_rpm_cp", "b_rpm_tk", "blocked", "unlimited", "cascade", "version", "GSI1PK", "details"} {
			assert.False(t, p.allows(written(action, "eu/ENTITY#key", "u_rpm_n", name)), "%s %s", action, name)
		}
		for _, key := range []string{"AUDIT#key", "eu/AUDIT#key", "NAMESPACE#eu", "MANIFEST#", "TAIL", "eu/TAIL#usage"} {
			assert.False(t, p.allows(written(action, key, "u_rpm_n")), "%s %s", action, key)
		}
	}
	for _, action := range []string{"DeleteItem", "BatchWriteItem", "Scan", "ConditionCheckItem", "UpdateTable", "DeleteTable", "UpdateTimeToLive"} {
		assert.False(t, p.allows(written(action, "ENTITY#key")), action)
	}
	assert.False(t, p.allows(written("DeleteItem", "TAIL#archive")))
	for _, c := range []iamCall{
		{"dynamodb:GetRecords", "arn:aws:dynamodb:us-east-1:123456789012:table/other/stream/x", nil}, {"s3:PutObject", "arn:aws:s3:::kept/a", nil},
	} {
		assert.False(t, p.allows(c), "%+v", c)
	}
}
