package dynalimit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The tests of this file and of acquire_capacity_shared_test.go measure what
// docs/cost.md says; run them with -v to see the tables.

// uuid is an entity id of the usual length.
const uuid = "123e4567-e89b-42d3-a456-426614174000"

// shortLimits are n limits with names of three letters, of usual sizes.
func shortLimits(n int) []dynalimit.Limit {
	limits := make([]dynalimit.Limit, n)
	for i := range limits {
		limits[i] = dynalimit.PerMinute(fmt.Sprintf("l%02d", i), 1_000_000)
	}
	return limits
}

// oneOfEach takes amounts whose numbers have as many digits as usual.
func oneOfEach(limits []dynalimit.Limit, n int64) dynalimit.Amounts {
	a := dynalimit.Amounts{}
	for _, l := range limits {
		a[l.Name] = n
	}
	return a
}

// itemSize is the size by which DynamoDB charges an item, in bytes.
func itemSize(item schema.Item) (size int) {
	for name, v := range item {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			digits := strings.TrimRight(strings.TrimPrefix(v.Value, "-"), "0")
			size += (len(digits)+1)/2 + 1
			if strings.HasPrefix(v.Value, "-") {
				size++
			}
		}
	}
	return size
}

func TestWarmAcquireIsOneRequest(t *testing.T) {
	t.Log("limits  bytes  create  acquire  claim  adjust  give-back   (write units; reads: none)")
	for _, n := range []int{1, 2, 4, 8, 10, 20} {
		limits := shortLimits(n)
		s := memProcess(t, &dynalimit.Options{Limits: limits})
		some := oneOfEach(limits, 1237)
		var units []float64
		var lease *dynalimit.Lease
		one := func(operation string, do func()) {
			used := s.used(do)
			assert.Equal(t, int64(1), used.Operations[operation].Requests, "%d limits", n)
			units = append(units, used.WriteUnits())
		}
		used := s.used(func() { s.acquire(uuid, some) })
		units = append(units, used.WriteUnits())
		one("UpdateItem", func() { lease = s.acquire(uuid, some) })
		used = s.used(func() { s.acquire(uuid, some) })
		assert.Equal(t, int64(1), used.Requests(), "exactly one request")
		assert.Zero(t, used.ReadUnits(), "no read")
		s.clock.advance(59 * time.Second)
		s.acquire(uuid, some)
		s.clock.advance(2 * time.Hour)
		s.acquire("other", some) // (reads the configuration again)
		_, err := s.limiter.Check(t.Context(), uuid, model, nil)
		require.NoError(t, err)
		one("UpdateItem", func() { s.acquire(uuid, some) })
		require.Equal(t, s.clock.now().UnixMilli(), s.image(uuid).Refilled, "a claim")
		one("UpdateItem", func() { require.NoError(t, lease.Adjust(t.Context(), oneOfEach(limits, 13))) })
		one("UpdateItem", func() { require.NoError(t, lease.Rollback(t.Context())) })
		size := itemSize(s.item(uuid))
		t.Logf("%6d  %5d  %6g  %7g  %5g  %6g  %9g", n, size, units[0], units[1], units[2], units[3], units[4])
		want := float64((size + 1023) / 1024)
		for _, u := range units[1:] {
			assert.Equal(t, want, u, "a unit for each started kilobyte")
		}
		assert.Equal(t, want+1, units[0], "and one for the index's keys")
		if n <= 8 {
			assert.Equal(t, 1.0, units[1], "%d short-named limits fit in one unit", n)
		}
	}
}

// An acquire changes nothing that an index holds.
func TestNoIndexIsChargedForAnAcquire(t *testing.T) {
	s := memProcess(t, perMinute())
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	for range 3 {
		used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 5}) })
		assert.Equal(t, 1.0, used.WriteUnits())
		s.clock.advance(2 * time.Hour) // then a claim
	}
}

// roundTrips is how many answers in a row a call waits for.
func roundTrips(t *testing.T, s *process, call func()) int {
	t.Helper()
	const latency = 10 * time.Millisecond
	s.down(ddbmem.Fault{Before: latency})
	defer s.db.SetFaults(nil)
	began := time.Now()
	call()
	return int(time.Since(began) / latency)
}

func TestRoundTrips(t *testing.T) {
	entities := []string{"a", "b", "c", "d"}
	for parents := range 4 {
		virtual(t, perMinute(), func(t *testing.T, s *process) {
			s.family(entities[:parents+1]...)
			cold := s.peer(perMinute()) // knows nothing
			var trips int
			used := s.used(func() { trips = roundTrips(t, s, func() { cold.acquire("a", dynalimit.Amounts{"rpm": 1}) }) })
			t.Logf("cold, %d parents: %d round trips, %v requests", parents, trips, used.Requests())
			assert.Equal(t, 2+parents, trips)
			assert.Equal(t, int64(2*(parents+1)), used.Requests(), "a read and a write for each level")
			used = s.used(func() { trips = roundTrips(t, s, func() { cold.acquire("a", dynalimit.Amounts{"rpm": 1}) }) })
			assert.Equal(t, 1, trips, "warm, the levels are asked at once")
			assert.Equal(t, int64(parents+1), used.Requests())
			assert.Zero(t, used.ReadUnits())
			assert.Equal(t, float64(parents+1), used.WriteUnits())
			for range 3 * min(parents, 1) {
				used = s.used(func() {
					trips = roundTrips(t, s, func() {
						cold.acquire("a", dynalimit.Amounts{"rpm": 1}, dynalimit.WithChargeMode(dynalimit.ChargeTransaction))
					})
				})
				t.Logf("warm, in a transaction, %d parents: %d round trips, %g write units, %g read units", parents, trips, used.WriteUnits(), used.ReadUnits())
				assert.Equal(t, float64(2*(parents+1)), used.WriteUnits(), "twice the units")
				assert.Equal(t, int64(1), used.Requests(), "one request")
				assert.Equal(t, 1, trips)
			}
		})
	}
}

