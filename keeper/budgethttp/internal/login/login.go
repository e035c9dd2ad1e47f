// Package login implements authentication independently of HTTP: it issues tokens for
// credentials and for refresh tokens, revokes tokens, and authenticates their bearers.
package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// ErrUnauthorized means that credentials or a token are invalid for the request. It does not
// tell the reason.
var ErrUnauthorized = errors.New("login: unauthorized")

// ThrottledError means that too many logins failed. This login was refused without checking its
// secret.
type ThrottledError struct {
	// RetryAfter is the wait until the next login is checked.
	RetryAfter time.Duration
}

// Error returns a text with the wait before the next login.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("login: too many logins failed; retry in %v", e.RetryAfter)
}

// Options configures a Service.
type Options struct {
	// Store manages the credentials. Required.
	Store *credentials.Store
	// Limiter belongs to the table that counts failed logins, in this project's internal
	// counters. Required.
	Limiter *dynalimit.RateLimiter
	// Issuer and Audience are the iss and aud of tokens. Required.
	Issuer, Audience string
	// AccessTTL is the life of access tokens. Defaults to 1 h.
	AccessTTL time.Duration
	// RefreshTTL is the life of refresh tokens. Together with AccessTTL it must not exceed the
	// store's LongestToken. Defaults to 7 days.
	RefreshTTL time.Duration
	// PerAddress is how many logins of an address, IPv6 by /64, may fail in a minute, over all
	// clients. Defaults to 100, because many clients may share an address.
	PerAddress int64
	// PerClient is how many logins of a client at one address may fail in a minute. Defaults to
	// 10.
	PerClient int64
	// Random is the source of token ids. nil means crypto/rand.
	Random io.Reader
	// Logger logs errors that no caller gets. nil discards them.
	Logger *slog.Logger
}

// Service logs clients in. It starts no goroutine and is safe for concurrent use.
type Service struct {
	opts     Options
	codec    *tokens.Codec
	throttle *throttle
}

// New returns a service with the options and their defaults, and sends no request. It fails without a store or
// limiter, for too short or too long lives of tokens, and for numbers of failures below 1.
func New(o Options) (*Service, error) {
	o.AccessTTL, o.RefreshTTL = cmp.Or(o.AccessTTL, time.Hour), cmp.Or(o.RefreshTTL, 7*24*time.Hour)
	o.PerAddress, o.PerClient = cmp.Or(o.PerAddress, 100), cmp.Or(o.PerClient, 10)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Store == nil || o.Limiter == nil:
		return nil, errors.New("login: a store and a limiter are needed")
	case o.AccessTTL < time.Second || o.RefreshTTL < o.AccessTTL:
		return nil, fmt.Errorf("login: access tokens of %v and refresh tokens of %v; give at least a second, and the latter at least as long", o.AccessTTL, o.RefreshTTL)
	case o.AccessTTL+o.RefreshTTL > o.Store.LongestToken():
		return nil, fmt.Errorf("login: tokens may be good for %v in all, and the store keeps revocations for %v: raise its LongestToken", o.AccessTTL+o.RefreshTTL, o.Store.LongestToken())
	case o.PerAddress < 1 || o.PerClient < 1:
		return nil, fmt.Errorf("login: %d failed logins of an address and %d of a client; give at least 1 each", o.PerAddress, o.PerClient)
	}
	codec, err := tokens.New(tokens.Options{Keys: o.Store, Issuer: o.Issuer, Audience: o.Audience, Now: o.Store.Now})
	if err != nil {
		return nil, err
	}
	return &Service{opts: o, codec: codec, throttle: newThrottle(o)}, nil
}

// Grant is the tokens of a login.
type Grant struct {
	// Access authorises requests.
	Access credentials.Secret
	// ExpiresIn is the life of Access.
	ExpiresIn time.Duration
	// Refresh gets further access tokens. It is empty in the response to a refresh.
	Refresh credentials.Secret
	// RefreshExpiresIn is the life of Refresh.
	RefreshExpiresIn time.Duration
	// Claims are the claims of the access token.
	Claims tokens.Claims
}

// Token logs a client in from an address. It returns an access token and a refresh token of a
// new session. A failed login counts. After ten failures of the client at this address in a
// minute, or a hundred of the address, the next login is refused without a check.
//
// Errors: ErrUnauthorized, *ThrottledError, and a *credentials.UnavailableError, which is not
// counted.
func (s *Service) Token(ctx context.Context, from netip.Addr, clientID string, secret credentials.Secret) (Grant, error) {
	attempt, err := s.throttle.beginLogin(ctx, from, clientID)
	if err != nil {
		return Grant{}, err
	}
	defer attempt.keepTokens(ctx) // unless returnTokens was called before
	identity, err := s.opts.Store.Verify(ctx, clientID, secret)
	if errors.Is(err, credentials.ErrInvalidCredentials) {
		return Grant{}, ErrUnauthorized
	}
	attempt.returnTokens(ctx)
	if err != nil {
		return Grant{}, err
	}
	return s.issueSession(identity)
}

