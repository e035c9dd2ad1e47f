package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// maxSecret is the maximal length of a received secret and of an imported hash, in bytes.
const maxSecret = 128

// Verify checks a client's login: its id with its secret, or with the previous secret during
// its grace. An unknown client and a wrong secret take the same path: one read, and one HMAC
// per pepper. If the stored hash comes from another system or uses an older pepper, a
// successful login replaces it.
//
// Errors: ErrInvalidCredentials, *UnavailableError.
func (s *Store) Verify(ctx context.Context, clientID string, secret Secret) (Identity, error) {
	ctx, cancel, err := s.beginCall(ctx)
	if err != nil {
		return Identity{}, err
	}
	defer cancel()
	if _, _, ok := ParseClientID(clientID); !ok {
		return Identity{}, ErrInvalidCredentials
	}
	seen, err := s.core.loadAccount(ctx, clientID)
	if err != nil {
		return Identity{}, storeFailure("Verify", err)
	}
	if len(secret.Reveal()) > maxSecret {
		return Identity{}, ErrInvalidCredentials
	}
	keys, now := s.Keys(), s.core.now()
	hash, ok := s.core.matchingHash(seen, s.core.hashAttempt(keys, purposeClient, clientID, secret), secret, now)
	if !ok {
		s.core.counts.refused.Add(1)
		return Identity{}, ErrInvalidCredentials
	}
	s.core.counts.logins.Add(1)
	if hash == seen.hash {
		s.core.rehashSecret(ctx, seen, keys.Pepper(now), secret)
	}
	return seen.identity(), nil
}

// matchingHash returns the stored hash that a received secret matches at now, or ok false. It asks
// Options.ImportedHash about another system's hash, or about the decoy, so that refusals take equally long. It
// logs a hash with an unknown pepper.
func (c *core) matchingHash(seen account, given attempt, secret Secret, now time.Time) (hash string, ok bool) {
	foreign := ""
	for _, h := range seen.validHashes(now) {
		fits, known := given.matches(h)
		switch _, _, own := parseHash(h); {
		case fits:
			hash, ok = h, true
		case own && !known:
			c.opts.Logger.Error("keeper/credentials: a hash names a pepper that is not among the keys; its secret cannot log in",
				"client_id", seen.clientID())
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

// rehashSecret stores a new hash of a valid secret under pepper if the stored one is of another system or
// pepper. It counts the hash, and does nothing if another process was faster. It logs a failure; the next login
// tries again.
func (c *core) rehashSecret(ctx context.Context, seen account, pepper Pepper, secret Secret) {
	if name, _, own := parseHash(seen.hash); own && name == pepper.ID {
		return
	}
	hash := c.hashSecret(pepper, purposeClient, seen.clientID(), secret)
	err := store.Retry(ctx, func() error {
		_, err := c.items.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &c.items.Control, Key: clientKey(seen.clientID()).Attributes(),
			UpdateExpression: aws.String("SET #hash = :new"), ConditionExpression: aws.String("#hash = :old"),
			ExpressionAttributeNames: map[string]string{"#hash": attrHash},
			ExpressionAttributeValues: store.Item{
				":new": store.String(hash), ":old": store.String(seen.hash),
			},
		}, store.Once)
		return err
	})
	if err != nil && store.Diagnose(err) != ddb.Refused { // refused: another process was faster
		c.opts.Logger.Warn("keeper/credentials: a secret could not be hashed with the newest pepper; the next login tries again",
			"client_id", seen.clientID(), "error", err)
	}
}
