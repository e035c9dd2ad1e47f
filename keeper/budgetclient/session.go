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

// pauseAfterRefusal is how long no login is tried after one that was refused: the keeper
// counts those, and refuses to look at any more of a client that fails too often.
const pauseAfterRefusal = 10 * time.Second

// maxLoginPause bounds for how long no login is tried because an answer asked for that: a
// keeper forgets failed logins within a minute, and what a proxy says in its place may be
// over long before.
const maxLoginPause = time.Minute

// session is the tokens of a login.
type session struct {
	mu      sync.Mutex
	access  token
	refresh token
	renewAt time.Time // when a new access token is got, before the one there is expires
	refused error     // of the last login
	until   time.Time // the end of the pause after it

	renewal flight[credentials.Secret]
}

type token struct {
	text    credentials.Secret
	expires time.Time
}

func (t token) good(now time.Time) bool { return !t.text.Empty() && now.Before(t.expires) }

// token is an access token that is in force. One caller renews it, before it expires; the
// others use the one there is meanwhile, or wait.
func (c *core) token(ctx context.Context) (credentials.Secret, error) {
	s := &c.session
	now := c.opts.Now()
	s.mu.Lock()
	current := s.access
	good := current.good(now)
	renew := !good || !now.Before(s.renewAt)
	if good && renew {
		s.renewAt = now.Add(5 * time.Second) // others go on, also if this fails
	}
	refused, paused := s.refused, now.Before(s.until)
	s.mu.Unlock()
	switch {
	case !renew:
		return current.text, nil
	case !good && paused:
		return credentials.Secret{}, refused
	}
	text, err := s.renewal.do(ctx, c.renew)
	if err != nil && good {
		c.opts.Logger.WarnContext(ctx, "budgetclient: token not renewed yet", "error", err)
		return current.text, nil
	}
	return text, err
}

// renew gets an access token: by the refresh token, or by logging in.
func (c *core) renew(ctx context.Context) (credentials.Secret, error) {
	s := &c.session
	now := c.opts.Now()
	s.mu.Lock()
	access, refresh := s.access, s.refresh
	fresh := access.good(now) && now.Before(s.renewAt.Add(-5*time.Second))
	s.mu.Unlock()
	if fresh { // somebody else's login ended between the look and here
		return access.text, nil
	}
	if refresh.good(now) {
		text, err := c.grant(ctx, "refresh", "/auth/refresh", map[string]string{"refresh_token": refresh.text.Reveal()})
		if f := (*unanswered)(nil); err == nil || errors.As(err, &f) {
			return text, err
		}
	}
	return c.grant(ctx, "login", "/auth/token", map[string]string{"client_id": c.opts.ClientID, "client_secret": c.opts.Secret.Reveal()})
}

// granted is the tokens of a login.
type granted struct {
	Access         string `json:"access_token"`
	ExpiresIn      int64  `json:"expires_in"`
	Refresh        string `json:"refresh_token"`
	RefreshExpires int64  `json:"refresh_expires_in"`
}

// grant asks once for tokens and keeps them. Nothing of the answer is in its errors: it may
// have the secret in it, or a token.
func (c *core) grant(ctx context.Context, op, path string, body map[string]string) (credentials.Secret, error) {
	var g granted
	asked := c.opts.Now()
	raw, err := json.Marshal(body)
	if err != nil {
		return credentials.Secret{}, err
	}
	_, err = c.try(ctx, &call{op: op, method: http.MethodPost, path: path, into: &g, check: func() error {
		if g.Access == "" || g.ExpiresIn <= 0 {
			return errors.New("it has no token")
		}
		return nil
	}}, raw, "")
	if err != nil {
		return credentials.Secret{}, c.refuse(op, err)
	}
	c.keep(g, asked)
	c.opts.Logger.DebugContext(ctx, "budgetclient: "+op, "client", c.opts.ClientID, "expires_in_seconds", g.ExpiresIn)
	return credentials.NewSecret(g.Access), nil
}

func (c *core) keep(g granted, asked time.Time) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	life := time.Duration(min(g.ExpiresIn, 1<<31)) * time.Second
	s.access = token{credentials.NewSecret(g.Access), asked.Add(life)}
	s.renewAt = asked.Add(life*8/10 + rand.N(life/10+1)) // processes that began together do not come back together
	s.refused, s.until = nil, time.Time{}
	if g.Refresh != "" {
		s.refresh = token{credentials.NewSecret(g.Refresh), asked.Add(time.Duration(min(g.RefreshExpires, 1<<31)) * time.Second)}
	}
}

// refuse is the error of a login, which is remembered if the keeper refused it.
func (c *core) refuse(op string, err error) error {
	var f *unanswered
	if errors.As(err, &f) {
		f.sent = false // the call itself was not
		c.pause(err, min(f.after, maxLoginPause))
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
	c.pause(refusal, pauseAfterRefusal)
	return refusal
}

// pause answers those who need a login with err for a while.
func (c *core) pause(err error, d time.Duration) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.until = err, c.opts.Now().Add(d)
}

// forget drops a login whose access token was refused, unless there is another already.
func (c *core) forget(refused credentials.Secret) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.access.text.Equal(refused) {
		s.access, s.refresh = token{}, token{}
	}
}
