package aggregator_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// in is a record of a bucket that a create with an id made.
func in(bucket string, r aggregator.Record) aggregator.Record {
	for _, image := range []map[string]types.AttributeValue{r.Old, r.New} {
		if image != nil {
			image["ci"] = &types.AttributeValueMemberB{Value: []byte(bucket)}
		}
	}
	return r
}

// over is a record of one write that puts the bucket "b" over the bucket "a".
func over(r aggregator.Record) aggregator.Record {
	r.Old["ci"] = &types.AttributeValueMemberB{Value: []byte("a")}
	r.New["ci"] = &types.AttributeValueMemberB{Value: []byte("b")}
	return r
}

// field is a number that the snapshot of key-1 holds of a limit.
func field(t *testing.T, item map[string]types.AttributeValue, limit, name string) int64 {
	v := item["u_"+limit+"_"+name]
	if v == nil {
		return 0
	}
	return number(t, v)
}

// TestBucketMadeAnewUnseen: where neither the end of a bucket nor the beginning of the next
// was recorded, what the new one had counted is missing, and the end of the old one is told:
// its counter is not taken for the same that moved.
func TestBucketMadeAnewUnseen(t *testing.T) {
	gap := func(missing, unseen int64) []aggregator.Gap {
		return []aggregator.Gap{{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: noon, Missing: missing, Unseen: unseen}}
	}
	for name, test := range map[string]struct {
		records []aggregator.Record
		gaps    []aggregator.Gap
		net     int64
	}{
		"it counted less":        {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("b", record(5, noon, 7, 9))}, gap(7, 1), 102},
		"it counted more":        {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("b", record(5, noon, 300, 310))}, gap(300, 1), 110},
		"it counted the same":    {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("b", record(5, noon, 100, 101))}, gap(100, 1), 101},
		"it began at 0":          {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("b", record(5, noon, 0, 5))}, gap(0, 1), 105},
		"it ends":                {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("b", record(5, noon, 7, -1))}, gap(7, 1), 100},
		"its beginning is there": {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("b", record(5, noon, -1, 9))}, gap(0, 1), 109},
		"the end is there":       {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("a", record(2, noon, 100, -1)), in("b", record(5, noon, 7, 9))}, gap(7, 0), 102},
		"both are there":         {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("a", record(2, noon, 100, -1)), in("b", record(5, noon, -1, 9))}, nil, 109},
		"one without a name":     {[]aggregator.Record{in("a", record(1, noon, -1, 100)), record(5, noon, 7, 9)}, gap(7, 1), 102},
		"it is put over":         {[]aggregator.Record{in("a", record(1, noon, -1, 100)), over(record(2, noon, 100, 9)), in("b", record(3, noon, 9, 12))}, nil, 112},
		"the same":               {[]aggregator.Record{in("a", record(1, noon, -1, 100)), in("a", record(5, noon, 107, 109))}, gap(7, 0), 102},
	} {
		t.Run(name, func(t *testing.T) {
			for _, apart := range []bool{false, true} {
				db, p := newTable(t, nil)
				calls := [][]aggregator.Record{test.records}
				if apart {
					calls = slices.Collect(slices.Chunk(test.records, 1))
				}
				var gaps []aggregator.Gap
				for _, records := range calls {
					gaps = append(gaps, process(t, p, records...).Gaps...)
				}
				assert.Equal(t, test.gaps, gaps, "apart: %v", apart)
				got, _ := usage(t, db)
				assert.Equal(t, map[spent]int64{key1: test.net}, got, "apart: %v", apart)
				assert.Equal(t, aggregator.Result{Repeated: len(test.records)}, process(t, p, test.records...))
			}
		})
	}
}

// TestLimitFirstSeenInAnotherBucket: what it had counted is missing, since it began after the
// first bucket of the snapshot was gone; where the snapshot has one bucket, it is not known
// where it began.
func TestLimitFirstSeenInAnotherBucket(t *testing.T) {
	for bucket, want := range map[string]struct{ first, missing int64 }{"a": {5, 0}, "b": {0, 5}} {
		db, p := newTable(t, nil)
		process(t, p, in("a", record(1, noon, -1, 100)))
		process(t, p, in(bucket, record(5, noon, 100, 109)))
		old, now := counters(109, "rpm"), counters(109, "rpm")
		maps.Copy(old, counters(5, "tpm"))
		maps.Copy(now, counters(8, "tpm"))
		assert.Equal(t, 1, process(t, p, in(bucket, recordOf(6, old, now))).Counted)
		snapshot := scan(t, db)[0]
		assert.Equal(t, want.first, field(t, snapshot, "tpm", "f"), bucket)
		assert.Equal(t, want.missing, field(t, snapshot, "tpm", "m"), bucket)
		assert.EqualValues(t, 3, field(t, snapshot, "tpm", "n"), bucket)
	}
}

