package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// Ranked is an entity with a large consumption. It is a plain value.
type Ranked struct {
	// Entity is its id.
	Entity string `json:"entity"`
	// Consumed is its consumption in the hours in which it was among the largest, in millitokens: it consumed at
	// least that.
	Consumed int64 `json:"consumed_millitokens"`
}

// Largest returns the entities with the largest consumption of a resource by the name of the limit, the largest
// first. The Closer ranks the 20 largest of each hour, so the result covers the closed hours that begin between
// from and to, and misses an entity that was never among the largest. Entities with children are left out. It
// reads one partition consistently, in one request for a day. It fails with a *ValidationError for a bad
// resource, and unless from is before to.
func (r *Reader) Largest(ctx context.Context, resource string, from, to time.Time) (map[string][]Ranked, error) {
	if _, err := r.checkQuery(ctx, schema.UsageSeries{Kind: schema.UsageOfResource, ID: resource}, Query{From: from, To: to}); err != nil {
		return nil, err
	}
	keys := r.source.keys
	q := keyRange(opUsage, keys.Resource(resource), keys.UsageRank(resource, from), keys.UsageRank(resource, to.Add(-time.Nanosecond)))
	var hours []schema.UsageRanking
	for item, err := range r.source.table.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		hours = append(hours, schema.DecodeUsageRanking(item))
	}
	all := map[string][]Ranked{}
	for limit, entities := range usage.MergeRankings(hours) {
		for _, e := range entities {
			all[limit] = append(all[limit], Ranked(e))
		}
	}
	return all, nil
}

// Closed returns the first hour that no Closer has summed yet; zero if none ever did. Reads that end there cost no
// sums of open hours. It reads one item.
func (r *Reader) Closed(ctx context.Context) (time.Time, error) {
	if err := checkCalled(ctx, r != nil && r.source.table != nil, "reader", "NewReader"); err != nil {
		return time.Time{}, err
	}
	item, err := r.source.table.Get(ctx, opUsage, r.source.keys.UsageClosed())
	if err != nil {
		return time.Time{}, err
	}
	cursor, err := schema.DecodeUsageCursor(item)
	return cursor.Closed, err
}
