package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// A claim that replaces a limit by one of the other kind carries its counter on. It requires both parts of it to be as
// in the image: a give-back and a take together may leave the whole as it was, and move the part that a level above counts.
func TestReplacedLimitRequiresBothPartsOfItsCounter(t *testing.T) {
	for passed, part := range map[int64]string{0: "(attribute_not_exists(#9) OR #9 = :8)", 7: "#9 = :8"} {
		seen := Image{
			Set: NewLimitSets().Of([]string{"day"}), HasRefilled: true,
			Limits: []Stored{{Rate: bucket.Rate{Burst: 5, Amount: 5, Period: 1}, Tokens: 3, Consumed: 9, Passed: passed}},
		}
		c := Claim{Seen: &seen, Limits: []Change{{Name: "day", Kind: ReplaceLimit}}}
		s := c.Statement()
		assert.Contains(t, s.Condition, "#8 = :7 AND "+part)
		assert.Equal(t, []string{"b_day_tc", "b_day_up"}, []string{s.Names["#8"], s.Names["#9"]})
		assert.Equal(t, Number(passed), s.Values[":8"])
	}
}
