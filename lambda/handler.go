package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/dynalimit/dynalimit/aggregator"
)

const (
	defaultTries  = 3
	defaultMargin = 5 * time.Second
	// longestDelivery bounds the delivery of alerts in a call of a schedule, which calls each 5 minutes.
	longestDelivery = 4 * time.Minute
	// mostGapsLogged bounds the lines of one batch; the snapshots have every gap.
	mostGapsLogged = 20
)

// Process takes records as (*aggregator.Processor).Process does: each exactly once however
// often it comes, those of one item in their order.
type Process = func(context.Context, []aggregator.Record) (aggregator.Result, error)

// Closer closes the due hours when a schedule calls the function. *aggregator.Closer
// implements it.
type Closer interface {
	// CloseDue closes the due hours. It may be called often, and by several processes at once. A failure ends
	// it, and the next call starts the unfinished hour again.
	CloseDue(ctx context.Context) (aggregator.Closed, error)
}

// Deliverer delivers alerts when a schedule calls the function. *alert.Deliverer implements it.
type Deliverer interface {
	// RunOnce tries each open alert once. The next call tries again what was not delivered.
	RunOnce(ctx context.Context) error
}

// Options configures a Handler. The zero value gives the defaults that the fields name.
type Options struct {
	// Tries is the number of times that one process tries an unreadable record before it skips it. Defaults
	// to 3.
	Tries int
	// Margin is the time between the end of the work and the function's deadline, for the
	// answer; at most half of the remaining time. Defaults to 5 seconds.
	Margin time.Duration
	// Deliverer delivers alerts when a schedule calls the function, beside the Closer and for 4 minutes at most. Defaults to
	// nil: alerts are decided, and others deliver them.
	Deliverer Deliverer
	// Logger logs skipped, failed and missing records. Defaults to nil: no log.
	Logger *slog.Logger
	// Observe receives the report of each batch, and of each call of a schedule, such as
	// EmbeddedMetrics or ArchiveMetrics. Defaults to nil.
	Observe func(Report)
	// Now is the time, for tests. Defaults to time.Now.
	Now func() time.Time
}

// Report is the result of a batch, or of a call of a schedule. It is a plain value.
type Report struct {
	// At is the end of the work.
	At time.Time
	// Records is the number of records in the batch; 0 for a call of a schedule.
	Records int
	// Age is the age of the last record of the batch at At, by its time to the second.
	Age time.Duration
	// Counted, Repeated and Ignored are those of aggregator.Result, in records.
	Counted, Repeated, Ignored int
	// Skipped is the number of unreadable records that were given up, Again the number that come again.
	Skipped, Again int
	// Gaps is the number of gaps found.
	Gaps int
	// Closed is the number of hours that a call of a schedule closed for the first time, and Final the number
	// that it made final.
	Closed, Final int
}

// Handler is a function of AWS Lambda. Make one with NewHandler. It is safe for concurrent
// use.
type Handler struct {
	process Process
	closer  Closer
	opts    Options
	tries   *tries
}

// NewHandler returns a Handler that gives records to process, and calls closer on a schedule. If closer is nil,
// and Options.Deliverer too, an event of a schedule fails. It returns an error for a nil process or a bad option.
func NewHandler(process Process, closer Closer, opts *Options) (*Handler, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if err := checkParts(process, closer, o); err != nil {
		return nil, err
	}
	if o.Tries == 0 {
		o.Tries = defaultTries
	}
	if o.Margin == 0 {
		o.Margin = defaultMargin
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Report) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{process, closer, o, &tries{most: o.Tries, failed: map[string]int{}}}, nil
}

// checkParts returns an error for a nil process, a closer or a Deliverer that is a nil pointer, and negative options.
func checkParts(process Process, closer Closer, o Options) error {
	switch {
	case process == nil:
		return fmt.Errorf("lambda: process is nil; give the method Process of an aggregator.Processor")
	case closer != nil && reflect.ValueOf(closer).Kind() == reflect.Pointer && reflect.ValueOf(closer).IsNil():
		return fmt.Errorf("lambda: closer is a nil %T; give one of aggregator.NewCloser, or nil for none", closer)
	case o.Deliverer != nil && reflect.ValueOf(o.Deliverer).Kind() == reflect.Pointer && reflect.ValueOf(o.Deliverer).IsNil():
		return fmt.Errorf("lambda: options.Deliverer is a nil %T; give one of alert.New, or nil for none", o.Deliverer)
	case o.Tries < 0:
		return fmt.Errorf("lambda: options.Tries is %d; give at least 1, or 0 for the default", o.Tries)
	case o.Margin < 0:
		return fmt.Errorf("lambda: options.Margin is %v; give a time above 0, or 0 for the default", o.Margin)
	}
	return nil
}

