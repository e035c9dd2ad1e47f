package aggregator_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// requireInvalid requires an error that names a field and what would be right.
func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *dynalimit.ValidationError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, field, invalid.Field, "%v", err)
	assert.Equal(t, "aggregator", invalid.Package)
}

// firstOf is the first error of a list.
func firstOf(list iter.Seq2[aggregator.Usage, error]) error {
	for _, err := range list {
		return err
	}
	return nil
}

// misused are the calls of everything that has any, by what it is called with.
func misused(p *aggregator.Processor, c *aggregator.Closer, r *aggregator.Reader, tail *aggregator.Tail) map[string]func(context.Context) []error {
	hour := noon.Add(time.Hour)
	return map[string]func(context.Context) []error{
		"processor": func(ctx context.Context) []error {
			_, err := p.Process(ctx, []aggregator.Record{record(1, noon, -1, 1000)})
			_, none := p.Process(ctx, nil)
			return []error{err, none}
		},
		"closer": func(ctx context.Context) []error {
			_, due := c.CloseDue(ctx)
			_, closed := c.Close(ctx, noon, hour)
			return []error{due, closed, c.Run(ctx)}
		},
		"reader": func(ctx context.Context) []error {
			_, used := r.Used(ctx, aggregator.Query{})
			return []error{
				used, firstOf(r.Entity(ctx, "a", aggregator.Query{})), firstOf(r.Resource(ctx, "gpt-4", aggregator.Query{})),
				firstOf(r.Plan(ctx, "pro", aggregator.Query{})), firstOf(r.Children(ctx, "a", aggregator.Query{})), firstOf(r.Entities(ctx, aggregator.Query{})),
			}
		},
		"tail": func(ctx context.Context) []error { return []error{tail.Run(ctx)} },
	}
}

// TestMisuseIsSaid: every call without a context, or of what was never made.
func TestMisuseIsSaid(t *testing.T) {
	db, p := newTable(t, nil)
	c, err := aggregator.NewCloser(db.Client(), "limits", nil)
	require.NoError(t, err)
	r, err := aggregator.NewReader(db.Client(), "limits", nil)
	require.NoError(t, err)
	tail, err := aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", p.Process, nil)
	require.NoError(t, err)
	before := db.Meter()
	var nobody context.Context
	for _, calls := range misused(p, c, r, tail) {
		for _, err := range calls(nobody) {
			requireInvalid(t, err, "ctx")
		}
	}
	for _, made := range []map[string]func(context.Context) []error{
		misused(nil, nil, nil, nil),
		misused(new(aggregator.Processor), new(aggregator.Closer), new(aggregator.Reader), new(aggregator.Tail)),
	} {
		for field, calls := range made {
			for _, err := range calls(t.Context()) {
				requireInvalid(t, err, field)
				assert.ErrorContains(t, err, "make one with New")
			}
		}
	}
	assert.Zero(t, db.Meter().Sub(before).Requests(), "nothing was asked for")
}

// TestEndedContext: of a caller who is gone everything ends with that, and writes nothing.
func TestEndedContext(t *testing.T) {
	db, p := newTable(t, nil)
	c, err := aggregator.NewCloser(db.Client(), "limits", nil)
	require.NoError(t, err)
	r, err := aggregator.NewReader(db.Client(), "limits", nil)
	require.NoError(t, err)
	tail, err := aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", p.Process, nil)
	require.NoError(t, err)
	before := db.Meter()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, calls := range misused(p, c, r, tail) {
		for i, err := range calls(ctx) {
			if name == "tail" {
				require.NoError(t, err, "nothing was left")
				continue
			}
			require.ErrorIs(t, err, context.Canceled, "%s %d", name, i)
			assert.NotErrorIs(t, err, dynalimit.ErrUnavailable, "%s %d", name, i)
		}
	}
	assert.Zero(t, db.Meter().Sub(before).Requests())
}

