package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// fullBucket is a bucket of the limits, each full at 100 tokens and refilled at
// instant 0.
func fullBucket(names ...string) *schema.Image {
	m := &schema.Image{Set: schema.NewLimitSets().Of(names), HasRefilled: true, Fingerprint: []byte("12345678")}
	for range names {
		m.Limits = append(m.Limits, schema.Stored{Rate: perSecond(1, 100), Tokens: 100 * milli})
	}
	return m
}

// A bucket that is made in debt stays until the debt is paid: one that comes back
// full would forgive it.
func TestBucketMadeInDebtStaysUntilItIsPaid(t *testing.T) {
	const now, charge = 1_000_000, 50_000 * milli
	cfg := &Config{Fingerprint: []byte("12345678"), Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	p := View{Config: cfg, Now: now}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{})
	require.Equal(t, Create, p.Kind)
	made := bucket.State{Rate: cfg.Limits[0].Rate, Tokens: p.Create.Limits[0].Put, Refilled: now}
	assert.Equal(t, made.Burst, made.Level(p.Create.TTL*1000))
	assert.Greater(t, made.Wait(now, made.Burst), int64(minTTLSeconds*1000), "the least would not do")
}

// A limit that is configured no more goes once it is full and nobody charges it: a
// charge that went with it would be forgiven.
func TestRemovedLimitStaysForACharge(t *testing.T) {
	m := fullBucket("old", "rpm")
	cfg := &Config{Fingerprint: []byte("87654321"), Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	for _, test := range []struct {
		amounts bucket.Amounts
		kind    schema.ChangeKind
	}{
		{kind: schema.RemoveLimit},
		{amounts: bucket.Amounts{Adjust: 5 * milli}, kind: schema.KeepLimit},
		{amounts: bucket.Amounts{Take: 5 * milli}, kind: schema.KeepLimit},
	} {
		p := View{Image: m, Config: cfg, Adopt: true, Now: 1000}.Plan(Rows{{Name: "old", Amounts: test.amounts}, {Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, Rules{})
		require.Equal(t, Claim, p.Kind)
		assert.Equal(t, test.kind, p.Claim.Limits[0].Kind, "%+v", test.amounts)
	}
}

// The stored instant of a configuration never goes back, or an older one would
// replace a newer.
func TestStoredInstantOfAConfigurationNeverGoesBack(t *testing.T) {
	m := fullBucket("rpm")
	m.ConfigRead = 500_000
	for read, stored := range map[int64]int64{400_000: 500_000, 501_000: 500_000, 600_000: 599_000} {
		cfg := &Config{Fingerprint: []byte("87654321"), ReadAt: read, Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(2, 100)}}}
		p := View{Image: m, Config: cfg, Adopt: true, Now: 1_000_000}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, Rules{})
		require.Equal(t, Claim, p.Kind)
		assert.Equal(t, stored, p.Claim.ConfigRead)
	}
}

// An hour after the refill instant a write moves it, if it may.
func TestOldRefillInstantIsMoved(t *testing.T) {
	m := fullBucket("rpm")
	cfg := &Config{Fingerprint: m.Fingerprint, Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	for _, test := range []struct {
		now  int64
		tidy bool
		kind Kind
	}{
		{now: 3_600_000, tidy: true, kind: Spend},
		{now: 3_600_001, tidy: true, kind: Claim},
		{now: 3_600_001, kind: Spend},
	} {
		p := View{Image: m, Config: cfg, Now: test.now}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, Rules{Tidy: test.tidy})
		assert.Equal(t, test.kind, p.Kind, "%+v", test)
		assert.Equal(t, test.kind == Claim, p.Housekeeping)
	}
}

// A bucket is made to be charged, and not to be given something back.
func TestBucketIsMadeOnlyToBeCharged(t *testing.T) {
	cfg := &Config{Fingerprint: []byte("12345678"), Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	v := View{Config: cfg, Now: 1_000_000}
	for _, test := range []struct {
		amounts bucket.Amounts
		late    int64
		kind    Kind
	}{
		{amounts: bucket.Amounts{Adjust: -5000}, kind: Nothing},
		{amounts: bucket.Amounts{Adjust: -5000, Take: 5000}, kind: Nothing},
		{amounts: bucket.Amounts{Take: 5000}, kind: Create},
		{late: 5000, kind: Create},
	} {
		p := v.Plan(Rows{{Name: "rpm", Amounts: test.amounts, Late: test.late}}, Rules{})
		assert.Equal(t, test.kind, p.Kind, "%+v", test)
	}
}

// What is taken off the counter lands once, in the incarnation of the bucket that it
// was debited from, as a give-back does.
func TestLapsedIsGuardedAsAGiveBack(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 100 * milli, Period: 60_000}
	v := roomView(Current, schema.Stored{Rate: rate, Tokens: 40 * milli})
	v.Config.Fingerprint = v.Image.Fingerprint
	lapsed := Rows{{Name: "rpm", Late: -3 * milli}}
	assert.True(t, lapsed.HasBack())
	w := v.Plan(lapsed, Rules{})
	require.Equal(t, Spend, w.Kind)
	assert.True(t, w.Spend.Backs)
	assert.EqualValues(t, -3*milli, w.Spend.Limits[0].Consumed)
	assert.Zero(t, w.Spend.Limits[0].Add, "the tokens are not given back")
	w = v.Plan(Rows{{Name: "rpm", Late: 3 * milli}}, Rules{})
	assert.False(t, w.Spend.Backs, "what is charged late is none")
}

