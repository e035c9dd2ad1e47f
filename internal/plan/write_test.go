package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A bucket is made to be charged, and not to be given something back.
func TestBucketIsMadeOnlyToBeCharged(t *testing.T) {
	cfg := &Config{Fingerprint: []byte("12345678"), Limits: []Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	v := NewView(nil, cfg, Current, 1_000_000)
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
		p := v.Plan(Sums{{Name: "rpm", Amounts: test.amounts, Late: test.late}}, Rules{})
		assert.Equal(t, test.kind, p.Kind, "%+v", test)
	}
}

// What is taken off the counter lands once, in the incarnation of the bucket that it
// was debited from, as a give-back does.
func TestLapsedIsGuardedAsAGiveBack(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 100 * milli, Period: 60_000}
	v := roomView(Current, schema.Stored{Rate: rate, Tokens: 40 * milli})
	v.Config.Fingerprint = v.Image.Fingerprint
	lapsed := Sums{{Name: "rpm", Late: -3 * milli}}
	assert.True(t, lapsed.HasBack())
	w := v.Plan(lapsed, Rules{})
	require.Equal(t, Spend, w.Kind)
	assert.True(t, w.Spend.Backs)
	assert.EqualValues(t, -3*milli, w.Spend.Limits[0].Consumed)
	assert.Zero(t, w.Spend.Limits[0].Add, "the tokens are not given back")
	w = v.Plan(Sums{{Name: "rpm", Late: 3 * milli}}, Rules{})
	assert.False(t, w.Spend.Backs, "what is charged late is none")
}

// A limit that is made counts what it is charged: what lapsed was on the counter of the
// one that is gone.
func TestNothingIsTakenOffACounterThatIsMade(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 100 * milli, Period: 60_000}
	cfg := &Config{Fingerprint: []byte("f"), Limits: []Limit{{Name: "rpm", Capacity: rate.Burst, Rate: rate}}}
	sums := Sums{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}, Late: -3 * milli}}
	w := NewView(nil, cfg, Newer, 1_000_000).Plan(sums, Rules{})
	require.Equal(t, Create, w.Kind)
	assert.EqualValues(t, milli, w.Create.Limits[0].Consumed)

	other := roomView(Newer, schema.Stored{Rate: rate, Tokens: 40 * milli}).Image
	other.Set = schema.NewLimitSets().Of([]string{"tpm"})
	w = NewView(other, cfg, Newer, other.Refilled).Plan(sums, Rules{})
	require.Equal(t, Claim, w.Kind)
	for _, l := range w.Claim.Limits {
		if l.Name == "rpm" {
			assert.Equal(t, schema.ClaimAdd, l.Kind)
			assert.EqualValues(t, milli, l.Consumed)
		}
	}
}
