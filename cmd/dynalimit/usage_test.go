package main

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// meteredTable is a table whose stream somebody turns into usage.
type meteredTable struct {
	*shell
	limiter *dynalimit.RateLimiter
}

// metered is a table of three entities: key-1 cascades into team-a.
func metered(t *testing.T) *meteredTable {
	t.Helper()
	s := newShell(t)
	started := s.now
	s.now = time.Date(2026, 1, 20, 8, 0, 0, 0, time.UTC) // before anything is used
	require.NoError(t, s.repository().CreateTable(t.Context()))
	s.now = started
	repo, ctx := s.repository(), t.Context()
	require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 10_000_000)}))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "team-a"}))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-1", ParentID: "team-a", Cascade: true, Plan: "pro"}))
	require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-2", ParentID: "team-a", Detached: true, Plan: "pro"}))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, limiter.Close(t.Context())) })
	return &meteredTable{s, limiter}
}

// at puts the clock.
func (m *meteredTable) at(day, hour, minute int) *meteredTable {
	m.now = time.Date(2026, 1, day, hour, minute, 0, 0, time.UTC)
	return m
}

// use takes tokens of a resource, in one call.
func (m *meteredTable) use(entity, resource string, tokens int64) *meteredTable {
	m.t.Helper()
	lease, err := m.limiter.Acquire(m.t.Context(), entity, resource, dynalimit.Amounts{"rpm": 1, "tpm": tokens})
	require.NoError(m.t, err)
	require.NoError(m.t, lease.Settle(m.t.Context(), nil))
	return m
}

// fold has what the stream holds counted; records that lost wants are not.
func (m *meteredTable) fold(lost func(aggregator.Record) bool) *meteredTable {
	m.t.Helper()
	p, err := aggregator.New(m.db.Client(), "limits", nil)
	require.NoError(m.t, err)
	var kept []aggregator.Record
	for _, r := range m.records() {
		if lost == nil || !lost(r) {
			kept = append(kept, r)
		}
	}
	result, err := p.Process(m.t.Context(), kept)
	require.NoError(m.t, err)
	require.Empty(m.t, result.Failures)
	return m
}

// close has the hours closed that are due.
func (m *meteredTable) close() *meteredTable {
	m.t.Helper()
	closer, err := aggregator.NewCloser(m.db.Client(), "limits", &aggregator.CloserOptions{Now: m.clock})
	require.NoError(m.t, err)
	_, err = closer.CloseDue(m.t.Context())
	require.NoError(m.t, err)
	return m
}

// records are all that the stream holds.
func (m *meteredTable) records() (all []aggregator.Record) {
	m.t.Helper()
	ctx, streams := m.t.Context(), m.db.StreamsClient()
	table, err := m.db.Client().DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("limits")})
	require.NoError(m.t, err)
	arn := table.Table.LatestStreamArn
	stream, err := streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	require.NoError(m.t, err)
	for _, shard := range stream.StreamDescription.Shards {
		it, err := streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{StreamArn: arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon})
		require.NoError(m.t, err)
		for next := it.ShardIterator; next != nil; {
			page, err := streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			require.NoError(m.t, err)
			for _, raw := range page.Records {
				r, err := aggregator.FromStream(*shard.ShardId, raw)
				require.NoError(m.t, err)
				all = append(all, r)
			}
			if next = page.NextShardIterator; len(page.Records) == 0 {
				break
			}
		}
	}
	return all
}

// weekOfUse is a table with three days of usage, up to half past three of the last.
func weekOfUse(t *testing.T) *meteredTable {
	t.Helper()
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200).use("key-2", "gpt-4", 300).fold(nil)
	m.at(21, 10, 10).use("key-1", "gpt-4", 40_000).use("solo", "claude", 7).fold(nil)
	m.at(22, 9, 0).close().use("key-1", "gpt-4", 2500).fold(nil)
	m.at(22, 23, 59).use("key-2", "gpt-4", 100_000).fold(nil)
	m.at(23, 13, 0).use("key-1", "gpt-4", 800).use("key-1", "claude", 99).fold(nil)
	m.at(23, 15, 5).use("key-1", "gpt-4", 5).fold(nil)
	m.at(23, 15, 20).use("key-1", "gpt-4", 60)
	return m.at(23, 15, 30).close()
}