// TestOptionsAreChecked: what cannot be meant is refused by the name of its field.
func TestOptionsAreChecked(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	client, streams := db.Client(), db.StreamsClient()
	_, p := newTable(t, nil)
	early := func() time.Time { return time.Time{} }
	const ever = time.Duration(math.MaxInt64)
	retention := func(r aggregator.Retention) func() error {
		return func() error {
			_, err := aggregator.NewCloser(client, "limits", &aggregator.CloserOptions{Retention: r})
			return err
		}
	}
	for field, calls := range map[string][]func() error{
		"client": {
			func() error { _, err := aggregator.New((*dynamodb.Client)(nil), "limits", nil); return err },
			func() error { _, err := aggregator.NewCloser((*dynamodb.Client)(nil), "limits", nil); return err },
			func() error { _, err := aggregator.NewReader((*dynamodb.Client)(nil), "limits", nil); return err },
			func() error {
				_, err := aggregator.NewTail(streams, (*dynamodb.Client)(nil), "limits", p.Process, nil)
				return err
			},
		},
		"streams": {func() error {
			_, err := aggregator.NewTail((*dynamodbstreams.Client)(nil), client, "limits", p.Process, nil)
			return err
		}},
		"process": {func() error { _, err := aggregator.NewTail(streams, client, "limits", nil, nil); return err }},
		"options.Retention": {func() error {
			_, err := aggregator.New(client, "limits", &aggregator.Options{Retention: ever})
			return err
		}},
		"options.Retention.Hours":  {retention(aggregator.Retention{Hours: ever})},
		"options.Retention.Days":   {retention(aggregator.Retention{Days: ever}), retention(aggregator.Retention{Days: time.Hour})},
		"options.Retention.Months": {retention(aggregator.Retention{Months: ever})},
		"options.Namespaces[1]": {func() error {
			_, err := aggregator.NewCloser(client, "limits", &aggregator.CloserOptions{Namespaces: []string{"", "a/b"}})
			return err
		}},
		"options.Now": {
			func() error {
				_, err := aggregator.NewCloser(client, "limits", &aggregator.CloserOptions{Now: early})
				return err
			},
			func() error {
				_, err := aggregator.NewReader(client, "limits", &aggregator.ReaderOptions{Now: early})
				return err
			},
		},
		"options.Holder": {func() error {
			_, err := aggregator.NewTail(streams, client, "limits", p.Process, &aggregator.TailOptions{Holder: "host-\xff"})
			return err
		}},
	} {
		for i, call := range calls {
			require.NotPanics(t, func() { requireInvalid(t, call(), field) }, "%s %d", field, i)
		}
	}
}

// TestTimesAreChecked: hours from the beginning of time are nobody's wish.
func TestTimesAreChecked(t *testing.T) {
	db, _ := newTable(t, nil)
	c, err := aggregator.NewCloser(db.Client(), "limits", nil)
	require.NoError(t, err)
	before := db.Meter()
	closing := func(from, to time.Time) error { _, err := c.Close(t.Context(), from, to); return err }
	requireInvalid(t, closing(time.Time{}, noon), "from")
	requireInvalid(t, closing(noon, time.Time{}), "from")
	requireInvalid(t, closing(noon, noon), "from")
	requireInvalid(t, closing(noon, noon.AddDate(9000, 0, 0)), "to")
	assert.Zero(t, db.Meter().Sub(before).Requests())
}

// TestNamespacesAreClosedOnce, however often they are named; those of nobody are all.
func TestNamespacesAreClosedOnce(t *testing.T) {
	for _, names := range [][]string{{"", ""}, {}} {
		o := newOffice(t, noon.Add(90*time.Minute), &aggregator.CloserOptions{Namespaces: names})
		o.used("a", "gpt-4", noon, -1, 1000)
		closed, err := o.closer.Close(t.Context(), noon, noon.Add(time.Hour))
		require.NoError(t, err)
		assert.Equal(t, 1, closed.Hours, "%q", names)
	}
}

// TestRecordOfNothing: what has not what every record has is refused, whatever it lacks.
func TestRecordOfNothing(t *testing.T) {
	number := "1"
	keys := map[string]streamtypes.AttributeValue{"PK": &streamtypes.AttributeValueMemberS{Value: "a"}}
	for name, r := range map[string]streamtypes.Record{
		"nothing":              {},
		"no keys":              {Dynamodb: &streamtypes.StreamRecord{SequenceNumber: &number}},
		"no number":            {Dynamodb: &streamtypes.StreamRecord{Keys: keys}},
		"a value of no type":   {Dynamodb: &streamtypes.StreamRecord{SequenceNumber: &number, Keys: keys, NewImage: map[string]streamtypes.AttributeValue{"a": nil}}},
		"a value unknown here": {Dynamodb: &streamtypes.StreamRecord{SequenceNumber: &number, Keys: keys, OldImage: map[string]streamtypes.AttributeValue{"a": &streamtypes.UnknownUnionMember{}}}},
	} {
		require.NotPanics(t, func() {
			_, err := aggregator.FromStream("shard", r)
			require.ErrorContains(t, err, "aggregator: record ", name)
		}, name)
	}
}

// TestCallbackPanics: the panic is the caller's, and the next call goes on where it ended.
func TestCallbackPanics(t *testing.T) {
	panics := true
	told := map[time.Time]int{}
	o := newOffice(t, noon.Add(50*time.Hour), &aggregator.CloserOptions{Closed: func(h aggregator.ClosedHour) {
		if told[h.Hour]++; panics {
			panic("oh")
		}
	}})
	assert.PanicsWithValue(t, "oh", func() { _, _ = o.closer.CloseDue(t.Context()) })
	panics = false
	_, err := o.closer.CloseDue(t.Context())
	require.NoError(t, err)
	assert.Greater(t, len(told), 20)
	for hour, times := range told {
		assert.Equal(t, 1, times, "%v", hour)
	}
}

