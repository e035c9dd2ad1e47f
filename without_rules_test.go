package dynalimit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// seam is two limiters on one bucket, the first of them without a rule if broken.
type seam struct {
	*engine
	repo *Repository
	a, b *RateLimiter
}

// brokenAndWhole runs a scenario without a rule and with it, in virtual time.
func brokenAndWhole(t *testing.T, breakRule func(lane.Store) lane.Store, scenario func(t *testing.T, s seam, broken bool)) {
	for _, broken := range []bool{false, true} {
		t.Run(map[bool]string{false: "with the rule", true: "without"}[broken], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				repo := e.repository(t, &RepositoryOptions{Now: time.Now})
				require.NoError(t, repo.SetSystemLimits(t.Context(), []Limit{PerHour("rpm", 100), PerHour("tpm", 100)}, nil))
				s := seam{engine: e, repo: repo, a: inSlot(t, e, repo.Table(), 0), b: inSlot(t, e, repo.Table(), 1)}
				if broken {
					s.a.lanes.Store = breakRule(s.a.lanes.Store)
				}
				scenario(t, s, broken)
				require.NoError(t, s.a.Close(t.Context()))
				require.NoError(t, s.b.Close(t.Context()))
			})
		})
	}
}

func (s seam) bucket(t *testing.T) *schema.Image {
	image, err := s.repo.readBucket(t.Context(), s.a.lanes.Of("key", "gpt-4").Key, nil, 0)
	require.NoError(t, err)
	return image
}

func (s seam) take(t *testing.T, l *RateLimiter, amounts Amounts) *Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "key", "gpt-4", amounts)
	require.NoError(t, err)
	return lease
}

func TestWithoutExistence(t *testing.T) {
	brokenAndWhole(t, rules.LeaveOut(rules.Existence), func(t *testing.T, s seam, broken bool) {
		lease := s.take(t, s.a, Amounts{"rpm": 1})
		operator := s.open(t, s.repo.Table(), &RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetSystemLimits(t.Context(), []Limit{PerHour("tpm", 100)}, nil))
		elapse(2 * time.Minute)
		s.take(t, s.b, Amounts{"tpm": 1}) // finds rpm full, and removes it
		require.Equal(t, []string{"tpm"}, s.bucket(t).Set.Names)
		require.NoError(t, lease.Rollback(t.Context()))
		image := s.bucket(t)
		require.Equal(t, broken, image.Set.Index("rpm") >= 0)
		assert.True(t, !broken || image.Limits[0].Ghost, "a ghost")
	})
}

// A give-back meets the bucket of the same key that was made after its own.
func TestWithoutIncarnation(t *testing.T) {
	brokenAndWhole(t, rules.LeaveOut(rules.Incarnation), func(t *testing.T, s seam, broken bool) {
		lease := s.take(t, s.a, Amounts{"rpm": 10})
		s.take(t, inSlot(t, s.engine, s.repo.Table(), 0), Amounts{"rpm": 1}) // its slot is another's now
		_, err := s.a.Check(t.Context(), "key", "gpt-4", nil)
		require.NoError(t, err)
		require.NoError(t, s.repo.DeleteEntity(t.Context(), "key"))
		s.take(t, s.b, Amounts{"rpm": 20})
		require.NoError(t, lease.Rollback(t.Context()))
		want := int64(80_000)
		if broken {
			want = 90_000
		}
		assert.Equal(t, want, s.bucket(t).Limits[0].Tokens)
	})
}

func TestWithoutRemovalOnlyWhenFull(t *testing.T) {
	brokenAndWhole(t, rules.LeaveOut(rules.RemovalOnlyWhenFull), func(t *testing.T, s seam, broken bool) {
		s.take(t, s.a, Amounts{"rpm": 1}) // sees tpm full
		s.take(t, s.b, Amounts{"tpm": 90})
		operator := s.open(t, s.repo.Table(), &RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetSystemLimits(t.Context(), []Limit{PerHour("rpm", 50)}, nil))
		elapse(2 * time.Minute)
		s.take(t, s.a, Amounts{"rpm": 1})
		assert.Equal(t, broken, s.bucket(t).Set.Index("tpm") < 0, "what is owed is forgotten")
	})
}

// A take whose first try lands late must not make the slot look like the
// client's last write again, or a give-back that is resent lands twice.
func TestWithoutOneIDPerTry(t *testing.T) {
	brokenAndWhole(t, rules.OneID, func(t *testing.T, s seam, broken bool) {
		lease := s.take(t, s.a, Amounts{"rpm": 10})
		late := make(chan struct{})
		var n atomic.Int64
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation != "UpdateItem" {
				return ddbmem.Fault{}
			}
			switch n.Add(1) {
			case 1: // the take
				return ddbmem.Fault{Late: late}
			case 3: // the give-back
				return ddbmem.Fault{Lose: true}
			case 4:
				return ddbmem.Fault{Before: time.Second}
			}
			return ddbmem.Fault{}
		})
		s.take(t, s.a, Amounts{"rpm": 1})
		done := make(chan error)
		go func() { done <- lease.Rollback(t.Context()) }()
		elapse(500 * time.Millisecond)
		close(late)
		s.db.Wait()
		err := <-done
		require.Equal(t, int64(4), n.Load())
		if broken {
			assert.NoError(t, err)
			assert.Equal(t, int64(-8_000), s.bucket(t).Limits[0].Consumed, "given back twice")
		} else {
			assert.ErrorIs(t, err, ErrUnconfirmed)
			assert.Equal(t, int64(2_000), s.bucket(t).Limits[0].Consumed, "the late take counts twice, the give-back once")
		}
	})
}

func TestWithoutCarefulResends(t *testing.T) {
	brokenAndWhole(t, rules.BlindResend, func(t *testing.T, s seam, broken bool) {
		lease := s.take(t, s.a, Amounts{"rpm": 10})
		s.take(t, s.b, Amounts{"rpm": 5})
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: q.Operation == "UpdateItem"}
		})
		_ = lease.Rollback(t.Context()) // the counter tells
		want := int64(5_000)
		if broken {
			want = -5_000
		}
		if got := s.bucket(t).Limits[0].Consumed; broken {
			assert.LessOrEqual(t, got, want)
		} else {
			assert.Equal(t, want, got)
		}
	})
}
