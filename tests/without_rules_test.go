package tests

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
)

// brokenAndWhole runs a scenario of two processes without a rule and with it: the
// first of them breaks it.
func brokenAndWhole(t *testing.T, breakRule func(lane.Store) lane.Store, scenario func(t *testing.T, a, b *process, broken bool)) {
	for _, broken := range []bool{false, true} {
		t.Run(map[bool]string{false: "with the rule", true: "without"}[broken], func(t *testing.T) {
			pair(t, []dynalimit.Limit{dynalimit.PerHour("rpm", 100), dynalimit.PerHour("tpm", 100)}, func(t *testing.T, a, b *process) {
				if lanes := a.limiter.lanes; broken {
					lanes.Store = breakRule(lanes.Store)
				}
				scenario(t, a, b, broken)
			})
		})
	}
}

func TestWithoutExistence(t *testing.T) {
	brokenAndWhole(t, rules.LeaveOut(rules.Existence), func(t *testing.T, a, b *process, broken bool) {
		lease := a.acquire("key", dynalimit.Amounts{"rpm": 1})
		operator := a.open(t, a.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerHour("tpm", 100)}))
		elapse(2 * time.Minute)
		b.acquire("key", dynalimit.Amounts{"tpm": 1}) // finds rpm full, and removes it
		require.Equal(t, []string{"tpm"}, a.image("key").Set.Names)
		require.NoError(t, lease.Rollback(t.Context()))
		image := a.image("key")
		require.Equal(t, broken, image.Set.Index("rpm") >= 0)
		assert.True(t, !broken || image.Limits[0].Ghost, "a ghost")
	})
}

// A give-back meets the bucket of the same key that was made after its own.
func TestWithoutIncarnation(t *testing.T) {
	brokenAndWhole(t, rules.LeaveOut(rules.Incarnation), func(t *testing.T, a, b *process, broken bool) {
		lease := a.acquire("key", dynalimit.Amounts{"rpm": 10})
		a.peer(nil).inSlot(0).acquire("key", dynalimit.Amounts{"rpm": 1}) // its slot is another's now
		_, err := a.limiter.Check(t.Context(), "key", "gpt-4", nil)
		require.NoError(t, err)
		operator := a.open(t, a.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.DeleteEntity(t.Context(), "key"))
		b.acquire("key", dynalimit.Amounts{"rpm": 20})
		require.NoError(t, lease.Rollback(t.Context()))
		want := int64(80_000)
		if broken {
			want = 90_000
		}
		assert.Equal(t, want, a.image("key").Limits[0].Tokens)
	})
}

func TestWithoutRemovalOnlyWhenFull(t *testing.T) {
	brokenAndWhole(t, rules.LeaveOut(rules.RemovalOnlyWhenFull), func(t *testing.T, a, b *process, broken bool) {
		a.acquire("key", dynalimit.Amounts{"rpm": 1}) // sees tpm full
		b.acquire("key", dynalimit.Amounts{"tpm": 90})
		operator := a.open(t, a.repo.Table(), &dynalimit.RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerHour("rpm", 50)}))
		elapse(2 * time.Minute)
		a.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, broken, a.image("key").Set.Index("tpm") < 0, "what is owed is forgotten")
	})
}

// A take whose first try lands late must not make the slot look like the
// client's last write again, or a give-back that is resent lands twice.
func TestWithoutOneIDPerTry(t *testing.T) {
	brokenAndWhole(t, rules.OneID, func(t *testing.T, a, b *process, broken bool) {
		lease := a.acquire("key", dynalimit.Amounts{"rpm": 10})
		late := make(chan struct{})
		var n atomic.Int64
		a.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
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
		a.acquire("key", dynalimit.Amounts{"rpm": 1})
		done := make(chan error)
		go func() { done <- lease.Rollback(t.Context()) }()
		elapse(500 * time.Millisecond)
		close(late)
		a.db.Wait()
		err := <-done
		require.Equal(t, int64(4), n.Load())
		if broken {
			assert.NoError(t, err)
			assert.Equal(t, int64(-8_000), a.image("key").Limits[0].Consumed, "given back twice")
		} else {
			assert.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
			assert.Equal(t, int64(2_000), a.image("key").Limits[0].Consumed, "the late take counts twice, the give-back once")
		}
	})
}

func TestWithoutCarefulResends(t *testing.T) {
	brokenAndWhole(t, rules.BlindResend, func(t *testing.T, a, b *process, broken bool) {
		lease := a.acquire("key", dynalimit.Amounts{"rpm": 10})
		b.acquire("key", dynalimit.Amounts{"rpm": 5})
		a.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: q.Operation == "UpdateItem"}
		})
		_ = lease.Rollback(t.Context()) // the counter tells
		want := int64(5_000)
		if broken {
			want = -5_000
		}
		if got := a.image("key").Limits[0].Consumed; broken {
			assert.LessOrEqual(t, got, want)
		} else {
			assert.Equal(t, want, got)
		}
	})
}
