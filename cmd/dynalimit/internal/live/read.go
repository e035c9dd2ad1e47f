package live

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/decision"
	"github.com/dynalimit/dynalimit/sources"
)

// Reader reads the buckets of a view. Only one goroutine may use it at a time.
type Reader struct {
	// Admin reads the table.
	Admin *admin.Admin
	// Meter counts the cost. nil counts nothing.
	Meter *Meter
	// Used returns the resources of buckets, including those without their own limits. nil if
	// they are unknown.
	Used func(ctx context.Context) ([]string, error)
	// Most is the maximal number of buckets of a reading. For a resource all buckets are read,
	// in the orders fullest and busiest. For entities, and by name, at most Most are read.
	Most int
	// Order is the order of the buckets of a resource.
	Order Order
	// Told is called with the number of buckets read so far, unless it is nil.
	Told func(read int)
	// Now is the clock.
	Now func() time.Time

	// blocked are the blocks found for blockedOf at blockedAt.
	blocked   map[Key]sources.Source
	money     map[rowKey]bool
	blockedOf string
	blockedAt time.Time
}

// What is the subject of a view: a resource's buckets, those of entities and their children,
// or, if both are empty, the list of resources.
type What struct {
	Resource string
	Entities []string
}

// Title returns the title of the screen: it names the entities and their children, the resource, or both;
// "resources" without either.
func (w What) Title() string {
	switch {
	case len(w.Entities) > 0 && w.Resource != "":
		return strings.Join(w.Entities, ", ") + " and children, on " + w.Resource
	case len(w.Entities) > 0:
		return strings.Join(w.Entities, ", ") + " and children"
	case w.Resource != "":
		return "buckets of " + w.Resource
	}
	return "resources"
}

// Note returns a remark for the screen about how the buckets or resources are found.
func (w What) Note() string {
	switch {
	case len(w.Entities) > 0:
		return "Children are found by an index, which may lag by a moment."
	case w.Resource != "":
		return "Found by an index, which may lag by a moment; sources are of now."
	}
	return "Those with limits of their own, and those of buckets."
}

// Read makes one reading: of the given entities and their children, else of the given resource, else of the
// list of resources. It adds the blocks and the money limits of the buckets, and the consumed read units. A
// failure or the end of ctx is in its Err.
func (r *Reader) Read(ctx context.Context, what What) Reading {
	reading := Reading{At: r.Now()}
	before := r.Meter.Units()
	switch {
	case len(what.Entities) > 0:
		reading.Buckets, reading.Cut, reading.Err = r.readFamily(ctx, what)
	case what.Resource != "":
		reading.Err = r.readResource(ctx, what.Resource, &reading)
	default:
		reading.Resources, reading.Err = r.listResources(ctx)
	}
	if reading.Err == nil && len(reading.Buckets) > 0 {
		reading.Err = r.readMarks(ctx, what.Title(), &reading)
	}
	reading.Units = r.Meter.Units() - before
	return reading
}

