package credentials

import (
	"context"
	"encoding/base64"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// core is shared by all parts of a store: the table, the clock, the options, and the counts.
type core struct {
	items  *store.Store
	clock  *ddb.Clock
	opts   Options
	ids    trail.IDs
	layout trail.Layout
	counts counts
}

// counts are the counts of Stats.
type counts struct {
	logins, refused, hashes, retrievals, revocations atomic.Int64
}

// now returns the current time of the store's clock.
func (c *core) now() time.Time { return c.clock.Now() }

// newPutWrite returns the transaction write that puts item into the control table; it sends nothing. names and
// values are the placeholders of the condition; an empty condition always holds.
func (c *core) newPutWrite(item store.Item, condition string, names map[string]string, values store.Item) types.TransactWriteItem {
	p := &types.Put{TableName: &c.items.Control, Item: item}
	if condition != "" {
		p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues = &condition, names, values
	}
	return types.TransactWriteItem{Put: p}
}

// newDeleteWrite returns the transaction write that deletes the item under key from the control table; it sends
// nothing. The transaction fails if the item does not exist.
func (c *core) newDeleteWrite(key store.Key) types.TransactWriteItem {
	condition := "attribute_exists(#pk)"
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: &c.items.Control, Key: key.Attributes(),
		ConditionExpression: &condition, ExpressionAttributeNames: map[string]string{"#pk": "PK"},
	}}
}

// sendWrites sends all writes in one transaction, and repeats it while the store does not answer. If a
// condition failed, nothing is written, overtaken is true and err is the refusal. Any other failure has
// overtaken false.
func (c *core) sendWrites(ctx context.Context, writes ...types.TransactWriteItem) (overtaken bool, err error) {
	err = c.items.WithControlTimeout().Transact(ctx, store.NewID(), writes)
	return store.Diagnose(err) == ddb.Refused, err
}

// hashSecret returns the stored form of a new secret's HMAC under the pepper. It matches only with the same
// purpose and owner. It counts one hash in Stats and stores nothing.
func (c *core) hashSecret(pepper Pepper, purpose, owner string, secret Secret) string {
	c.counts.hashes.Add(1)
	return pepper.hashSecret(purpose, owner, secret)
}

// hashAttempt returns the HMACs of a received secret under every pepper of keys, for comparison with stored
// hashes of the purpose and owner. It counts each in Stats.
func (c *core) hashAttempt(keys *KeySet, purpose, owner string, secret Secret) attempt {
	c.counts.hashes.Add(int64(len(keys.peppers)))
	return newAttempt(keys.peppers, purpose, owner, secret)
}

// loadAccount reads the stored credentials of the client with an id. It returns the zero account without an
// error if the client has no item, and a deleted client's account as it is stored.
func (c *core) loadAccount(ctx context.Context, id string) (account, error) {
	item, err := c.items.Get(ctx, c.items.Control, clientKey(id))
	if err != nil {
		return account{}, err
	}
	return decodeAccount(item)
}

// loadExisting reads a client's stored credentials, also revoked ones. It returns ErrNotFound if the client
// never had any or they were deleted. org and app must be valid.
func (c *core) loadExisting(ctx context.Context, org, app string) (account, error) {
	seen, err := c.loadAccount(ctx, ClientID(org, app))
	if err == nil && !seen.hasCredentials() {
		err = notFoundError("%s has no credentials", ClientID(org, app))
	}
	return seen, err
}

// newSecret returns a new secret: prefix, followed by 256 bits of Options.Random in base64. It stores nothing,
// and fails if the source of randomness does.
func (c *core) newSecret(prefix string) (Secret, error) {
	b, err := randomBytes(c.opts.Random)
	return NewSecret(prefix + base64.RawURLEncoding.EncodeToString(b)), err
}

// eventWrite returns the transaction write that stores an audit event with the present time and a new id; it
// sends nothing. by is the author; fields become its changes and must not contain a secret.
func (c *core) eventWrite(by, action, target, resource string, fields trail.Fields) (types.TransactWriteItem, error) {
	now := c.now()
	changes, err := trail.Diff(nil, fields)
	e := audit.Event{
		ID: c.ids.New(now), Time: now, Principal: by, Action: action, Target: target, Resource: resource, Changes: changes,
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &c.items.Control, Item: c.layout.Item(e)}}, err
}
