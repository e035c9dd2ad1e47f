package alert

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// leaseName is the name of the deliverer's lease, among those of the stream's followers.
	leaseName = "alerts"
	// lookEvery is the time between two looks at the stored alerts, markAgain that before another try to mark some.
	lookEvery, markAgain = time.Minute, time.Second
	hold                 = 30 * time.Second
	standbyEvery         = 5 * time.Second
	requestTimeout       = 5 * time.Second
	// workedBefore is the time for which a Deliverer counts as delivering after its last lease.
	workedBefore = 10 * time.Minute
	sendTimeout  = 10 * time.Second
)

// Message has the alerts that a Sink delivers at once.
type Message struct {
	// ID identifies the message. Another try of its alerts is another message: compare Alert.ID to find repetitions.
	ID string
	// Alerts are 1 to 100 alerts, the highest thresholds and the largest use first. The lower thresholds of a quota
	// precede its highest.
	Alerts []aggregator.Alert
	// Open is the number of alerts that wait for their delivery, those of the message included.
	Open int
	// Late means that some of the alerts are a day old or older. They are sent once.
	Late bool
}

// Sink delivers messages.
type Sink interface {
	// Send delivers a message within 10 s. Two calls run at once at most. After an error the alerts are sent again,
	// until they are a day old. An error that wraps ErrGone ends the tries at once.
	Send(ctx context.Context, m Message) error
}

// ErrGone is wrapped by errors of a Sink that no other try can mend. The alerts of the message are given up.
var ErrGone = errors.New("alert: the receiver is gone")

// retryAfter is an error with the time to wait before the next try.
type retryAfter struct {
	error
	wait time.Duration
}

// Unwrap returns the error without its wait.
func (e *retryAfter) Unwrap() error { return e.error }

// retryOf returns the wait that an error of a Sink demands before the next try; 0 without a demand. The result
// lasting is true for an error that wraps ErrGone, which no retry can mend.
func retryOf(err error) (wait time.Duration, lasting bool) {
	if later, ok := errors.AsType[*retryAfter](err); ok {
		return later.wait, false
	}
	return 0, errors.Is(err, ErrGone)
}

// Client is the client of a Deliverer. *dynamodb.Client implements it.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Options configures a Deliverer. The zero value gives the defaults that the fields name.
type Options struct {
	// Holder names this Deliverer in its lease, for operators. Defaults to "deliverer".
	Holder string
	// Sent is called after each message: err is nil for a delivered one. It may be called by two goroutines at once.
	// Defaults to nil.
	Sent func(m Message, err error)
	// Failed is called for requests to DynamoDB that failed. They are made again. Defaults to nil.
	Failed func(err error)
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Deliverer sends stored alerts to a Sink. Of several for a table one works, under a lease, and another takes over about
// half a minute after its death. It sends an alert again if it does not know whether it was delivered. Make one with
// New.
type Deliverer struct {
	table   *table.Table
	clock   *ddb.Clock
	sink    Sink
	options Options
	// next is the time, in Unix ms, before which no message begins, also after another Deliverer worked.
	next atomic.Int64
}

// New returns a Deliverer of the alerts of a table. It fails with a *fault.ValidationError for bad input.
func New(client Client, tableName string, sink Sink, opts *Options) (*Deliverer, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(client):
		return nil, invalid("client", "is nil; give a client of DynamoDB")
	case tableName == "":
		return nil, invalid("table", "is empty; give the name of the table of limits")
	case problem.IsNil(sink):
		return nil, invalid("sink", "is nil; give a Webhook, or a Sink of your own")
	}
	if o.Holder == "" {
		o.Holder = "deliverer"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sent == nil {
		o.Sent = func(Message, error) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	clock := ddb.NewClock(o.Now, true)
	store := ddb.Watch(api{Client: client}, nil, clock, requestTimeout)
	return &Deliverer{table: &table.Table{Client: store, Name: tableName}, clock: clock, sink: sink, options: o}, nil
}

// unused has the methods of a client that this package does not call, two levels deep, so that the methods of the
// user's client beside it win.
type unused struct{ ddb.API }

// api is the client of a user, with the methods that it need not have.
type api struct {
	Client
	unused
}

// invalid returns the *fault.ValidationError of an argument or option.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "alert", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Run delivers alerts until ctx ends, and stands by while another Deliverer has the lease. It passes failures
// to Options.Failed and tries again. It returns ctx's error at its end, and a *fault.ValidationError at once
// for a nil ctx.
func (d *Deliverer) Run(ctx context.Context) error {
	if err := d.checkRun(ctx); err != nil {
		return err
	}
	for {
		err := d.withLease(ctx, func(ctx context.Context) error { return d.deliverAlerts(ctx, false) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrLocked) {
			d.options.Failed(err)
		}
		if !ddb.Sleep(ctx, standbyEvery) {
			return ctx.Err()
		}
	}
}

// RunOnce delivers the open alerts and returns when each was tried once, or when ctx ends. Call it every few minutes: an
// alert that was not delivered is tried again by the next call. It returns nil while another Deliverer works. It fails
// if the alerts cannot be read or marked, and with the errors of Run for bad input. Failures of the sink go to
// Options.Sent alone.
func (d *Deliverer) RunOnce(ctx context.Context) error {
	if err := d.checkRun(ctx); err != nil {
		return err
	}
	err := d.withLease(ctx, func(ctx context.Context) error { return d.deliverAlerts(ctx, true) })
	if errors.Is(err, fault.ErrLocked) {
		return nil
	}
	return err
}

// checkRun returns a *fault.ValidationError for a Deliverer that New did not make, and for a nil ctx.
func (d *Deliverer) checkRun(ctx context.Context) error {
	if d == nil || d.table == nil {
		return invalid("deliverer", "is nil or was not made; make one with New")
	}
	return problem.CheckContext(ctx, "alert")
}

// withLease calls do under the lease of deliverers. It fails with a *fault.LockedError while another one has it.
func (d *Deliverer) withLease(ctx context.Context, do func(context.Context) error) error {
	l := &lock.Lock{Table: d.table, Key: schema.TailKeys{Name: leaseName}.Lease(), Name: "the delivery of alerts", Holder: d.options.Holder, Hold: hold, Now: d.clock.Now}
	return l.Do(ctx, 0, nil, do)
}

// Delivering returns the name of the Deliverer of a table's alerts (Options.Holder) that works at a time, or worked in
// the 10 minutes before: a function of AWS Lambda works every 5 minutes. It returns "" if none did.
func Delivering(ctx context.Context, client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}, tableName string, at time.Time,
) (holder string, err error) {
	key := schema.TailKeys{Name: leaseName}.Lease()
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &tableName, Key: key.Attributes()})
	if err != nil {
		return "", err
	}
	l, err := schema.DecodeLease(out.Item)
	if err != nil || l.Until < at.Add(-workedBefore).UnixMilli() {
		return "", err
	}
	return l.Holder, nil
}

