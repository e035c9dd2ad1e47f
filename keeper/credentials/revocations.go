package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// clockSkew is how long after their end revocations are kept and tokens are checked.
const clockSkew = 5 * time.Minute

// maxID is the maximal length of the id of a token or session, in bytes.
const maxID = 128

// TokenRef identifies a token in a check for revocation.
type TokenRef struct {
	// ID is the token's id, its jti.
	ID string
	// Session is the session id, the sid, which a refresh token shares with its access tokens.
	// Empty without a session.
	Session string
	// ClientID is the client that the token belongs to. Empty without a client.
	ClientID string
	// Version is the version of the client's credentials at issue, the token's cv.
	Version int64
}

// String returns the ids of token, session and client, separated by NUL, which no id contains. It leaves out
// Version.
func (r TokenRef) String() string {
	return r.ID + "\x00" + r.Session + "\x00" + r.ClientID
}

// tokenMarkKey returns the key in the control table of the mark that revokes one token. id is the token's jti.
func tokenMarkKey(id string) store.Key { return store.Key{PK: "REVOKED#TOKEN#" + id, SK: rootSK} }

// sessionMarkKey returns the key in the control table of the mark that revokes all tokens of a session. id is
// their sid.
func sessionMarkKey(id string) store.Key { return store.Key{PK: "REVOKED#SESSION#" + id, SK: rootSK} }

// clientMarkKey returns the key in the control table of the mark that revokes a client's tokens of older
// versions. id is the client id.
func clientMarkKey(id string) store.Key { return store.Key{PK: "REVOKED#CLIENT#" + id, SK: rootSK} }

// markItem returns the item under key that marks a token or session as revoked. It expires five minutes after
// until, the expiry of the token, because clocks differ. It stores nothing.
func markItem(key store.Key, until time.Time) store.Item {
	item := key.Attributes()
	item[store.AttrTTL] = store.Int(until.Add(clockSkew).Unix())
	return item
}

// clientMark returns the item that revokes those tokens of a client that have a version below version. It
// expires five minutes after until. It stores nothing.
func clientMark(id string, version int64, until time.Time) store.Item {
	item := markItem(clientMarkKey(id), until)
	item[attrVersion] = store.Int(version)
	return item
}

// verdict is the state of a token's revocation.
type verdict struct {
	revoked bool  // the token or its session
	since   int64 // tokens of the client with older versions are revoked
}

// revocations caches the tokens that were recently found valid. A token is never valid because
// the store did not answer: a failed read is an error.
type revocations struct {
	core  *core
	known *cache.Loading[TokenRef, *verdict]
}

// newRevocations makes an empty cache of tokens that were found valid. An entry is read again after CacheTTL,
// and its caller waits for that. It sends no request.
func newRevocations(c *core) *revocations {
	known, _ := cache.NewLoading[TokenRef](c.opts.CacheSize, cache.Options[*verdict]{ // fails only for a size below 1
		Now: c.now, TTL: CacheTTL, Ahead: CacheTTL / 5, Wait: true,
		Describe: func(v *verdict) cache.Traits { return cache.Traits{Negative: !v.revoked} },
	})
	return &revocations{core: c, known: known}
}

// evictTokens drops the cached states of the tokens for which match is true, so that their next check reads the
// store. Reads in flight of such tokens are not cached.
func (r *revocations) evictTokens(match func(TokenRef) bool) { r.known.Evict(match) }

// readVerdict reads in one request whether the token or its session is revoked, and from which version on the
// client's tokens are valid. It takes at most Options.Timeout, independent of its caller's context, and caches
// nothing.
func (r *revocations) readVerdict(ref TokenRef) (*verdict, error) {
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
// client's credentials. It caches a negative result for CacheTTL. It fails closed: a token is
// valid only if the error is nil.
//
// Errors: *ValidationError for an id that is empty or longer than 128 bytes, *UnavailableError.
func (s *Store) Revoked(ctx context.Context, token TokenRef) (bool, error) {
	if err := checkUsable(ctx, s); err != nil {
		return true, err
	}
	if err := validID("id", token.ID); err != nil {
		return true, err
	}
	if len(token.Session) > maxID || len(token.ClientID) > maxID {
		return true, invalid("session", "or the client's id is longer than %d bytes; give those of the token", maxID)
	}
	asked := token
	asked.Version = 0 // the state is the same for every version
	known, load := s.revoked.known, func(context.Context) (*verdict, error) { return s.revoked.readVerdict(asked) }
	if v := known.Ready(ctx, asked, load); v != nil { // the common case, without the cost of a context with a deadline
		return v.revoked || token.Version < v.since, nil
	}
	ctx, cancel := ddb.Bound(ctx, s.core.opts.Timeout)
	defer cancel()
	v, err := known.Get(ctx, asked, load)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = &UnavailableError{Package: pkg, Op: "Revoked", Err: cause}
		}
		return true, storeFailure("Revoked", err)
	}
	return v.revoked || token.Version < v.since, nil
}

// validID returns nil if id has 1 to maxID bytes, else a *ValidationError for field.
func validID(field, id string) error {
	if id == "" || len(id) > maxID {
		return invalid(field, "has %d bytes; give a token's id, of 1 to %d", len(id), maxID)
	}
	return nil
}

// RevokeToken ends one token: here at once, elsewhere within CacheTTL. until is when the token
// expires; then the revocation is dropped. An unknown token is accepted. For an expired one
// nothing is written.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) RevokeToken(ctx context.Context, id string, until time.Time) error {
	return s.revokeToken(ctx, "RevokeToken", id, tokenMarkKey(id), until, func(r TokenRef) bool { return r.ID == id })
}

// RevokeSession ends a refresh token and its access tokens, as RevokeToken ends one. until is
// when the last of them expires.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) RevokeSession(ctx context.Context, id string, until time.Time) error {
	return s.revokeToken(ctx, "RevokeSession", id, sessionMarkKey(id), until, func(r TokenRef) bool { return r.Session == id })
}

// revokeToken stores the mark of a revoked token or session under key, counts it, and drops the cached tokens
// that match. If until, the token's expiry, passed over five minutes ago, it does nothing. operation names the
// caller in errors.
func (s *Store) revokeToken(ctx context.Context, operation, id string, key store.Key, until time.Time, match func(TokenRef) bool) error {
	ctx, cancel, err := s.beginCall(ctx)
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
	defer s.revoked.evictTokens(match)
	err = store.Retry(ctx, func() error {
		return s.core.items.Put(ctx, s.core.items.Control, markItem(key, until), "", nil, nil)
	})
	if err == nil {
		s.core.counts.revocations.Add(1)
	}
	return storeFailure(operation, err)
}
