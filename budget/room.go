package budget

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

const (
	// leaseMargin is how long after a lease's end its hold is left alone: clocks
	// that follow DynamoDB's differ by up to two seconds.
	leaseMargin = 2 * time.Second
	// holdsRead is how many holds a denial looks at for when there is room again.
	holdsRead = 100
	// denialFor is how long a counter is remembered as full, as the limiter
	// remembers an empty bucket.
	denialFor = time.Second
)

// freeAt is when the hold can be given back by anybody.
func (h *holdRef) freeAt() time.Time { return time.UnixMilli(h.expireMs).Add(leaseMargin) }

func (h *holdRef) debitsCounter(ref store.Key) bool {
	return slices.ContainsFunc(h.debits, func(d debit) bool { return d.ref() == ref })
}

// freeWhen is when so much of what is held on a counter has ended, holds in the
// order of their leases; false when all of it is not enough.
func freeWhen(holds []*holdRef, ref store.Key, missing money.Picos) (time.Time, bool) {
	for _, h := range holds {
		if !h.debitsCounter(ref) {
			continue
		}
		if missing = missing.Sub(h.estimate); missing.Sign() <= 0 {
			return h.freeAt(), true
		}
	}
	return time.Time{}, false
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// fullCounter is what a counter held when it refused a reservation.
type fullCounter struct {
	used  money.Picos
	until time.Time // remembered; not beyond the first lease that ends
}

// remember keeps what refused an operation for a while, and the holds that were
// read for it.
func (b *board) remember(o *op, holds []*holdRef, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live, b.liveAt = holds, now
	until := now.Add(denialFor)
	if len(holds) > 0 && holds[0].freeAt().Before(until) {
		until = holds[0].freeAt()
	}
	for ref, used := range o.full {
		b.full[ref] = fullCounter{used, until}
	}
}

// refuses says which counters are remembered to have no room for a reservation;
// none when it must be asked.
func (b *board) refuses(o *op, now time.Time) map[store.Key]money.Picos {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := map[store.Key]money.Picos{}
	for _, d := range o.debits {
		if f, ok := b.full[d.ref()]; d.capped && ok && now.Before(f.until) && f.used.Add(o.hold.estimate).Cmp(d.bound) > 0 {
			full[d.ref()] = f.used
		}
	}
	return full
}

// forget drops what is remembered of a counter that a write of this process left
// with more room. It needs the board's lock.
func (b *board) forget(ref store.Key, change money.Picos) {
	if change.IsNegative() {
		delete(b.full, ref)
	}
}

// roomAt is when a refused reservation may fit, as far as is known: when the
// holds end that are in its way, or with the period of the counter. The last of
// its counters decides.
func (b *board) roomAt(o *op) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last time.Time
	for _, d := range o.debits {
		used, ok := o.full[d.ref()]
		if !ok || !d.capped {
			continue
		}
		at, enough := freeWhen(b.live, d.ref(), used.Add(o.hold.estimate).Sub(d.bound))
		if !enough || at.After(d.resetAt) {
			at = d.resetAt
		}
		last = latest(last, at)
	}
	return last
}

// readHolds reads a scope's holds in the order of their leases: all that have
// expired, and the next holdsRead at least of the others, if there are so many.
func (k *Keeper) readHolds(ctx context.Context, scope string, now time.Time) (expired, live []*holdRef, err error) {
	in := &dynamodb.QueryInput{
		TableName: &k.store.Usage, ConsistentRead: aws.Bool(true), Limit: aws.Int32(holdsRead),
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": "PK"},
		ExpressionAttributeValues: store.Item{":pk": store.String(holdPK(scope))},
	}
	for {
		out, err := k.store.Client.Query(ctx, in)
		if err != nil {
			return nil, nil, store.Reading(err)
		}
		for _, item := range out.Items {
			h, err := decodeHold(item)
			switch {
			case err != nil:
				return nil, nil, err
			case h.freeAt().After(now):
				live = append(live, h)
			default:
				expired = append(expired, h)
			}
		}
		if len(out.LastEvaluatedKey) == 0 || len(live) >= holdsRead {
			return expired, live, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// holdsInTheWay are a scope's live holds, at most Options.Staleness old.
func (k *Keeper) holdsInTheWay(ctx context.Context, b *board) []*holdRef {
	now := k.now()
	b.mu.Lock()
	live, age := b.live, now.Sub(b.liveAt)
	b.mu.Unlock()
	if age >= 0 && age < k.opts.Staleness {
		return live
	}
	_, live, err := k.readHolds(ctx, b.scope, now)
	if err != nil {
		return nil
	}
	b.mu.Lock()
	b.live, b.liveAt = live, now
	b.mu.Unlock()
	return live
}

// exceeded is the error when no label has room. Where only holds are in the way,
// it says when they end.
func (k *Keeper) exceeded(ctx context.Context, out *outlook) *QuotaExceededError {
	err := out.exceeded()
	if out.bySpend() == len(out.labels) {
		return err
	}
	holds := k.holdsInTheWay(ctx, out.board)
	for _, l := range out.labels {
		if at, ok := l.freeOfHolds(out, holds); ok && at.Before(err.RetryAt) {
			err.RetryAt = at
		}
	}
	return err
}

// freeOfHolds is when enough holds have ended for a label to have room.
func (l labelState) freeOfHolds(out *outlook, holds []*holdRef) (time.Time, bool) {
	if !l.priced || l.selectable(out.tight) {
		return time.Time{}, false
	}
	var last time.Time
	check := func(ref store.Key, a amount, quota int64) bool {
		missing := a.spend.Add(a.held).Sub(money.FromMicros(quota)).Add(money.Of(1))
		if missing.Sign() <= 0 {
			return true
		}
		at, ok := freeWhen(holds, ref, missing)
		last = latest(last, at)
		return ok
	}
	ok := check(store.Key{PK: labelPK(out.scope, l.label), SK: shardPrefix(Day, out.day)}, l.amount, l.quota)
	for _, lim := range l.limits {
		ok = ok && check(limitRef(out.scope, lim.quota, out.day), lim.amount, lim.quota.Micros)
	}
	return last, ok
}