// TestProcessPanics: what a ProcessFunc panics with is told, and its records come again.
func TestProcessPanics(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		db, panics := h.db, 2
		p, err := aggregator.New(db.Client(), "limits", nil)
		require.NoError(t, err)
		h.spend(1)
		var told []aggregator.TailRetry
		observer := aggregator.TailObserver{Retrying: func(e aggregator.TailRetry) { told = append(told, e) }}
		tail, err := aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
			if panics--; panics >= 0 {
				panic("oh")
			}
			return p.Process(ctx, records)
		}, &aggregator.TailOptions{FoldEvery: -1, Observer: observer})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, tail.Run(ctx))
		assert.EqualValues(t, 1, h.total())
		require.Len(t, told, 2)
		assert.ErrorContains(t, told[0].Err, "oh")
		assert.ErrorContains(t, told[0].Err, "misuse_test.go", "where it was")
	})
}

// broken is an observer that panics whatever it is told.
type broken struct {
	mu   sync.Mutex
	told map[string]int
}

func (b *broken) hear(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told[what]++
	panic("oh, " + what)
}

// hearing has it hear of one thing.
func hearing[E any](b *broken, what string) func(E) { return func(E) { b.hear(what) } }

func (b *broken) observer() aggregator.TailObserver {
	return aggregator.TailObserver{
		ShardChanged: func(e aggregator.ShardChange) { b.hear(string(e.State)) },
		Lagged:       hearing[aggregator.ShardLag](b, "lagged"),
		Processed:    hearing[aggregator.RecordsProcessed](b, "processed"),
		Skipped:      hearing[aggregator.RecordSkipped](b, "skipped"),
		Trimmed:      hearing[aggregator.ShardTrimmed](b, "trimmed"),
		Disordered:   hearing[aggregator.RecordDisordered](b, "disordered"),
		Retrying:     func(e aggregator.TailRetry) { b.hear(e.Op) },
	}
}

// TestTailObserverPanics: whatever it panics at, everything is counted, its shards are left to
// others, and the end of Run tells what it first panicked with, and where.
func TestTailObserverPanics(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		p, err := aggregator.New(h.db.Client(), "limits", &aggregator.Options{Retention: -1})
		require.NoError(t, err)
		b, fails := &broken{told: map[string]int{}}, 1
		streams := &wire{StreamsAPI: h.db.StreamsClient(), bend: func(out *dynamodbstreams.GetRecordsOutput) {
			if len(out.Records) > 0 {
				out.Records = append(out.Records, out.Records[0], streamtypes.Record{EventID: aws.String("empty")})
			}
		}}
		tail, err := aggregator.NewTail(streams, h.db.Client(), "limits", func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
			if fails--; fails >= 0 {
				return aggregator.Result{}, errors.New("not now")
			}
			return p.Process(ctx, records)
		}, &aggregator.TailOptions{FoldEvery: -1, Observer: b.observer()})
		require.NoError(t, err)
		for range 2 {
			h.spend(1, 2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err = tail.Run(ctx)
			cancel()
			require.ErrorContains(t, err, "the TailObserver did not return: panic: oh, "+string(aggregator.ShardTaken))
			require.ErrorContains(t, err, "misuse_test.go", "where it was")
			require.NotContains(t, err.Error(), "oh, lagged", "the first alone")
		}
		assert.EqualValues(t, 4, h.total())
		for _, what := range []string{"taken", "released", "lagged", "processed", "skipped", "disordered", "process records"} {
			assert.Positive(t, b.told[what], what)
		}
		require.NoError(t, h.db.SplitStream("limits", 1))
		h.spend(1)
		x := h.tail(aggregator.TailOptions{})
		after(2 * time.Minute)
		assert.EqualValues(t, 5, h.total())
		x.end(t)
	})
}

// TestListsAreRangedAgain: a list that was left early, or is read by several at once, is read
// from its beginning each time.
func TestListsAreRangedAgain(t *testing.T) {
	o := newOffice(t, noon.Add(5*time.Hour), nil)
	for i, entity := range []string{"a", "b", "c"} {
		for hour := range 3 {
			o.used(entity, "gpt-4", noon.Add(time.Duration(hour)*time.Hour), int64(10*hour)-int64(1-min(hour, 1)), int64(10*hour+10+i))
		}
	}
	r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
	ctx, q := t.Context(), aggregator.Query{From: noon, To: noon.Add(4 * time.Hour)}
	for name, list := range map[string]iter.Seq2[aggregator.Usage, error]{
		"entity": r.Entity(ctx, "a", q), "resource": r.Resource(ctx, "gpt-4", q), "entities": r.Entities(ctx, q),
		"plan": r.Plan(ctx, "pro", q), "children": r.Children(ctx, "team", q),
	} {
		whole := all(t, list)
		for _, err := range list {
			require.NoError(t, err)
			break
		}
		assert.Equal(t, whole, all(t, list), name)
		got := make(chan []aggregator.Usage)
		for range 3 {
			go func() {
				var u []aggregator.Usage
				for one, err := range list {
					if assert.NoError(t, err) {
						u = append(u, one)
					}
				}
				got <- u
			}()
		}
		for range 3 {
			assert.Equal(t, whole, <-got, name)
		}
		assert.PanicsWithValue(t, "oh", func() {
			for range list {
				panic("oh")
			}
			if len(whole) == 0 {
				panic("oh")
			}
		}, name)
	}
}
