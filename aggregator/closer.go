package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

const (
	defaultGrace         = 15 * time.Minute
	defaultRetentionDays = 400 * 24 * time.Hour
	// mostGrace leaves an hour open no longer than until it is final.
	mostGrace = usage.FinalAfter
	// closeEvery is how often Run looks what is due.
	closeEvery = 5 * time.Minute
	// closeHold is how long others wait for a closer that died.
	closeHold = time.Minute
	// closeLease is the name of the lease of whoever closes.
	closeLease = "usage-closer"
)

// Storage is what a Closer reads and writes. *dynamodb.Client implements it.
type Storage interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

// whole is a client with what a Closer never asks for.
type whole struct {
	Storage
	never
}

// never is what a user's client need not have.
type never struct{ ddb.API }

// Retention is how long sums are kept after their window, by the window: at most 100 years
// each. A negative one is for ever.
type Retention struct {
	// Hours is for sums of an hour. Defaults to 90 days, as snapshots are kept.
	Hours time.Duration
	// Days is for sums of a day. Defaults to 400 days, at least 40: months are summed from
	// days.
	Days time.Duration
	// Months is for sums of a month. Defaults to for ever.
	Months time.Duration
}

// CloserOptions configures a Closer. The zero value gives the defaults that the fields name.
type CloserOptions struct {
	// Grace is how long after its end an hour is closed: how long the stream and the index
	// that lists snapshots may lag behind without a sum that is corrected only when the
	// hour is final. Defaults to 15 minutes, at most 25 hours.
	Grace time.Duration
	// Retention is how long sums are kept. Defaults to what its fields say.
	Retention Retention
	// Namespaces are those whose hours are closed; "" is what has none. Defaults to all
	// that are registered, and what has none.
	Namespaces []string
	// Writers bounds how many items are written at once. Defaults to 16.
	Writers int
	// Closed is told of each hour that was closed or made anew, one at a time. Defaults to
	// nobody.
	Closed func(ClosedHour)
	// Failed is told why Run could not close what was due; it goes on. Defaults to nobody.
	Failed func(error)
	// Now says what time it is; where DynamoDB's answers say another, theirs counts. Defaults to
	// time.Now.
	Now func() time.Time
}

// ClosedHour is an hour of a namespace that was closed.
type ClosedHour struct {
	// Namespace is whose hour it is; "" is what has none.
	Namespace string
	// Hour is the hour's beginning.
	Hour time.Time
	// Final says that no record of it can come any more.
	Final bool
	// Snapshots is how many it has, and Sums how many were written: of the hour, and of the
	// day and month that it ends.
	Snapshots, Sums int
	// Gaps are those of the hour's snapshots, and between them and the ones before. Those
	// of an hour that is not final may go when more records come. Of an hour that took several
	// calls all three are those of the last one; Closed has those of each.
	Gaps []Gap
}

// Closed says what a Closer did. It is a plain value.
type Closed struct {
	// Hours is how many hours were closed for the first time, and Final how many were made
	// final; an hour may be in both.
	Hours, Final int
	// Snapshots is how many snapshots these hours have, and Sums how many sums were
	// written.
	Snapshots, Sums int
	// Gaps are those that were found.
	Gaps []Gap
}

func (c *Closed) add(h ClosedHour) {
	c.Snapshots += h.Snapshots
	c.Sums += h.Sums
	c.Gaps = append(c.Gaps, h.Gaps...)
}

// Closer closes hours: once an hour is over and the stream has brought its records, it notes
// in each snapshot where the entity stood, and writes what was used per resource, plan and
// parent; with the last hour of a day or month also that window's sums, and those of
// entities. Sums are made anew from what they sum whenever they are written, and once more
// when no record of the window can come any more, 25 hours after its end.
//
// Make one with NewCloser. It is safe for concurrent use, and several may do the same at
// once, which only costs more.
type Closer struct {
	store   Storage
	table   *table.Table
	clock   *ddb.Clock
	options CloserOptions
}

