package aggregator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// defaultRepair is how far back usage is repaired unless it is said.
const defaultRepair = 31 * 24 * time.Hour

// RepairOptions says what is repaired. The zero value is what is missing of the last 31
// days.
type RepairOptions struct {
	// From and To bound the hours, To not included. From defaults to 31 days before To, To
	// to now. An hour that is not final is left alone: its records may still come.
	From, To time.Time
	// First also books what a counter had before the first record that there is of it, as
	// if all of it were consumed in that hour: for a stream that was turned on late. It is
	// wrong where earlier snapshots expired. Defaults to false.
	First bool
	// DryRun says what would be booked, and writes nothing. Defaults to false.
	DryRun bool
	// Principal is who repairs, as the events of what is booked tell: an address, an ARN, the
	// name of a service, at most 256 characters that can be seen. Defaults to none: then only a
	// dry run is made, unless AllowAnonymous.
	Principal string
	// AllowAnonymous lets usage be repaired without a principal: the events name nobody.
	// Defaults to false.
	AllowAnonymous bool
	// AuditRetention is how long the event of a booking is kept; a negative one is for ever.
	// Defaults to 90 days.
	AuditRetention time.Duration
}

// Booking is consumption that was booked later.
type Booking struct {
	// Namespace, Entity, Resource and Limit say whose counter it is.
	Namespace, Entity, Resource, Limit string
	// Hour is the beginning of the hour that it is booked in.
	Hour time.Time
	// Millitokens is how much; negative where more was given back. It is 0 where what two
	// hours miss cancels out.
	Millitokens int64
}

// Repaired says what was repaired. It is a plain value.
type Repaired struct {
	// Bookings are those that were made, or would be.
	Bookings []Booking
	// Unseen are ends of counters that nobody saw: what was consumed before each is not
	// known, and not booked. Their Missing is 0: what is missing is among the bookings.
	Unseen []Gap
	// Closed says which hours were made anew afterwards.
	Closed Closed
}

// Repair books what is known to be missing: within hours, between them, and after the last
// hour of buckets that nothing was written to for more than a day. Then it makes the sums
// anew of the hours, days and months that it booked in, also in a call before this one that
// was cut. Every booking is made once, also when several repair at once, and whatever
// records come later: totals stay what the counters grew by. Each is made in one transaction
// with its event, whose action is "usage_repaired", so that Repository.AuditEvents tells who
// booked how much of what.
//
// An item that cannot be read is left as it is, and the error names it. It fails with a
// *ValidationError where RepairOptions.From is not before To, and without a Principal.
//
// The sum of all snapshots of a limit is then what its counters grew by since the first of
// them, except before ends that nobody saw.
func (c *Closer) Repair(ctx context.Context, o RepairOptions) (Repaired, error) {
	var done Repaired
	if err := c.called(ctx); err != nil {
		return done, err
	}
	if err := o.check(); err != nil {
		return done, err
	}
	if o.To.IsZero() {
		o.To = c.options.Now()
	}
	if o.From.IsZero() {
		o.From = o.To.Add(-defaultRepair)
	}
	if err := checkSpan("options.From", o.From, "options.To", o.To); err != nil {
		return done, err
	}
	namespaces, err := c.namespaces(ctx)
	for i := 0; err == nil && i < len(namespaces); i++ {
		r := &repair{closing: c.closing(schema.NewKeys(namespaces[i])), RepairOptions: o, done: &done, changed: map[time.Time]bool{}, resources: map[string]bool{}}
		err = r.run(ctx)
	}
	return done, err
}

// repair is what is repaired in one namespace.
type repair struct {
	*closing
	RepairOptions
	done *Repaired
	// changed are the hours that have something that was booked.
	changed map[time.Time]bool
	// resources are those that anything was used of.
	resources map[string]bool
}

func (r *repair) run(ctx context.Context) error {
	for hour := schema.UsageHourly.Floor(r.From); hour.Before(r.To) && r.isFinal(schema.UsageHourly, hour); hour = hour.Add(time.Hour) {
		if err := r.hour(ctx, hour); err != nil {
			return err
		}
	}
	err := r.buckets(ctx)
	if err == nil && !r.DryRun {
		err = r.remake(ctx)
	}
	return errors.Join(errors.Join(r.skipped...), err)
}

func (r *repair) isFinal(w schema.UsageWindow, start time.Time) bool {
	return usage.Final(w, start, r.options.Now())
}

