package legacy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// mostLimits is the most limits of one transaction: it has room for 100 parts,
	// and needs one to put the new item and one to list it.
	mostLimits = 98
	// unansweredTries bounds the checks of an unanswered change.
	unansweredTries = 3
	// idSize is how long the id of a bucket is.
	idSize = 9

	opBucket = "turn a bucket of the older layout into today's"
	opConfig = "turn limits of the older layout into today's"
)

// Turner turns items of one table. Its fields are set once, before it is used.
type Turner struct {
	Table *table.Table
	// Now is DynamoDB's time in milliseconds, as far as it is known.
	Now func() int64
}

// MalformedError is an item of the older layout that cannot be understood, and so cannot
// be turned.
type MalformedError struct{ Err error }

// Error names the item.
func (e *MalformedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

// Turned is the result for the items of one bucket, or of one configuration.
type Turned struct {
	// Item is the composite item, nil if there was nothing to turn.
	Item schema.Item
	// Limits is how many items of the older layout were there, and are no more. If
	// Superseded is set, the composite item was there already and won.
	Limits     int
	Superseded bool
}

// BucketOnce converts the buckets of an entity's limits for a resource from the older layout to one bucket.
// It sends one read and at most one transaction. The verdict is Refused if today's bucket exists, converted
// or not. It is Landed if no bucket exists, so that the caller may create one, and Conflicted after a
// conflict. Any other verdict comes with the error of the read or the transaction: nothing was converted,
// except perhaps with the verdict Unsent.
func (t *Turner) BucketOnce(ctx context.Context, of schema.Legacy) (Turned, ddb.Verdict, error) {
	turned, p, err := t.proposeBucket(ctx, of)
	if err != nil {
		return Turned{}, unsentIfUnconfirmed(table.VerdictOf(err)), err
	}
	if len(p.Writes) > 0 && !turned.Superseded {
		_, err = t.Table.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: p.Writes})
		switch v := table.VerdictOf(err); v {
		case ddb.Landed:
		case ddb.Refused: // another was faster, or an older writer lives: look again
			return Turned{}, ddb.Conflicted, t.Table.Unavailable(opBucket, err)
		default:
			return Turned{}, unsentIfUnconfirmed(v), t.Table.Failure(opBucket, err)
		}
	}
	if turned.Item == nil {
		return turned, ddb.Landed, nil
	}
	return turned, ddb.Refused, nil
}

// unsentIfUnconfirmed returns the verdict about the caller's own write after a failed conversion: Unsent in
// place of Unconfirmed or Landed. That write was never sent; the next read shows whether the conversion landed.
func unsentIfUnconfirmed(v ddb.Verdict) ddb.Verdict {
	if v == ddb.Unconfirmed || v == ddb.Landed {
		return ddb.Unsent
	}
	return v
}

// Bucket converts the buckets of an entity's limits for a resource from the older layout to one bucket. If
// today's bucket exists, it only deletes the old ones. After a conflict with other writers it reads again.
func (t *Turner) Bucket(ctx context.Context, of schema.Legacy) (Turned, error) {
	var turned Turned
	err := t.changeTable(ctx, opBucket, func() (p table.Proposal, err error) {
		turned, p, err = t.proposeBucket(ctx, of)
		return p, err
	})
	if err != nil {
		return Turned{}, err
	}
	return turned, nil
}

// changeTable makes the change that propose reads and returns. It repeats a change without an answer, at most
// unansweredTries times in all: a repetition converts nothing twice.
func (t *Turner) changeTable(ctx context.Context, op string, propose func() (table.Proposal, error)) error {
	for n := 1; ; n++ {
		err := t.Table.Change(ctx, op, propose)
		var unanswered *fault.UnavailableError
		if !errors.As(err, &unanswered) || !unanswered.Unconfirmed || n == unansweredTries || !table.Backoff.Pause(ctx, n) {
			return err
		}
	}
}

// proposeBucket reads a bucket in both layouts and proposes its conversion, without a write of its own. The
// proposal is empty without old items. If today's bucket exists too, it only deletes the old items.
func (t *Turner) proposeBucket(ctx context.Context, of schema.Legacy) (turned Turned, p table.Proposal, err error) {
	prefix := schema.LegacyBucketPrefix(of.Owner.Resource)
	q := table.Query{
		Op: opBucket, Hash: schema.PK, Value: of.Keys.Entity(of.Owner.Entity), Whole: true,
		From: of.Composite().SK, To: prefix + "~", // '#' sorts before every character of names, '~' after
	}
	var limits []schema.LegacyBucket
	for item, err := range t.Table.Items(ctx, q) {
		if err != nil {
			return Turned{}, p, err
		}
		if schema.KeyOf(item) == of.Composite() {
			turned.Item = item
			continue
		}
		limit, err := schema.DecodeLegacyBucket(item)
		if err != nil {
			return Turned{}, p, &MalformedError{err}
		}
		limits = append(limits, limit)
		p.Writes = append(p.Writes, t.Table.DeletePart(limit.Key, limit.Unchanged))
	}
	turned.Limits, turned.Superseded = len(limits), len(limits) > 0 && turned.Item != nil
	if err := checkCount(of, len(limits)); err != nil || len(limits) == 0 || turned.Superseded {
		return turned, p, err
	}
	turned.Item = t.composeBucket(of, limits)
	put := t.Table.PutPart(turned.Item, schema.Statement{Condition: schema.CreateCondition})
	p.Writes = append([]types.TransactWriteItem{put}, p.Writes...)
	return turned, p, nil
}

