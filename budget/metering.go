package budget

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// counterOnly says that a record is counted without an item of its own. Hard
// mode always keeps one.
func (k *Keeper) counterOnly(o *op) bool {
	return (k.opts.Metering == MeteringWindow || k.opts.Metering == MeteringNone) && !o.debits[0].hard
}

// submitUnkept counts a record by its counters alone.
func (k *Keeper) submitUnkept(ctx context.Context, o *op) error {
	o.unkept = true
	r := o.record
	sum := sha256.Sum256([]byte(k.store.Usage + "#" + r.key.PK)) // a token is one account's, not one table's
	draw := func(shards int) int { return int(binary.BigEndian.Uint32(sum[16:]) % uint32(shards)) }
	t, _ := compose([]*op{o}, draw)
	var err error
	if k.opts.Metering == MeteringWindow {
		err = k.sendWindow(ctx, t, store.UUID([16]byte(sum[:16])), r.atSec)
	} else {
		err = k.sendPlain(ctx, t, k.now().Unix())
	}
	if store.Diagnose(err) == ddb.TokenMismatch {
		o.verdict.conflict = true
		return nil
	}
	if err != nil {
		return failure("Submit", err)
	}
	t.landed()
	k.board(o).note(o)
	return nil
}

// sendWindow writes the counters under a token made of the record's key: sent
// again within ten minutes it is applied once. Everything in it comes from the
// record alone, so that it is the same request whoever sends it.
func (k *Keeper) sendWindow(ctx context.Context, t *txn, token string, atSec int64) error {
	return store.Retry(ctx, func() error { return t.send(ctx, k.store, token, atSec) })
}

// sendPlain adds to the counters; what may have been applied is not sent again.
func (k *Keeper) sendPlain(ctx context.Context, t *txn, nowSec int64) error {
	for i, it := range t.items {
		if it.kind != addCounter {
			continue
		}
		update := counterUpdate(it.sum, nowSec)
		for n := 0; ; n++ {
			_, err := k.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: &k.store.Usage, Key: it.key.Item(), UpdateExpression: update.UpdateExpression,
				ExpressionAttributeNames: update.ExpressionAttributeNames, ExpressionAttributeValues: update.ExpressionAttributeValues,
			}, store.Once)
			if err == nil {
				break
			}
			d := store.Diagnose(err)
			if d != ddb.Conflicted && d != ddb.Throttled && d != ddb.Unsent || store.GiveUp(ctx, n, err) {
				if i > 0 {
					err = fmt.Errorf("counted, but not by tag: %w", err)
				}
				return err
			}
		}
	}
	return nil
}

// conflictError says what a request id stands for already.
func conflictError(stored storedRecord) error {
	if stored.day == "" {
		return fmt.Errorf("%w: the request id was used with another payload", ErrConflict)
	}
	return fmt.Errorf("%w: the request id was used with another payload, on day %s for label %q", ErrConflict, stored.day, stored.label)
}
