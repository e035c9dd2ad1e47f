package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
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
