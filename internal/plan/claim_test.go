package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
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
	cfg := &Config{Fingerprint: []byte("12345678"), Limits: []Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	p := NewView(nil, cfg, Current, now).Plan(Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{})
	require.Equal(t, Create, p.Kind)
	made := bucket.State{Rate: cfg.Limits[0].Rate, Tokens: p.Create.Limits[0].Tokens, Refilled: now}
	assert.Equal(t, made.Burst, made.Level(p.Create.TTL*1000))
	assert.Greater(t, made.Wait(now, made.Burst), int64(minTTLSeconds*1000), "the least would not do")
}

// A limit that is configured no more goes once it is full and nobody charges it: a
// charge that went with it would be forgiven.
func TestRemovedLimitStaysForACharge(t *testing.T) {
	m := fullBucket("old", "rpm")
	cfg := &Config{Fingerprint: []byte("87654321"), Limits: []Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	for _, test := range []struct {
		amounts bucket.Amounts
		kind    schema.ClaimKind
	}{
		{kind: schema.ClaimRemove},
		{amounts: bucket.Amounts{Adjust: 5 * milli}, kind: schema.ClaimKeep},
		{amounts: bucket.Amounts{Take: 5 * milli}, kind: schema.ClaimKeep},
	} {
		p := NewView(m, cfg, Newer, 1000).Plan(Sums{{Name: "old", Amounts: test.amounts}, {Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, Rules{})
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
		cfg := &Config{Fingerprint: []byte("87654321"), ReadAt: read, Limits: []Limit{{Name: "rpm", Rate: perSecond(2, 100)}}}
		p := NewView(m, cfg, Newer, 1_000_000).Plan(Sums{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, Rules{})
		require.Equal(t, Claim, p.Kind)
		assert.Equal(t, stored, p.Claim.ConfigRead)
	}
}

// An hour after the refill instant a write moves it, if it may.
func TestOldRefillInstantIsMoved(t *testing.T) {
	m := fullBucket("rpm")
	cfg := &Config{Fingerprint: m.Fingerprint, Limits: []Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	for _, test := range []struct {
		now  int64
		tidy bool
		kind Kind
	}{
		{now: 3_600_000, tidy: true, kind: Spend},
		{now: 3_600_001, tidy: true, kind: Claim},
		{now: 3_600_001, kind: Spend},
	} {
		p := NewView(m, cfg, Current, test.now).Plan(Sums{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, Rules{Tidy: test.tidy})
		assert.Equal(t, test.kind, p.Kind, "%+v", test)
		assert.Equal(t, test.kind == Claim, p.Housekeeping)
	}
}
