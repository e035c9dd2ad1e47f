package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// limitsOfCalls are requests and tokens a minute, and micro-dollars a day.
func limitsOfCalls() (rpm, tpm, usd dynalimit.Limit) {
	return dynalimit.PerMinute("rpm", 1_000_000), dynalimit.PerMinute("tpm", 1_000_000), dynalimit.PerDay("usd", 50_000_000)
}

// A call of a key, its team and its organisation waits for one round trip, whatever groups it
// charges: a write unit a bucket, 3 where all limits are over all models, 6 where requests and
// tokens are by model; as many again to settle it, and nothing for a remembered denial. A quota
// costs what a token bucket does.
func TestCostOfGroups(t *testing.T) {
	rpm, tpm, usd := limitsOfCalls()
	daily := dynalimit.Daily("usd", 50_000_000, pacific)
	for name, test := range map[string]struct {
		byModel, overAll []dynalimit.Limit
		units            float64
	}{
		"all over all models":          {nil, []dynalimit.Limit{rpm, tpm, usd}, 3},
		"money alone over all models":  {[]dynalimit.Limit{rpm, tpm}, []dynalimit.Limit{usd}, 6},
		"a quota beside all":           {nil, []dynalimit.Limit{rpm, tpm, daily}, 3},
		"a quota alone over all":       {[]dynalimit.Limit{rpm, tpm}, []dynalimit.Limit{daily}, 6},
		"a model's own limits besides": {[]dynalimit.Limit{rpm, tpm, usd}, []dynalimit.Limit{rpm, tpm, usd}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, nil, func(t *testing.T, s *process) {
				s.family("key", "team", "org")
				s.ofGroup(model)
				if test.byModel != nil {
					s.limits(admin.Scope{Everyone: true}, test.byModel...)
				}
				s.limits(admin.Scope{Everyone: true, Resource: group}, test.overAll...)
				amounts := dynalimit.Amounts{"rpm": 1, "tpm": 3000, "usd": 20_000}
				cold := s.peer(nil)
				var trips int
				used := s.used(func() { trips = roundTrips(t, s, func() { cold.acquire("key", amounts) }) })
				t.Logf("cold: %d round trips, %d requests", trips, used.Requests())
				assert.Equal(t, 5, trips, "a level's configuration each, the last one's groups, and the writes")
				assert.Equal(t, int64(6+test.units), used.Requests())
				var lease *dynalimit.Lease
				used = s.used(func() { trips = roundTrips(t, s, func() { lease = cold.acquire("key", amounts) }) })
				assert.Equal(t, 1, trips)
				assert.Equal(t, test.units, used.WriteUnits())
				assert.Zero(t, used.ReadUnits())
				used = s.used(func() {
					trips = roundTrips(t, s, func() { require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 2000, "usd": 9000})) })
				})
				assert.Equal(t, 1, trips)
				assert.Equal(t, test.units, used.WriteUnits())

				cold.clock.advance(24 * time.Hour)
				cold.acquire("key", dynalimit.Amounts{"rpm": 1}) // reads the configuration beside the call
				used = s.used(func() { trips = roundTrips(t, s, func() { cold.acquire("key", amounts) }) })
				assert.Equal(t, 1, trips, "the first call of a day opens a quota's window in the same write")
				assert.Equal(t, test.units, used.WriteUnits())

				cold.acquire("key", dynalimit.Amounts{"usd": 49_000_000})
				cold.deny("key", dynalimit.Amounts{"usd": 2_000_000})
				used = s.used(func() { cold.deny("key", dynalimit.Amounts{"usd": 2_000_000}) })
				assert.Zero(t, used.Requests())
			})
		})
	}
}

// A bucket that was last seen nearly used up is asked first, so that a denial by it leaves the
// others unwritten; what is admitted waits for a second round trip then.
func TestTightBucketOfAGroupIsAskedFirst(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.family("key", "team")
		s.ofGroup(model)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 100))
		s.acquire("key", dynalimit.Amounts{"rpm": 95})
		s.clock.advance(1500e6) // what is known is too old to deny by, and others may have taken
		s.peer(nil).acquire("key", dynalimit.Amounts{"rpm": 4})
		var trips int
		used := s.used(func() { trips = roundTrips(t, s, func() { s.deny("key", dynalimit.Amounts{"rpm": 2}) }) })
		t.Logf("denied: %d round trips, %v", trips, used)
		assert.Equal(t, 1.0, used.WriteUnits(), "the refusal of the tight bucket")
		assert.Equal(t, 2, trips, "the others are read side by side, for when to retry")
		used = s.used(func() { trips = roundTrips(t, s, func() { s.acquire("key", dynalimit.Amounts{"rpm": 1}) }) })
		assert.Equal(t, 2, trips)
		assert.Equal(t, 4.0, used.WriteUnits())
	})
}