// hour repairs the snapshots of an hour.
func (r *repair) hour(ctx context.Context, hour time.Time) error {
	keys, err := r.listed(ctx, r.partitions(hour)...)
	if err != nil {
		return err
	}
	return r.batches(ctx, keys, r.snapshot)
}

// repaired is a snapshot that was repaired.
type repaired struct {
	pair
	hour     time.Time
	bookings []schema.UsageBooking
	gaps     []Gap
	before   bool // whether something was booked before
	// unreadable is why the item could not be read, and is as it was.
	unreadable error
}

func (r *repair) tell(f repaired) {
	if f.unreadable != nil {
		r.skip(f.unreadable)
		return
	}
	r.resources[f.resource] = true
	for _, b := range f.bookings {
		r.done.Bookings = append(r.done.Bookings, Booking{r.keys.Name(), f.entity, f.resource, b.Limit, f.hour, b.Net})
	}
	for _, g := range f.gaps {
		if g.Unseen != 0 {
			g.Missing = 0 // it is booked
			r.done.Unseen = append(r.done.Unseen, g)
		}
	}
	if len(f.bookings) > 0 || f.before {
		r.changed[f.hour] = true
	}
}

// snapshot repairs one snapshot. It looks again where records came meanwhile.
func (r *repair) snapshot(ctx context.Context, item schema.Item) ([]repaired, error) {
	for {
		if !r.ours(item) {
			return nil, nil
		}
		h, err := decodeHourly(item)
		if err != nil {
			return []repaired{{unreadable: err}}, nil //nolint:nilerr // it is told, and ends nothing
		}
		h.closed = true // where it stands is none of a repair's business
		p := &past{ends: usage.Ends{}}
		if err := r.look(ctx, h, p); err != nil {
			return nil, err
		}
		breaks := usage.Breaks(*h.snapshot, p.ends)
		done := repaired{pair: h.pair, hour: h.hour, bookings: usage.Book(*h.snapshot, breaks, r.First), gaps: r.gaps(h, breaks), before: len(h.snapshot.Repaired) > 0}
		booked, err := r.book(ctx, schema.UsageRepair{Keys: r.keys, Entity: h.entity, Resource: h.resource, Hour: h.hour, Bookings: done.bookings})
		if booked || err != nil {
			return []repaired{done}, err
		}
		if item, err = r.table.Get(ctx, opRepair, h.key); err != nil {
			return nil, err
		}
	}
}

const opRepair = "repair usage"

// book books into a snapshot; false if its counters are not what they were.
func (r *repair) book(ctx context.Context, all schema.UsageRepair) (bool, error) {
	if r.DryRun {
		return true, nil
	}
	for chunk := range slices.Chunk(all.Bookings, schema.MostBookings) {
		part := all
		part.Bookings = chunk
		if booked, err := r.bookWithEvent(ctx, part); !booked || err != nil {
			return false, err
		}
	}
	return true, nil
}

// remake makes the sums of what changed anew: of hours, and of the days and months that are
// over.
func (r *repair) remake(ctx context.Context) error {
	windows := map[schema.UsageWindow]map[time.Time]bool{schema.UsageHourly: r.changed, schema.UsageDaily: {}, schema.UsageMonthly: {}}
	for hour := range r.changed {
		windows[schema.UsageDaily][schema.UsageDaily.Floor(hour)] = true
		windows[schema.UsageMonthly][schema.UsageMonthly.Floor(hour)] = true
	}
	var err error
	days := map[int]map[schema.UsageSeries]bool{}
	for _, w := range []schema.UsageWindow{schema.UsageHourly, schema.UsageDaily, schema.UsageMonthly} {
		for start := range windows[w] {
			k := r.Closer.closing(r.keys)
			k.days = days
			if w.Next(start).Add(r.options.Grace).After(r.options.Now()) {
				continue // it is written when it is over
			}
			k.final, k.done.Hour, k.done.Final = r.isFinal(w, start), start, r.isFinal(w, start)
			err = errors.Join(err, k.sum(ctx, w, start))
			for _, unread := range k.skipped {
				r.skip(unread)
			}
			k.done.Gaps = nil // they were told
			r.done.Closed.add(k.done)
			if w == schema.UsageHourly {
				r.done.Closed.Hours++
			}
		}
	}
	return err
}
