package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/lambda"
)

const noon = 1_774_785_600 // 2026-03-29 12:00 UTC

// bucketRecord is the n-th record of a bucket, whose counter it raises from n-1 to n.
func bucketRecord(n int) object {
	image := func(n int) object { return object{"b_rpm_tc": object{"N": fmt.Sprint(n)}} }
	return object{"eventID": fmt.Sprint("event-", n), "dynamodb": object{
		"ApproximateCreationDateTime": noon, "SequenceNumber": fmt.Sprint(100 + n),
		"Keys":     object{"PK": object{"S": "ENTITY#key-1"}, "SK": object{"S": "#BUCKET#gpt-4"}},
		"OldImage": image(n - 1), "NewImage": image(n),
	}}
}

// malformed are records that cannot be read, each for another reason.
var malformed = map[string]any{
	"no object":           "text",
	"null":                nil,
	"a number as number":  object{"eventID": "event-2", "dynamodb": object{"SequenceNumber": "102", "Keys": object{"PK": object{"N": 1}}}},
	"a set of no texts":   object{"eventID": "event-2", "dynamodb": object{"SequenceNumber": "102", "Keys": object{"PK": object{"BS": []any{1}}}}},
	"two types":           object{"eventID": "event-2", "dynamodb": object{"SequenceNumber": "102", "Keys": object{"PK": object{"S": "a", "N": "1"}}}},
	"no value":            object{"eventID": "event-2", "dynamodb": object{"SequenceNumber": "102", "Keys": object{"PK": nil}}},
	"no keys":             object{"eventID": "event-2", "dynamodb": object{"SequenceNumber": "102"}},
	"no sequence number":  object{"eventID": "event-2", "dynamodb": object{"Keys": object{"PK": object{"S": "a"}}}},
	"a number as its id":  object{"eventID": 2, "dynamodb": object{"SequenceNumber": 102}},
	"a record of Kinesis": object{"eventID": "event-2", "kinesis": object{"data": "AAAA"}},
}

// ledger is a Process that notes what it is given.
type ledger struct {
	given []string
	fail  func(aggregator.Record) error
	err   error
}

func (l *ledger) process(_ context.Context, records []aggregator.Record) (aggregator.Result, error) {
	r := aggregator.Result{}
	for _, record := range records {
		if l.fail != nil && l.fail(record) != nil {
			r.Failures = append(r.Failures, aggregator.Failure{Record: record, Err: l.fail(record), Unreadable: errors.Is(l.fail(record), errPoison)})
			continue
		}
		l.given = append(l.given, record.Sequence)
		r.Counted++
	}
	return r, l.err
}

var errPoison = errors.New("poison")

func newHandler(t testing.TB, process lambda.Process, opts *lambda.Options) *lambda.Handler {
	t.Helper()
	h, err := lambda.NewHandler(process, nil, opts)
	require.NoError(t, err)
	return h
}

// TestRecordsThatCannotBeReadAreSkippedAfterTheirTries: before that, they and all after them
// come again, so that nothing of an item is counted before what it follows; and then they
// are named in the log.
func TestRecordsThatCannotBeReadAreSkippedAfterTheirTries(t *testing.T) {
	for name, bad := range malformed {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var reports []lambda.Report
			l := &ledger{}
			h := newHandler(t, l.process, &lambda.Options{
				Logger: slog.New(slog.NewJSONHandler(&log, nil)), Observe: func(r lambda.Report) { reports = append(reports, r) },
			})
			event := payload(t, bucketRecord(1), bad, bucketRecord(3))
			for range 2 {
				text, err := h.Invoke(t.Context(), event)
				require.NoError(t, err)
				assert.Contains(t, []string{`{"batchItemFailures":[{"itemIdentifier":"101"}]}`, `{"batchItemFailures":[{"itemIdentifier":"102"}]}`}, string(text))
				assert.NotContains(t, log.String(), "skipped")
			}
			assert.Equal(t, []string{"101", "101"}, l.given)
			assert.Equal(t, 2, reports[0].Again)

			for range 2 { // the same batch may come again for another reason
				assert.Empty(t, call(t.Context(), t, h, event))
			}
			assert.Equal(t, []string{"101", "101", "101", "103", "101", "103"}, l.given)
			assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("a record was skipped")), "%s", log.String())
			assert.Equal(t, []int{0, 0, 1, 0}, []int{reports[0].Skipped, reports[1].Skipped, reports[2].Skipped, reports[3].Skipped})
		})
	}
}