func TestDenialFromMemoryCostsNothing(t *testing.T) {
	s := memProcess(t, perMinute())
	s.acquire("user-1", dynalimit.Amounts{"tpm": 9999})
	used := s.used(func() {
		for range 100 {
			s.deny("user-1", dynalimit.Amounts{"tpm": 500})
			s.clock.advance(10 * time.Millisecond)
		}
	})
	assert.Zero(t, used.Requests())
}

func TestDenialFromAStaleImageIsOneRead(t *testing.T) {
	s := memProcess(t, perMinute())
	s.acquire("user-1", dynalimit.Amounts{"tpm": 9999})
	s.clock.advance(1001 * time.Millisecond)
	used := s.used(func() { s.deny("user-1", dynalimit.Amounts{"tpm": 5000}) })
	assert.Equal(t, int64(1), used.Operations["GetItem"].Requests)
	assert.Equal(t, int64(1), used.Requests())
	assert.Equal(t, 1.0, used.ReadUnits(), "a consistent read")
	assert.Zero(t, used.WriteUnits())
	used = s.used(func() { s.deny("user-1", dynalimit.Amounts{"tpm": 5000}) })
	assert.Zero(t, used.Requests(), "remembered again")
}

// A denial of the parent's costs the child's grant and its return.
func TestDeniedCascadeCost(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.peer(perMinute()).acquire("project", dynalimit.Amounts{"tpm": 9999})
		var trips int
		used := s.used(func() { trips = roundTrips(t, s, func() { s.deny("key", dynalimit.Amounts{"tpm": 500}) }) })
		t.Logf("denied by the parent: %d round trips, %v", trips, used)
		assert.Equal(t, int64(3), used.Operations["UpdateItem"].Requests, "the child's take, the parent's refusal, the give-back")
		assert.Equal(t, 3.0, used.WriteUnits())
		assert.Zero(t, used.Operations["GetItem"].Requests, "the refusal shows the parent's bucket")
		assert.Equal(t, 2, trips)
		used = s.used(func() { s.deny("key", dynalimit.Amounts{"tpm": 500}) })
		assert.Zero(t, used.Requests(), "the next is denied from memory")
	})
}

func TestLeaseCosts(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 500})
	for _, step := range []struct {
		name     string
		requests int64
		do       func() error
	}{
		{"adjust up", 1, func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100}) }},
		{"adjust down", 1, func() error { return lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -200}) }},
		{"consume", 1, func() error { return lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 5}) }},
		{"settle at what is held", 0, func() error { return lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 405}) }},
		{"rollback after", 0, func() error { return lease.Rollback(t.Context()) }},
	} {
		used := s.used(func() { require.NoError(t, step.do()) })
		assert.Equal(t, step.requests, used.Requests(), step.name)
		assert.Equal(t, float64(step.requests), used.WriteUnits(), step.name)
		assert.Zero(t, used.ReadUnits(), step.name)
	}
}

// A warm key reads its configuration once in a TTL; the callers of that moment
// do not wait for it twice.
func TestConfigurationIsReadOnceInATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memProcess(t, perMinute())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		used := s.used(func() {
			for range 120 {
				s.clock.advance(time.Second)
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
			}
		})
		assert.Equal(t, int64(2), used.Operations["BatchGetItem"].Requests)
		names := []string{}
		for name := range used.Operations {
			names = append(names, name)
		}
		slices.Sort(names)
		t.Logf("an acquire a second for two minutes: %v", used)
	})
}

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
	daily := dynalimit.DailyQuota("usd", 50_000_000, pacific)
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

func TestColdAcquireReadsOnce(t *testing.T) {
	s := memProcess(t, perMinute())
	used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
	assert.Equal(t, int64(1), used.Operations["BatchGetItem"].Requests)
	assert.Equal(t, int64(1), used.Operations["UpdateItem"].Requests)
	assert.Equal(t, int64(2), used.Requests())
	peer := s.peer(perMinute())
	used = s.used(func() { peer.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
	assert.Equal(t, int64(1), used.Operations["BatchGetItem"].Requests)
	assert.Equal(t, int64(1), used.Operations["UpdateItem"].Requests, "an existing bucket is spent from at once")
	assert.Equal(t, int64(2), used.Requests())
	used = s.used(func() { s.acquire("user-2", dynalimit.Amounts{"rpm": 1}) })
	t.Logf("cold: %g read units, %g write units", used.ReadUnits(), used.WriteUnits())
	s.enrols(schema.EntityRecord{ID: "user-3", Plan: "pro"})
	used = s.used(func() { s.acquire("user-3", dynalimit.Amounts{"rpm": 1}) })
	assert.Equal(t, int64(3), used.Requests(), "the plan is read once the record has named it")
	assert.Equal(t, 8.0, used.ReadUnits())
}
