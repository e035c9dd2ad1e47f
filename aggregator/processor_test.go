package aggregator_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

var noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)

// record is one of the bucket of key-1 for gpt-4 whose limit rpm counts from old to now;
// below 0 stands for no item.
func record(seq int, at time.Time, old, now int64) aggregator.Record {
	image := func(n int64) map[string]types.AttributeValue {
		if n < 0 {
			return nil
		}
		return map[string]types.AttributeValue{"b_rpm_tc": &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}}
	}
	return aggregator.Record{
		EventID: fmt.Sprint("event-", seq), Sequence: fmt.Sprint(seq), Time: at, Old: image(old), New: image(now),
		Keys: map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ENTITY#key-1"}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#gpt-4"}},
	}
}

// newTable is an empty table of limits, and a processor of its stream.
func newTable(t *testing.T, opts *aggregator.Options) (*ddbmem.DB, *aggregator.Processor) {
	t.Helper()
	db := ddbmem.New(ddbmem.WithLog())
	t.Cleanup(db.Close)
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	p, err := aggregator.New(db.Client(), "limits", opts)
	require.NoError(t, err)
	return db, p
}

func process(t *testing.T, p *aggregator.Processor, records ...aggregator.Record) aggregator.Result {
	t.Helper()
	r, err := p.Process(t.Context(), records)
	require.NoError(t, err)
	return r
}

var key1 = spent{"key-1", "gpt-4", "rpm", noon.Format(time.RFC3339)}

// TestGapsAreSeen: consumption without a record, where it is known how much, and where not.
func TestGapsAreSeen(t *testing.T) {
	db, p := newTable(t, nil)
	gap := aggregator.Gap{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: noon}
	r := process(t, p, record(1, noon, -1, 1000), record(2, noon, 1000, 3000))
	assert.Equal(t, aggregator.Result{Counted: 2}, r)

	r = process(t, p, record(5, noon, 7000, 8000))
	gap.Missing = 4000
	assert.Equal(t, aggregator.Result{Counted: 1, Gaps: []aggregator.Gap{gap}}, r)
	r = process(t, p, record(5, noon, 7000, 8000), record(6, noon, 8000, 8500))
	assert.Equal(t, aggregator.Result{Counted: 1, Repeated: 1}, r, "a gap is told once")

	r = process(t, p, record(9, noon, -1, 600))
	gap.Missing, gap.Unseen = 0, 1
	assert.Equal(t, aggregator.Result{Counted: 1, Gaps: []aggregator.Gap{gap}}, r, "the bucket was deleted, nobody knows at what")

	r = process(t, p, record(20, noon, 600, 700), record(22, noon, 800, 900))
	gap.Missing, gap.Unseen = 100, 0
	assert.Equal(t, aggregator.Result{Counted: 2, Gaps: []aggregator.Gap{gap}}, r)

	got, missing := usage(t, db)
	assert.Equal(t, map[spent]int64{key1: 3000 + 1000 + 500 + 600 + 200}, got)
	assert.Equal(t, map[string]int64{"#USAGE#gpt-4#2026-03-29T12:00:00Z rpm m": 4100, "#USAGE#gpt-4#2026-03-29T12:00:00Z rpm e": 1}, missing)
}

// TestOneWriteForManyRecords: one request and one unit for an entity, resource and hour,
// however many records; where the snapshot is made, one more unit for its index.
func TestOneWriteForManyRecords(t *testing.T) {
	db, p := newTable(t, nil)
	before := db.Meter()
	process(t, p, recordOfWhom(1, noon, "other", "gpt-4"))
	assert.EqualValues(t, 1+2, db.Meter().Sub(before).Requests(), "the first call of a table stores how long usage is kept")
	var records []aggregator.Record
	for i := range int64(1000) {
		records = append(records, record(int(i)+1, noon.Add(time.Duration(i)*time.Second), i, i+1))
	}
	before = db.Meter()
	assert.Equal(t, aggregator.Result{Counted: 1000}, process(t, p, records...))
	cost := db.Meter().Sub(before)
	assert.EqualValues(t, 1, cost.Requests())
	assert.InDelta(t, 2, cost.WriteUnits(), 0)
	before = db.Meter()
	process(t, p, record(2000, noon, 1000, 1001))
	assert.InDelta(t, 1, db.Meter().Sub(before).WriteUnits(), 0)
}

// TestSnapshotsExpire: after the retention, from the end of their hour on.
func TestSnapshotsExpire(t *testing.T) {
	for retention, want := range map[time.Duration]time.Duration{0: 91*24*time.Hour - 23*time.Hour, time.Hour: 2 * time.Hour, -1: 0} {
		db, p := newTable(t, &aggregator.Options{Retention: retention})
		process(t, p, record(1, noon.Add(59*time.Minute), -1, 1))
		ttl := scan(t, db)[0]["ttl"]
		if want == 0 {
			assert.Nil(t, ttl)
			continue
		}
		require.NotNil(t, ttl)
		assert.Equal(t, noon.Add(want).Unix(), number(t, ttl), retention)
	}
}

func TestBadInput(t *testing.T) {
	db := ddbmem.New()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no client":  {second(aggregator.New(nil, "limits", nil)), "client"},
		"no table":   {second(aggregator.New(db.Client(), "", nil)), "table"},
		"no writers": {second(aggregator.New(db.Client(), "limits", &aggregator.Options{Writers: -1})), "Writers"},
	} {
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, test.err, &invalid, name)
		assert.ErrorContains(t, test.err, test.want, name)
	}
	_, err := aggregator.FromStream("shard", streamtypes.Record{})
	assert.Error(t, err)
}

func second[T any](_ T, err error) error { return err }

// BenchmarkProcess adds 1,000 records of 100 buckets to their snapshots.
func BenchmarkProcess(b *testing.B) {
	db := ddbmem.New()
	defer db.Close()
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(b, err)
	require.NoError(b, repo.CreateTable(b.Context()))
	p, err := aggregator.New(db.Client(), "limits", nil)
	require.NoError(b, err)
	seq, counters := 0, make([]int64, 100)
	for b.Loop() {
		records := make([]aggregator.Record, 1000)
		for i := range records {
			seq++
			bucket := i % len(counters)
			records[i] = record(seq, noon, counters[bucket], counters[bucket]+1)
			records[i].Keys["PK"] = &types.AttributeValueMemberS{Value: fmt.Sprint("ENTITY#key-", bucket)}
			counters[bucket]++
		}
		r, err := p.Process(b.Context(), records)
		require.NoError(b, err)
		require.Equal(b, 1000, r.Counted)
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// snapshotKey is the key of the snapshot of an hour.
func snapshotKey(entity, resource string, at time.Time) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "ENTITY#" + entity},
		"SK": &types.AttributeValueMemberS{Value: "#USAGE#" + resource + "#" + at.UTC().Truncate(time.Hour).Format(time.RFC3339)},
	}
}