// composeBucket returns the bucket that replaces the limits' old items, with a random id. It
// expires like a new bucket, unless one of the old items never expires.
func (t *Turner) composeBucket(of schema.Legacy, limits []schema.LegacyBucket) schema.Item {
	now := t.Now()
	c := schema.ComposeBucket(of, limits, now)
	expires := true
	for i := range limits {
		expires = expires && limits[i].TTL > 0
	}
	if expires {
		c.TTL = plan.Expiry(now, c.Limits)
	}
	c.OpID = make([]byte, idSize)
	_, _ = rand.Read(c.OpID) // never fails
	return c.Item()
}

// checkCount returns a MalformedError if the limits of one item do not fit in a transaction, else nil.
func checkCount(of schema.Legacy, limits int) error {
	if limits <= mostLimits {
		return nil
	}
	key := of.Composite()
	return &MalformedError{fmt.Errorf("%d limits are to become the item %q, %q; one transaction turns at most %d", limits, key.PK, key.SK, mostLimits)}
}

// Configs converts the limits of every configuration in a partition: an entity's for each resource, a
// resource's or the system's. It returns the results in the order of the keys. After an error it continues with
// the others, and returns the last error too.
func (t *Turner) Configs(ctx context.Context, partition string) (all []Turned, err error) {
	q := table.Query{Op: opConfig, Hash: schema.PK, Value: partition, Prefix: schema.LegacyLimits}
	keys, err := t.Table.Keys(ctx, q)
	if err != nil {
		return nil, err
	}
	seen := map[schema.ConfigOwner]bool{}
	for _, key := range keys {
		of, ok := schema.LegacyOf(key)
		if !ok || seen[of.Owner] {
			continue
		}
		seen[of.Owner] = true
		turned, turnErr := t.Config(ctx, of)
		if turnErr != nil {
			err = turnErr
			continue
		}
		all = append(all, turned)
	}
	return all, err
}

// Config converts the limits of an owner to its configuration in today's layout. After a conflict with other
// writers it reads again. If today's configuration has limits, the old ones are only deleted.
func (t *Turner) Config(ctx context.Context, of schema.Legacy) (Turned, error) {
	var turned Turned
	err := t.changeTable(ctx, opConfig, func() (p table.Proposal, err error) {
		turned, p, err = t.proposeConfig(ctx, of)
		return p, err
	})
	if err != nil {
		return Turned{}, err
	}
	return turned, nil
}

// proposeConfig reads an owner's old limits and configuration of today's layout, and proposes to merge them,
// without a write of its own. If that configuration has limits, the proposal only deletes the old ones. It is
// empty without old limits.
func (t *Turner) proposeConfig(ctx context.Context, of schema.Legacy) (turned Turned, p table.Proposal, err error) {
	limits, err := t.Limits(ctx, of)
	if err != nil || len(limits) == 0 {
		return Turned{}, p, err
	}
	stored, err := t.Table.Get(ctx, opConfig, of.Composite())
	if err != nil {
		return Turned{}, p, err
	}
	item, won, err := mergeLimits(of, stored, limits)
	if err != nil {
		return Turned{}, p, err
	}
	for i := range limits {
		p.Writes = append(p.Writes, t.Table.DeletePart(limits[i].Key, limits[i].Unchanged))
	}
	if !won {
		p.Writes = append(p.Writes, t.Table.PutPart(item, schema.ConfigUnchanged(stored)))
		p.Writes = append(p.Writes, t.updateLists(of, stored)...)
	}
	return Turned{Item: item, Limits: len(limits), Superseded: won}, p, nil
}

// updateLists returns the write that lists a new configuration: among the resources, or in the numbers of
// entities with limits. It returns nil if neither is needed.
func (t *Turner) updateLists(of schema.Legacy, stored schema.Item) []types.TransactWriteItem {
	switch owner := of.Owner.Normal(); {
	case owner.Entity != "" && stored == nil:
		if st, ok := schema.CountConfigs(map[string]int64{owner.Resource: 1}); ok {
			return []types.TransactWriteItem{t.Table.UpdatePart(of.Keys.EntityResources(), st)}
		}
	case owner.Entity == "" && owner.Resource != "":
		return []types.TransactWriteItem{t.Table.UpdatePart(of.Keys.Resources(), schema.ListResources([]string{owner.Resource}, false))}
	}
	return nil
}
