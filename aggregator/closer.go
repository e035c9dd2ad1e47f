package aggregator

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// Closer closes hours. After the end of an hour, when the stream has brought its records, it stores
// in each snapshot the entity's plan and parents, and writes the sums of each resource, plan and
// parent. With the last hour of a day or month it also writes that window's sums, and those of
// entities. It computes sums anew whenever it writes them, and once more
// when no more records of the window can come, 25 hours after its end.
//
// Make one with NewCloser. It is safe for concurrent use. Several may do the same at
// once, which only costs more.
type Closer struct {
	client    Storage
	table     *table.Table
	clock     *ddb.Clock
	options   CloserOptions
	retention *tableRetention
	status    atomic.Pointer[CloseStatus]
}

// NewCloser returns a Closer of a table's usage, and sends no request. nil opts are the defaults. It fails with
// a *ValidationError for bad input.
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
	store := ddb.Watch(closerClient{Storage: client}, nil, clock, requestTimeout)
	kept := newTableRetention(store, tableName, o.Retention, o.RetentionDiffers)
	return &Closer{client: store, table: &table.Table{Client: store, Name: tableName}, clock: clock, options: o, retention: kept}, nil
}

// checkCalled returns a *ValidationError for a nil context, or for a Closer that NewCloser did not make.
func (c *Closer) checkCalled(ctx context.Context) error {
	return checkCalled(ctx, c != nil && c.client != nil, "closer", "NewCloser")
}

// Run closes due hours every five minutes until ctx ends, and returns ctx's error. Of several runs for a table
// one works; another takes over within about a minute of its death. It passes failures to CloserOptions.Failed
// and tries again.
func (c *Closer) Run(ctx context.Context) error {
	if err := c.checkCalled(ctx); err != nil {
		return err
	}
	for {
		l := &lock.Lock{Table: c.table, Key: schema.NewKeys("").Lease(closeLease), Name: closeLease, Hold: closeHold, Now: c.clock.Now}
		err := l.Do(ctx, 0, nil, c.closePeriodically)
		if err != nil && ctx.Err() == nil && !errors.Is(err, fault.ErrLocked) {
			c.options.Failed(err)
		}
		if !ddb.Sleep(ctx, closeHold) {
			return ctx.Err()
		}
	}
}

// closePeriodically calls CloseDue every closeEvery until ctx ends, and returns ctx's error. It passes other
// errors to options.Failed.
func (c *Closer) closePeriodically(ctx context.Context) error {
	for {
		if _, err := c.CloseDue(ctx); err != nil && ctx.Err() == nil {
			c.options.Failed(err)
		}
		if !ddb.Sleep(ctx, closeEvery) {
			return ctx.Err()
		}
	}
}

// CloseDue closes the due hours, in order, and recomputes newly final
// ones. It begins after the last closed hour, by any process; the first run begins with
// the day before the last one. Close handles earlier days.
//
// A failure ends it for its namespace, and the end of ctx for all. Earlier hours stay closed; the next
// call begins the unfinished hour anew, with the day and month that end with it, and writes the
// same sums. So a call needs the time for the last hour of a month: Status and the error have
// the progress. An unreadable item ends nothing: it is left out of the sums, and the
// error names it. After its correction, Close recomputes them.
func (c *Closer) CloseDue(ctx context.Context) (Closed, error) {
	var done Closed
	if err := c.checkCalled(ctx); err != nil {
		return done, err
	}
	namespaces, err := c.listNamespaces(ctx)
	if err != nil {
		return done, err
	}
	for _, name := range namespaces { // a failure in one namespace does not hold up the others
		err = errors.Join(err, c.closeDue(ctx, schema.NewKeys(name), &done))
	}
	return done, err
}

// closeDue closes the due hours of a namespace, one after the other, moves its stored cursor after each, and
// calls options.Closed. It adds the work to done, also of a failed hour. The error joins the errors of
// unreadable items with the failure that ended it.
func (c *Closer) closeDue(ctx context.Context, keys schema.Keys, done *Closed) error {
	cursor, err := c.storeOf(keys).readCursor(ctx)
	if err != nil {
		return err
	}
	var unread error
	for {
		from := cursor
		if cursor.Closed.IsZero() {
			from = usage.FirstCursor(c.clock.Now())
		}
		hour, next, due := usage.NextHour(from, c.clock.Now(), c.options.Grace)
		if !due {
			return unread
		}
		closed, skipped, err := c.closeHour(ctx, keys, hour, next.Final.After(from.Final), from.First)
		unread = errors.Join(unread, skipped)
		if err == nil {
			cursor, err = c.storeOf(keys).moveCursor(ctx, cursor, next)
		}
		if err != nil {
			done.addHour(closed)
			return errors.Join(unread, err)
		}
		if next.Closed.After(from.Closed) {
			done.Hours++
		}
		if closed.Final {
			done.Final++
		}
		done.addHour(closed)
		c.options.Closed(closed)
	}
}

// Close closes every hour from one time to another, not included, of all namespaces, as if it
// were due, and recomputes every finished day and month that it touches: after the correction of an unreadable
// item, and for days before the first run of CloseDue. A
// month is final only after its first days are closed too. An unfinished hour
// is not closed. It fails with a *ValidationError unless from is before to.
func (c *Closer) Close(ctx context.Context, from, to time.Time) (Closed, error) {
	var done Closed
	if err := c.checkCalled(ctx); err != nil {
		return done, err
	}
	if err := checkSpan("from", from, "to", to); err != nil {
		return done, err
	}
	var unread error
	namespaces, err := c.listNamespaces(ctx)
	for i := 0; err == nil && i < len(namespaces); i++ {
		var skipped error
		skipped, err = c.closeBetween(ctx, schema.NewKeys(namespaces[i]), from, to, &done)
		unread = errors.Join(unread, skipped)
	}
	return done, errors.Join(unread, err)
}

