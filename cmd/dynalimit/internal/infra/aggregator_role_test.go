package infra

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// aggregatorPolicy is the policy of the function here.
func aggregatorPolicy(t *testing.T) string {
	t.Helper()
	return policyOf(t, "Aggregator", Options{Aggregator: true}, here)
}

// recorder adds what is written to records, as the stream tells it.
func recorder(to *[]aggregator.Record) func(ddbmem.Write) {
	return func(write ddbmem.Write) {
		item := write.New
		if item == nil {
			item = write.Old
		}
		*to = append(*to, aggregator.Record{
			EventID: strconv.FormatInt(write.Seq, 10), Expired: write.Expired, Sequence: strconv.FormatInt(write.Seq, 10), Time: write.Time.Truncate(time.Second), Old: write.Old, New: write.New,
			Keys: schema.Item{"PK": item["PK"], "SK": item["SK"]},
		})
	}
}

// use has each namespace of the world use limits, and returns what the stream tells.
func (w world) use() []aggregator.Record {
	w.Helper()
	elapse(time.Until(time.Date(2000, 1, 31, 22, 0, 0, 0, time.UTC)))
	var records []aggregator.Record
	w.db.OnWrite(recorder(&records))
	defer w.db.OnWrite(nil)
	for _, namespace := range []string{"", "eu", "us"} {
		root, _ := w.open(everything, namespace)
		require.NoError(w, admin.New(root).Entities.Create(w.Context(), admin.Entity{ID: "child", ParentID: parent, Cascade: true}))
		config := admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.DailyQuota("rpd", 2, "").WithAlerts(50)}, Only: true, Version: admin.AnyVersion}
		require.NoError(w, only(admin.New(root).Limits.SetConfig(w.Context(), admin.Scope{Everyone: true, Resource: "alerted"}, config)))
		l := w.limiter(root, nil)
		require.NoError(w, only(l.Acquire(w.Context(), "child", model, dynalimit.Amounts{"rpm": 1})))
		require.NoError(w, only(l.Acquire(w.Context(), "child", "alerted", dynalimit.Amounts{"rpd": 1})))
	}
	return records
}

// count adds records to usage, as the function does.
func (w world) count(client *dynamodb.Client, records []aggregator.Record) {
	w.Helper()
	p, err := aggregator.New(client, tableName, nil)
	require.NoError(w, err)
	result, err := p.Process(w.Context(), records)
	require.NoError(w, err)
	require.Empty(w, result.Failures)
	require.Positive(w, result.Counted)
}

// aggregate counts records, delivers alerts and closes hours under a policy, as the function does.
func (w world) aggregate(policy string, records []aggregator.Record) *guarded {
	w.Helper()
	g := &guarded{next: w.db, policy: readPolicy(w.T, policy), place: here}
	client := w.db.Client(g.through)
	w.count(client, records)
	alerts := new(heard)
	deliverer, err := alert.New(client, tableName, alerts, nil)
	require.NoError(w, err)
	require.NoError(w, deliverer.RunOnce(w.Context()))
	require.Equal(w, heard(6), *alerts)
	c, err := aggregator.NewCloser(client, tableName, nil)
	require.NoError(w, err)
	w.closeMonth(c)
	return g
}

// closeMonth closes usage past the end of a month, and when the month is final. The first call of each
// is cut.
func (w world) closeMonth(c *aggregator.Closer) {
	w.Helper()
	defer w.db.SetFaults(nil)
	for _, later := range []time.Duration{3 * time.Hour, 26 * time.Hour} {
		elapse(later)
		ctx, end := context.WithCancel(w.Context())
		defer end()
		var made atomic.Int64
		w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			if made.Add(1) == 1000 {
				end()
			}
			return ddbmem.Fault{}
		})
		_, err := c.CloseDue(ctx)
		require.True(w, err == nil || errors.Is(err, context.Canceled), "%v", err)
		w.db.SetFaults(nil)
		_, err = c.CloseDue(w.Context()) // a closing that was cut begins anew
		require.NoError(w, err)
	}
}

// TestAggregatorCanDoWhatItMust: under its policy the function adds records of all
// namespaces to usage, delivers alerts and closes hours, days and months; each statement, action, resource
// and attribute of the policy is there for something. What reads the stream is Lambda
// itself, which asks for exactly what AWS says: with statements 0 and 3.
func TestAggregatorCanDoWhatItMust(t *testing.T) {
	inWorld(t, func(w world) {
		policy := aggregatorPolicy(t)
		g := w.aggregate(policy, w.use())
		g.permits(t)
		for i, lambda := range map[int]values{0: {"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"}, 3: {"dynamodb:ListStreams"}} {
			assert.Equal(t, iamStatement{Effect: "Allow", Action: lambda, Resource: values{"arn:aws:dynamodb:us-east-1:123456789012:table/limits/stream/*"}}, readPolicy(t, policy).Statement[i])
		}
		needed(t, policy, g.seen(), "statement 0", "statement 3") // but what Lambda calls
	})
}

const alertsARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:alerts-AbCdEf"

// With a webhook the function also reads the one secret that has it.
func TestAggregatorReadsItsWebhook(t *testing.T) {
	at := here
	at.Alerts = alertsARN
	p, read := readPolicy(t, policyOf(t, "Aggregator", Options{Aggregator: true}, at)), iamCall{"secretsmanager:GetSecretValue", alertsARN, nil}
	assert.True(t, p.allows(read))
	assert.False(t, p.allows(iamCall{read.Action, keysetARN, nil}))
	assert.False(t, readPolicy(t, aggregatorPolicy(t)).allows(read))
}

// TestAggregatorChangesNoLimit: under its policy the function can neither state a limit nor
// fill a bucket, nor write the history of changes.
func TestAggregatorChangesNoLimit(t *testing.T) {
	p := readPolicy(t, aggregatorPolicy(t))
	for _, prefix := range []string{"", "eu/"} {
		for _, action := range []string{"UpdateItem", "PutItem"} {
			assert.True(t, p.allows(written(action, prefix+"ENTITY#key", "u_rpm_n")))
			for _, name := range []string{
				"l_rpm_cp", "b_rpm_tk", "b_rpm_tc", "blocked", "unlimited", "on_unavailable", "cascade", "version", "GSI1PK", "GSI2PK", "deleting", "details", "principal",
			} {
				assert.False(t, p.allows(written(action, prefix+"ENTITY#key", "u_rpm_n", name)), "%s %s", action, name)
			}
			for _, key := range []string{"AUDIT#key", "NAMESPACE#eu", "MANIFEST#", "TAIL#usage", "x"} {
				assert.False(t, p.allows(written(action, prefix+key, "u_rpm_n")), "%s %s", action, key)
			}
		}
		for _, action := range []string{"DeleteItem", "BatchWriteItem", "Scan", "ConditionCheckItem", "UpdateTable", "DeleteTable"} {
			assert.False(t, p.allows(written(action, prefix+"ENTITY#key", "u_rpm_n")), action)
		}
	}
}
