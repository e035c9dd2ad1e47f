package lambda_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/archive"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/lambda"
)

// templates are those that the command prints.
const templates = "../cmd/dynalimit/internal/infra/dynalimit"

// patterns are the filters of a function in both templates, the aggregator's first.
func patterns(t *testing.T, function int) (all []object) {
	t.Helper()
	for suffix, written := range map[string]string{".yaml": `Pattern: '(\{.*\})'`, ".tf": `pattern += "(\{.*\})"`} {
		text, err := os.ReadFile(templates + suffix)
		require.NoError(t, err)
		found := regexp.MustCompile(written).FindAllStringSubmatch(string(text), -1)
		require.Len(t, found, 2, suffix)
		var pattern object
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(found[function][1], `\"`, `"`)), &pattern))
		all = append(all, pattern)
	}
	return all
}

// lets reports whether a pattern lets a value through, as EventBridge and Lambda document
// it: every field of the pattern is there, with one of the values or prefixes that it lists.
func lets(t *testing.T, pattern object, value any) bool {
	t.Helper()
	fields, ok := value.(map[string]any)
	for name, want := range pattern {
		there, has := fields[name]
		switch want := want.(type) {
		case map[string]any:
			ok = ok && has && lets(t, want, there)
		case []any:
			matched := false
			for _, one := range want {
				text, isText := there.(string)
				if equal, isEqual := one.(string); isEqual {
					matched = matched || isText && text == equal
					continue
				}
				prefix, isPrefix := one.(map[string]any)["prefix"].(string)
				require.True(t, isPrefix, "a pattern of another kind: %v", one)
				matched = matched || isText && strings.HasPrefix(text, prefix)
			}
			ok = ok && matched
		}
	}
	return ok
}

// TestFilterLetsBucketsThrough: of all that the stream of a table tells, with namespaces and
// without, the filter of the templates lets through the records of buckets, and no other.
func TestFilterLetsBucketsThrough(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	e, ctx := engine{db.Client(), db.StreamsClient()}, t.Context()
	root, err := dynalimit.NewRepository(e.client, "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, root.CreateTable(ctx))
	require.NoError(t, admin.New(root).Namespaces.Register(ctx, "eu"))
	for _, namespace := range []string{"", "eu"} {
		repo, err := dynalimit.NewRepository(e.client, "limits", &dynalimit.RepositoryOptions{Namespace: namespace, Principal: "ann"})
		require.NoError(t, err)
		require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}))
		for _, id := range []string{"key-1", "BUCKET", "a-BUCKET-b"} {
			require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: id}))
			limiter, err := dynalimit.New(repo, nil)
			require.NoError(t, err)
			for _, resource := range []string{"gpt-4", "BUCKET", "org/claude"} {
				lease, err := limiter.Acquire(ctx, id, resource, dynalimit.Amounts{"rpm": 1})
				require.NoError(t, err)
				require.NoError(t, lease.Settle(ctx, nil))
			}
			require.NoError(t, limiter.Close(ctx))
		}
		require.NoError(t, admin.New(repo).Entities.Delete(ctx, "key-1"))
	}
	processor, err := aggregator.New(e.client, "limits", nil)
	require.NoError(t, err)
	h := newHandler(t, processor.Process, nil)
	kinds := map[bool]map[string]int{true: {}, false: {}}
	for round := range 2 { // the second has what the first wrote
		for _, records := range e.records(t, "limits") {
			var batch []any
			for _, r := range records {
				sent := lambdaRecord(t, r)
				text, err := json.Marshal(sent)
				require.NoError(t, err)
				var plain map[string]any
				require.NoError(t, json.Unmarshal(text, &plain))
				sort := fmt.Sprint(plain["dynamodb"].(object)["Keys"].(object)["SK"].(object)["S"])
				kind, _, _ := strings.Cut(strings.TrimPrefix(sort, "#"), "#")
				for _, pattern := range patterns(t, 0) {
					through := lets(t, pattern, plain)
					require.Equal(t, kind == "BUCKET", through, sort)
					kinds[through][kind]++
				}
				if kind == "BUCKET" {
					batch = append(batch, sent)
				}
			}
			if round == 0 {
				assert.Empty(t, call(ctx, t, h, payload(t, batch...)))
			}
		}
	}
	assert.Len(t, kinds[true], 1)
	for _, kind := range []string{"USAGE", "META", "CONFIG"} {
		assert.Positive(t, kinds[false][kind], "%s: %v", kind, kinds)
	}
	assert.Len(t, e.usage(t, "limits"), 2*3*3)
}

