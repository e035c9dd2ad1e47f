package budgetclient

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// pauseAfterRefusal is the pause after a refused login. The keeper counts refused logins and
// blocks a client with too many.
const pauseAfterRefusal = 10 * time.Second

// maxLoginPause bounds the pause that a response may request. A keeper forgets failed logins
// within a minute, and a proxy's request may be obsolete long before.
const maxLoginPause = time.Minute

// session is the tokens of a login.
type session struct {
	mu      sync.Mutex
	access  token
	refresh token
	renewAt time.Time // when to renew the access token, before it expires
	refused error     // error of the last login, if it was refused
	until   time.Time // end of the pause after it

	renewal flight[credentials.Secret]
}

type token struct {
	text    credentials.Secret
	expires time.Time
}

// isValid reports whether t has a text and expires after now. It does not ask the keeper.
func (t token) isValid(now time.Time) bool { return !t.text.Empty() && now.Before(t.expires) }

// accessToken returns a valid access token. Before its expiry one caller renews it, and the others, or all if
// that fails, use the current one. Without a valid one they wait for the renewal, or get the last login's error
// while logins are paused.
func (c *core) accessToken(ctx context.Context) (credentials.Secret, error) {
	s := &c.session
	now := c.opts.Now()
	s.mu.Lock()
	current := s.access
	good := current.isValid(now)
	renew := !good || !now.Before(s.renewAt)
	if good && renew {
		s.renewAt = now.Add(5 * time.Second) // the others continue, even if this renewal fails
	}
	refused, paused := s.refused, now.Before(s.until)
	s.mu.Unlock()
	switch {
	case !renew:
		return current.text, nil
	case !good && paused:
		return credentials.Secret{}, refused
	}
	text, err := s.renewal.share(ctx, c.renewToken)
	if err != nil && good {
		c.opts.Logger.WarnContext(ctx, "budgetclient: token not renewed yet", "error", err)
		return current.text, nil
	}
	return text, err
}

// renewToken returns a new access token by the refresh token, or by the secret if that is missing, expired or
// refused. If the keeper does not answer, it fails without that login. If another caller has just renewed, it
// returns the session's token.
func (c *core) renewToken(ctx context.Context) (credentials.Secret, error) {
	s := &c.session
	now := c.opts.Now()
	s.mu.Lock()
	access, refresh := s.access, s.refresh
	fresh := access.isValid(now) && now.Before(s.renewAt.Add(-5*time.Second))
	s.mu.Unlock()
	if fresh { // another caller's login ended in between
		return access.text, nil
	}
	if refresh.isValid(now) {
		text, err := c.requestTokens(ctx, "refresh", "/auth/refresh", map[string]string{"refresh_token": refresh.text.Reveal()})
		if f := (*noResponse)(nil); err == nil || errors.As(err, &f) {
			return text, err
		}
	}
	return c.requestTokens(ctx, "login", "/auth/token", map[string]string{"client_id": c.opts.ClientID, "client_secret": c.opts.Secret.Reveal()})
}

// granted is the tokens of a login.
type granted struct {
	Access         string `json:"access_token"`
	ExpiresIn      int64  `json:"expires_in"`
	Refresh        string `json:"refresh_token"`
	RefreshExpires int64  `json:"refresh_expires_in"`
}

// requestTokens sends one login or renewal, as op says, with body to path, stores the tokens and returns the
// access token. A failure may pause logins, as in loginError. Its errors never contain the response.
func (c *core) requestTokens(ctx context.Context, op, path string, body map[string]string) (credentials.Secret, error) {
	var g granted
	asked := c.opts.Now()
	raw, err := json.Marshal(body)
	if err != nil {
		return credentials.Secret{}, err
	}
	_, err = c.tryOnce(ctx, &call{op: op, method: http.MethodPost, path: path, into: &g, check: func() error {
		if g.Access == "" || g.ExpiresIn <= 0 {
			return errors.New("it has no token")
		}
		return nil
	}}, raw, "")
	if err != nil {
		return credentials.Secret{}, c.loginError(op, err)
	}
	c.storeTokens(g, asked)
	c.opts.Logger.DebugContext(ctx, "budgetclient: "+op, "client", c.opts.ClientID, "expires_in_seconds", g.ExpiresIn)
	return credentials.NewSecret(g.Access), nil
}

// storeTokens stores the tokens of a login or renewal, ends a pause of logins, and sets a random time for the
// next renewal. Their lives count from asked, the instant of the request. Without a new refresh token the old
// one stays.
func (c *core) storeTokens(g granted, asked time.Time) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	life := time.Duration(min(g.ExpiresIn, 1<<31)) * time.Second
	s.access = token{credentials.NewSecret(g.Access), asked.Add(life)}
	s.renewAt = asked.Add(life*8/10 + rand.N(life/10+1)) // random, so that processes that started together do not renew together
	s.refused, s.until = nil, time.Time{}
	if g.Refresh != "" {
		s.refresh = token{credentials.NewSecret(g.Refresh), asked.Add(time.Duration(min(g.RefreshExpires, 1<<31)) * time.Second)}
	}
}

// loginError returns the error of a failed login or renewal without the response's text, which may contain a
// secret. A login refused, or any request without a response, pauses logins. A refused renewal drops the
// refresh token instead.
func (c *core) loginError(op string, err error) error {
	var f *noResponse
	if errors.As(err, &f) {
		f.sent = false // the call itself was not sent
		c.pauseLogins(err, min(f.after, maxLoginPause))
		return err
	}
	refusal := &StatusError{Op: op, Status: http.StatusBadRequest, Code: "INVALID_REQUEST"}
	if known := (*StatusError)(nil); errors.As(err, &known) {
		refusal.Status, refusal.Code, refusal.RequestID = known.Status, known.Code, known.RequestID
	}
	if op == "refresh" {
		c.session.mu.Lock()
		defer c.session.mu.Unlock()
		c.session.refresh = token{}
		return refusal
	}
	c.pauseLogins(refusal, pauseAfterRefusal)
	return refusal
}

// pauseLogins makes calls without a valid token fail with err until d from now, so that they do not log in. A
// later pause replaces it, and a successful login ends it.
func (c *core) pauseLogins(err error, d time.Duration) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.until = err, c.opts.Now().Add(d)
}

// dropTokens drops the session's access and refresh tokens if refused is still the access token. If another
// caller has replaced it meanwhile, it does nothing.
func (c *core) dropTokens(refused credentials.Secret) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.access.text.Equal(refused) {
		s.access, s.refresh = token{}, token{}
	}
}
