package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// WriteUnkept counts a record without a dedup item, at once and alone. With window it is
// counted once within ten minutes, by the request token; without, as often as it is
// sent.
func (l *Ledger) WriteUnkept(ctx context.Context, o *Operation, window bool) error {
	o.unkept = true
	r := o.record
	sum := sha256.Sum256([]byte(l.Store.Usage + "#" + r.Key.PK)) // a token is one account's, not one table's
	draw := func(shards int) int { return int(binary.BigEndian.Uint32(sum[16:]) % uint32(shards)) }
	t, _ := compose([]*Operation{o}, draw)
	err := l.lanes.tellOf(ctx, o, t.shardOf(o))
	if err != nil {
		return err
	}
	if window {
		err = l.sendWindow(ctx, t, store.UUID([16]byte(sum[:16])), r.At)
	} else {
		err = l.sendPlain(ctx, t, l.Now().Unix())
	}
	if store.Diagnose(err) == ddb.TokenMismatch {
		l.countedOtherwise(o, t)
		return nil
	}
	if err != nil {
		return err
	}
	l.unkept.Add(r.Key.PK, r.Hash)
	t.landed()
	l.note(o)
	return nil
}

// countedOtherwise is the verdict on a record whose id was counted by another request: of the
// same record at another price or in another shard, for what is configured may have changed
// since, unless this process knows that it was another record.
func (l *Ledger) countedOtherwise(o *Operation, t *transaction) {
	hash, known := l.unkept.Get(o.record.Key.PK)
	o.Verdict.Duplicate, o.Verdict.Conflict = true, known && hash != o.record.Hash
	o.Verdict.Stored = o.record.stored(o.writer, t.shardOf(o))
}

// sendWindow writes the counters under a token made from the record's key, so that a
// repetition within ten minutes is applied once. Everything in the request comes from
// the record, so it is the same request whoever sends it.
func (l *Ledger) sendWindow(ctx context.Context, t *transaction, token string, atSec int64) error {
	return store.Retry(ctx, func() error { return t.send(ctx, l.Store, token, atSec) })
}

// sendPlain adds to the counters. It does not send again what may have been applied.
func (l *Ledger) sendPlain(ctx context.Context, t *transaction, nowSec int64) error {
	counted := false
	for _, it := range t.items {
		if it.kind != addCounter {
			continue
		}
		if err := l.addTo(ctx, it, nowSec, t.ops[0].expires); err != nil {
			if counted {
				err = fmt.Errorf("counted, but not by tag: %w", err)
			}
			return err
		}
		counted = true
	}
	return nil
}

// addTo adds to one counter. It tries again while nothing of the write can have been
// applied.
func (l *Ledger) addTo(ctx context.Context, it write, nowSec, expires int64) error {
	update := counterUpdate(it.sum, nowSec, expires)
	for n := 0; ; n++ {
		_, err := l.Store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &l.Store.Usage, Key: it.key.Attributes(), UpdateExpression: update.UpdateExpression,
			ExpressionAttributeNames: update.ExpressionAttributeNames, ExpressionAttributeValues: update.ExpressionAttributeValues,
		}, store.Once)
		switch store.Diagnose(err) {
		case ddb.Landed:
			return nil
		case ddb.Conflicted, ddb.Throttled, ddb.Unsent:
		default:
			return err
		}
		if store.GiveUp(ctx, n, err) {
			return err
		}
	}
}

// Recorded is what the dedup item of a record says; false if there is none.
func (l *Ledger) Recorded(ctx context.Context, key store.Key) (Stored, bool, error) {
	item, err := l.Store.Get(ctx, l.Store.Usage, key)
	if err != nil || item == nil {
		return Stored{}, false, err
	}
	stored, err := DecodeRecord(item)
	return stored, true, err
}
