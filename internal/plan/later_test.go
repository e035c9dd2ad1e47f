package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The later form of a charge may meet tokens that hold part of the credit already,
// so the debt that an expiry covers is counted without any.
func TestLaterFormCountsOnNoCreditForItsDebt(t *testing.T) {
	const now = 1_000_000
	rate := bucket.Rate{Burst: 100 * milli, Amount: milli, Period: 1000}
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm"}), Fingerprint: []byte("12345678"), HasRefilled: true, Refilled: now - 10_000,
		TTL: (now + 150_000) / 1000, Limits: []schema.Stored{{Rate: rate, Tokens: -10 * milli}},
	}
	v := NewView(image, &Config{Fingerprint: []byte("12345678"), Limits: []Limit{{Name: "rpm", Rate: rate}}}, Current, now)
	charge := Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: 45 * milli}}}
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
	v := NewView(image, &Config{Fingerprint: []byte("12345678"), Limits: []Limit{{Name: "rpm", Rate: rate}}}, Current, now)
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
		p := v.Plan(Sums{{Name: "rpm", Amounts: test.amounts}}, Rules{Later: true})
		assert.Equal(t, Spend, p.Kind, "%+v", test.amounts)
		assert.Equal(t, test.later, p.Spend.LaterRefill, "%+v", test.amounts)
	}
}