// Invoke handles an event as a lambda.Handler does. Its JSON names the first record to send again, so that
// failed records are not an error; for a schedule it is null. It fails for another event, if the work of a
// schedule fails, for a nil ctx, and without NewHandler.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	switch {
	case h == nil || h.process == nil:
		return nil, errors.New("lambda: the handler is nil or was not made; make one with NewHandler")
	case ctx == nil:
		return nil, errors.New("lambda: ctx is nil; pass context.Background() or the call's context")
	}
	e, err := readEvent(payload)
	if err != nil {
		return nil, err
	}
	ctx, cancel := h.boundedContext(ctx)
	defer cancel()
	if e.Records == nil {
		return []byte("null"), h.serveSchedule(ctx)
	}
	return json.Marshal(h.addRecords(ctx, e.Records))
}

// boundedContext returns ctx with an earlier deadline: by Margin, or by half of the remaining time if that is
// less. Without a deadline it only adds the cancel function.
func (h *Handler) boundedContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, some := ctx.Deadline()
	if !some {
		return context.WithCancel(ctx)
	}
	left := deadline.Sub(h.opts.Now())
	return context.WithDeadline(ctx, deadline.Add(-min(h.opts.Margin, left/2)))
}

// serveSchedule closes the due hours and delivers alerts, side by side. It fails if the handler does neither, and with
// the errors of both.
func (h *Handler) serveSchedule(ctx context.Context) error {
	if h.closer == nil && h.opts.Deliverer == nil {
		return fmt.Errorf("lambda: a schedule called, but the handler has no Closer: remove the schedule, or give a Closer")
	}
	delivered := make(chan error, 1)
	go func() { delivered <- h.deliverAlerts(ctx) }()
	err := h.closeHours(ctx)
	return errors.Join(err, <-delivered)
}

// deliverAlerts delivers open alerts for at most longestDelivery, if the handler has a Deliverer. A panic
// becomes an error.
func (h *Handler) deliverAlerts(ctx context.Context) (err error) {
	if h.opts.Deliverer == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lambda: alerts are not delivered: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, longestDelivery)
	defer cancel()
	if err = h.opts.Deliverer.RunOnce(ctx); err != nil {
		err = fmt.Errorf("lambda: alerts are not delivered; the next call tries again: %w", err)
	}
	return err
}

// closeHours closes the due hours, passes a report to Observe, and logs gaps. It does nothing without a closer, and
// fails if closing fails.
func (h *Handler) closeHours(ctx context.Context) error {
	if h.closer == nil {
		return nil
	}
	closed, err := h.closer.CloseDue(ctx)
	h.logGaps(closed.Gaps)
	h.opts.Observe(Report{At: h.opts.Now(), Gaps: len(closed.Gaps), Closed: closed.Hours, Final: closed.Final})
	if closed.Hours+closed.Final > 0 {
		h.opts.Logger.Info("hours were closed", "hours", closed.Hours, "final", closed.Final, "snapshots", closed.Snapshots, "sums", closed.Sums)
	}
	if err != nil {
		return fmt.Errorf("lambda: hours are not closed; the next call repeats the unfinished one: %w", err)
	}
	return nil
}

// batch is a batch of records in progress.
type batch struct {
	received []received
	// place has the position of each record, by its sequence number.
	place map[string]int
	// first is the first record that is to come again, with all after it.
	first  int
	report Report
}

// markFailed marks the record at this index, and all after it, to be sent again. An earlier mark stays.
func (b *batch) markFailed(at int) { b.first = min(b.first, at) }

// addRecords passes the readable records of an event to process, in order, and a report of the batch to
// Observe. Its answer names the first record to send again; Lambda sends all after it too.
func (h *Handler) addRecords(ctx context.Context, raws []json.RawMessage) events.DynamoDBEventResponse {
	b := &batch{place: make(map[string]int, len(raws)), first: len(raws)}
	for i, raw := range raws {
		r := decodeRecord(raw)
		b.received = append(b.received, r)
		if _, there := b.place[r.sequence]; !there {
			b.place[r.sequence] = i
		}
	}
	records := h.readableRecords(b)
	if len(records) > 0 {
		h.processRecords(ctx, b, records)
	}
	h.reportBatch(b)
	return b.newResponse()
}