// TestPoisonIsNamed: the skipped record's id and number are in the log.
func TestPoisonIsNamed(t *testing.T) {
	var log bytes.Buffer
	l := &ledger{fail: func(r aggregator.Record) error {
		if r.Sequence == "102" {
			return errPoison
		}
		return nil
	}}
	h := newHandler(t, l.process, &lambda.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Tries: 2})
	event := payload(t, bucketRecord(1), bucketRecord(2), bucketRecord(3))
	assert.Equal(t, "102", call(t.Context(), t, h, event))
	assert.Empty(t, call(t.Context(), t, h, event))
	lines := bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n"))
	var line map[string]any
	require.NoError(t, json.Unmarshal(lines[len(lines)-1], &line))
	delete(line, "time")
	assert.Equal(t, map[string]any{
		"level": "ERROR", "msg": "a record was skipped, because it cannot be read: its usage is missing",
		"event_id": "event-2", "sequence": "102", "tries": 2.0, "error": "poison",
	}, line)
}

// TestWhatFailsIsNeverSkipped: however often, and the batch comes from the first failure on.
func TestWhatFailsIsNeverSkipped(t *testing.T) {
	l := &ledger{fail: func(r aggregator.Record) error {
		if r.Sequence >= "103" {
			return errors.New("busy")
		}
		return nil
	}}
	h := newHandler(t, l.process, nil)
	event := payload(t, bucketRecord(1), bucketRecord(2), bucketRecord(3), bucketRecord(4))
	for range 100 {
		require.Equal(t, "103", call(t.Context(), t, h, event))
	}
	l.fail = nil
	assert.Empty(t, call(t.Context(), t, h, event))

	l.err = context.DeadlineExceeded
	assert.Equal(t, "101", call(t.Context(), t, h, event), "a process that says only that it failed")
	l.err = nil
	l.fail = func(aggregator.Record) error { return errors.New("busy") }
	h = newHandler(t, func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
		return aggregator.Result{Failures: []aggregator.Failure{{Err: errors.New("busy")}}}, nil
	}, nil)
	assert.Equal(t, "101", call(t.Context(), t, h, event), "a failure of a record that nobody sent")
}

// TestWorkStopsBeforeTheDeadline: what is not done by then comes again.
func TestWorkStopsBeforeTheDeadline(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{time.Minute: 55 * time.Second, 4 * time.Second: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			h := newHandler(t, func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
				<-ctx.Done()
				return aggregator.Result{Counted: 1, Failures: []aggregator.Failure{{Record: records[1], Err: ctx.Err()}}}, ctx.Err()
			}, nil)
			assert.Equal(t, "102", call(ctx, t, h, payload(t, bucketRecord(1), bucketRecord(2))))
			assert.Equal(t, want, time.Since(began))
		})
	}
}

type closer func(context.Context) (aggregator.Closed, error)

func (c closer) CloseDue(ctx context.Context) (aggregator.Closed, error) { return c(ctx) }