// TestSnapshotsThatNameNoBucket: those of before buckets were noted go on as their counters do,
// and name the bucket from then on.
func TestSnapshotsThatNameNoBucket(t *testing.T) {
	db, p := newTable(t, nil)
	process(t, p, in("a", record(1, noon, -1, 100)))
	_, err := db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: snapshotKey("key-1", "gpt-4", noon), UpdateExpression: aws.String("REMOVE u_1"),
	})
	require.NoError(t, err)
	assert.Equal(t, aggregator.Result{Counted: 1}, process(t, p, in("b", record(2, noon, 100, 101))), "who knows")
	before := db.Meter()
	assert.Equal(t, aggregator.Result{Counted: 1}, process(t, p, in("b", record(3, noon, 101, 102))))
	assert.EqualValues(t, 1, db.Meter().Sub(before).Requests())
	r := process(t, p, in("c", record(5, noon, 3, 4)))
	require.Len(t, r.Gaps, 1)
	assert.EqualValues(t, 3, r.Gaps[0].Missing)
	assert.EqualValues(t, 1, r.Gaps[0].Unseen)
}

// counter is where the counter of a limit was last seen, and in which bucket.
type counter struct {
	last   int64
	bucket int
}

// play is a random history of a bucket that is made anew now and then, with records of it
// that get lost, and what is known of each limit.
type play struct {
	rnd     *rand.Rand
	records []aggregator.Record
	bucket  int
	now     map[string]int64
	seen    map[string]counter
	net     map[string]int64
	missing map[string]int64
	unseen  map[string]int64
}

// image is the bucket as it is; nil if it counts nothing.
func (p *play) image() map[string]types.AttributeValue {
	if len(p.now) == 0 {
		return nil
	}
	all := map[string]types.AttributeValue{}
	for name, n := range p.now {
		maps.Copy(all, counters(n, name))
	}
	return all
}

// step changes the bucket, and notes what its record shows unless it is lost. No counter
// goes back to 0.
func (p *play) step(seq int) {
	before, old := maps.Clone(p.now), p.image()
	if p.now == nil || p.rnd.IntN(6) == 0 && len(p.now) > 0 {
		p.now = map[string]int64{}
	}
	if len(before) == 0 {
		p.bucket++
	}
	if len(before) == 0 || len(p.now) > 0 {
		for _, name := range []string{"rpm", "tpm", "tpd"} {
			if p.rnd.IntN(2) == 0 {
				p.now[name] += 1 + p.rnd.Int64N(50)
			}
		}
	}
	r := in(fmt.Sprintf("bucket-%d", p.bucket), recordOf(seq, old, p.image()))
	if p.rnd.IntN(3) == 0 || old == nil && r.New == nil {
		return
	}
	p.records = append(p.records, r)
	for _, name := range []string{"rpm", "tpm", "tpd"} {
		if before[name] != p.now[name] {
			p.noteRecord(name, before[name], p.now[name])
		}
	}
}

// noteRecord notes what a record shows of a limit.
func (p *play) noteRecord(name string, before, now int64) {
	if seen := p.seen[name]; seen.bucket != p.bucket {
		p.missing[name] += before
		if seen.last != 0 {
			p.unseen[name]++
		}
	} else {
		p.missing[name] += before - seen.last
	}
	if now != 0 {
		p.net[name] += now - before
	}
	p.seen[name] = counter{now, p.bucket}
}

