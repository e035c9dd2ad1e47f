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
