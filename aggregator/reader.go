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
	// Namespace is the one whose usage is read. Defaults to the layout without one.
	Namespace string
	// Location is the time zone in which days and months begin, and in which times are
	// told. An hour is always one of UTC, and belongs to the day in which it begins, also
	// where the zone is no whole hours off. Days and months of another zone than UTC are
	// summed from hours, for as long as the table says that those are kept. Where it does not
	// say so yet, none of them is final. Defaults to UTC.
	Location *time.Location
	// Began is when the table was made: lists of entities look for nothing before it, unless
	// hours before it were closed, as they are in a copy of another table. Defaults to not
	// known: then each hour of a query that no Closer closed is looked for.
	Began time.Time
	// Now returns the time. Defaults to time.Now.
	Now func() time.Time
}

// Reader reads what was used. Make one with NewReader. It is safe for concurrent use.
type Reader struct{ source usageSource }

// NewReader returns a Reader of the usage in a table. It fails with a *ValidationError for
// bad input.
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
		if reason := schema.CheckNamespace(o.Namespace); reason != "" {
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

// Entity reads what an entity used itself, of one resource after the other in the order of
// their names, and of each window after window; windows in which it used nothing are left
// out. The hour that is now adds what its buckets' own counters say that the stream has not
// brought yet: see LimitUsage.Pending.
//
// Like the other lists it reads page by page while it is ranged over, and consistently. It
// fails with a *ValidationError for a bad id or query, before anything is read, and for days and
// months of another zone than UTC whose hours are not kept any more. It ends with an error when
// ctx does.
func (r *Reader) Entity(ctx context.Context, id string, q Query) iter.Seq2[Usage, error] {
	return r.read(ctx, schema.UsageSeries{Kind: schema.UsageOfEntity, ID: id}, q)
}

// Resource reads what was used of a resource in total: what each entity used of a limit, unless
// one that it cascades into counted it too, so that no level of a cascade counts twice, and
// what a parent without the limit did not count is there. Query.Resource is empty, or the
// resource.
//
// Hours that were closed are read as a Closer summed them. Those that are not are summed now
// from what their entities used, with their places as they are now, which reads a snapshot,
// a record and, for the hour that is now, a bucket of each; it fails where more than 100
// hours are not closed.
func (r *Reader) Resource(ctx context.Context, resource string, q Query) iter.Seq2[Usage, error] {
	if q.Resource != "" && q.Resource != resource {
		return problem.List[Usage](invalid("query.Resource", "is %q, but the usage of %q is asked for; leave it empty", q.Resource, resource))
	}
	q.Resource = resource
	return r.read(ctx, schema.UsageSeries{Kind: schema.UsageOfResource, ID: resource}, q)
}

// Plan reads what the entities on a plan used: of those that cascade into others on it, what
// the others used, as far as these have the limit. See Resource for what is summed, and Entity for the order.
func (r *Reader) Plan(ctx context.Context, plan string, q Query) iter.Seq2[Usage, error] {
	return r.read(ctx, schema.UsageSeries{Kind: schema.UsageOfPlan, ID: plan}, q)
}

// Children reads what the children of an entity used, whether they cascade or not. See
// Resource for what is summed, and Entity for the order.
func (r *Reader) Children(ctx context.Context, parent string, q Query) iter.Seq2[Usage, error] {
	return r.read(ctx, schema.UsageSeries{Kind: schema.UsageOfChildren, ID: parent}, q)
}

// Entities reads what every entity used itself, for rankings and exports: window after window,
// in each in the order of the entities' ids, and then of their resources. The indexes that
// list hours and days are read, which may lag behind by a moment. The hour that is now has
// what is pending of entities of which the stream has brought something in the window; of
// others Entity tells.
//
// An hour costs 17 queries and its snapshots, a day that is not closed, or of another zone
// than UTC, that for each of its hours, and a day that is closed 16 queries and its sums.
func (r *Reader) Entities(ctx context.Context, q Query) iter.Seq2[Usage, error] {
	a, err := r.check(ctx, schema.UsageSeries{}, q)
	if err != nil {
		return problem.List[Usage](err)
	}
	a.Kind = schema.UsageOfEntity
	return untilEnded(ctx, func(yield func(Usage, error) bool) { r.source.readEntities(ctx, a, yield) })
}

// check checks a query.
func (r *Reader) check(ctx context.Context, of schema.UsageSeries, q Query) (ask, error) {
	if err := called(ctx, r != nil && r.source.table != nil, "reader", "NewReader"); err != nil {
		return ask{}, err
	}
	return r.source.check(of, q)
}

// read is the usage of a series, resource after resource.
func (r *Reader) read(ctx context.Context, of schema.UsageSeries, q Query) iter.Seq2[Usage, error] {
	a, err := r.check(ctx, of, q)
	if err != nil {
		return problem.List[Usage](err)
	}
	return r.source.read(ctx, a)
}
