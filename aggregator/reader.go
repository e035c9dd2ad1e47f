package aggregator

import (
	"context"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// ReaderOptions configures a Reader. The zero value gives the defaults that the fields name.
type ReaderOptions struct {
	// Namespace is the namespace of the usage. Defaults to the layout without one.
	Namespace string
	// Location is the time zone of days and months, and of
	// times in results. An hour is always one of UTC, and belongs to the day of its beginning, also
	// if the zone's offset is not in whole hours. Days and months of another zone than UTC are
	// summed from hours, for as long as the table's retention keeps them. In a table without a stored
	// retention none of them is final. Defaults to UTC.
	Location *time.Location
	// Began is the creation time of the table: lists of entities search nothing before it, unless
	// hours before it were closed, as in a copy of another table. Defaults to
	// unknown: then each hour of a query that no Closer closed is searched.
	Began time.Time
	// Now returns the time. Defaults to time.Now.
	Now func() time.Time
}

// Reader reads usage. Make one with NewReader. It is safe for concurrent use.
type Reader struct{ source usageSource }

// NewReader returns a Reader of the usage in a table. It sends no request; the first read also checks the
// table's layout. It fails with a *ValidationError for bad input.
func NewReader(client ReaderClient, tableName string, opts *ReaderOptions) (*Reader, error) {
	o := ReaderOptions{}
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(client):
		return nil, invalid("client", "is nil; give a client of DynamoDB")
	case tableName == "":
		return nil, invalid("table", "is empty; give the name of the table whose usage is read")
	}
	if o.Namespace != "" {
		if reason := schema.EntityRule.Check(o.Namespace); reason != "" {
			return nil, invalid("options.Namespace", "%s", reason)
		}
	}
	if reason := ddb.CheckSource(o.Now); reason != "" {
		return nil, invalid("options.Now", "%s", reason)
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	store := ddb.Watch(readerClient{ReaderClient: client}, nil, ddb.NewClock(o.Now, false), requestTimeout)
	bare := &table.Table{Client: store, Name: tableName}
	known := &layout.Layout{Table: bare, Now: o.Now}
	readable := *bare
	readable.Readable = known.Check
	return &Reader{usageSource{
		&readable, schema.NewKeys(o.Namespace),
		usage.Calendar{Zone: o.Location},
		o.Began, o.Now,
	}}, nil
}

// Entity reads an entity's own usage, one resource after the other in the order of
// their names, and window after window; it leaves empty windows
// out. The current hour includes the counts of its buckets' own counters that the stream has not
// delivered yet: see LimitUsage.Pending.
//
// Like the other lists it reads page by page while it is ranged over, and consistently. It
// fails with a *ValidationError for a bad id or query, before it reads anything, and for days and
// months of another zone than UTC whose hours are not kept any more. It ends with an error when
// ctx does.
func (r *Reader) Entity(ctx context.Context, id string, q Query) iter.Seq2[Usage, error] {
	return r.readSeries(ctx, schema.UsageSeries{Kind: schema.UsageOfEntity, ID: id}, q)
}

// Resource reads the total usage of a resource. It is each entity's usage of a limit, unless
// a parent in its cascade counted it too. So no level of a cascade counts twice, and usage
// below a parent without the limit is included. Query.Resource is empty, or the
// resource.
//
// Closed hours are read from a Closer's sums. Open ones are summed now
// from their entities' usage, with their current plans and parents, which reads a snapshot,
// a record and, for the current hour, a bucket of each; it fails if more than 100
// hours are open.
func (r *Reader) Resource(ctx context.Context, resource string, q Query) iter.Seq2[Usage, error] {
	if q.Resource != "" && q.Resource != resource {
		return problem.ErrorList[Usage](invalid("query.Resource", "is %q, but the usage of %q is asked for; leave it empty", q.Resource, resource))
	}
	q.Resource = resource
	return r.readSeries(ctx, schema.UsageSeries{Kind: schema.UsageOfResource, ID: resource}, q)
}

// Plan reads the usage of the entities on a plan. Of those that cascade into others on it, it is
// the usage of the others, as far as these have the limit. See Resource for the sums, and Entity for the order.
func (r *Reader) Plan(ctx context.Context, plan string, q Query) iter.Seq2[Usage, error] {
	return r.readSeries(ctx, schema.UsageSeries{Kind: schema.UsageOfPlan, ID: plan}, q)
}

// Children reads the usage of the children of an entity, whether they cascade or not. See
// Resource for the sums, and Entity for the order.
func (r *Reader) Children(ctx context.Context, parent string, q Query) iter.Seq2[Usage, error] {
	return r.readSeries(ctx, schema.UsageSeries{Kind: schema.UsageOfChildren, ID: parent}, q)
}

// Entities reads every entity's own usage, for rankings and exports: window after window,
// in each in the order of the entities' ids, and then of their resources. It reads the indexes that
// list hours and days, which may lag by a moment. The current hour includes
// the pending part of entities with a record of the stream in the window; use Entity for
// the others.
//
// An hour costs 17 queries and its snapshots. An open day, or one of another zone
// than UTC, costs that for each of its hours, and a closed day 16 queries and its sums.
func (r *Reader) Entities(ctx context.Context, q Query) iter.Seq2[Usage, error] {
	a, err := r.checkQuery(ctx, schema.UsageSeries{}, q)
	if err != nil {
		return problem.ErrorList[Usage](err)
	}
	a.Kind = schema.UsageOfEntity
	return untilEnded(ctx, func(yield func(Usage, error) bool) { r.source.readEntities(ctx, a, yield) })
}

// checkQuery returns the query of a series with its defaults. It returns a *ValidationError for an unmade
// Reader, a nil context or an invalid query.
func (r *Reader) checkQuery(ctx context.Context, of schema.UsageSeries, q Query) (ask, error) {
	if err := checkCalled(ctx, r != nil && r.source.table != nil, "reader", "NewReader"); err != nil {
		return ask{}, err
	}
	return r.source.checkQuery(of, q)
}

// readSeries returns the usage of a series, resource after resource. An error of the query is the only element.
func (r *Reader) readSeries(ctx context.Context, of schema.UsageSeries, q Query) iter.Seq2[Usage, error] {
	a, err := r.checkQuery(ctx, of, q)
	if err != nil {
		return problem.ErrorList[Usage](err)
	}
	return r.source.readSeries(ctx, a)
}
