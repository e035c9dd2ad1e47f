package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// clockSkew is how long past their end revocations are kept, and tokens are checked.
const clockSkew = 5 * time.Minute

// maxID bounds the id of a token or session, in bytes.
const maxID = 128

// TokenRef is what is asked about a token: is it revoked?
type TokenRef struct {
	// ID is the token's own id, its jti.
	ID string
	// Session is the id that a refresh token shares with the access tokens from it, its
	// sid. Empty: none.
	Session string
	// ClientID is whose token it is. Empty: nobody's.
	ClientID string
	// Version is the version of the client's credentials for which it was issued, its cv.
	Version int64
}

// String is the reference as text; no id has a NUL.
func (r TokenRef) String() string {
	return r.ID + "\x00" + r.Session + "\x00" + r.ClientID
}

func tokenMarkKey(id string) store.Key   { return store.Key{PK: "REVOKED#TOKEN#" + id, SK: rootSK} }
func sessionMarkKey(id string) store.Key { return store.Key{PK: "REVOKED#SESSION#" + id, SK: rootSK} }

func clientMarkKey(id string) store.Key { return store.Key{PK: "REVOKED#CLIENT#" + id, SK: rootSK} }

func mark(key store.Key, until time.Time) store.Item {
	item := key.Attributes()
	item[store.AttrTTL] = store.Int(until.Add(clockSkew).Unix())
	return item
}

// clientMark refuses a client's tokens of older versions.
func clientMark(id string, version int64, until time.Time) store.Item {
	item := mark(clientMarkKey(id), until)
	item[attrVersion] = store.Int(version)
	return item
}

// verdict is what is known of a token.
type verdict struct {
	revoked bool  // the token or its session
	since   int64 // tokens of older versions of the client are refused
}

// revocations remember which tokens were not revoked a moment ago. Nothing is good because
// the store did not answer: what cannot be read is an error.
type revocations struct {
	core  *core
	known *cache.Loading[TokenRef, *verdict]
}

func newRevocations(c *core) *revocations {
	known, _ := cache.NewLoading[TokenRef](c.opts.CacheSize, cache.Options[*verdict]{ // fails only for a size below 1
		Now: c.now, TTL: CacheTTL, Ahead: CacheTTL / 5, Wait: true,
		Negative: func(v *verdict) bool { return !v.revoked },
	})
	return &revocations{core: c, known: known}
}

// forget forgets tokens, and reads of them that are under way.
func (r *revocations) forget(match func(TokenRef) bool) { r.known.Evict(match) }

// load reads what is known of a token, in one request.
func (r *revocations) load(ref TokenRef) (*verdict, error) {
	ctx, cancel := ddb.Bound(context.Background(), r.core.opts.Timeout)
	defer cancel()
	keys := []store.Key{tokenMarkKey(ref.ID)}
	if ref.Session != "" {
		keys = append(keys, sessionMarkKey(ref.Session))
	}
	if ref.ClientID != "" {
		keys = append(keys, clientMarkKey(ref.ClientID))
	}
	items, err := r.core.items.BatchGet(ctx, r.core.items.Control, keys...)
	if err != nil {
		return nil, err
	}
	var d store.Decoder
	v := &verdict{since: d.Int(items[clientMarkKey(ref.ClientID)], attrVersion)}
	_, token := items[tokenMarkKey(ref.ID)]
	_, session := items[sessionMarkKey(ref.Session)]
	v.revoked = token || session
	return v, d.Err
}

// Revoked reports whether a token was revoked, by itself, with its session, or with its
// client's credentials. That it was not is remembered for CacheTTL. It fails closed: a
// token is good only if the error is nil.
//
// Errors: *ValidationError for an id that is empty or longer than 128 bytes,
// *UnavailableError.
func (s *Store) Revoked(ctx context.Context, token TokenRef) (bool, error) {
	if err := usable(ctx, s); err != nil {
		return true, err
	}
	if err := validID("id", token.ID); err != nil {
		return true, err
	}
	if len(token.Session) > maxID || len(token.ClientID) > maxID {
		return true, invalid("session", "or the client's id is longer than %d bytes; give the token's", maxID)
	}
	asked := token
	asked.Version = 0 // what is read holds for every version
	known, load := s.revoked.known, func(context.Context) (*verdict, error) { return s.revoked.load(asked) }
	if v := known.Ready(ctx, asked, load); v != nil { // most are: a context with a deadline would cost more than the rest
		return v.revoked || token.Version < v.since, nil
	}
	ctx, cancel := ddb.Bound(ctx, s.core.opts.Timeout)
	defer cancel()
	v, err := known.Get(ctx, asked, load)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = &UnavailableError{Package: pkg, Op: "Revoked", Err: cause}
		}
		return true, failure("Revoked", err)
	}
	return v.revoked || token.Version < v.since, nil
}

func validID(field, id string) error {
	if id == "" || len(id) > maxID {
		return invalid(field, "has %d bytes; give a token's id, of 1 to %d", len(id), maxID)
	}
	return nil
}

// RevokeToken ends one token, here at once and elsewhere within CacheTTL; until is when it
// ends by itself, and the revocation is forgotten. One that is unknown is fine, and one
// that has expired too, for which nothing is written.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) RevokeToken(ctx context.Context, id string, until time.Time) error {
	return s.revoke(ctx, "RevokeToken", id, tokenMarkKey(id), until, func(r TokenRef) bool { return r.ID == id })
}

// RevokeSession ends a refresh token and the access tokens from it, as RevokeToken ends
// one; until is when the last of them ends by itself.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) RevokeSession(ctx context.Context, id string, until time.Time) error {
	return s.revoke(ctx, "RevokeSession", id, sessionMarkKey(id), until, func(r TokenRef) bool { return r.Session == id })
}

func (s *Store) revoke(ctx context.Context, operation, id string, key store.Key, until time.Time, match func(TokenRef) bool) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := validID("id", id); err != nil {
		return err
	}
	if !s.core.now().Before(until.Add(clockSkew)) {
		return nil
	}
	defer s.revoked.forget(match)
	err = store.Retry(ctx, func() error {
		return s.core.items.Put(ctx, s.core.items.Control, mark(key, until), "", nil, nil)
	})
	if err == nil {
		s.core.counts.revocations.Add(1)
	}
	return failure(operation, err)
}