// readableRecords returns the records to process: the readable ones before the first unreadable one that Lambda
// sends again. Later ones may change the same item, and must wait. It counts and logs the failed tries of
// unreadable ones.
func (h *Handler) readableRecords(b *batch) []aggregator.Record {
	var records []aggregator.Record
	for i, r := range b.received {
		switch {
		case r.err != nil:
			h.retryOrSkip(b, i, r.err)
		case i < b.first:
			records = append(records, r.record)
		}
	}
	return records
}

// retryOrSkip counts and logs a failed read of the record at an index of b. It marks the record to be sent
// again until its tries are used up, and then counts it as skipped, once.
func (h *Handler) retryOrSkip(b *batch, at int, err error) {
	r := b.received[at]
	switch h.tries.countFailure(r.id) {
	case again:
		b.markFailed(at)
		h.opts.Logger.Warn("a record cannot be read, and is tried again", "event_id", r.id, "sequence", r.sequence, "error", err)
	case skip:
		b.report.Skipped++
		h.opts.Logger.Error("a record was skipped, because it cannot be read: its usage is missing", "event_id", r.id, "sequence", r.sequence,
			"tries", h.opts.Tries, "error", err)
	case skipped:
	}
}

// processRecords passes records to process, and sets the counts in b.report. It marks failed records to be sent
// again, unreadable ones until their tries are used up, and all if it is unknown which failed. It logs failures
// and gaps.
func (h *Handler) processRecords(ctx context.Context, b *batch, records []aggregator.Record) {
	result, err := h.process(ctx, records)
	b.report.Counted, b.report.Repeated, b.report.Ignored = result.Counted, result.Repeated, result.Ignored
	b.report.Gaps = len(result.Gaps)
	if err != nil && len(result.Failures) == 0 {
		b.markFailed(0) // it may have failed at any of them
	}
	var cause error
	for _, f := range result.Failures { // one without a sequence number stands for all records: its place is 0
		if at := b.place[f.Record.Sequence]; f.Unreadable {
			h.retryOrSkip(b, at, f.Err)
		} else {
			b.markFailed(at)
			cause = f.Err
		}
	}
	if err == nil {
		err = cause
	}
	if err != nil {
		h.opts.Logger.Warn("records were not added, and come again", "failures", len(result.Failures), "error", err)
	}
	h.logGaps(result.Gaps)
}

// logGaps logs a warning for each gap, for at most 20, and then one with the number of the others.
func (h *Handler) logGaps(gaps []aggregator.Gap) {
	for i, g := range gaps {
		if i == mostGapsLogged {
			h.opts.Logger.Warn("more gaps were found; their snapshots hold the amounts", "gaps", len(gaps)-i)
			return
		}
		h.opts.Logger.Warn("usage is missing, because its records did not come", "entity", g.Entity, "resource", g.Resource, "limit", g.Limit,
			"hour", g.Hour, "missing_millitokens", g.Missing, "unseen", g.Unseen)
	}
}

// reportBatch sets the time, the age of the last record and the numbers of records in b.report, and passes it
// to Observe.
func (h *Handler) reportBatch(b *batch) {
	b.report.At, b.report.Records = h.opts.Now(), len(b.received)
	b.report.Again = len(b.received) - b.first
	for _, r := range b.received {
		if !r.record.Time.IsZero() {
			b.report.Age = max(0, b.report.At.Sub(r.record.Time))
		}
	}
	h.opts.Observe(b.report)
	h.opts.Logger.Debug("a batch was processed", "report", b.report)
}

// newResponse returns Lambda's answer with the sequence number of the first record to send again, or without
// one if all succeeded. A record without a number has that of the last numbered one before it, or else "", the
// whole batch.
func (b *batch) newResponse() events.DynamoDBEventResponse {
	answer := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	if b.first == len(b.received) {
		return answer
	}
	sequence := ""
	for at := b.first; at >= 0 && sequence == ""; at-- {
		sequence = b.received[at].sequence
	}
	answer.BatchItemFailures = append(answer.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: sequence})
	return answer
}