// NewCloser returns a Closer of a table's usage. It fails with a *ValidationError for bad
// input.
func NewCloser(client Storage, tableName string, opts *CloserOptions) (*Closer, error) {
	o := CloserOptions{}
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(client):
		return nil, invalid("client", "is nil; give a client of DynamoDB")
	case tableName == "":
		return nil, invalid("table", "is empty; give the name of the table whose usage is closed")
	case o.Grace < 0 || o.Grace > mostGrace:
		return nil, invalid("options.Grace", "is %v; give 0 for the default, or up to %v", o.Grace, mostGrace)
	case o.Retention.Days > 0 && o.Retention.Days < leastRetentionDays:
		return nil, invalid("options.Retention.Days", "is %v; give at least %v, because months are summed from days", o.Retention.Days, leastRetentionDays)
	case o.Writers < 0:
		return nil, invalid("options.Writers", "is %d; give at least 1, or 0 for the default", o.Writers)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.setDefaults()
	clock := ddb.NewClock(o.Now, true)
	store := ddb.Watch(whole{Storage: client}, nil, clock, requestTimeout)
	return &Closer{store: store, table: &table.Table{Client: store, Name: tableName}, clock: clock, options: o}, nil
}

// called refuses a call without a context, or of a Closer that NewCloser did not make.
func (c *Closer) called(ctx context.Context) error {
	return called(ctx, c != nil && c.store != nil, "closer", "NewCloser")
}

const leastRetentionDays = 40 * 24 * time.Hour

// check says what is wrong with a time or a name.
func (o *CloserOptions) check() error {
	for i, name := range o.Namespaces {
		if reason := schema.CheckNamespace(name); name != "" && reason != "" {
			return invalid(fmt.Sprintf("options.Namespaces[%d]", i), "%s", reason)
		}
	}
	if reason := ddb.CheckSource(o.Now); reason != "" {
		return invalid("options.Now", "%s", reason)
	}
	return cmp.Or(
		checkRetention("options.Retention.Hours", o.Retention.Hours),
		checkRetention("options.Retention.Days", o.Retention.Days),
		checkRetention("options.Retention.Months", o.Retention.Months),
	)
}

