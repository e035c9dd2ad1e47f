package aggregator_test

import (
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func (o *office) repair(opts aggregator.RepairOptions) aggregator.Repaired {
	o.t.Helper()
	done, err := o.closer.Repair(o.t.Context(), opts)
	require.NoError(o.t, err)
	return done
}

// gapOf is a gap of key-1.
func gapOf(hour time.Time, kind aggregator.GapKind, missing, unseen int64, since time.Time) aggregator.Gap {
	return aggregator.Gap{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: hour, Kind: kind, Missing: missing, Unseen: unseen, Since: since}
}

// TestGapsBetweenHours: a counter that goes on elsewhere than an hour before it ended is
// told, with the kind of gap, and booked.
func TestGapsBetweenHours(t *testing.T) {
	t.Parallel()
	one, two, three := noon.Add(time.Hour), noon.Add(2*time.Hour), noon.Add(3*time.Hour)
	for name, test := range map[string]struct {
		records func(*office)
		gaps    []aggregator.Gap
		total   int64 // of snapshots once repaired
		first   int64 // and with what was there before the first
	}{
		"whole": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", two, 5, 9)
			}, nil, 9, 9,
		},
		"something is missing": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", two, 7, 9)
			}, []aggregator.Gap{gapOf(two, aggregator.GapBetween, 2, 0, noon)}, 9, 9,
		},
		"what was given back is missing": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", one, 2, 9)
			}, []aggregator.Gap{gapOf(one, aggregator.GapBetween, -3, 0, noon)}, 9, 9,
		},
		"within and between": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", one, 6, 8)
				o.used("key-1", "gpt-4", one, 10, 11)
			}, []aggregator.Gap{gapOf(one, aggregator.GapBetween, 1, 0, noon), gapOf(one, aggregator.GapWithin, 2, 0, time.Time{})}, 11, 11,
		},
		"turned on late": {
			func(o *office) { o.used("key-1", "gpt-4", one, 100, 103) },
			[]aggregator.Gap{gapOf(one, aggregator.GapBefore, 100, 0, time.Time{})},
			3, 103,
		},
		"an end that nobody saw": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", three, -1, 4)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 0, 1, noon)}, 9, 9,
		},
		"a beginning at 0 after an end that nobody saw": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", three, 0, 4)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 0, 1, noon)}, 9, 9,
		},
		"an end": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", one, 5, -1)
				o.used("key-1", "gpt-4", three, -1, 4)
			}, nil, 9, 9,
		},
		"a bucket that was made anew unseen": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("b", three, 7, 9)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 7, 1, noon)}, 14, 14,
		},
		"a bucket that was made anew unseen, and counted the same": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("b", three, 5, 9)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 5, 1, noon)}, 14, 14,
		},
		"a bucket whose beginning nobody saw": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("a", one, 5, -1)
				o.usedIn("b", three, 7, 9)
			}, []aggregator.Gap{gapOf(three, aggregator.GapBetween, 7, 0, one)}, 14, 14,
		},
		"buckets that were made anew unseen within and between": {
			func(o *office) {
				o.usedIn("a", noon, -1, 5)
				o.usedIn("b", one, 1, 3)
				o.usedIn("c", one, 10, 11)
				o.usedIn("d", three, 2, 3)
			}, []aggregator.Gap{
				gapOf(one, aggregator.GapBetween, 1, 1, noon), gapOf(one, aggregator.GapWithin, 10, 1, time.Time{}), gapOf(three, aggregator.GapBetween, 2, 1, one),
			}, 5 + 3 + 11 + 3, 5 + 3 + 11 + 3,
		},
		"times that go back": {
			func(o *office) {
				o.used("key-1", "gpt-4", noon, -1, 5)
				o.used("key-1", "gpt-4", two, 5, 6)
				o.used("key-1", "gpt-4", one, 6, 8)
				o.used("key-1", "gpt-4", two, 8, 9)
			}, []aggregator.Gap{gapOf(one, aggregator.GapBetween, 1, 0, noon), gapOf(two, aggregator.GapBetween, -3, 0, one), gapOf(two, aggregator.GapWithin, 2, 0, time.Time{})}, 9, 9,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, noon, nil)
			o.close(noon)
			test.records(o)
			o.now = noon.Add(30 * time.Hour)
			assert.ElementsMatch(t, test.gaps, o.close(o.now).Gaps)
			for _, first := range []bool{false, true} {
				opts := aggregator.RepairOptions{Principal: "ops", From: noon, To: noon.Add(4 * time.Hour), First: first, DryRun: true}
				before := o.db.Meter()
				dry := o.repair(opts)
				assert.Zero(t, o.db.Meter().Sub(before).WriteUnits())
				opts.DryRun = false
				done := o.repair(opts)
				assert.Equal(t, dry.Bookings, done.Bookings)
				assert.Empty(t, o.repair(opts).Bookings)
				want := map[bool]int64{false: test.total, true: test.first}[first]
				assert.Equal(t, want, o.total(), "first: %v", first)
				day := summedUp(t, o.db, "ENTITY#key-1 #USAGE_DAY#")
				assert.Equal(t, want, day, "days are made anew")
				assert.Equal(t, want, summedUp(t, o.db, "RESOURCE#gpt-4 #USAGE_HOUR#"))
			}
		})
	}
}