// TestSchedulesCloseHours: as a rule of EventBridge and as its scheduler call.
func TestSchedulesCloseHours(t *testing.T) {
	calls := 0
	var failure error
	var reports []lambda.Report
	h, err := lambda.NewHandler((&ledger{}).process, closer(func(context.Context) (aggregator.Closed, error) {
		calls++
		return aggregator.Closed{Hours: 2, Final: 1, Gaps: []aggregator.Gap{{Entity: "key-1"}}}, failure
	}), &lambda.Options{Observe: func(r lambda.Report) { r.At = time.Time{}; reports = append(reports, r) }})
	require.NoError(t, err)
	for _, source := range []string{"aws.events", "aws.scheduler"} {
		event := []byte(`{"version":"0","id":"1","detail-type":"Scheduled Event","source":"` + source + `","detail":{}}`)
		answer, err := h.Invoke(t.Context(), event)
		require.NoError(t, err)
		assert.JSONEq(t, "null", string(answer))
		failure = errors.New("busy")
		_, err = h.Invoke(t.Context(), event)
		require.ErrorIs(t, err, failure)
		failure = nil
	}
	assert.Equal(t, 4, calls)
	assert.Equal(t, lambda.Report{Closed: 2, Final: 1, Gaps: 1}, reports[0])
	assert.Equal(t, reports[0], reports[1], "also what failed tells what it did")

	_, err = newHandler(t, (&ledger{}).process, nil).Invoke(t.Context(), []byte(`{"detail-type":"Scheduled Event"}`))
	assert.ErrorContains(t, err, "has no Closer")
}

// deliverer is a function as a Deliverer.
type deliverer func(context.Context) error

func (d deliverer) RunOnce(ctx context.Context) error { return d(ctx) }

// A schedule delivers alerts beside the closing of hours, for 4 minutes at most. Neither stops the other, and the errors of
// both are told.
func TestAScheduleDeliversAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, lost := errors.New("busy"), errors.New("lost")
		schedule := []byte(`{"detail-type":"Scheduled Event"}`)
		invoke := func(c lambda.Closer, d deliverer) error {
			h, err := lambda.NewHandler((&ledger{}).process, c, &lambda.Options{Deliverer: d})
			require.NoError(t, err)
			_, err = h.Invoke(t.Context(), schedule)
			return err
		}
		fine := closer(func(context.Context) (aggregator.Closed, error) { return aggregator.Closed{}, nil })
		require.NoError(t, invoke(fine, func(context.Context) error { return nil }))
		require.NoError(t, invoke(nil, func(context.Context) error { return nil }), "alerts alone")
		err := invoke(closer(func(context.Context) (aggregator.Closed, error) { return aggregator.Closed{}, busy }), func(context.Context) error { return lost })
		require.ErrorIs(t, err, busy)
		require.ErrorIs(t, err, lost)
		require.ErrorContains(t, invoke(fine, func(context.Context) error { panic("oh") }), "not delivered: oh")

		began, closed := time.Now(), time.Duration(0)
		err = invoke(closer(func(context.Context) (aggregator.Closed, error) {
			closed = time.Since(began)
			return aggregator.Closed{}, nil
		}), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, closed)
		assert.Equal(t, 4*time.Minute, time.Since(began))
	})
	_, err := lambda.NewHandler((&ledger{}).process, nil, &lambda.Options{Deliverer: (*alert.Deliverer)(nil)})
	assert.ErrorContains(t, err, "options.Deliverer is a nil *alert.Deliverer")
}

func TestOtherEventsFail(t *testing.T) {
	h := newHandler(t, (&ledger{}).process, nil)
	for _, event := range []string{``, `{`, `{}`, `[]`, `"Records"`, `{"Records":7}`, `{"detail-type":"Object Created"}`} {
		_, err := h.Invoke(t.Context(), []byte(event))
		assert.ErrorContains(t, err, "lambda: the event is n", event)
	}
	for _, source := range []string{"aws:sqs", "aws:kinesis", "aws:s3", "aws:sns"} {
		_, err := h.Invoke(t.Context(), []byte(`{"Records":[{"EventSource":"`+source+`","messageId":"1","body":"{}"}]}`))
		assert.ErrorContains(t, err, "lambda: the event has records of "+source)
	}
	assert.Empty(t, call(t.Context(), t, h, payload(t)), "a batch of nothing")
}

func TestHandlersAreMadeOfGoodInput(t *testing.T) {
	_, err := lambda.NewHandler(nil, nil, nil)
	assert.ErrorContains(t, err, "process is nil")
	l := &ledger{}
	_, err = lambda.NewHandler(l.process, nil, &lambda.Options{Tries: -1})
	assert.ErrorContains(t, err, "options.Tries is -1")
	_, err = lambda.NewHandler(l.process, nil, &lambda.Options{Margin: -1})
	assert.ErrorContains(t, err, "options.Margin")
}