// Retrieve returns the secret of a retrieval token, as Store.Retrieve does, without a provisioning key. An
// invalid or used token counts as a failed login of the address, which bounds a stranger's tries. Errors are
// those of Store.Retrieve, and *ThrottledError.
func (s *Service) Retrieve(ctx context.Context, from netip.Addr, org, app string, token credentials.Secret) (credentials.Credentials, error) {
	attempt, err := s.throttle.beginLogin(ctx, from, "")
	if err != nil {
		return credentials.Credentials{}, err
	}
	defer attempt.keepTokens(ctx) // unless returnTokens was called before
	c, err := s.opts.Store.Retrieve(ctx, org, app, token)
	if !errors.Is(err, credentials.ErrTokenInvalid) && !errors.Is(err, credentials.ErrTokenUsed) {
		attempt.returnTokens(ctx)
	}
	return c, err
}

// issueSession issues an access token, valid for AccessTTL, and a refresh token, valid for RefreshTTL, with a
// new session id. It stores nothing.
func (s *Service) issueSession(identity credentials.Identity) (Grant, error) {
	session, err := newID(s.opts.Random)
	if err != nil {
		return Grant{}, err
	}
	g, err := s.issueAccess(identity, session)
	if err != nil {
		return Grant{}, err
	}
	refresh, err := s.newClaims(identity, session, tokens.Refresh, s.opts.RefreshTTL)
	if err != nil {
		return Grant{}, err
	}
	g.Refresh, err = s.codec.Sign(refresh)
	g.RefreshExpiresIn = s.opts.RefreshTTL
	return g, err
}

// issueAccess signs a new access token of a client for a session, valid for AccessTTL. The Grant has no refresh
// token. No state changes.
func (s *Service) issueAccess(identity credentials.Identity, session string) (Grant, error) {
	claims, err := s.newClaims(identity, session, tokens.Access, s.opts.AccessTTL)
	if err != nil {
		return Grant{}, err
	}
	text, err := s.codec.Sign(claims)
	return Grant{Access: text, ExpiresIn: s.opts.AccessTTL, Claims: claims}, err
}

// newClaims returns the claims of a new token with a random id, valid from now, in whole seconds, for ttl. The
// id session is common to all tokens of one login. It fails without randomness.
func (s *Service) newClaims(identity credentials.Identity, session string, kind tokens.Kind, ttl time.Duration) (tokens.Claims, error) {
	id, err := newID(s.opts.Random)
	now := s.opts.Store.Now().UTC().Truncate(time.Second)
	return tokens.Claims{
		ClientID: identity.ClientID, Org: identity.Org, App: identity.App, Kind: kind, ID: id, Session: session,
		Version: identity.Version, Issued: now, Expires: now.Add(ttl),
	}, err
}

// Refresh issues an access token, without another refresh token, for a refresh token's session. The client must
// still have credentials of the version at the start of the session. It fails with ErrUnauthorized or a
// *credentials.UnavailableError.
func (s *Service) Refresh(ctx context.Context, refresh credentials.Secret) (Grant, error) {
	claims, err := s.verifyToken(ctx, refresh, tokens.Refresh)
	if err != nil {
		return Grant{}, err
	}
	identity, err := s.opts.Store.Lookup(ctx, claims.ClientID)
	switch {
	case errors.Is(err, credentials.ErrNotFound):
		return Grant{}, ErrUnauthorized
	case err != nil:
		return Grant{}, err
	case claims.Version < identity.Version:
		return Grant{}, ErrUnauthorized
	}
	return s.issueAccess(identity, claims.Session)
}

// Authenticate returns the claims of an access token, which must be valid and not revoked. A
// revocation takes effect within 30 s. If it cannot be read, Authenticate fails.
//
// Errors: ErrUnauthorized, *credentials.UnavailableError.
func (s *Service) Authenticate(ctx context.Context, bearer credentials.Secret) (tokens.Claims, error) {
	return s.verifyToken(ctx, bearer, tokens.Access)
}

// verifyToken returns the claims of a token. It returns ErrUnauthorized unless the token is genuine, valid now,
// of that kind, and not revoked, and the store's error if revocations cannot be read.
func (s *Service) verifyToken(ctx context.Context, text credentials.Secret, kind tokens.Kind) (tokens.Claims, error) {
	claims, err := s.codec.Parse(text)
	if err != nil || claims.Kind != kind {
		return tokens.Claims{}, ErrUnauthorized
	}
	revoked, err := s.opts.Store.Revoked(ctx, credentials.TokenRef{
		ID: claims.ID, Session: claims.Session, ClientID: claims.ClientID, Version: claims.Version,
	})
	if err != nil {
		return tokens.Claims{}, err
	}
	if revoked {
		return tokens.Claims{}, ErrUnauthorized
	}
	return claims, nil
}

// Stats returns how many tokens were found in the cache of verified ones, and how many were
// verified.
func (s *Service) Stats() (hits, misses int64) { return s.codec.Stats() }

// Revoke ends one of the client's tokens: an access token alone, a refresh token with all
// access tokens of its session. It ignores an invalid or expired token.
//
// Errors: ErrUnauthorized for another client's token, *credentials.UnavailableError.
func (s *Service) Revoke(ctx context.Context, client string, text credentials.Secret) error {
	claims, err := s.codec.ParseLate(text)
	switch {
	case err != nil:
		return nil //nolint:nilerr // what is no token of ours needs no end
	case claims.ClientID != client:
		return ErrUnauthorized
	case claims.Kind == tokens.Refresh:
		return s.opts.Store.RevokeSession(ctx, claims.Session, claims.Expires.Add(s.opts.AccessTTL))
	}
	return s.opts.Store.RevokeToken(ctx, claims.ID, claims.Expires)
}
