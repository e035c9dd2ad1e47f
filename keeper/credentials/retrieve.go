package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Attributes of the item of a retrieval token.
const (
	attrSealed  = "sealed"
	attrExpires = "expires_at_epoch"
	attrUsed    = "used_at_epoch" // absent if unused
)

// usedKept is how long a used token is remembered.
const usedKept = 7 * 24 * time.Hour

// handoutKey returns the key in the control table of the item of a retrieval token. hash is the token's hash by
// tokenHash.
func handoutKey(hash string) store.Key { return store.Key{PK: "RETRIEVAL#" + hash, SK: rootSK} }

// readHandout reads whether a client's last secret still waits for its retrieval: unfetched. void are then the
// writes that remove that sealed secret, for the caller's transaction; they fail if it is retrieved meanwhile.
// It writes nothing.
func (c *core) readHandout(ctx context.Context, a account) (void []types.TransactWriteItem, unfetched bool, err error) {
	if a.handout == "" {
		return nil, false, nil
	}
	key := handoutKey(a.handout)
	item, err := c.items.Get(ctx, c.items.Control, key)
	if err != nil || item[attrSealed] == nil {
		return nil, false, err
	}
	return []types.TransactWriteItem{{Update: &types.Update{
		TableName: &c.items.Control, Key: key.Attributes(), UpdateExpression: aws.String("REMOVE #sealed"),
		ConditionExpression:      aws.String("attribute_exists(#sealed)"),
		ExpressionAttributeNames: map[string]string{"#sealed": attrSealed},
	}}}, true, nil
}

// handoutItem returns the item of a retrieval token, with the secret of the account a encrypted under the
// token. The token expires RetrievalTTL after now, and the item a week later. It stores nothing.
func (c *core) handoutItem(a account, token, secret Secret, now time.Time) (store.Item, error) {
	sealed, err := sealSecret(token, secret, a.org, a.app, a.revision)
	if err != nil {
		return nil, err
	}
	item := handoutKey(a.handout).Attributes()
	item[attrOrg], item[attrRevision], item[attrVersion] = store.String(a.org), store.Int(a.revision), store.Int(a.version)
	if a.app != "" {
		item[attrApp] = store.String(a.app)
	}
	item[attrSealed] = &types.AttributeValueMemberB{Value: sealed}
	expires := now.Add(RetrievalTTL)
	item[attrExpires], item[store.AttrTTL] = store.Int(expires.Unix()), store.Int(expires.Add(usedKept).Unix())
	return item, nil
}

// Credentials is a client id and its secret.
type Credentials struct {
	Identity
	// Secret is the secret for logins.
	Secret Secret
}

// Retrieve returns the secret of a retrieval token once: only one of concurrent calls gets it.
// It then deletes the secret, which cannot be recovered. Rotate after losing it.
//
// Errors: ErrTokenInvalid, and then nothing was consumed; ErrTokenUsed, also for a token that
// has expired since its use or whose secret was replaced; *ValidationError; *UnavailableError:
// unless it is Unconfirmed, nothing was consumed.
func (s *Store) Retrieve(ctx context.Context, org, app string, token Secret) (Credentials, error) {
	ctx, cancel, err := s.beginCall(ctx)
	if err != nil {
		return Credentials{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Credentials{}, err
	}
	if len(token.Reveal()) > maxSecret {
		return Credentials{}, ErrTokenInvalid
	}
	item, err := s.core.items.Get(ctx, s.core.items.Control, handoutKey(tokenHash(token)))
	if err != nil {
		return Credentials{}, storeFailure("Retrieve", err)
	}
	h, err := s.core.checkUnused(item, org, app)
	if err != nil {
		return Credentials{}, storeFailure("Retrieve", err)
	}
	secret, err := openSealed(token, h.sealed, org, app, h.revision)
	if err != nil {
		return Credentials{}, err
	}
	if err := s.core.markUsed(ctx, token); err != nil {
		return Credentials{}, storeFailure("Retrieve", err)
	}
	s.core.counts.retrievals.Add(1)
	return Credentials{Identity{ClientID: ClientID(org, app), Org: org, App: app, Version: h.version}, secret}, nil
}

// sealedSecret is a secret that has not been retrieved, with its revision and version.
type sealedSecret struct {
	sealed            []byte
	revision, version int64
}

// checkUnused returns the sealed secret of a retrieval token's item with its revision and version. A missing,
// expired or other owner's item is ErrTokenInvalid. A used or replaced one is ErrTokenUsed, even if it has
// expired.
func (c *core) checkUnused(item store.Item, org, app string) (sealedSecret, error) {
	var d store.Decoder
	misplaced := d.String(item, attrOrg) != org || d.String(item, attrApp) != app
	h := sealedSecret{revision: d.Int(item, attrRevision), version: d.Int(item, attrVersion)}
	used, expires := d.Int(item, attrUsed), time.Unix(d.Int(item, attrExpires), 0)
	blob, _ := item[attrSealed].(*types.AttributeValueMemberB)
	switch {
	case d.Err != nil:
		return h, d.Err
	case item == nil, misplaced:
		return h, ErrTokenInvalid
	case used != 0, blob == nil:
		return h, ErrTokenUsed
	case !c.now().Before(expires):
		return h, ErrTokenInvalid
	}
	h.sealed = blob.Value
	return h, nil
}

// markUsed marks a retrieval token in the store as used and deletes its sealed secret. If another caller did so
// first, it returns ErrTokenUsed and changes nothing. Its own write without an answer counts as success.
func (c *core) markUsed(ctx context.Context, token Secret) error {
	writer := store.NewID()
	err := store.Retry(ctx, func() error {
		_, err := c.items.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &c.items.Control, Key: handoutKey(tokenHash(token)).Attributes(),
			UpdateExpression:    aws.String("SET #used = :now, #writer = :writer REMOVE #sealed"),
			ConditionExpression: aws.String("attribute_exists(#sealed) AND attribute_not_exists(#used)"),
			ExpressionAttributeNames: map[string]string{
				"#used": attrUsed, "#writer": store.AttrWriter, "#sealed": attrSealed,
			},
			ExpressionAttributeValues:           store.Item{":now": store.Int(c.now().Unix()), ":writer": store.String(writer)},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) != ddb.Refused {
		return err
	}
	var d store.Decoder
	if d.String(store.RefusedItem(err), store.AttrWriter) == writer {
		return nil
	}
	return ErrTokenUsed
}
