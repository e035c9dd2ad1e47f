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

// isValid reports whether there is a token that has not expired at now.
func (t token) isValid(now time.Time) bool { return !t.text.Empty() && now.Before(t.expires) }

// accessToken returns a valid access token. One caller renews it before it expires; the others use the current
// one, or wait if it has expired. While logins are paused and no token is valid, it returns the error of the
// last login.
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

// renewToken returns a fresh access token: one that another caller just got, else one for the refresh token,
// else one for the secret. It logs in with the secret if the keeper refuses the refresh token, but not if it
// does not answer.
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

// requestTokens requests tokens once, stores them and returns the access token. A failure may pause logins, as
// in loginError. Its errors never contain the response, which may contain the secret or a token.
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

// storeTokens stores the tokens of a login or a renewal, clears the last refusal with its pause, and sets the
// time of the next renewal. Their lives begin at asked, the instant of the request. A renewal without a new
// refresh token keeps the old one.
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

// loginError returns the error of a login or renewal, without the text of the response. After a login that was
// refused or got no response it pauses logins. After a refused renewal it drops the refresh token instead.
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

// pauseLogins makes calls that need a login fail with err until d from now. A later pause replaces it.
func (c *core) pauseLogins(err error, d time.Duration) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.until = err, c.opts.Now().Add(d)
}

// dropTokens drops the tokens after the keeper refused the access token, unless they were replaced meanwhile.
func (c *core) dropTokens(refused credentials.Secret) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.access.text.Equal(refused) {
		s.access, s.refresh = token{}, token{}
	}
}
