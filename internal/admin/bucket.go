package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// The actions on buckets, as events name them.
const (
	BucketReset    = "bucket_reset"
	BucketToppedUp = "bucket_topped_up"
)

// untouchedTries is how many tries require the bucket to be as it was seen. Takes that
// land in between refuse those. The tries after them let takes land.
const untouchedTries = 4

// Refill says how a bucket is filled by hand: to the burst, or by amounts.
type Refill struct {
	// By is the principal, empty for nobody known.
	By string
	// ID names the operation among those of the entity, so that it is done once. Empty
	// draws one.
	ID string
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Limits are the names of those that are made full, all if there are none.
	Limits []string
	// Add is what is added, in millitokens, by limit; nil makes limits full.
	Add map[string]int64
}

// Refilled is what filling a bucket by hand came to.
type Refilled struct {
	// ID is the operation's, and At when it was done. Repeated means that it had been
	// done before: nothing was done this time.
	ID       string    `json:"-"`
	At       time.Time `json:"-"`
	Repeated bool      `json:"-"`
	// Missing means that there is no bucket: it is full when it is made.
	Missing bool `json:"missing,omitempty"`
	// Estimated means that takes kept landing: the limits were seen just before, and
	// takes between the look and the change are in neither number.
	Estimated bool `json:"estimated,omitempty"`
	// Limits are those that were asked for, in name order.
	Limits []RefilledLimit `json:"limits,omitempty"`
}

// RefilledLimit is what a limit held, in millitokens.
type RefilledLimit struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

func (r *Refill) action() string {
	if r.Add == nil {
		return BucketReset
	}
	return BucketToppedUp
}

