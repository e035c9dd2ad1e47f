package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A half limit that is not configured goes, as any ghost.
func TestHalfLimitThatIsNotConfiguredGoes(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{rpm}))
		s.acquire("u", dynalimit.Amounts{"rpm": 1})
		item := s.item("u")
		item["b_tpm_bx"], item["b_usd_cp"] = schema.Number(5000), schema.Number(5000)
		put(t, s.repo, item)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{rpm, tpd}))
		s.clock.advance(3 * time.Second)
		s.peer(nil).acquire("u", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, []string{"rpm", "tpd"}, s.image("u").Set.Names)
	})
}
