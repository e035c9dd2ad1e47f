package dynalimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// tenant is a process of the namespace "eu" of the table that s limits on. Its clock is the
// bubble's, or that of s.
func (s *process) tenant(opts *dynalimit.Options) *process {
	s.t.Helper()
	return s.on(s.namespaced(s.t, s.repo.table, "eu", &dynalimit.RepositoryOptions{Now: s.clock.now}), opts)
}

// inactive is the error of a call that a namespace refuses.
func inactive(t *testing.T, err error) *fault.NamespaceError {
	t.Helper()
	var e *fault.NamespaceError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, fault.ErrNamespace)
	return e
}

// inNamespace runs a test, in virtual time, with the process that administers a table and
// one of a namespace of it.
func inNamespace(t *testing.T, opts *dynalimit.Options, test func(t *testing.T, operator, tenant *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		operator := liveProcess(t, memEngine(t, ddbmem.WithLog()), nil)
		tenant := operator.tenant(opts)
		elapse(time.Millisecond) // events of two processes have no order within one
		test(t, operator, tenant)
	})
}

func TestMisspeltNamespaceIsRefused(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		operator := newProcess(t, e, nil)
		repo := e.open(t, operator.repo.table, &dynalimit.RepositoryOptions{Namespace: "typo", Now: operator.clock.now})
		typo := operator.on(repo, perMinute())
		for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
			_, err := typo.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(policy))
			refused := inactive(t, err)
			assert.Equal(t, fault.NamespaceError{Namespace: "typo", Reason: refused.Reason, Fix: fault.RegisterNamespace}, *refused)
			assert.Contains(t, err.Error(), "Namespaces.Register")
			assert.NotErrorIs(t, err, fault.ErrNamespaceDeleted)
			_, known := dynalimit.RetryAfter(err)
			assert.False(t, known)
		}
		inactive(t, repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, oneLimit))
		_, err := typo.limiter.Check(t.Context(), "user-1", model, nil)
		inactive(t, err)
		for _, item := range scan(t, operator.repo) {
			assert.NotContains(t, schema.KeyOf(item).PK, "typo/", "nothing was written")
		}
		require.NoError(t, operator.repo.admin().Namespaces.Register(t.Context(), "typo"))
		require.NoError(t, repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}))
		typo.clock.advance(time.Minute)
		typo.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	})
}

func TestDeletedNamespaceStopsLimitersWithinTheirTTL(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		other := operator.tenant(perMinute())
		lease := eu.acquire("user-1", dynalimit.Amounts{"rpm": 10})
		kept := other.acquire("user-2", dynalimit.Amounts{"rpm": 10})
		elapse(time.Second)
		require.NoError(t, operator.repo.admin().Namespaces.Delete(t.Context(), "eu"))
		since := time.Now()
		elapse(time.Minute)
		before := eu.stored("user-1", "rpm").Consumed
		for _, s := range []*process{eu, other} {
			for _, user := range []string{"user-1", "user-2", "user-3"} {
				for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
					_, err := s.limiter.Acquire(t.Context(), user, model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(policy))
					e := inactive(t, err)
					require.ErrorIs(t, err, fault.ErrNamespaceDeleted)
					assert.Equal(t, fault.NamespaceDeleted, e.State)
					assert.Equal(t, since, e.Since.Local())
					assert.Contains(t, e.Reason, "use another name")
				}
			}
			_, err := s.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
			inactive(t, err)
		}
		assert.Equal(t, before, eu.stored("user-1", "rpm").Consumed)
		assert.Nil(t, eu.item("user-3"))
		require.ErrorIs(t, kept.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}), fault.ErrNamespaceDeleted)
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 7}))
		require.NoError(t, kept.Rollback(t.Context()))
		assert.Equal(t, int64(7*milli), eu.stored("user-1", "rpm").Consumed)
		assert.Zero(t, other.stored("user-2", "rpm").Consumed)
	})
}

