package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// maxSecret bounds a secret that is given, and a hash that is imported, in bytes.
const maxSecret = 128

// Verify is the login of a client: its id and its secret, or the one before it within its
// grace. An unknown client and a wrong secret take the same path: one read, and one HMAC
// for each pepper. A secret that fits a hash of another system, or one under an older
// pepper, is hashed anew.
//
// Errors: ErrInvalidCredentials, *UnavailableError.
func (s *Store) Verify(ctx context.Context, clientID string, secret Secret) (Identity, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Identity{}, err
	}
	defer cancel()
	if _, _, ok := ParseClientID(clientID); !ok {
		return Identity{}, ErrInvalidCredentials
	}
	seen, err := s.core.load(ctx, clientID)
	if err != nil {
		return Identity{}, failure("Verify", err)
	}
	if len(secret.Reveal()) > maxSecret {
		return Identity{}, ErrInvalidCredentials
	}
	keys, now := s.Keys(), s.core.now()
	hash, ok := s.core.fitting(seen, s.core.attempt(keys, purposeClient, clientID, secret), secret, now)
	if !ok {
		s.core.counts.refused.Add(1)
		return Identity{}, ErrInvalidCredentials
	}
	s.core.counts.logins.Add(1)
	if hash == seen.hash {
		s.core.refresh(ctx, seen, keys.Pepper(now), secret)
	}
	return seen.identity(), nil
}

// fitting is the hash of a client that a secret fits.
func (c *core) fitting(seen account, given attempt, secret Secret, now time.Time) (hash string, ok bool) {
	foreign := ""
	for _, h := range seen.hashes(now) {
		fits, known := given.fits(h)
		switch _, _, own := parseHash(h); {
		case fits:
			hash, ok = h, true
		case own && !known:
			c.opts.Logger.Error("keeper/credentials: a hash names a pepper that is not among the keys; its secret cannot log in",
				"client_id", seen.id())
		case !own:
			foreign = h
		}
	}
	if ok || c.opts.ImportedHash == nil {
		return hash, ok
	}
	if foreign == "" {
		if !c.opts.ImportedDecoy.Empty() {
			c.opts.ImportedHash(c.opts.ImportedDecoy, secret)
		}
		return "", false
	}
	return foreign, c.opts.ImportedHash(NewSecret(foreign), secret)
}

// refresh hashes a good secret anew if its hash is another system's, or under another
// pepper than new ones. It changes nothing else, and may fail: the next login tries again.
func (c *core) refresh(ctx context.Context, seen account, pepper Pepper, secret Secret) {
	if name, _, own := parseHash(seen.hash); own && name == pepper.ID {
		return
	}
	hash := c.hash(pepper, purposeClient, seen.id(), secret)
	err := store.Retry(ctx, func() error {
		_, err := c.items.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &c.items.Control, Key: clientKey(seen.id()).Attributes(),
			UpdateExpression: aws.String("SET #hash = :new"), ConditionExpression: aws.String("#hash = :old"),
			ExpressionAttributeNames: map[string]string{"#hash": attrHash},
			ExpressionAttributeValues: store.Item{
				":new": store.String(hash), ":old": store.String(seen.hash),
			},
		}, store.Once)
		return err
	})
	if err != nil && store.Diagnose(err) != ddb.Refused { // refused: somebody else was quicker
		c.opts.Logger.Warn("keeper/credentials: a secret could not be hashed anew; the next login tries again",
			"client_id", seen.id(), "error", err)
	}
}
