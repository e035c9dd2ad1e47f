package dynalimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A reserve is stored as a kind, which older versions refuse, and goes with its limit. Without one nothing is stored.
func TestReserveIsStored(t *testing.T) {
	s, everyone := memProcess(t, nil), admin.Scope{Everyone: true}
	limits := []dynalimit.Limit{
		dynalimit.Concurrent("inflight", 20, 0).WithReserve(10), dynalimit.PerDay("rpm", 100).WithReserve(-1),
		dynalimit.PerDay("tpm", 100).WithBurst(300).WithReserve(150), dynalimit.DailyQuota("usd", 100, "UTC").WithReserve(1),
	}
	s.limits(everyone, limits...)
	assert.Equal(t, schema.Number(schema.SlotsKinds), s.storedItem(schema.VersionKey())["kinds_min"])
	s.madeBefore()
	assert.ErrorAs(t, s.repo.SetLimits(t.Context(), everyone, limits[1:2]), new(*fault.TableError))
	assert.Equal(t, schema.Number(-1), s.storedItem(s.repo.keys.SystemConfig())["k_rpm_r"])
	stored, err := s.repo.GetConfig(t.Context(), everyone)
	require.NoError(t, err)
	assert.Equal(t, limits, stored.Limits)
	s.limits(everyone, dynalimit.PerDay("rpm", 100))
	for name := range s.storedItem(s.repo.keys.SystemConfig()) {
		assert.NotRegexp(t, "_r$", name)
	}
	for _, limit := range []dynalimit.Limit{
		limits[0].WithReserve(11), limits[1].WithReserve(-2), limits[2].WithReserve(151), limits[3].WithReserve(51), dynalimit.PerSecond("one", 1).WithReserve(1),
		dynalimit.Concurrent("inflight", 1, time.Minute).WithReserve(1),
	} {
		invalid := requireInvalid(t, s.repo.SetLimits(t.Context(), everyone, []dynalimit.Limit{limit}), "limits[0].Reserve")
		assert.Equal(t, limit.Capacity == 1, strings.Contains(invalid.Reason, "can have no reserve"), invalid.Reason)
	}
}