// A limit that is made counts what it is charged: what lapsed was on the counter of the
// one that is gone.
func TestNothingIsTakenOffACounterThatIsMade(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 100 * milli, Period: 60_000}
	cfg := &Config{Fingerprint: []byte("f"), Limits: []schema.Limit{{Name: "rpm", Capacity: rate.Burst, Rate: rate}}}
	sums := Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}, Late: -3 * milli}}
	w := View{Config: cfg, Adopt: true, Now: 1_000_000}.Plan(sums, Rules{})
	require.Equal(t, Create, w.Kind)
	assert.EqualValues(t, milli, w.Create.Limits[0].Consumed)

	other := roomView(Newer, schema.Stored{Rate: rate, Tokens: 40 * milli}).Image
	other.Set = schema.NewLimitSets().Of([]string{"tpm"})
	w = View{Image: other, Config: cfg, Adopt: true, Now: other.Refilled}.Plan(sums, Rules{})
	require.Equal(t, Claim, w.Kind)
	for _, l := range w.Claim.Limits {
		if l.Name == "rpm" {
			assert.Equal(t, schema.AddLimit, l.Kind)
			assert.EqualValues(t, milli, l.Consumed)
		}
	}
}

// What goes before a take leaves no room in a quota that was taken in a window that has ended:
// a denial that counted on it would be of no limit, and say to try again at once.
func TestNothingOfAnEarlierWindowGoesBeforeATake(t *testing.T) {
	hours, err := calendar.WindowsOf("hour", "")
	require.NoError(t, err)
	now := time.Date(2026, 1, 23, 12, 30, 0, 0, time.UTC).UnixMilli()
	v := View{Now: now, Image: &schema.Image{
		Set:    schema.NewLimitSets().OfKinds([]string{"usd"}, []string{"usd"}),
		Limits: []schema.Stored{{Rate: bucket.Quota(10_000, hours), Tokens: 2000, Window: int32(hours.At(now))}},
	}}
	for _, earlier := range []int64{0, 1} {
		window := hours.At(now) - earlier
		taken := v.Rows(Rows{{Name: "usd", Amounts: bucket.Amounts{Back: 8000, Take: 1000, Adjust: 500}, Window: bucket.InLife(0, window)}}, nil).Taken().Of("usd")
		assert.Equal(t, bucket.Amounts{Take: 1500, Back: 8000 * (1 - earlier)}, taken.Amounts)
	}
}

// The later form of a charge may meet tokens that hold part of the credit already,
// so the debt that an expiry covers is counted without any.
func TestLaterFormCountsOnNoCreditForItsDebt(t *testing.T) {
	const now = 1_000_000
	rate := bucket.Rate{Burst: 100 * milli, Amount: milli, Period: 1000}
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm"}), Fingerprint: []byte("12345678"), HasRefilled: true, Refilled: now - 10_000,
		TTL: (now + 150_000) / 1000, Limits: []schema.Stored{{Rate: rate, Tokens: -10 * milli}},
	}
	v := View{Image: image, Config: &Config{Fingerprint: []byte("12345678"), Limits: []schema.Limit{{Name: "rpm", Rate: rate}}}, Now: now}
	charge := Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: 45 * milli}}}
	assert.Equal(t, Spend, v.Plan(charge, Rules{}).Kind, "10 tokens of debt less 10 of credit, and 45 more: 50 are covered")
	assert.Equal(t, Claim, v.Plan(charge, Rules{Later: true}).Kind, "the 10 may be in the tokens already")
}

// Only what is charged, and neither taken nor given back, is right for any refill
// instant: a take was decided with the credit, and a give-back may overflow.
func TestLaterFormIsOfPlainCharges(t *testing.T) {
	const now = 1_000_000
	rate := bucket.Rate{Burst: 100 * milli, Amount: milli, Period: 1000}
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm"}), Fingerprint: []byte("12345678"), HasRefilled: true, Refilled: now - 10_000,
		TTL: (now + 1_000_000) / 1000, Limits: []schema.Stored{{Rate: rate, Tokens: 50 * milli}},
	}
	v := View{Image: image, Config: &Config{Fingerprint: []byte("12345678"), Limits: []schema.Limit{{Name: "rpm", Rate: rate}}}, Now: now}
	for _, test := range []struct {
		amounts bucket.Amounts
		later   bool
	}{
		{bucket.Amounts{Adjust: 5 * milli}, true},
		{bucket.Amounts{Take: 5 * milli}, false},
		{bucket.Amounts{Back: 5 * milli}, false},
		{bucket.Amounts{Adjust: 5 * milli, Take: milli}, false},
		{bucket.Amounts{Adjust: 5 * milli, Back: milli}, false},
	} {
		p := v.Plan(Rows{{Name: "rpm", Amounts: test.amounts}}, Rules{Later: true})
		assert.Equal(t, Spend, p.Kind, "%+v", test.amounts)
		assert.Equal(t, test.later, p.Spend.LaterRefill, "%+v", test.amounts)
	}
}