// names are the limits that are asked for, in order; none for all.
func (r *Refill) names() []string {
	names := slices.Clone(r.Limits)
	if r.Add != nil {
		names = slices.Collect(maps.Keys(r.Add))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// arguments are what a repetition asks for too, as text.
func (r *Refill) arguments() (string, error) {
	text, err := json.Marshal(struct {
		Resource string           `json:"resource"`
		Limits   []string         `json:"limits,omitempty"`
		Add      map[string]int64 `json:"add,omitempty"`
	}{r.Resource, r.names(), r.Add})
	return string(text), err
}

// Refill fills a bucket by hand, once however often it is repeated under its id. It
// changes tokens only: neither counters nor the refill instant. What it puts is right
// whatever takes, give-backs and adjusts land before or after.
func (a Buckets) Refill(ctx context.Context, r Refill) (Refilled, error) {
	if r.ID == "" {
		r.ID = a.IDs.New(a.Now())
	}
	arguments, err := r.arguments()
	if err != nil {
		return Refilled{}, err
	}
	op := fmt.Sprintf("fill the bucket of %q on %q by hand (operation %s)", r.Entity, r.Resource, r.ID)
	var done Refilled
	try := 0
	err = a.Table.Change(ctx, op, func() (table.Proposal, error) {
		try++
		var p table.Proposal
		done, p, err = a.proposeRefill(ctx, op, r, arguments, try <= untouchedTries)
		return p, err
	})
	if err != nil {
		return Refilled{}, err
	}
	return done, nil
}

// proposeRefill is the transaction of a refill; none if it was done before.
func (a Buckets) proposeRefill(ctx context.Context, op string, r Refill, arguments string, untouched bool) (Refilled, table.Proposal, error) {
	bucket, record := a.Keys.Bucket(r.Entity, r.Resource), a.Keys.Operation(r.Entity, r.ID)
	items, err := a.Table.BatchGet(ctx, op, []schema.Key{bucket, record})
	if err != nil {
		return Refilled{}, table.Proposal{}, err
	}
	if o, ok := schema.DecodeOperation(items[record]); ok {
		done, err := r.repeated(o, arguments)
		return done, table.Proposal{}, err
	}
	image, err := schema.NewLimitSets().DecodeBucket(items[bucket], nil, 0)
	if err != nil {
		return Refilled{}, table.Proposal{}, err
	}
	now := a.Now()
	done, change, err := r.decide(image, now)
	if err != nil {
		return Refilled{}, table.Proposal{}, err
	}
	if change != nil {
		change.Untouched, done.Estimated = untouched, !untouched
	}
	p, err := a.refill(r, arguments, done, change)
	return done, p, err
}

// decide says what each limit holds before and after, and what to write; nothing if no
// limit holds less than its burst.
func (r *Refill) decide(m *schema.Image, now time.Time) (Refilled, *schema.Refill, error) {
	done := Refilled{ID: r.ID, At: now.UTC(), Missing: m == nil}
	if m == nil {
		return done, nil, nil
	}
	names := r.names()
	if err := r.checkNames(m, names); err != nil {
		return Refilled{}, nil, err
	}
	change := &schema.Refill{Seen: m}
	lacking := false
	for i, name := range m.Set.Names {
		if m.Limits[i].Ghost || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		held, burst := m.State(i).Level(now.UnixMilli()), m.Limits[i].Burst
		after := burst
		if r.Add != nil {
			after = min(burst, held+r.Add[name])
		}
		done.Limits = append(done.Limits, RefilledLimit{Name: name, Before: held, After: after})
		lacking = lacking || after > held
		if r.Add == nil || after > held {
			change.Limits = append(change.Limits, schema.RefillLimit{Index: i, Full: r.Add == nil, Add: r.Add[name]})
		}
	}
	if !lacking {
		change = nil
	}
	return done, change, nil
}

// checkNames refuses limits that the bucket does not have.
func (r *Refill) checkNames(m *schema.Image, names []string) error {
	var held []string
	for _, name := range m.Set.Names {
		if m.Holds(name) {
			held = append(held, name)
		}
	}
	for _, name := range names {
		if slices.Contains(held, name) {
			continue
		}
		field := "options.Limits"
		if r.Add != nil {
			field = "amounts[" + name + "]"
		}
		return wrong(field, "names the limit %q, which the bucket does not have; it has %s (a limit that was configured since the last acquire is added full by the next)",
			name, strings.Join(held, ", "))
	}
	return nil
}

// repeated is what the operation came to when it was done.
func (r *Refill) repeated(o schema.Operation, arguments string) (Refilled, error) {
	if o.Action != r.action() || o.Arguments != arguments {
		return Refilled{}, wrong("options.ID", "is %q, under which something else was done: %s with %s; give every operation an id of its own", r.ID, o.Action, o.Arguments)
	}
	done := Refilled{ID: o.ID, At: o.At, Repeated: true}
	if err := json.Unmarshal([]byte(o.Result), &done); err != nil {
		return Refilled{}, fmt.Errorf("dynalimit: the result of operation %s cannot be read: %w", o.ID, err)
	}
	return done, nil
}

// refill is the transaction of what was decided: the record of the operation and, if
// anything is to be changed, the change and its event.
func (a Buckets) refill(r Refill, arguments string, done Refilled, change *schema.Refill) (table.Proposal, error) {
	result, err := json.Marshal(done)
	if err != nil {
		return table.Proposal{}, err
	}
	record := a.Table.Put(schema.Operation{
		ID: r.ID, Entity: r.Entity, Resource: r.Resource, Action: r.action(), Arguments: arguments, Result: string(result), By: r.By, At: done.At,
	}.Item(a.Keys), schema.OperationUndone())
	if change == nil {
		return table.Proposal{Writes: []types.TransactWriteItem{record}}, nil
	}
	write := a.Table.Update(a.Keys.Bucket(r.Entity, r.Resource), change.Statement())
	return a.propose(r.deed(done), write, record)
}

// deed is the refill as it is recorded: what each limit holds, in tokens.
func (r *Refill) deed(done Refilled) Deed {
	before, after, added := map[string]json.Number{}, map[string]json.Number{}, map[string]json.Number{}
	for _, l := range done.Limits {
		before[l.Name], after[l.Name] = tokens(l.Before), tokens(l.After)
	}
	d := Deed{
		By: r.By, Action: r.action(), Target: r.Entity, Resource: r.Resource,
		Before: trail.Fields{"tokens": before}, After: trail.Fields{"tokens": after, "operation_id": r.ID},
	}
	if r.Add != nil {
		for name, n := range r.Add {
			added[name] = tokens(n)
		}
		d.After["added"] = added
	}
	if done.Estimated {
		d.After["estimated"] = true
	}
	return d
}

// tokens writes millitokens as tokens, exactly.
func tokens(milli int64) json.Number {
	sign, whole, rest := "", milli/1000, milli%1000
	if milli < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	text := sign + strconv.FormatInt(whole, 10)
	if rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return json.Number(text)
}

func wrong(field, format string, args ...any) error {
	return &fault.ValidationError{Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// Of is the query of an entity's buckets.
func (a Buckets) Of(id string) table.Query {
	return table.Query{Op: "list the buckets", Hash: schema.PK, Value: a.Keys.Entity(id), Prefix: schema.BucketsOf, Whole: true}
}

// OfResource lists the buckets of a resource, in the order of their entities: those that
// the index knows, which may lag behind by a moment, read consistently, a page at a time.
func (a Buckets) OfResource(ctx context.Context, resource string) iter.Seq2[schema.Item, error] {
	q := table.Query{
		Op: "list the buckets of a resource", Index: schema.IndexResource, Hash: schema.GSI2PK, Value: a.Keys.Resource(resource),
		Sort: schema.GSI2SK, Prefix: schema.BucketEntries,
	}
	return func(yield func(schema.Item, error) bool) {
		for page, err := range a.Table.Pages(ctx, q) {
			var items []schema.Item
			if err == nil {
				items, err = a.in(ctx, q.Op, page.Items)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !table.YieldAll(items, yield) {
				return
			}
		}
	}
}

// in reads the buckets that entries of the index name, in their order. Those that
// expired since are left out.
func (a Buckets) in(ctx context.Context, op string, entries []schema.Item) ([]schema.Item, error) {
	var keys []schema.Key
	for _, entry := range entries {
		if _, _, ok := a.Keys.BucketOwner(schema.KeyOf(entry)); ok {
			keys = append(keys, schema.KeyOf(entry))
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	items, err := a.Table.GetMany(ctx, op, keys)
	return slices.DeleteFunc(items, func(item schema.Item) bool { return item == nil }), err
}
