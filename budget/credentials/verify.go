package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
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
	if _, _, ok := ParseClientID(clientID); !ok || len(secret.Reveal()) > maxSecret {
		return Identity{}, ErrInvalidCredentials
	}
	seen, err := s.load(ctx, clientID)
	if err != nil {
		return Identity{}, failure("Verify", err)
	}
	keys, now := s.Keys(), s.now()
	hash, ok := s.fitting(seen, newAttempt(keys.peppers, purposeClient, clientID, secret), secret, now)
	if !ok {
		return Identity{}, ErrInvalidCredentials
	}
	if hash == seen.hash {
		s.refresh(ctx, seen, keys.Pepper(now), secret)
	}
	return seen.identity(), nil
}

// fitting is the hash of a client that a secret fits.
func (s *Store) fitting(seen account, given attempt, secret Secret, now time.Time) (hash string, ok bool) {
	hashes := []string(nil)
	if seen.revision > 0 {
		hashes = seen.hashes(now)
	}
	foreign := ""
	for _, h := range hashes {
		fits, known := given.fits(h)
		switch _, _, own := parseHash(h); {
		case fits:
			hash, ok = h, true
		case own && !known:
			s.opts.Logger.Error("budget/credentials: a hash names a pepper that is not among the keys; its secret cannot log in",
				"client_id", seen.id())
		case !own:
			foreign = h
		}
	}
	if ok || s.opts.ImportedHash == nil {
		return hash, ok
	}
	if foreign == "" {
		if !s.opts.ImportedDecoy.Empty() {
			s.opts.ImportedHash(s.opts.ImportedDecoy, secret)
		}
		return "", false
	}
	return foreign, s.opts.ImportedHash(NewSecret(foreign), secret)
}

// refresh hashes a good secret anew if its hash is another system's, or under another
// pepper than new ones. It changes nothing else, and may fail: the next login tries again.
func (s *Store) refresh(ctx context.Context, seen account, pepper Pepper, secret Secret) {
	if name, _, own := parseHash(seen.hash); own && name == pepper.ID {
		return
	}
	err := store.Retry(ctx, func() error {
		_, err := s.items.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.items.Control, Key: clientKey(seen.id()).Attributes(),
			UpdateExpression: aws.String("SET #hash = :new"), ConditionExpression: aws.String("#hash = :old"),
			ExpressionAttributeNames: map[string]string{"#hash": attrHash},
			ExpressionAttributeValues: store.Item{
				":new": store.String(pepper.hash(purposeClient, seen.id(), secret)), ":old": store.String(seen.hash),
			},
		}, store.Once)
		return err
	})
	if err != nil && store.Diagnose(err) != ddb.Refused { // refused: somebody else was quicker
		s.opts.Logger.Warn("budget/credentials: a secret could not be hashed anew; the next login tries again",
			"client_id", seen.id(), "error", err)
	}
}

// Lookup is a client as it is now, read without a cache: whoever renews a token asks
// whether its client still has credentials, and of which version.
//
// Errors: ErrNotFound for a client that has no credentials, or whose credentials were
// revoked; *UnavailableError.
func (s *Store) Lookup(ctx context.Context, clientID string) (Identity, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Identity{}, err
	}
	defer cancel()
	org, app, ok := ParseClientID(clientID)
	if !ok {
		return Identity{}, notFound("there is no such client")
	}
	seen, err := s.existing(ctx, org, app)
	if err != nil {
		return Identity{}, failure("Lookup", err)
	}
	if !seen.revoked.IsZero() {
		return Identity{}, notFound("the credentials of %s were revoked", clientID)
	}
	return seen.identity(), nil
}

// Status is what may be seen of a client's credentials.
//
// Errors: *ValidationError, ErrNotFound, *UnavailableError.
func (s *Store) Status(ctx context.Context, org, app string) (Status, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Status{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Status{}, err
	}
	seen, err := s.existing(ctx, org, app)
	if err != nil {
		return Status{}, failure("Status", err)
	}
	return seen.status(s.now()), nil
}