// No policy admits calls of a namespace that is known to be deleted, however long ago that
// was read, and also where only a stale configuration is left.
func TestOutageDoesNotAdmitInADeletedNamespace(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
		t.Run(string(policy), func(t *testing.T) {
			opts := perMinute()
			opts.OnUnavailable = policy
			inNamespace(t, opts, func(t *testing.T, operator, eu *process) {
				eu.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				require.NoError(t, operator.repo.admin().Namespaces.Delete(t.Context(), "eu"))
				elapse(time.Minute)
				_, err := eu.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
				inactive(t, err)
				eu.down(ddbmem.Fault{Drop: true})
				for range 20 {
					for _, user := range []string{"user-1", "user-2"} {
						_, err := eu.limiter.Acquire(t.Context(), user, model, dynalimit.Amounts{"rpm": 1})
						require.ErrorIs(t, err, fault.ErrNamespaceDeleted)
					}
					elapse(20 * time.Second)
				}
				eu.recovers()
			})
		})
	}
}

func TestWaitEndsWhenTheNamespaceIsDeleted(t *testing.T) {
	inNamespace(t, perDay(10), func(t *testing.T, operator, eu *process) {
		eu.acquire("user-1", dynalimit.Amounts{"tpm": 10})
		began := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := eu.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"tpm": 5})
			ended <- err
		}()
		synctest.Wait()
		elapse(10 * time.Second)
		require.NoError(t, operator.repo.admin().Namespaces.Delete(t.Context(), "eu"))
		require.ErrorIs(t, <-ended, fault.ErrNamespaceDeleted)
		assert.LessOrEqual(t, time.Since(began), 70*time.Second)
	})
}

// A cold acquire in a namespace has the same round trips and reads a unit more, a warm one
// costs what it costs without; a change checks the record.
func TestNamespaceCosts(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		type cost struct {
			requests      int64
			reads, writes float64
		}
		costs := func(do func(s *process)) (without, with cost) {
			of := func(s *process) cost {
				m := s.used(func() { do(s) })
				return cost{m.Requests(), m.ReadUnits(), m.WriteUnits()}
			}
			return of(operator.peer(perMinute())), of(eu)
		}
		for _, s := range []*process{operator, eu} { // the version record is read once
			_, err := s.repo.GetConfig(t.Context(), admin.Scope{Everyone: true})
			require.NoError(t, err)
			require.NoError(t, sharedOf(s.repo).Layout.Check(t.Context()))
		}
		cold, coldWithin := costs(func(s *process) { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
		cold.reads-- // the peer's first look at the version record
		t.Logf("cold: %+v, in a namespace %+v", cold, coldWithin)
		assert.Equal(t, cost{2, 6, 2}, cold)
		assert.Equal(t, cost{2, 7, 2}, coldWithin)
		warm := eu.used(func() { eu.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
		assert.Equal(t, cost{1, 0, 1}, cost{warm.Requests(), warm.ReadUnits(), warm.WriteUnits()})
		change := func(s *process) cost {
			m := s.used(func() {
				require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, oneLimit))
			})
			return cost{m.Requests(), m.ReadUnits(), m.WriteUnits()}
		}
		without, within := change(operator), change(eu)
		t.Logf("a change: %+v, in a namespace %+v", without, within)
		assert.Equal(t, without.requests, within.requests)
		assert.Equal(t, without.writes+2, within.writes)
	})
}

func TestConfigTTLOfANamespaceIsBounded(t *testing.T) {
	e := memEngine(t)
	_, err := openRepository(e.client(), "limits", &dynalimit.RepositoryOptions{Namespace: "eu", ConfigTTL: 5*time.Minute + 1})
	require.ErrorContains(t, err, "options.ConfigTTL")
	_, err = openRepository(e.client(), "limits", &dynalimit.RepositoryOptions{ConfigTTL: time.Hour})
	require.NoError(t, err)
}
