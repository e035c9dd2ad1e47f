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

// newPutWrite returns the transaction write that puts an item, and sends nothing. An empty condition always
// holds.
func (c *core) newPutWrite(item store.Item, condition string, names map[string]string, values store.Item) types.TransactWriteItem {
	p := &types.Put{TableName: &c.items.Control, Item: item}
	if condition != "" {
		p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues = &condition, names, values
	}
	return types.TransactWriteItem{Put: p}
}

// newDeleteWrite returns the transaction write that deletes an item, on the condition that the item exists. It
// sends nothing.
func (c *core) newDeleteWrite(key store.Key) types.TransactWriteItem {
	condition := "attribute_exists(#pk)"
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: &c.items.Control, Key: key.Attributes(),
		ConditionExpression: &condition, ExpressionAttributeNames: map[string]string{"#pk": "PK"},
	}}
}

// sendWrites sends all writes in one transaction until the store answers. If a condition failed, nothing is
// written, overtaken is true and err is the refusal.
func (c *core) sendWrites(ctx context.Context, writes ...types.TransactWriteItem) (overtaken bool, err error) {
	err = c.items.WithControlTimeout().Transact(ctx, store.NewID(), writes)
	return store.Diagnose(err) == ddb.Refused, err
}

// hashSecret returns the stored form of a new secret's hash, bound to its purpose and owner. It counts the hash
// for Stats.
func (c *core) hashSecret(pepper Pepper, purpose, owner string, secret Secret) string {
	c.counts.hashes.Add(1)
	return pepper.hashSecret(purpose, owner, secret)
}

// hashAttempt hashes a secret that a client sent under each pepper, bound to its purpose and owner. It counts
// the hashes for Stats.
func (c *core) hashAttempt(keys *KeySet, purpose, owner string, secret Secret) attempt {
	c.counts.hashes.Add(int64(len(keys.peppers)))
	return newAttempt(keys.peppers, purpose, owner, secret)
}

// loadAccount reads a client's stored credentials. It returns the zero account if none are stored.
func (c *core) loadAccount(ctx context.Context, id string) (account, error) {
	item, err := c.items.Get(ctx, c.items.Control, clientKey(id))
	if err != nil {
		return account{}, err
	}
	return decodeAccount(item)
}

// loadExisting reads a client's stored credentials, revoked ones too. It returns ErrNotFound if the client has
// none.
func (c *core) loadExisting(ctx context.Context, org, app string) (account, error) {
	seen, err := c.loadAccount(ctx, ClientID(org, app))
	if err == nil && !seen.hasCredentials() {
		err = notFoundError("%s has no credentials", ClientID(org, app))
	}
	return seen, err
}

// newSecret returns a new secret: prefix and 256 random bits in base64.
func (c *core) newSecret(prefix string) (Secret, error) {
	b, err := randomBytes(c.opts.Random)
	return NewSecret(prefix + base64.RawURLEncoding.EncodeToString(b)), err
}

// eventWrite returns the transaction write that stores an audit event of now, in the name of by, and sends
// nothing. fields must not contain a secret.
func (c *core) eventWrite(by, action, target, resource string, fields trail.Fields) (types.TransactWriteItem, error) {
	now := c.now()
	changes, err := trail.Diff(nil, fields)
	e := audit.Event{
		ID: c.ids.New(now), Time: now, Principal: by, Action: action, Target: target, Resource: resource, Changes: changes,
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &c.items.Control, Item: c.layout.Item(e)}}, err
}
