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

// core is what all parts of a store work with: the table, the clock, the options, and what is
// counted.
type core struct {
	items  *store.Store
	clock  *ddb.Clock
	opts   Options
	ids    trail.IDs
	layout trail.Layout
	counts counts
}

// counts are the Stats that are counted here.
type counts struct {
	logins, refused, hashes, retrievals, revocations atomic.Int64
}

func (c *core) now() time.Time { return c.clock.Now() }

// put is the write of an item if a condition holds.
func (c *core) put(item store.Item, condition string, names map[string]string, values store.Item) types.TransactWriteItem {
	p := &types.Put{TableName: &c.items.Control, Item: item}
	if condition != "" {
		p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues = &condition, names, values
	}
	return types.TransactWriteItem{Put: p}
}

// remove is the deletion of an item that must be there.
func (c *core) remove(key store.Key) types.TransactWriteItem {
	condition := "attribute_exists(#pk)"
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: &c.items.Control, Key: key.Attributes(),
		ConditionExpression: &condition, ExpressionAttributeNames: map[string]string{"#pk": "PK"},
	}}
}

// send writes all or nothing. overtaken says that what was decided no longer holds.
func (c *core) send(ctx context.Context, writes ...types.TransactWriteItem) (overtaken bool, err error) {
	err = c.items.Patient().Transact(ctx, store.NewID(), writes)
	return store.Diagnose(err) == ddb.Refused, err
}

// hash is a secret's hash under the pepper of new hashes.
func (c *core) hash(pepper Pepper, purpose, owner string, secret Secret) string {
	c.counts.hashes.Add(1)
	return pepper.hash(purpose, owner, secret)
}

// attempt hashes a secret that somebody gave.
func (c *core) attempt(keys *KeySet, purpose, owner string, secret Secret) attempt {
	c.counts.hashes.Add(int64(len(keys.peppers)))
	return newAttempt(keys.peppers, purpose, owner, secret)
}

// load reads a client; the zero account is none.
func (c *core) load(ctx context.Context, id string) (account, error) {
	item, err := c.items.Get(ctx, c.items.Control, clientKey(id))
	if err != nil {
		return account{}, err
	}
	return decodeAccount(item)
}

// existing is a client that has credentials, or ErrNotFound.
func (c *core) existing(ctx context.Context, org, app string) (account, error) {
	seen, err := c.load(ctx, ClientID(org, app))
	if err == nil && !seen.exists() {
		err = notFound("%s has no credentials", ClientID(org, app))
	}
	return seen, err
}

// newSecret draws a secret.
func (c *core) newSecret(prefix string) (Secret, error) {
	b, err := draw(c.opts.Random)
	return NewSecret(prefix + base64.RawURLEncoding.EncodeToString(b)), err
}

// event is the write of what was done, without anything secret.
func (c *core) event(by, action, target, resource string, fields trail.Fields) (types.TransactWriteItem, error) {
	now := c.now()
	changes, err := trail.Diff(nil, fields)
	e := audit.Event{
		ID: c.ids.New(now), Time: now, Principal: by, Action: action, Target: target, Resource: resource, Changes: changes,
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &c.items.Control, Item: c.layout.Item(e)}}, err
}