// TestUsageTranscript plays a session of somebody who looks at what was used.
func TestUsageTranscript(t *testing.T) {
	s := weekOfUse(t)
	s.golden("usage_list.txt", [][]string{
		{"usage", "list", "--entity", "key-1"},
		{"usage", "list", "--entity", "key-1", "--json", "--resource", "claude"},
		{"usage", "list", "--entity", "key-1", "--by", "hour", "--from", "2026-01-21", "--to", "2026-01-21", "--timezone", "Europe/Berlin"},
		{"usage", "list", "--entity", "key-1", "--by", "month"},
		{"usage", "list", "--entity", "nobody"},
		{"usage", "list", "--entity", "nobody", "--json"},
		{"usage", "list", "--children-of", "team-a"},
		{"usage", "list", "--plan", "pro"},
		{"usage", "list", "--resource", "gpt-4"},
		{"usage", "list", "--since", "6h"},
		{"usage", "list", "--entity", "a", "--plan", "pro"},
		{"usage", "list", "--since", "week"},
		{"usage", "list", "--since", "1d", "--to", "2026-01-21"},
		{"usage", "list", "--from", "2026-01-22", "--to", "2026-01-21"},
		{"usage", "list", "--by", "week"},
		{"usage", "list", "--timezone", "Berlin"},
		{"usage", "list", "--entity", "a#b"},
		{"usage", "list", "--resource", "a#b"},
		{"usage", "list", "--resource", "gpt-4", "--by", "hour", "--from", "2020"},
		{"usage", "list", "--plan", "p#", "--timezone", "Asia/Tokyo"},
		{"usage", "list", "--children-of", "team-a", "--by", "day", "--from", "2025-06", "--timezone", "Asia/Tokyo"},
	})
	s.golden("usage_top.txt", [][]string{
		{"usage", "top", "--resource", "gpt-4"},
		{"usage", "top", "--resource", "gpt-4", "--from", "2026-01-21", "--to", "2026-01-22", "--of", "tpm", "--most", "1"},
		{"usage", "top", "--resource", "gpt-4", "--since", "6h", "--json"},
		{"usage", "top", "--resource", "o3", "--since", "1h"},
		{"usage", "top", "--resource", "gpt-4", "--most=-1"},
		{"usage", "top"},
		{"usage", "top", "--resource", ""},
	})
	t.Chdir(withTestdata(t))
	s.golden("usage_export.txt", [][]string{
		{"usage", "export", "--entity", "key-1"},
		{"usage", "export", "--entity", "key-1", "--resource", "claude", "--format", "jsonl"},
		{"usage", "export", "--per-entity", "--from", "2026-01-21", "--to", "2026-01-21", "-o", "bill.csv"},
		{"usage", "export", "--entity", "key-1", "-o", "key-1.csv", "--json"},
		{"usage", "export", "--entity", "key-1", "--json"},
		{"usage", "export", "--entity", "key-1", "--per-entity"},
		{"usage", "export", "--entity", "key-1", "-o", "no/such/folder.csv"},
		{"usage", "export", "--format", "xlsx"},
	})
}

// lossy is a table in which records were lost, two days ago: of 500 tokens of key-2, and of
// the end of the bucket of solo.
func lossy(t *testing.T) *meteredTable {
	t.Helper()
	m := metered(t)
	m.at(20, 9, 0).use("key-2", "gpt-4", 1000).use("solo", "gpt-4", 1)
	m.at(20, 9, 20).use("key-2", "gpt-4", 500)
	_, err := m.db.Client().DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String("limits"), Key: (schema.Keys{}).Bucket("solo", "gpt-4").Attributes(),
	})
	require.NoError(t, err)
	gone := m.now
	m.at(20, 9, 40).use("key-2", "gpt-4", 7).use("solo", "gpt-4", 2)
	m.fold(func(r aggregator.Record) bool { return r.Time.Equal(gone) })
	m.at(20, 10, 15).close()
	return m.at(22, 15, 30).close()
}

// TestAmountsAreWholeOnANarrowTerminal: an amount that is cut is a wrong one.
func TestAmountsAreWholeOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	m := weekOfUse(t)
	m.width = 20
	for command, want := range map[string]string{
		"usage top --resource gpt-4 --since 3d --of tpm": "key-2\n  100,300   69 %\n",
		"usage list --entity key-1 --since 3d":           "2026-01-21\n  LIMIT rpm\n  CONSUMED 2\n",
	} {
		assert.Contains(t, m.must(strings.Fields(command)...), want, command)
	}
}

// TestUnrecordedTranscript shows usage of which no record came, which counts with the next one.
func TestUnrecordedTranscript(t *testing.T) {
	t.Parallel()
	m := lossy(t)
	m.golden("usage_unrecorded.txt", [][]string{
		{"usage", "list", "--entity", "key-2", "--from", "2026-01-20", "--to", "2026-01-20"},
	})
}

// TestYoungTablesAreReadFromTheirFirstHour: a period that begins before the table was made
// costs no requests for the time before it, nor do days of which a Closer wrote that nothing
// was used.
func TestYoungTablesAreReadFromTheirFirstHour(t *testing.T) {
	t.Parallel()
	m := metered(t)
	m.at(21, 9, 10).use("key-1", "gpt-4", 1200).fold(nil)
	m.at(21, 10, 20).close()
	m.at(25, 10, 20).close()
	for _, command := range []string{"export --per-entity --by month --since 90d", "top --resource gpt-4 --since 90d"} {
		began := m.db.Meter()
		told := m.must(append([]string{"usage"}, strings.Fields(command)...)...)
		assert.Contains(t, told, "team-a", command)
		assert.Less(t, m.db.Meter().Sub(began).Requests(), int64(800), command)
	}
}

// TestUsageReportNamesItsSuccessors: whatever its former flags.
func TestUsageReportNamesItsSuccessors(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--since", "3d", "-o", "report.html"}, {"--entity", "team-a", "--json"}} {
		code, _, stderr := newShell(t).run(append([]string{"usage", "report"}, flags...)...)
		assert.Equal(t, exitUsage, code, flags)
		assert.Contains(t, stderr, "dynalimit console", flags)
		assert.Contains(t, stderr, "usage export", flags)
	}
}