// TestMetricsAreThoseOfTheAlarms: what the alarms of the templates watch is published.
func TestMetricsAreThoseOfTheAlarms(t *testing.T) {
	for _, test := range []struct {
		alarm   string
		observe func(io.Writer, string) func(lambda.Report)
		want    map[string]any
	}{
		{"UsageMissingAlarm", lambda.EmbeddedMetrics, map[string]any{
			"StreamAgeSeconds": 2.5, "RecordsCounted": 1.0, "RecordsRepeated": 2.0, "RecordsIgnored": 3.0, "RecordsSkipped": 4.0, "RecordsAgain": 5.0, "UsageGaps": 6.0,
		}},
		{"ArchiveMissingAlarm", lambda.ArchiveMetrics, map[string]any{"ArchiveWritten": 1.0, "ArchiveSkipped": 4.0, "ArchiveAgain": 5.0}},
	} {
		text, err := os.ReadFile(templates + ".yaml")
		require.NoError(t, err)
		_, alarms, _ := strings.Cut(string(text), "  "+test.alarm+":")
		alarms, _, _ = strings.Cut(alarms, "Alarm:\n")
		var line map[string]any
		require.NoError(t, json.Unmarshal(embeddedLine(t, test.observe), &line))
		definition := line["_aws"].(object)["CloudWatchMetrics"].([]any)[0].(object)
		assert.Contains(t, alarms, "Namespace: "+definition["Namespace"].(string))
		assert.Equal(t, []any{[]any{"TableName"}}, definition["Dimensions"])
		names := map[string]any{}
		for _, m := range definition["Metrics"].([]any) {
			names[m.(object)["Name"].(string)] = line[m.(object)["Name"].(string)]
		}
		watched := regexp.MustCompile(`MetricName: (\w+)`).FindAllStringSubmatch(alarms, -1)
		assert.NotEmpty(t, watched)
		for _, found := range watched {
			assert.Contains(t, names, found[1])
		}
		assert.Equal(t, test.want, names)
		assert.Equal(t, "limits", line["TableName"])
		assert.InDelta(t, noon*1000, line["_aws"].(object)["Timestamp"], 0)
	}
}

// nowhere is a writer that keeps nothing.
type nowhere struct{}

// Put implements archive.Writer.
func (nowhere) Put(context.Context, string, []byte) error { return nil }

// TestFilterLetsThroughWhatIsArchived: of all that the stream of a table tells, with
// namespaces and without, the filter of the templates lets through what the archive keeps,
// and no other record: what somebody deleted neither.
func TestFilterLetsThroughWhatIsArchived(t *testing.T) {
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC) // the last day of a month
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	t.Cleanup(db.Close)
	e, ctx := engine{db.Client(), db.StreamsClient()}, t.Context()
	for _, namespace := range []string{"", "eu"} {
		repo, err := dynalimit.NewRepository(e.client, "limits", &dynalimit.RepositoryOptions{Namespace: namespace, Principal: "ann", Now: func() time.Time { return now }})
		require.NoError(t, err)
		if namespace == "" {
			require.NoError(t, repo.CreateTable(ctx))
			require.NoError(t, admin.New(repo).Namespaces.Register(ctx, "eu"))
		}
		require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}))
		require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "CHILDREN_"}))
		require.NoError(t, admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: "CHILDREN_"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
		limiter, err := dynalimit.New(repo, nil)
		require.NoError(t, err)
		for _, id := range []string{"key-1", "USAGE"} {
			require.NoError(t, admin.New(repo).Entities.Create(ctx, admin.Entity{ID: id, ParentID: "CHILDREN_", Cascade: true}))
			for range 3 {
				_, _ = limiter.Acquire(ctx, id, "gpt-4", dynalimit.Amounts{"rpm": 1}) // also denied
			}
		}
		require.NoError(t, limiter.Close(ctx))
		require.NoError(t, admin.New(repo).Entities.Delete(ctx, "key-1"))
	}
	processor, err := aggregator.New(e.client, "limits", nil)
	require.NoError(t, err)
	closer, err := aggregator.NewCloser(e.client, "limits", &aggregator.CloserOptions{
		Now: func() time.Time { return now }, Retention: aggregator.Retention{Months: 400 * 24 * time.Hour},
	})
	require.NoError(t, err)
	all := e.records(t, "limits")
	for _, records := range all {
		for _, r := range records {
			record, err := aggregator.FromStream("", r)
			require.NoError(t, err)
			_, err = processor.Process(ctx, []aggregator.Record{record})
			require.NoError(t, err)
		}
	}
	now = now.Add(26 * time.Hour)
	_, err = closer.CloseDue(ctx)
	require.NoError(t, err)
	now = now.AddDate(3, 0, 0)
	require.Positive(t, db.ExpireNow())
	files, err := archive.New(nowhere{}, nil)
	require.NoError(t, err)
	kinds := map[bool]map[string]int{true: {}, false: {}}
	for _, records := range append(all, e.records(t, "limits")...) { // the stream has forgotten the first
		for _, r := range records {
			record, err := aggregator.FromStream("", r)
			require.NoError(t, err)
			result, err := files.Process(ctx, []aggregator.Record{record})
			require.NoError(t, err)
			text, err := json.Marshal(lambdaRecord(t, r))
			require.NoError(t, err)
			var plain map[string]any
			require.NoError(t, json.Unmarshal(text, &plain))
			kept, sort := result.Counted == 1, fmt.Sprint(plain["dynamodb"].(object)["Keys"].(object)["SK"].(object)["S"])
			kind, _, _ := strings.Cut(strings.TrimPrefix(sort, "#"), "#")
			kinds[kept][string(r.EventName)+" "+kind]++
			for _, pattern := range patterns(t, 1) {
				require.Equal(t, kept, lets(t, pattern, plain), "%s %s", r.EventName, sort)
			}
		}
	}
	for _, kind := range []string{
		"AUDIT", "USAGE", "USAGE_HOUR", "USAGE_DAY", "USAGE_MONTH", "CHILDREN_HOUR", "CHILDREN_DAY", "CHILDREN_MONTH",
	} {
		assert.Positive(t, kinds[true]["REMOVE "+kind], "%v", kinds)
	}
	assert.Positive(t, kinds[false]["INSERT AUDIT"], "%v", kinds)
	assert.Positive(t, kinds[false]["REMOVE META"], "%v", kinds)
}