// closeBetween closes the ended hours of one namespace from one time to another, and recomputes the last hour's
// day and month if they are over. It adds the work to done and calls options.Closed for each hour. unread joins
// the errors of unreadable items.
func (c *Closer) closeBetween(ctx context.Context, keys schema.Keys, from, to time.Time, done *Closed) (unread, err error) {
	cursor, err := c.extendClosed(ctx, keys, schema.UsageHourly.Floor(from), to)
	if err != nil {
		return nil, err
	}
	hour := schema.UsageHourly.Floor(from)
	for ; hour.Before(to) && !hour.Add(time.Hour).After(c.clock.Now()); hour = hour.Add(time.Hour) {
		closed, skipped, err := c.closeHour(ctx, keys, hour, usage.IsFinal(schema.UsageHourly, hour, c.clock.Now()), cursor.First)
		unread = errors.Join(unread, skipped)
		if err != nil {
			return unread, err
		}
		if done.Hours++; closed.Final {
			done.Final++
		}
		done.addHour(closed)
		c.options.Closed(closed)
	}
	for _, w := range []Window{Day, Month} { // that the last hour is in, and did not end
		start := stored[w].Floor(hour.Add(-time.Hour))
		if now, end := c.clock.Now(), stored[w].Next(start); hour.Before(end) && !end.After(now) && hour.After(from) {
			sums, skipped, err := c.sumAgain(ctx, keys, w, start, usage.IsFinal(stored[w], start, now), cursor.First)
			done.Sums += sums
			if unread = errors.Join(unread, skipped); err != nil {
				return unread, err
			}
		}
	}
	return unread, nil
}

// extendClosed moves the first hour of the stored cursor back to from, if the hours from from to to reach up to
// it. It returns the stored cursor.
func (c *Closer) extendClosed(ctx context.Context, keys schema.Keys, from, to time.Time) (schema.UsageCursor, error) {
	cursor, err := c.storeOf(keys).readCursor(ctx)
	if err != nil || cursor.First.IsZero() || !from.Before(cursor.First) || to.Before(cursor.First) {
		return cursor, err
	}
	next := cursor
	next.First = from
	return c.storeOf(keys).moveCursor(ctx, cursor, next)
}

// listNamespaces returns the namespaces to close: those of the options, or all active and deleted
// ones and the one without a name. It leaves out namespaces in a purge.
func (c *Closer) listNamespaces(ctx context.Context) ([]string, error) {
	if len(c.options.Namespaces) > 0 {
		return c.options.Namespaces, nil
	}
	var keys []schema.Key
	list := table.Query{Op: opClose, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: schema.Keys{}.Namespaces()}
	for item, err := range c.table.Items(ctx, list) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, schema.KeyOf(item))
	}
	records, err := c.table.GetMany(ctx, opClose, keys)
	if err != nil {
		return nil, err
	}
	names := []string{""}
	for _, item := range records {
		if n, ok := schema.DecodeNamespace(item); ok && (n.State == fault.NamespaceActive || n.State == fault.NamespaceDeleted) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// storeOf returns the store of a namespace's usage.
func (c *Closer) storeOf(keys schema.Keys) *usageStore {
	return &usageStore{client: c.client, table: c.table, keys: keys, atOnce: c.options.Writers}
}

// newClosing returns a closing of an hour or, if hour is zero, for recomputing a day or month. It reads the
// table's retention. first is the first hour that was ever closed; its progress becomes c.Status.
func (c *Closer) newClosing(ctx context.Context, keys schema.Keys, hour time.Time, final bool, first time.Time) (*closing, error) {
	kept, err := c.retention.current(ctx)
	if err != nil {
		return nil, c.table.Failure(opClose, err)
	}
	store := c.storeOf(keys)
	k := &closing{
		store: store, clock: c.clock, retention: kept, first: first, made: c.clock.Now().UnixMilli(),
		at: CloseStatus{Namespace: keys.Name(), Final: final}, report: func(at CloseStatus) { c.status.Store(&at) },
		done: ClosedHour{Namespace: keys.Name(), Hour: hour, Final: final},
	}
	k.settler = &settler{store: store, places: newPlaces(store), skipped: &k.skipped}
	return k, nil
}

// closeHour closes an hour: it stores the sums of the hour, and of the day and month that end
// with it. final marks the sums as final. first is the first hour that was ever closed; no month
// that begins before it is final. unread joins the errors of items left out of the sums.
func (c *Closer) closeHour(ctx context.Context, keys schema.Keys, hour time.Time, final bool, first time.Time) (done ClosedHour, unread, err error) {
	defer c.status.Store(nil)
	k, err := c.newClosing(ctx, keys, hour, final, first)
	if err != nil {
		return ClosedHour{}, nil, err
	}
	err = k.sumWindows(ctx)
	return k.done, errors.Join(k.skipped...), err
}

// sumAgain recomputes and stores the sums of one day or month, marked as final if final is true, except a month
// before first. It returns the number of stored sums. The error unread joins the errors of unreadable items.
func (c *Closer) sumAgain(ctx context.Context, keys schema.Keys, w Window, start time.Time, final bool, first time.Time) (sums int, unread, err error) {
	defer c.status.Store(nil)
	k, err := c.newClosing(ctx, keys, time.Time{}, final, first)
	if err != nil {
		return 0, nil, err
	}
	err = k.sumWindow(ctx, w, start)
	return k.done.Sums, errors.Join(k.skipped...), err
}
