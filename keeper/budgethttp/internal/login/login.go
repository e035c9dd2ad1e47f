// Package login is what the routes of authentication do, with plain values: tokens for
// credentials, tokens for refresh tokens, the end of tokens, and who carries one. It knows
// nothing of HTTP.
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

// ErrUnauthorized says that credentials or a token are not good for what was asked. It does
// not say why.
var ErrUnauthorized = errors.New("login: unauthorized")

// ThrottledError says that too many logins failed: this one was refused without a look at
// its secret.
type ThrottledError struct {
	// RetryAfter is when the next is looked at.
	RetryAfter time.Duration
}

// Error says how long to wait.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("login: too many logins failed; retry in %v", e.RetryAfter)
}

// Options configure a Service.
type Options struct {
	// Store has the credentials. Required.
	Store *credentials.Store
	// Limiter is of the table that failed logins are counted in, as this project's own
	// counters. Required.
	Limiter *dynalimit.RateLimiter
	// Issuer and Audience are what tokens say of both. Required.
	Issuer, Audience string
	// AccessTTL is how long access tokens are good. Defaults to 1 h.
	AccessTTL time.Duration
	// RefreshTTL is how long refresh tokens are good. Together with AccessTTL at most the
	// store's LongestToken. Defaults to 7 days.
	RefreshTTL time.Duration
	// PerAddress is how many logins of an address, IPv6 by /64, may fail in a minute,
	// whoever they are as. Defaults to 100: many clients may share an address.
	PerAddress int64
	// PerClient is how many logins of a client may fail in a minute at an address. Defaults
	// to 10.
	PerClient int64
	// Random is where the ids of tokens come from. Nil takes crypto/rand.
	Random io.Reader
	// Logger gets what no caller is told. Nil discards it.
	Logger *slog.Logger
}

// Service logs clients in. It starts no goroutine and is safe for concurrent use.
type Service struct {
	opts     Options
	codec    *tokens.Codec
	throttle *throttle
}

// New makes a service. It makes no request.
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

// Grant is a login's tokens.
type Grant struct {
	// Access authorises requests.
	Access credentials.Secret
	// ExpiresIn is how long it does.
	ExpiresIn time.Duration
	// Refresh gets further access tokens; empty in the answer to one.
	Refresh credentials.Secret
	// RefreshExpiresIn is how long it does.
	RefreshExpiresIn time.Duration
	// Claims are those of the access token; their Scope is the grant's.
	Claims tokens.Claims
}

// Token logs a client in, from an address: an access token and a refresh token of a new
// session. A login that fails counts, and after ten of the client at this address in a
// minute, or a hundred of the address, the next is refused without a look.
//
// Errors: ErrUnauthorized, *ThrottledError, and a *credentials.UnavailableError, which is
// not counted.
func (s *Service) Token(ctx context.Context, from netip.Addr, clientID string, secret credentials.Secret) (Grant, error) {
	attempt, err := s.throttle.begin(ctx, from, clientID)
	if err != nil {
		return Grant{}, err
	}
	defer attempt.failed(ctx) // whatever happens, unless it was undone
	identity, err := s.opts.Store.Verify(ctx, clientID, secret)
	if errors.Is(err, credentials.ErrInvalidCredentials) {
		return Grant{}, ErrUnauthorized
	}
	attempt.undone(ctx)
	if err != nil {
		return Grant{}, err
	}
	return s.grant(identity)
}

// Retrieve hands out the secret behind a retrieval token, as the store does, to whoever has
// it. Where that fails it counts as a login of the address that fails: strangers have no more
// tokens looked at than that.
//
// Errors: as of Store.Retrieve, and *ThrottledError.
func (s *Service) Retrieve(ctx context.Context, from netip.Addr, org, app string, token credentials.Secret) (credentials.Credentials, error) {
	attempt, err := s.throttle.begin(ctx, from, "")
	if err != nil {
		return credentials.Credentials{}, err
	}
	defer attempt.failed(ctx) // whatever happens, unless it was undone
	c, err := s.opts.Store.Retrieve(ctx, org, app, token)
	if !errors.Is(err, credentials.ErrTokenInvalid) && !errors.Is(err, credentials.ErrTokenUsed) {
		attempt.undone(ctx)
	}
	return c, err
}

// grant makes the tokens of a new session.
func (s *Service) grant(identity credentials.Identity) (Grant, error) {
	session, err := newID(s.opts.Random)
	if err != nil {
		return Grant{}, err
	}
	g, err := s.access(identity, session)
	if err != nil {
		return Grant{}, err
	}
	refresh, err := s.claims(identity, session, tokens.Refresh, s.opts.RefreshTTL)
	if err != nil {
		return Grant{}, err
	}
	g.Refresh, err = s.codec.Sign(refresh)
	g.RefreshExpiresIn = s.opts.RefreshTTL
	return g, err
}

// access makes an access token of a session.
func (s *Service) access(identity credentials.Identity, session string) (Grant, error) {
	claims, err := s.claims(identity, session, tokens.Access, s.opts.AccessTTL)
	if err != nil {
		return Grant{}, err
	}
	text, err := s.codec.Sign(claims)
	return Grant{Access: text, ExpiresIn: s.opts.AccessTTL, Claims: claims}, err
}

func (s *Service) claims(identity credentials.Identity, session string, kind tokens.Kind, ttl time.Duration) (tokens.Claims, error) {
	id, err := newID(s.opts.Random)
	now := s.opts.Store.Now().UTC().Truncate(time.Second)
	return tokens.Claims{
		ClientID: identity.ClientID, Org: identity.Org, App: identity.App, Kind: kind, ID: id, Session: session,
		Version: identity.Version, Issued: now, Expires: now.Add(ttl),
	}, err
}

// Refresh gives a new access token of a refresh token's session. The client must still have
// its credentials, and of the version for which the session began.
//
// Errors: ErrUnauthorized, *credentials.UnavailableError.
func (s *Service) Refresh(ctx context.Context, refresh credentials.Secret) (Grant, error) {
	claims, err := s.good(ctx, refresh, tokens.Refresh)
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
	return s.access(identity, claims.Session)
}

// Authenticate says who carries an access token. It must be in force and not revoked:
// whether it was is known for 30 s at most, and while that cannot be read nobody is let in.
//
// Errors: ErrUnauthorized, *credentials.UnavailableError.
func (s *Service) Authenticate(ctx context.Context, bearer credentials.Secret) (tokens.Claims, error) {
	return s.good(ctx, bearer, tokens.Access)
}

// good is what a token of a kind says that is in force and not revoked.
func (s *Service) good(ctx context.Context, text credentials.Secret, kind tokens.Kind) (tokens.Claims, error) {
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

// Stats are how many tokens that were shown were known to be genuine, and how many had to be
// looked at.
func (s *Service) Stats() (hits, misses int64) { return s.codec.Stats() }

// Revoke ends a token of a client's own: an access token alone, a refresh token with all
// access tokens of its session. What is no token, or has expired, is fine.
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