// usedIn is used of key-1 for gpt-4, in a bucket.
func (o *office) usedIn(bucket string, at time.Time, old, now int64) {
	o.t.Helper()
	o.seq++
	assert.Equal(o.t, 1, process(o.t, o.p, in(bucket, record(o.seq, at, old, now))).Counted)
}

// TestBucketMadeAnewThatNoRecordShows: all that it counts is booked, and the end of the one
// before it is told, also where that was in the same hour, after a repair that was cut, and
// by the next one; counters of other limits of the one before end too.
func TestBucketMadeAnewThatNoRecordShows(t *testing.T) {
	for name, used := range map[string]time.Time{"in a later hour": noon.Add(3 * time.Hour), "in the same hour": noon.Add(5 * time.Minute)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := aggregator.RepairOptions{Principal: "ops", From: noon}
				made := func() *office {
					o := newOffice(t, noon, nil)
					o.usedIn("a", noon, -1, 100)
					o.bucket(in("b", record(9, noon, -1, 30)), used)
					o.now = noon.Add(40 * time.Hour)
					return o
				}
				o := made()
				dry := o.repair(aggregator.RepairOptions{Principal: "ops", From: noon, DryRun: true})
				done := o.repair(opts)
				assert.Equal(t, dry.Bookings, done.Bookings)
				assert.Equal(t, dry.Unseen, done.Unseen)
				assert.Equal(t, []aggregator.Booking{{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: used.Truncate(time.Hour), Millitokens: 30}}, done.Bookings)
				again := o.repair(opts)
				assert.Empty(t, again.Bookings)
				assert.Equal(t, done.Unseen, again.Unseen)
				for cut := int64(1); ; cut++ {
					o := made()
					whole := o.cutAt(cut, func() error {
						_, err := o.closer.Repair(t.Context(), opts)
						return err
					})
					again := o.repair(opts)
					assert.EqualValues(t, 130, o.total(), "cut at %d", cut)
					require.Len(t, again.Unseen, 1, "cut at %d", cut)
					assert.EqualValues(t, 1, again.Unseen[0].Unseen)
					assert.EqualValues(t, 130, summedUp(t, o.db, "ENTITY#key-1 #USAGE_DAY#"), "cut at %d", cut)
					if whole {
						break
					}
				}
			})
		})
	}
}

