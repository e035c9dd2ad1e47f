package credentials

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// rivals change one client's credentials at the same time, at two nodes.
type rivals struct {
	*world
	mu       sync.Mutex
	tokens   []Secret         // that fetch a secret
	fetched  map[string]int   // how often each did
	secrets  []Secret         // that were fetched
	logins   []Identity       // that were let in
	versions map[string]int64 // of each secret, as it was fetched
}

// step does one thing, whatever the others do.
func (r *rivals) step(t *testing.T, rng *rand.Rand) {
	s := []*Store{r.a, r.b}[rng.IntN(2)]
	var issued Issued
	var err error
	switch rng.IntN(12) {
	case 0, 1, 2:
		issued, err = s.Create(t.Context(), orgO, appA)
	case 3, 4, 5:
		var rotation Rotation
		rotation, err = s.Rotate(t.Context(), orgO, appA, rng.IntN(3))
		issued = rotation.Issued
	case 6:
		err = s.Revoke(t.Context(), orgO, appA)
	case 7:
		err = s.Delete(t.Context(), orgO, []string{appA, ""}[rng.IntN(2)])
	case 8, 9:
		r.fetch(t, s)
	default:
		r.login(t, s, rng)
	}
	known := err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnavailable)
	assert.True(t, known, "%v", err)
	if err == nil && issued.Created {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tokens = append(r.tokens, issued.Token)
	}
}

// fetch fetches what every token seals.
func (r *rivals) fetch(t *testing.T, s *Store) {
	r.mu.Lock()
	tokens := r.tokens
	r.mu.Unlock()
	for _, token := range tokens {
		c, err := s.Retrieve(t.Context(), orgO, appA, token)
		if err != nil {
			assert.True(t, errors.Is(err, ErrTokenUsed) || errors.Is(err, ErrUnavailable), "%v", err)
			continue
		}
		r.mu.Lock()
		r.fetched[token.Reveal()]++
		r.secrets = append(r.secrets, c.Secret)
		r.versions[c.Secret.Reveal()] = c.Version
		r.mu.Unlock()
	}
}

func (r *rivals) login(t *testing.T, s *Store, rng *rand.Rand) {
	r.mu.Lock()
	secrets := r.secrets
	r.mu.Unlock()
	if len(secrets) == 0 {
		return
	}
	secret := secrets[rng.IntN(len(secrets))]
	if identity, err := s.Verify(t.Context(), ClientID(orgO, appA), secret); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		assert.GreaterOrEqual(t, identity.Version, r.versions[secret.Reveal()])
		r.logins = append(r.logins, identity)
	}
}

// working are the secrets that let somebody in, at both nodes alike.
func (r *rivals) working(t *testing.T) (working []Secret) {
	for _, secret := range r.secrets {
		_, errA := r.a.Verify(t.Context(), ClientID(orgO, appA), secret)
		_, errB := r.b.Verify(t.Context(), ClientID(orgO, appA), secret)
		require.Equal(t, errA, errB)
		if errA == nil {
			working = append(working, secret)
		}
	}
	return working
}

// Whoever rotates, revokes, deletes and creates at the same time, with answers lost: at most
// two secrets work, each is handed out at most once, and after a deletion neither a secret
// nor a token of before is ever good again.
func TestRivalsOverAClient(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := &rivals{world: newWorld(t), fetched: map[string]int{}, versions: map[string]int64{}}
			flaky := fixture.Flaky(seed)
			r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				fault := flaky(q)
				fault.Before, fault.After = fault.Before+time.Millisecond, fault.After+time.Millisecond
				return fault
			})
			var group sync.WaitGroup
			for rival := range 6 {
				rng := rand.New(rand.NewPCG(seed, uint64(rival))) //nolint:gosec // it is to be the same on every run
				group.Go(func() {
					for range 10 {
						r.step(t, rng)
					}
				})
			}
			group.Wait()
			r.db.SetFaults(nil)
			r.fetch(t, r.a)
			for _, times := range r.fetched {
				assert.Equal(t, 1, times)
			}
			assert.LessOrEqual(t, len(r.working(t)), 2)

			require.NoError(t, r.b.Delete(t.Context(), orgO, []string{appA, ""}[seed%2]))
			assert.Empty(t, r.working(t))
			issued, err := r.a.Create(t.Context(), orgO, appA)
			require.NoError(t, err)
			require.True(t, issued.Created)
			c, err := r.b.Retrieve(t.Context(), orgO, appA, issued.Token)
			require.NoError(t, err)
			assert.Empty(t, r.working(t))
			r.secrets = append(r.secrets, c.Secret)
			assert.Equal(t, []Secret{c.Secret}, r.working(t))
			for _, login := range r.logins {
				for _, s := range []*Store{r.a, r.b} {
					revoked, err := s.Revoked(t.Context(), TokenRef{ID: "t", ClientID: login.ClientID, Version: login.Version})
					require.NoError(t, err)
					assert.True(t, revoked, "a token of version %d, of %d now", login.Version, c.Version)
				}
			}
		})
	}
}
