package dynalimit

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// An acquire whose take may have landed says so: nobody can give it back.
func TestUnansweredAcquireIsUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerMinute("rpm", 60))
		drain(t, l, Amounts{"rpm": 1})
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Lose: true} })
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 5})
		require.Nil(t, lease)
		require.ErrorIs(t, err, ErrUnavailable)
		var unconfirmed *UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		require.Equal(t, Amounts{"rpm": 5}, unconfirmed.Amounts)
		require.ErrorContains(t, err, "rpm +5 of u on m may have been written and counts as consumed: ")
		require.Equal(t, 1, strings.Count(err.Error(), "store unavailable"), "said once: %v", err)

		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		})
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 5})
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, ErrUnconfirmed, "what was refused did not land")
	})
}

// A denial names the take that another level may have kept.
func TestDenialNamesAnUnansweredTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t)
		require.NoError(t, l.repo.SetSystemLimits(t.Context(), []Limit{PerMinute("tpm", 600)}, nil))
		require.NoError(t, l.repo.SetEntityLimits(t.Context(), "project", "m", []Limit{PerMinute("tpm", 60)}))
		require.NoError(t, l.repo.CreateEntity(t.Context(), Entity{ID: "u", ParentID: "project", Cascade: true}))
		drain(t, l, Amounts{"tpm": 60})
		elapse(2 * plan.MemoryMS * 1_000_000) // nothing is remembered well enough to deny
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Lose: bytes.Contains(r.Body, []byte(`"ENTITY#u"`)) && bytes.Contains(r.Body, []byte("BUCKET"))}
		})
		_, err := l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 30})
		require.ErrorIs(t, err, ErrLimitExceeded)
		var unconfirmed *UnconfirmedError
		require.ErrorAs(t, err, &unconfirmed)
		require.Equal(t, "u", unconfirmed.EntityID)
	})
}
