package aggregator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// gapOf is a gap of key-1.
func gapOf(hour time.Time, kind aggregator.GapKind, missing, unseen int64, since time.Time) aggregator.Gap {
	return aggregator.Gap{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: hour, Kind: kind, Missing: missing, Unseen: unseen, Since: since}
}

// TestGapsAreHealedByTheNextRecord: a counter that goes on elsewhere than the last record left
// it is told, with the kind of gap, and what it grew by counts in the hour of its next record;
// what it held before its first one does not.
func TestGapsAreHealedByTheNextRecord(t *testing.T) {
	t.Parallel()
	one, two, three := noon.Add(time.Hour), noon.Add(2*time.Hour), noon.Add(3*time.Hour)
	for name, test := range map[string]struct {
		records func(*office)
		gaps    []aggregator.Gap
		total   int64
	}{
		"whole": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", two, 5, 9)
			}, nil, 9,
		},
		"something is missing": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", two, 7, 9)
			}, []aggregator.Gap{gapOf(two, aggregator.GapBetween, 2, 0, noon)}, 9,
		},
		"what was given back is missing": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", one, 2, 9)
			}, []aggregator.Gap{gapOf(one, aggregator.GapBetween, -3, 0, noon)}, 9,
		},
		"within and between": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", one, 6, 8)
				o.used("key-1", "gpt-4", one, 10, 11)
			}, []aggregator.Gap{gapOf(one, aggregator.GapBetween, 1, 0, noon), gapOf(one, aggregator.GapWithin, 2, 0, time.Time{})}, 11,
		},
		"turned on late": {
			func(o *office) { o.used("key-1", "gpt-4", one, 100, 103) },
			[]aggregator.Gap{gapOf(one, aggregator.GapBefore, 100, 0, time.Time{})},
			3,
		},
		"an end that nobody saw": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", three, -1, 4)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 0, 1, noon)}, 9,
		},
		"a beginning at 0 after an end that nobody saw": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", three, 0, 4)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 0, 1, noon)}, 9,
		},
		"an end": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", one, 5, -1)
				o.used("key-1", "gpt-4", three, -1, 4)
			}, nil, 9,
		},
		"a bucket that was made anew unseen": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("b", three, 7, 9)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 7, 1, noon)}, 14,
		},
		"a bucket that was made anew unseen, and counted the same": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("b", three, 5, 9)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 5, 1, noon)}, 14,
		},
		"a bucket whose beginning nobody saw": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("a", one, 5, -1)
				o.usedIn("b", three, 7, 9)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 7, 0, one)}, 14,
		},
		"buckets that were made anew unseen within and between": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("b", one, 1, 3)
				o.usedIn("c", one, 10, 11)
				o.usedIn("d", three, 2, 3)
			}, []aggregator.Gap{
				gapOf(one, aggregator.GapBetween, 1, 1, noon), gapOf(one, aggregator.GapWithin, 10, 1, time.Time{}), gapOf(three, aggregator.GapBetween, 2, 1, one),
			}, 5 + 3 + 11 + 3,
		},
		"times that go back": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", two, 5, 6)
				o.used("key-1", "gpt-4", one, 6, 8)
				o.used("key-1", "gpt-4", two, 8, 9)
			}, []aggregator.Gap{gapOf(one, aggregator.GapBetween, 1, 0, noon), gapOf(two, aggregator.GapBetween, -3, 0, one), gapOf(two, aggregator.GapWithin, 2, 0, time.Time{})}, 9,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				o := newOffice(t, noon, nil)
				o.close(noon)
				test.records(o)
				if late { // first while nothing is final
					o.close(noon.Add(5 * time.Hour))
				}
				assert.ElementsMatch(t, test.gaps, o.close(noon.Add(40*time.Hour)).Gaps)
				for _, of := range []string{"RESOURCE#gpt-4 #USAGE_HOUR#", "ENTITY#key-1 #USAGE_DAY#", "RESOURCE#gpt-4 #USAGE_DAY#"} {
					assert.Equal(t, test.total, summedUp(t, o.db, of), "%s late: %v", of, late)
				}
				r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
				sum := int64(0)
				for _, u := range all(t, r.Entity(t.Context(), "key-1", aggregator.Query{From: noon, To: noon.Add(4 * time.Hour)})) {
					sum += u.Limits[0].Consumed
				}
				assert.Equal(t, test.total, sum, "read by the hour")
			}
		})
	}
}

// TestRecordsOfTheHourBeforeThatComeLate are not counted twice, where what they tell was
// counted in the hour that was closed after them.
func TestRecordsOfTheHourBeforeThatComeLate(t *testing.T) {
	o := newOffice(t, noon, nil)
	o.close(noon)
	o.used("key-1", "gpt-4", noon, -1, 5)
	o.seq++ // the record from 5 to 8
	o.used("key-1", "gpt-4", noon.Add(2*time.Hour), 8, 9)
	o.close(noon.Add(4 * time.Hour))
	assert.EqualValues(t, 9, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"))
	assert.Equal(t, 1, process(t, o.p, record(2, noon.Add(time.Hour), 5, 8)).Counted)
	o.close(noon.Add(40 * time.Hour))
	assert.EqualValues(t, 9, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"))
	assert.EqualValues(t, 9, summedUp(t, o.db, "ENTITY#key-1 #USAGE_DAY#"))
	r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
	sum := int64(0)
	for _, u := range all(t, r.Entity(t.Context(), "key-1", aggregator.Query{From: noon, To: noon.Add(4 * time.Hour)})) {
		sum += u.Limits[0].Consumed
	}
	assert.EqualValues(t, 9, sum)
}

// usedIn is used of key-1 for gpt-4, in a bucket.
func (o *office) usedIn(bucket string, at time.Time, old, now int64) {
	o.t.Helper()
	o.seq++
	assert.Equal(o.t, 1, process(o.t, o.p, in(bucket, record(o.seq, at, old, now))).Counted)
}

// passed is used of an entity whose parent counts all of it too.
func (o *office) passed(entity, resource string, at time.Time, old, now int64) {
	o.t.Helper()
	o.seq++
	r := passing(record(o.seq, at, old, now))
	r.Keys = map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ENTITY#" + entity}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + resource}}
	assert.Equal(o.t, 1, process(o.t, o.p, r).Counted)
}

// passing is a record of a bucket below one that counted all of it too.
func passing(r aggregator.Record) aggregator.Record {
	for _, image := range []map[string]types.AttributeValue{r.Old, r.New} {
		if n := image["b_rpm_tc"]; n != nil {
			image["b_rpm_up"] = n
		}
	}
	return r
}

// at is a moment of the day of noon.
func at(hour, minute, second int) time.Time {
	return noon.Add(time.Duration(hour-12)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
}

// summedUp is what all sums with keys that begin so say of rpm.
func summedUp(t *testing.T, db *ddbmem.DB, prefix string) (sum int64) {
	t.Helper()
	for _, item := range summed(t, db) {
		if strings.HasPrefix(text(item, "PK")+" "+text(item, "SK"), prefix) {
			sum += number(t, item["u_rpm_n"])
		}
	}
	return sum
}

func countersOf(t *testing.T, item map[string]types.AttributeValue) map[string]int64 {
	all := map[string]int64{}
	for attr, v := range item {
		if name, is := counterOf(attr); is {
			all[name] = number(t, v)
		}
	}
	return all
}
