package credentials

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// model is what the laws say of one client: which secrets work, and until when.
type model struct {
	exists, ended bool
	current       Secret
	previous      Secret
	grace         time.Time
	version       int64
	dead          []Secret // work no longer
	tokens        []*modelToken
	made          int // how often the client came to be
}

// modelToken is a retrieval token.
type modelToken struct {
	token   Secret
	expires time.Time
	used    bool
}

// replace puts a secret in the place of the current one.
func (m *model) replace(secret Secret, previous Secret, grace time.Time) {
	for _, old := range []Secret{m.current, m.previous} {
		if !old.Empty() && !old.Equal(previous) {
			m.dead = append(m.dead, old)
		}
	}
	m.current, m.previous, m.grace = secret, previous, grace
}

// history is a model beside the real thing, on two nodes.
type history struct {
	*world
	*model
	rt *rapid.T
}

func (h *history) node() *Store {
	return []*Store{h.a, h.b}[rapid.IntRange(0, 1).Draw(h.rt, "node")]
}

// issued notes a new secret, which the history fetches at once: tokens are tried again
// later.
func (h *history) issued(issued Issued) Secret {
	c, err := h.node().Retrieve(h.t.Context(), orgO, appA, issued.Token)
	require.NoError(h.rt, err)
	require.Equal(h.rt, issued.Version, c.Version)
	h.tokens = append(h.tokens, &modelToken{token: issued.Token, expires: issued.ExpiresAt, used: true})
	return c.Secret
}

func (h *history) create(*rapid.T) {
	issued, err := h.node().Create(h.t.Context(), orgO, appA)
	require.NoError(h.rt, err)
	require.Equal(h.rt, !h.exists, issued.Created)
	if issued.Created {
		if h.made++; h.made == 1 {
			h.version = 1
		}
		h.exists, h.ended = true, false
		h.replace(h.issued(issued), Secret{}, time.Time{})
	}
	require.Equal(h.rt, h.version, issued.Version)
}

func (h *history) rotate(*rapid.T) {
	hours := rapid.SampledFrom([]int{0, 1, 2, 168}).Draw(h.rt, "grace")
	now := h.clock.Now()
	r, err := h.node().Rotate(h.t.Context(), orgO, appA, hours)
	if !h.exists {
		require.ErrorIs(h.rt, err, ErrNotFound)
		return
	}
	require.NoError(h.rt, err)
	require.Equal(h.rt, !h.previous.Empty() && now.Before(h.grace), r.OldestDropped)
	previous, grace := h.current, now.Add(time.Duration(hours)*time.Hour)
	if hours == 0 || h.ended {
		previous, grace = Secret{}, time.Time{}
	}
	if hours == 0 && !h.ended {
		h.version++
	}
	require.Equal(h.rt, grace, r.GraceUntil)
	require.Equal(h.rt, h.version, r.Version)
	h.replace(h.issued(r.Issued), previous, grace)
	h.ended = false
}

func (h *history) end(*rapid.T) {
	deleted := rapid.Bool().Draw(h.rt, "deleted")
	if deleted {
		require.NoError(h.rt, h.node().Delete(h.t.Context(), orgO, appA))
	} else if err := h.node().Revoke(h.t.Context(), orgO, appA); !h.exists {
		require.ErrorIs(h.rt, err, ErrNotFound)
	} else {
		require.NoError(h.rt, err)
	}
	if !h.exists {
		return
	}
	if deleted || !h.ended {
		h.version++
	}
	h.replace(Secret{}, Secret{}, time.Time{})
	h.ended, h.exists = true, !deleted
}

func (h *history) wait(*rapid.T) {
	h.clock.Advance(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, time.Hour - time.Second, time.Hour, 168 * time.Hour}).Draw(h.rt, "time"))
}

func (h *history) retrieveAgain(*rapid.T) {
	for _, token := range h.tokens {
		_, err := h.node().Retrieve(h.t.Context(), orgO, appA, token.token)
		if h.clock.Now().After(token.expires.Add(usedKept)) { // nobody knows it any longer
			require.True(h.rt, errors.Is(err, ErrTokenUsed) || errors.Is(err, ErrTokenInvalid), "%v", err)
			continue
		}
		require.ErrorIs(h.rt, err, ErrTokenUsed)
	}
}

// check is run after each step: exactly the secrets work that should, at both nodes.
func (h *history) check(*rapid.T) {
	id := ClientID(orgO, appA)
	try := func(secret Secret, want bool, what string) {
		if secret.Empty() {
			return
		}
		for _, s := range []*Store{h.a, h.b} {
			identity, err := s.Verify(h.t.Context(), id, secret)
			if want {
				require.NoError(h.rt, err, what)
				require.Equal(h.rt, h.version, identity.Version)
				continue
			}
			require.ErrorIs(h.rt, err, ErrInvalidCredentials, what)
		}
	}
	try(h.current, true, "the current secret")
	try(h.previous, h.clock.Now().Before(h.grace), "the secret before")
	if n := len(h.dead); n > 0 {
		try(h.dead[rapid.IntRange(0, n-1).Draw(h.rt, "dead")], false, "a dead secret")
		try(h.dead[n-1], false, "the secret that died last")
	}
}

// Whatever is done with a client's credentials, in whichever order, at whichever node and
// with whichever answers lost: exactly those secrets work that should, and each is handed
// out once. DYNALIMIT_HISTORIES says how many histories (25).
func TestHistoriesOfAClient(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", cmp.Or(os.Getenv("DYNALIMIT_HISTORIES"), "25")))
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		defer w.db.Close()
		w.db.SetFaults(fixture.Flaky(rapid.Uint64().Draw(rt, "faults")))
		h := &history{world: w, model: &model{}, rt: rt}
		rt.Repeat(map[string]func(*rapid.T){
			"create": h.create, "rotate": h.rotate, "end": h.end, "wait": h.wait, "retrieve": h.retrieveAgain, "": h.check,
		})
	})
}
