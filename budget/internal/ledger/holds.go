package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

const (
	// LeaseMargin is how long after a lease's end its hold is left alone: clocks
	// that follow DynamoDB's differ by up to two seconds.
	LeaseMargin = 2 * time.Second
	// holdsRead is how many holds a denial looks at for when there is room again.
	holdsRead = 100
	// DenialFor is how long a counter is remembered as full, as the limiter
	// remembers an empty bucket.
	DenialFor = time.Second
)

// freeAt is when anybody may give the hold back.
func (h *Hold) freeAt() time.Time { return time.UnixMilli(h.ExpireMs).Add(LeaseMargin) }

func (h *Hold) debitsCounter(ref store.Key) bool {
	return slices.ContainsFunc(h.Debits, func(d Debit) bool { return d.ref() == ref })
}

// FreeWhen is when so much of what is held on a counter has ended; false if all of it is
// not enough. holds are in the order in which their leases end.
func FreeWhen(holds []*Hold, ref store.Key, missing money.Picos) (time.Time, bool) {
	for _, h := range holds {
		if !h.debitsCounter(ref) {
			continue
		}
		if missing = missing.Sub(h.Estimate); missing.Sign() <= 0 {
			return h.freeAt(), true
		}
	}
	return time.Time{}, false
}

// barred is an item that keeps a hold's id from being used: a hold of nothing, which
// expires as holds do.
func (h *Hold) barred() *Hold {
	b := *h
	b.Estimate, b.Debits = money.Picos{}, nil
	return &b
}

// readHolds reads the holds of a scope in the order in which their leases end: all that
// have expired, and at least the next holdsRead of the others.
func (l *Ledger) readHolds(ctx context.Context, scope string, now time.Time) (expired, live []*Hold, err error) {
	in := &dynamodb.QueryInput{
		TableName: &l.Store.Usage, ConsistentRead: aws.Bool(true), Limit: aws.Int32(holdsRead),
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": "PK"},
		ExpressionAttributeValues: store.Item{":pk": store.String(holdPK(scope))},
	}
	for {
		out, err := l.Store.Client.Query(ctx, in)
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

// ReleaseExpired gives back every hold of a scope whose lease has ended. It returns how
// many, and the holds that end next.
func (l *Ledger) ReleaseExpired(ctx context.Context, scope string) (released int, live []*Hold, err error) {
	expired, live, err := l.readHolds(ctx, scope, l.Now())
	if err != nil {
		return 0, nil, err
	}
	return len(expired), live, l.giveBack(expired)
}

// ReleaseAll gives back every hold of a scope that is one of those, whenever its lease ends,
// if still, which is called after all were read, returns nil. It returns how many.
func (l *Ledger) ReleaseAll(ctx context.Context, scope string, of func(*Hold) bool, still func() error) (released int, err error) {
	var holds []*Hold
	err = l.Store.Query(ctx, l.Store.Usage, holdPK(scope), "0", "~", func(item store.Item) error {
		h, err := decodeHold(item)
		if err == nil && of(h) {
			holds = append(holds, h)
		}
		return err
	})
	if err == nil && len(holds) > 0 {
		err = still()
	}
	if err != nil {
		return 0, err
	}
	return len(holds), l.giveBack(holds)
}

// giveBack gives holds back beside the lanes.
func (l *Ledger) giveBack(holds []*Hold) (err error) {
	ops := make([]*Operation, len(holds))
	for i, ref := range holds {
		ops[i] = GiveBack(ref)
	}
	for left := slices.Clone(ops); len(left) > 0; {
		left = l.transact(left)
	}
	for _, o := range ops {
		if o.Verdict.err != nil {
			err = errors.Join(err, o.Verdict.err)
		}
	}
	return err
}

// Move changes when a hold ends. It returns where the hold is then: at two places if the
// move got no answer. ErrNoHold means that its lease had ended and the money was given
// back.
func (l *Ledger) Move(ctx context.Context, h *Hold, expires time.Time) (*Hold, error) {
	moved := *h
	moved.ExpireMs = expires.UnixMilli()
	to := holdKey(moved.Scope, moved.ExpireMs, moved.ID)
	var err error
	for _, from := range h.Keys {
		if err = l.moveTo(ctx, &moved, from, to); !errors.Is(err, ErrNoHold) {
			break
		}
	}
	switch {
	case err == nil:
		moved.Keys = []store.Key{to}
	case errors.Is(err, ErrNoHold):
		return h, err
	case slices.Contains(h.Keys, to):
		return h, err
	default: // may have moved: both places are tried
		moved.Keys = append(slices.Clone(h.Keys), to)
	}
	return &moved, err
}

// stillThere fails with ErrNoHold if there is no hold at a place.
func (l *Ledger) stillThere(ctx context.Context, at store.Key) error {
	item, err := l.Store.Get(ctx, l.Store.Usage, at)
	if err != nil {
		return err
	}
	if item == nil {
		return ErrNoHold
	}
	h, err := decodeHold(item)
	if err == nil && h.Estimate.IsZero() { // its id is barred
		return ErrNoHold
	}
	return err
}

func (l *Ledger) moveTo(ctx context.Context, moved *Hold, from, to store.Key) error {
	if from == to {
		return l.stillThere(ctx, to)
	}
	token := store.NewID()
	writes := []types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName: &l.Store.Usage, Key: from.Attributes(), ConditionExpression: aws.String("attribute_exists(#pk)"),
			ExpressionAttributeNames: map[string]string{"#pk": "PK"},
		}},
		putAbsent(l.Store.Usage, moved.item(to)),
	}
	if moved.Name != (store.Key{}) {
		writes = append(writes, moved.renamed(l.Store.Usage, to))
	}
	err := store.Retry(ctx, func() error {
		_, err := l.Store.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token, TransactItems: writes,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return ErrNoHold
	}
	return err
}
