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

// Login is a login that has begun: whose it would be has been read, the secret has not been
// looked at. Whoever limits failed logins does so in between. It is for one login.
type Login struct {
	store *Store
	seen  account
	id    string
}

// Verify is the login of a client: its id and its secret, or the one before it within its
// grace. An unknown client and a wrong secret take the same path: one read, and one HMAC
// for each pepper. A secret that fits a hash of another system, or one under an older
// pepper, is hashed anew.
//
// Errors: ErrInvalidCredentials, *UnavailableError.
func (s *Store) Verify(ctx context.Context, clientID string, secret Secret) (Identity, error) {
	login, err := s.BeginLogin(ctx, clientID)
	if err != nil {
		return Identity{}, err
	}
	return login.Finish(ctx, secret)
}

// BeginLogin reads the client of a login, known or not.
//
// Errors: ErrInvalidCredentials for what cannot be a client's id, and then nothing was
// read; *UnavailableError.
func (s *Store) BeginLogin(ctx context.Context, clientID string) (*Login, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if _, _, ok := ParseClientID(clientID); !ok {
		return nil, ErrInvalidCredentials
	}
	seen, err := s.load(ctx, clientID)
	if err != nil {
		return nil, failure("Verify", err)
	}
	return &Login{store: s, seen: seen, id: clientID}, nil
}

// Known reports whether the client exists. It is for whoever limits logins, never for who
// logs in.
func (l *Login) Known() bool { return l.seen.exists() }

// Finish compares the secret, see Store.Verify.
//
// Errors: ErrInvalidCredentials.
func (l *Login) Finish(ctx context.Context, secret Secret) (Identity, error) {
	s := l.store
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Identity{}, err
	}
	defer cancel()
	if len(secret.Reveal()) > maxSecret {
		return Identity{}, ErrInvalidCredentials
	}
	keys, now := s.Keys(), s.now()
	hash, ok := s.fitting(l.seen, s.attempt(keys, purposeClient, l.id, secret), secret, now)
	if !ok {
		s.counts.refused.Add(1)
		return Identity{}, ErrInvalidCredentials
	}
	s.counts.logins.Add(1)
	if hash == l.seen.hash {
		s.refresh(ctx, l.seen, keys.Pepper(now), secret)
	}
	return l.seen.identity(), nil
}

// fitting is the hash of a client that a secret fits.
func (s *Store) fitting(seen account, given attempt, secret Secret, now time.Time) (hash string, ok bool) {
	foreign := ""
	for _, h := range seen.hashes(now) {
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
	hash := s.hash(pepper, purposeClient, seen.id(), secret)
	err := store.Retry(ctx, func() error {
		_, err := s.items.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.items.Control, Key: clientKey(seen.id()).Attributes(),
			UpdateExpression: aws.String("SET #hash = :new"), ConditionExpression: aws.String("#hash = :old"),
			ExpressionAttributeNames: map[string]string{"#hash": attrHash},
			ExpressionAttributeValues: store.Item{
				":new": store.String(hash), ":old": store.String(seen.hash),
			},
		}, store.Once)
		return err
	})
	if err != nil && store.Diagnose(err) != ddb.Refused { // refused: somebody else was quicker
		s.opts.Logger.Warn("budget/credentials: a secret could not be hashed anew; the next login tries again",
			"client_id", seen.id(), "error", err)
	}
}