// TestBucketsMadeAnewAtRandom: whatever records are lost, and in whatever pieces the others
// come, a snapshot tells exactly what the records show of each limit.
func TestBucketsMadeAnewAtRandom(t *testing.T) {
	unseen := int64(0)
	for seed := range uint64(3 * histories(t)) {
		w := &play{rnd: rand.New(rand.NewPCG(seed, 3)), seen: map[string]counter{}, net: map[string]int64{}, missing: map[string]int64{}, unseen: map[string]int64{}}
		for i := range 15 {
			w.step(i + 1)
		}
		if len(w.records) == 0 {
			continue
		}
		first := map[string]int64{} // what is before the first record of the snapshot is not missing in it
		counting := slices.DeleteFunc(slices.Clone(w.records), func(r aggregator.Record) bool { return !changesCounter(t, r) })
		if len(counting) == 0 {
			continue
		}
		bucket := string(imageOf(counting[0])["ci"].(*types.AttributeValueMemberB).Value)
		for _, r := range slices.Backward(w.records) {
			for attr := range counters(0, "rpm", "tpm", "tpd") {
				name := strings.TrimSuffix(strings.TrimPrefix(attr, "b_"), "_tc")
				before, after := countersOf(t, r.Old)[name], countersOf(t, r.New)[name]
				if before != after {
					first[name] = before
					if string(imageOf(r)["ci"].(*types.AttributeValueMemberB).Value) != bucket {
						first[name] = 0
					}
				}
			}
		}
		db, p := newTable(t, nil)
		for from := 0; from < len(w.records); {
			to := from + 1 + w.rnd.IntN(len(w.records)-from)
			process(t, p, w.records[from:to]...)
			from = to
		}
		items := scan(t, db)
		require.Len(t, items, 1)
		for name := range w.seen {
			said := fmt.Sprintf("seed %d, %s", seed, name)
			require.Equal(t, w.net[name], field(t, items[0], name, "n"), said)
			require.Equal(t, first[name], field(t, items[0], name, "f"), said)
			require.Equal(t, w.missing[name]-first[name], field(t, items[0], name, "m"), said)
			want := w.unseen[name]
			if last := w.seen[name]; last.last != 0 && last.bucket != lastBucket(counting) {
				want++ // a record shows that it is gone
			}
			require.Equal(t, want, field(t, items[0], name, "e"), said)
			unseen += want
		}
	}
	assert.Positive(t, unseen)
}

// changesCounter says whether a record changes a counter.
func changesCounter(t *testing.T, r aggregator.Record) bool {
	t.Helper()
	before, after := countersOf(t, r.Old), countersOf(t, r.New)
	return slices.ContainsFunc([]string{"rpm", "tpm", "tpd"}, func(name string) bool { return before[name] != after[name] })
}

func imageOf(r aggregator.Record) map[string]types.AttributeValue {
	if r.Old != nil {
		return r.Old
	}
	return r.New
}

func lastBucket(records []aggregator.Record) (n int) {
	last := imageOf(records[len(records)-1])["ci"].(*types.AttributeValueMemberB).Value
	_, _ = fmt.Sscanf(string(last), "bucket-%d", &n)
	return n
}

// TestPendingOfABucketMadeAnew: all that it counted is pending, and of the one before it an
// end is not seen, until its record comes.
func TestPendingOfABucketMadeAnew(t *testing.T) {
	db, p := newTable(t, nil)
	process(t, p, in("a", record(1, noon, -1, 100)))
	bucket := in("b", record(9, noon, -1, 30)).New
	maps.Copy(bucket, record(9, noon, -1, 30).Keys)
	maps.Copy(bucket, map[string]types.AttributeValue{
		"GSI2PK": &types.AttributeValueMemberS{Value: "RESOURCE#gpt-4"}, "GSI2SK": &types.AttributeValueMemberS{Value: "BUCKET#key-1"},
	})
	_, err := db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: bucket})
	require.NoError(t, err)
	want := []aggregator.LimitUsage{{Limit: "rpm", Consumed: 130, Pending: 30, Unseen: 1}}
	for _, at := range []time.Time{noon.Add(time.Minute), noon.Add(time.Hour + time.Minute)} {
		r := reading(t, db, at, aggregator.ReaderOptions{})
		q := aggregator.Query{From: noon, To: at, Window: aggregator.Day}
		for name, told := range map[string][]aggregator.Usage{
			"entity": all(t, r.Entity(t.Context(), "key-1", q)), "resource": all(t, r.Resource(t.Context(), "gpt-4", q)), "entities": all(t, r.Entities(t.Context(), q)),
		} {
			if name == "resource" && at.After(noon.Add(time.Hour)) {
				continue // the bucket says nothing of when it was used
			}
			require.Len(t, told, 1, name)
			assert.Equal(t, want, told[0].Limits, "%s at %v", name, at)
		}
	}
	process(t, p, in("a", record(2, noon, 100, 110)), in("a", record(3, noon, 110, -1)), in("b", record(4, noon, -1, 30)))
	r := reading(t, db, noon.Add(time.Minute), aggregator.ReaderOptions{})
	told := all(t, r.Entity(t.Context(), "key-1", aggregator.Query{From: noon, To: noon.Add(time.Minute), Window: aggregator.Day}))
	assert.Equal(t, []aggregator.LimitUsage{{Limit: "rpm", Consumed: 140}}, told[0].Limits)
}