// listResources returns the names of resources with their own limits and those of r.Used, if set, sorted and
// without duplicates.
func (r *Reader) listResources(ctx context.Context) ([]string, error) {
	names := []string{}
	for name, err := range r.Admin.Limits.Resources(ctx) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if r.Used != nil {
		used, err := r.Used(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, used...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// readFirst returns the first most buckets of a sequence, only those on a resource unless that is "". cut is
// true if it left some out. The first error ends it without buckets.
func (r *Reader) readFirst(all iter.Seq2[admin.Bucket, error], resource string, most int) (buckets []admin.Bucket, cut bool, err error) {
	for b, err := range all {
		if err != nil {
			return nil, false, err
		}
		if resource != "" && b.Resource != resource {
			continue
		}
		if len(buckets) >= most {
			return buckets, true, nil
		}
		buckets = append(buckets, b)
	}
	return buckets, false, nil
}

// readResource sets reading.Buckets to buckets of a resource: the most full ones, all in the order busiest, or
// the first by name. It sets Cut if more than r.Most exist, and calls r.Told after each bucket except by name.
// It holds at most twice r.Most unless in the order busiest.
func (r *Reader) readResource(ctx context.Context, resource string, reading *Reading) error {
	if r.Order == ByName {
		var err error
		reading.Buckets, reading.Cut, err = r.readFirst(r.Admin.Buckets.OfResource(ctx, resource), "", r.Most)
		return err
	}
	for b, err := range r.Admin.Buckets.OfResource(ctx, resource) {
		if err != nil {
			return err
		}
		reading.Buckets = append(reading.Buckets, b)
		if reading.Read++; r.Told != nil {
			r.Told(reading.Read)
		}
		if r.Order != Busiest && len(reading.Buckets) >= 2*r.Most {
			reading.Buckets = fullestOf(reading.Buckets, r.Most)
		}
	}
	if r.Order != Busiest {
		reading.Buckets = fullestOf(reading.Buckets, r.Most)
	}
	reading.Cut = reading.Read > r.Most
	return nil
}

// fullestOf returns the n buckets with the most used limits, sorted by entity. It reorders buckets in place and
// clears the others. With n buckets or fewer it returns buckets as they are.
func fullestOf(buckets []admin.Bucket, n int) []admin.Bucket {
	if len(buckets) <= n {
		return buckets
	}
	slices.SortStableFunc(buckets, func(a, b admin.Bucket) int { return cmp.Compare(highestUse(b), highestUse(a)) })
	clear(buckets[n:])
	buckets = buckets[:n]
	slices.SortFunc(buckets, func(a, b admin.Bucket) int { return cmp.Compare(a.EntityID, b.EntityID) })
	return buckets
}

// highestUse returns the used share of the bucket's most used limit, between 0 and 1, or above 1 in debt. It is
// 0 without limits.
func highestUse(b admin.Bucket) (most float64) {
	for _, s := range b.Limits {
		most = max(most, usedShare(s))
	}
	return most
}

// atOnce is the number of entities read concurrently.
const atOnce = 8

// readFamily reads the buckets of entities and of their children, on what.Resource or, for "", on all, eight
// entities at a time. It returns at most r.Most, parents first. cut is true if it left some out; the first
// error stops all.
func (r *Reader) readFamily(ctx context.Context, what What) (buckets []admin.Bucket, cut bool, err error) {
	ids, cut, err := r.listMembers(ctx, what.Entities)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found, full := make([][]admin.Bucket, len(ids)), make([]bool, len(ids))
	var group sync.WaitGroup
	var next atomic.Int64
	for range min(atOnce, len(ids)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(ids)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				var err error
				if found[i], full[i], err = r.readFirst(r.Admin.Buckets.List(ctx, ids[i]), what.Resource, r.Most); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, false, err
	}
	buckets = slices.Concat(found...)
	cut = cut || slices.Contains(full, true) || len(buckets) > r.Most
	return buckets[:min(len(buckets), r.Most)], cut, nil
}

// listMembers returns the ids of all parents and then of their children, each once. It stops before a child
// that would be more than r.Most ids, and sets cut.
func (r *Reader) listMembers(ctx context.Context, parents []string) (ids []string, cut bool, err error) {
	seen := map[string]bool{}
	add := func(id string) {
		if !seen[id] {
			seen[id], ids = true, append(ids, id)
		}
	}
	for _, parent := range parents {
		add(parent)
	}
	for _, parent := range parents {
		for child, err := range r.Admin.Entities.Children(ctx, parent) {
			if err != nil {
				return nil, false, err
			}
			if len(ids) >= r.Most {
				return ids, true, nil
			}
			add(child.ID)
		}
	}
	return ids, false, nil
}

const (
	// mostMarked is the number of buckets to check for blocks, fullest first.
	mostMarked = 50
	// marksLast is how long found blocks are shown.
	marksLast = 30 * time.Second
)

// readMarks sets reading.Blocked and reading.Money: the sources that block the fullest buckets, and their
// limits of money. It caches them in r for marksLast for the same of, a view's title. If a configuration cannot
// be decoded, it sets neither and returns nil.
func (r *Reader) readMarks(ctx context.Context, of string, reading *Reading) error {
	age := reading.At.Sub(r.blockedAt)
	if r.blocked != nil && r.blockedOf == of && age >= 0 && age < marksLast { // a clock may be set back
		reading.Blocked, reading.Money = r.blocked, r.money
		return nil
	}
	blocks, configs, err := r.readBlockers(ctx, fullestKeys(*reading))
	if _, malformed := errors.AsType[*dynalimit.ValidationError](err); malformed {
		return nil // 'doctor' reports an unreadable source: show no marks
	}
	if err != nil {
		return err
	}
	r.blocked, r.money, r.blockedOf, r.blockedAt = map[Key]sources.Source{}, map[rowKey]bool{}, of, reading.At
	admitted := map[Key]bool{} // by a more specific source
	for i, c := range configs {
		l := blocks[i]
		if blocks := c.Config.Blocked || c.Config.BlockedExcept && !admitted[l.key]; blocks && r.blocked[l.key] == "" {
			r.blocked[l.key] = l.source
		}
		admitted[l.key] = admitted[l.key] || c.Config.Admit
		for _, limit := range c.Config.Limits {
			key := rowKey{blocks[i].key.Entity, blocks[i].key.Resource, limit.Name}
			if _, hidden := r.money[key]; !hidden {
				r.money[key] = limit.Unit == dynalimit.USD
			}
		}
	}
	reading.Blocked, reading.Money = r.blocked, r.money
	return nil
}

// readBlockers reads the configuration of every source that may block the buckets of keys, the most specific
// first for each bucket. Both results have one element for each source, in the same order.
func (r *Reader) readBlockers(ctx context.Context, keys []Key) ([]blockable, []admin.ScopedConfig, error) {
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = key.Entity
	}
	entities, err := r.Admin.Entities.GetMany(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	var scopes []admin.Scope
	var blockers []blockable
	for i, key := range keys {
		for _, l := range decision.SourcesOf(key.Entity, entities[i].Plan, key.Resource) {
			scopes, blockers = append(scopes, l.Scope), append(blockers, blockable{key, l.Source})
		}
	}
	configs, err := r.Admin.Limits.GetConfigs(ctx, scopes)
	return blockers, configs, err
}

// fullestKeys returns the keys of up to mostMarked buckets of a reading, those with the most used limits first.
func fullestKeys(reading Reading) []Key {
	rows, _ := Rows(reading, Counts{}, nil)
	Sort(rows, Fullest)
	var keys []Key
	for _, row := range rows {
		if key := (Key{row.Entity, row.Resource}); len(keys) < mostMarked && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// blockable is a source that could block a bucket's entity.
type blockable struct {
	key    Key
	source sources.Source
}

// Meter counts a client's read units. A nil Meter counts nothing.
type Meter struct {
	dynalimit.DynamoDB
	units atomic.Uint64 // thousandths
}

// Units returns the read units of all requests so far. It is 0 for a nil Meter.
func (m *Meter) Units() float64 {
	if m == nil {
		return 0
	}
	return float64(m.units.Load()) / 1000
}

// addUnits adds the consumed capacity units of one answer to m, which counts in thousandths. nil adds nothing.
func (m *Meter) addUnits(c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		m.units.Add(uint64(math.Round(*c.CapacityUnits * 1000)))
	}
}

// GetItem sends the request with ReturnConsumedCapacity set, and adds the read units of its answer to m. It
// does not change in; a failed request adds nothing.
func (m *Meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	with := *in
	with.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.DynamoDB.GetItem(ctx, &with, opts...)
	if err == nil {
		m.addUnits(out.ConsumedCapacity)
	}
	return out, err
}

// Query sends the request with ReturnConsumedCapacity set, and adds the read units of its answer to m. It does
// not change in; a failed request adds nothing.
func (m *Meter) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	with := *in
	with.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.DynamoDB.Query(ctx, &with, opts...)
	if err == nil {
		m.addUnits(out.ConsumedCapacity)
	}
	return out, err
}

// BatchGetItem sends the request with ReturnConsumedCapacity set, and adds the read units of its answer to m.
// It does not change in; a failed request adds nothing.
func (m *Meter) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	with := *in
	with.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.DynamoDB.BatchGetItem(ctx, &with, opts...)
	if err == nil {
		for i := range out.ConsumedCapacity {
			m.addUnits(&out.ConsumedCapacity[i])
		}
	}
	return out, err
}

// Scan sends the request with ReturnConsumedCapacity set, and adds the read units of its answer to m. It does
// not change in; a failed request adds nothing.
func (m *Meter) Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	with := *in
	with.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.DynamoDB.Scan(ctx, &with, opts...)
	if err == nil {
		m.addUnits(out.ConsumedCapacity)
	}
	return out, err
}