// answer is the end of a message.
type answer struct {
	message []*entry
	err     error
}

// deliverAlerts reads, sends and marks alerts until ctx ends or, with once, until each was tried. Then it waits
// for the messages in flight, and stores in d.next the time before which no message begins. It reports failed
// requests to options.Failed, and fails only with once if alerts cannot be read.
func (d *Deliverer) deliverAlerts(ctx context.Context, once bool) error {
	q := &queue{entries: map[schema.Key]*entry{}, next: time.UnixMilli(d.next.Load()), once: once}
	answers := make(chan answer, mostUnderWay)
	defer func() {
		d.next.Store(q.next.UnixMilli())
		for ; q.underWay > 0; q.underWay-- {
			<-answers
		}
	}()
	var look time.Time
	for ctx.Err() == nil {
		now := d.clock.Now()
		if !now.Before(look) {
			if err := d.readOpen(ctx, q); err != nil && ctx.Err() == nil {
				d.options.Failed(err)
				if once {
					return err
				}
			}
			look = now.Add(lookEvery)
		}
		if once && q.isTried(now) {
			return nil
		}
		if list, open := q.takeMessage(now); list != nil {
			m := messageOf(list, open, now)
			m.ID = rand.Text()
			go func() { answers <- answer{list, d.sendMessage(ctx, m)} }()
			continue
		}
		timer := time.NewTimer(q.idleTime(now, look))
		select {
		case a := <-answers:
			q.endMessage(a.message, a.err, d.clock.Now())
			d.markEnded(ctx, q)
		case <-timer.C:
			d.markEnded(ctx, q)
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// sendMessage passes a message to the sink with a timeout, and reports the result to options.Sent. A panic of
// the sink becomes an error.
func (d *Deliverer) sendMessage(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := guard.Apart(func() error { return d.sink.Send(ctx, m) })
	d.options.Sent(m, err)
	return err
}

// readOpen reads the stored open alerts that q lacks, and adds them to q. It reports an unreadable alert to
// options.Failed and leaves it out.
func (d *Deliverer) readOpen(ctx context.Context, q *queue) error {
	for shard := range schema.AlertShards {
		keys, err := d.table.Keys(ctx, table.Query{Op: "list open alerts", Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: schema.OpenAlerts(shard)})
		if err != nil {
			return err
		}
		var unknown []schema.Key
		for _, key := range keys {
			if q.entries[key] == nil {
				unknown = append(unknown, key)
			}
		}
		if len(unknown) == 0 {
			continue
		}
		items, err := d.table.GetMany(ctx, "read open alerts", unknown)
		if err != nil {
			return err
		}
		for _, item := range items {
			if item == nil {
				continue
			}
			a, err := schema.DecodeAlert(item)
			if err != nil {
				d.options.Failed(err)
				continue
			}
			if a.IsOpen() { // or the index is behind
				q.addAlert(a)
			}
		}
	}
	return nil
}

// markEnded marks the alerts of q that were sent or given up in the table, and removes them from q. It stops at
// the first failure, which it reports to options.Failed.
func (d *Deliverer) markEnded(ctx context.Context, q *queue) {
	for _, e := range q.endedAlerts() {
		if err := d.table.UpdateIf(ctx, "mark an alert", e.alert.Key(), e.alert.Close(e.ended, e.sent)); err != nil {
			d.options.Failed(err)
			return
		}
		q.removeAlert(e)
	}
}