func (o *CloserOptions) setDefaults() {
	o.Namespaces = slices.Clone(o.Namespaces)
	slices.Sort(o.Namespaces)
	o.Namespaces = slices.Compact(o.Namespaces)
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Writers == 0 {
		o.Writers = defaultWriters
	}
	if o.Retention.Hours == 0 {
		o.Retention.Hours = defaultRetention
	}
	if o.Retention.Days == 0 {
		o.Retention.Days = defaultRetentionDays
	}
	if o.Closed == nil {
		o.Closed = func(ClosedHour) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// expires is the time to live of a sum; 0 for none.
func (r Retention) expires(w schema.UsageWindow, start time.Time) int64 {
	kept := r.Months
	switch w {
	case schema.UsageHourly:
		kept = r.Hours
	case schema.UsageDaily:
		kept = r.Days
	case schema.UsageMonthly:
	}
	if kept <= 0 {
		return 0
	}
	return w.Next(start).Add(kept).Unix()
}

// Run closes what is due every few minutes, until ctx ends. Of several that run at once
// for a table, one does so; another goes on within about a minute of its death. What fails
// is told and tried again.
//
// The error is that of ctx, or a *ValidationError without one.
func (c *Closer) Run(ctx context.Context) error {
	if err := c.called(ctx); err != nil {
		return err
	}
	for {
		l := &lock.Lock{Table: c.table, Key: schema.NewKeys("").Lease(closeLease), Name: closeLease, Hold: closeHold, Now: c.clock.Now}
		err := l.Do(ctx, 0, nil, c.every)
		if err != nil && ctx.Err() == nil && !errors.Is(err, lock.ErrHeld) {
			c.options.Failed(err)
		}
		if !ddb.Sleep(ctx, closeHold) {
			return ctx.Err()
		}
	}
}

// every closes what is due, every few minutes.
func (c *Closer) every(ctx context.Context) error {
	for {
		if _, err := c.CloseDue(ctx); err != nil && ctx.Err() == nil {
			c.options.Failed(err)
		}
		if !ddb.Sleep(ctx, closeEvery) {
			return ctx.Err()
		}
	}
}

// CloseDue closes the hours that are due, in their order, and makes those anew that became
// final. It begins where the last one ended, whoever did that; the first of all begins with
// the day before the last one. Close does so for days before that.
//
// What fails ends it, and so does the end of ctx, up to a few seconds after it: the first step
// of each call is made whole. The hours before that stay closed, and of the hour that is being
// closed what was summed is kept for a week: the next call goes on from there. An item
// that cannot be read ends nothing: it is left out of the sums, and the error names it. Once it
// was corrected, Close makes them anew.
func (c *Closer) CloseDue(ctx context.Context) (Closed, error) {
	var done Closed
	if err := c.called(ctx); err != nil {
		return done, err
	}
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return done, err
	}
	for _, name := range namespaces { // what fails in one namespace does not hold up the others
		err = errors.Join(err, c.closeDue(ctx, schema.NewKeys(name), &done))
	}
	return done, err
}

func (c *Closer) closeDue(ctx context.Context, keys schema.Keys, done *Closed) error {
	cursor, err := c.cursor(ctx, keys)
	if err != nil {
		return err
	}
	var unread error
	for {
		from := cursor
		if cursor.Closed.IsZero() {
			from = usage.Begin(c.clock.Now())
			from.Courses = cursor.Courses
		}
		hour, next, due := usage.Due(from, c.clock.Now(), c.options.Grace)
		if !due {
			return unread
		}
		next.Courses = from.Courses
		closed, skipped, err := c.closeHour(ctx, keys, hour, next.Final.After(from.Final), from.First, &from)
		unread = errors.Join(unread, skipped)
		if err == nil {
			cursor, err = c.move(ctx, keys, cursor, next)
		}
		if err != nil {
			done.add(closed)
			return errors.Join(unread, err)
		}
		if next.Closed.After(from.Closed) {
			done.Hours++
		}
		if closed.Final {
			done.Final++
		}
		done.add(closed)
		c.options.Closed(closed)
	}
}

// Close closes every hour from one to another, not included, of all namespaces, as if it
// were due, and makes every day and month anew that it touches and that is over: once an item
// that cannot be read was corrected, and for days before the first that CloseDue closed. A
// month of which the first days were never closed is not final before they are. An hour that
// is not over yet is not closed. It fails with a *ValidationError where from is not before to.
func (c *Closer) Close(ctx context.Context, from, to time.Time) (Closed, error) {
	var done Closed
	if err := c.called(ctx); err != nil {
		return done, err
	}
	if err := checkSpan("from", from, "to", to); err != nil {
		return done, err
	}
	var unread error
	namespaces, err := c.namespaces(ctx)
	for i := 0; err == nil && i < len(namespaces); i++ {
		var skipped error
		skipped, err = c.closeBetween(ctx, schema.NewKeys(namespaces[i]), from, to, &done)
		unread = errors.Join(unread, skipped)
	}
	return done, errors.Join(unread, err)
}

// closeBetween is Close of one namespace.
func (c *Closer) closeBetween(ctx context.Context, keys schema.Keys, from, to time.Time, done *Closed) (unread, err error) {
	cursor, err := c.extend(ctx, keys, schema.UsageHourly.Floor(from), to)
	if err != nil {
		return nil, err
	}
	hour := schema.UsageHourly.Floor(from)
	for ; hour.Before(to) && !hour.Add(time.Hour).After(c.clock.Now()); hour = hour.Add(time.Hour) {
		closed, skipped, err := c.closeHour(ctx, keys, hour, usage.Final(schema.UsageHourly, hour, c.clock.Now()), cursor.First, nil)
		unread = errors.Join(unread, skipped)
		if err != nil {
			return unread, err
		}
		if done.Hours++; closed.Final {
			done.Final++
		}
		done.add(closed)
		c.options.Closed(closed)
	}
	for _, w := range []schema.UsageWindow{schema.UsageDaily, schema.UsageMonthly} { // that the last hour is in, and did not end
		start := w.Floor(hour.Add(-time.Hour))
		if now := c.clock.Now(); hour.Before(w.Next(start)) && !w.Next(start).After(now) && hour.After(from) {
			sums, skipped, err := c.sumAgain(ctx, keys, w, start, usage.Final(w, start, now), cursor.First)
			done.Sums += sums
			if unread = errors.Join(unread, skipped); err != nil {
				return unread, err
			}
		}
	}
	return unread, nil
}

// extend notes that the hours from one on are closed, where those are up to the first that was.
// It returns the cursor then.
func (c *Closer) extend(ctx context.Context, keys schema.Keys, from, to time.Time) (schema.UsageCursor, error) {
	cursor, err := c.cursor(ctx, keys)
	if err != nil || cursor.First.IsZero() || !from.Before(cursor.First) || to.Before(cursor.First) {
		return cursor, err
	}
	next := cursor
	next.First = from
	return c.move(ctx, keys, cursor, next)
}