// bucket puts what a record shows into the table, as a bucket that was used last at a time.
func (o *office) bucket(r aggregator.Record, at time.Time) {
	o.t.Helper()
	item := r.New
	maps.Copy(item, r.Keys)
	maps.Copy(item, map[string]types.AttributeValue{
		"GSI2PK": &types.AttributeValueMemberS{Value: "RESOURCE#gpt-4"}, "GSI2SK": &types.AttributeValueMemberS{Value: "BUCKET#key-1"},
		"rf": &types.AttributeValueMemberN{Value: strconv.FormatInt(at.UnixMilli(), 10)},
	})
	_, err := o.db.Client().PutItem(o.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
	require.NoError(o.t, err)
}

// total is what all snapshots say.
func (o *office) total() (sum int64) {
	counted, _ := usage(o.t, o.db)
	for _, n := range counted {
		sum += n
	}
	return sum
}

// summedUp is what all sums with keys that begin so say of rpm.
func summedUp(t *testing.T, db *ddbmem.DB, prefix string) (sum int64) {
	t.Helper()
	for _, item := range summed(t, db) {
		if key := text(item, "PK") + " " + text(item, "SK"); len(key) > len(prefix) && key[:len(prefix)] == prefix {
			sum += number(t, item["u_rpm_n"])
		}
	}
	return sum
}

// TestRecordsAfterARepair: what was booked and comes after all is not counted twice once it
// is repaired again.
func TestRecordsAfterARepair(t *testing.T) {
	o := newOffice(t, noon, nil)
	o.used("key-1", "gpt-4", noon, -1, 5)
	o.seq++ // the record from 5 to 8
	o.used("key-1", "gpt-4", noon.Add(2*time.Hour), 8, 9)
	o.now = noon.Add(40 * time.Hour)
	opts := aggregator.RepairOptions{Principal: "ops", From: noon}
	require.Len(t, o.repair(opts).Bookings, 1)
	assert.EqualValues(t, 9, o.total())
	late := record(2, noon.Add(time.Hour), 5, 8)
	assert.Equal(t, 1, process(t, o.p, late).Counted)
	assert.EqualValues(t, 12, o.total())
	o.repair(opts)
	assert.EqualValues(t, 9, o.total())
}

// TestRepairUnderFaults: throttled, unanswered, and cut anywhere, it books each once, and
// the next one makes the sums that the last one did not come to.
func TestRepairUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for cut := int64(1); ; cut++ {
			o := newOffice(t, noon, nil)
			o.used("key-1", "gpt-4", noon, -1, 5)
			o.used("key-1", "gpt-4", noon.Add(time.Hour), 7, 9)
			o.used("key-1", "gpt-4", noon.Add(time.Hour), 10, 11)
			o.used("key-1", "gpt-4", noon.Add(2*time.Hour), 13, 15)
			o.now = noon.Add(40 * time.Hour)
			opts := aggregator.RepairOptions{Principal: "ops", From: noon, To: noon.Add(3 * time.Hour)}
			whole := o.cutAt(cut, func() error {
				_, err := o.closer.Repair(t.Context(), opts)
				return err
			})
			o.repair(opts)
			assert.EqualValues(t, 15, o.total(), "cut at %d", cut)
			assert.EqualValues(t, 15, summedUp(t, o.db, "ENTITY#key-1 #USAGE_DAY#"), "cut at %d", cut)
			if whole {
				break
			}
		}
	})
}

// cutAt does something whose every request from the n-th write or so on is refused as a
// process that dies makes none; true if it came to its end before. Other requests are
// throttled now and then, or their answers lost.
func (o *office) cutAt(n int64, do func() error) bool {
	writes, requests := int64(0), n // what goes wrong differs with n
	o.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		o.mu.Lock()
		defer o.mu.Unlock()
		if requests++; q.Operation == "UpdateItem" || q.Operation == "PutItem" {
			writes++
		}
		switch {
		case writes >= n:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "dead"}}
		case requests%5 == 3:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException", Message: "busy"}}
		case requests%3 == 1 && (q.Operation == "UpdateItem" || q.Operation == "PutItem"):
			return ddbmem.Fault{Lose: true}
		}
		return ddbmem.Fault{}
	})
	err := do()
	o.db.SetFaults(nil)
	return err == nil
}
