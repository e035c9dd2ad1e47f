package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestLow(t *testing.T) {
	set := schema.NewLimitSets().Of([]string{"rpm", "tpm"})
	m := &schema.Image{Set: set, Refilled: 1000, HasRefilled: true, Limits: []schema.Stored{
		{Rate: perSecond(1, 100), Tokens: 9999}, {Rate: perSecond(1, 100), Tokens: 50_000},
	}}
	rpm, tpm := Signed{Name: "rpm", Amount: milli}, Signed{Name: "tpm", Amount: milli}
	assert.True(t, Low(m, []Signed{rpm}, 1000), "less than a tenth")
	assert.True(t, Low(m, []Signed{tpm, rpm}, 1000), "of any limit")
	assert.False(t, Low(m, []Signed{tpm}, 1000), "that is named")
	assert.False(t, Low(m, []Signed{rpm}, 2000), "with what was refilled until then")
	assert.False(t, Low(m, []Signed{{Name: "day", Amount: milli}}, 1000), "that is there")
	assert.False(t, Low(nil, []Signed{rpm}, 1000))
}

func TestShared(t *testing.T) {
	set := schema.NewLimitSets().Of([]string{"rpm"})
	before := crowdedImage(set, 100_000, 5000)
	ours := Sums{{Name: "rpm", Amounts: bucket.Amounts{Take: 3000, Back: 1000}}}
	assert.False(t, Shared(nil, before, nil), "nothing is known of before")
	assert.False(t, Shared(before, crowdedImage(set, 100_000, 5000), nil))
	assert.False(t, Shared(before, crowdedImage(set, 98_000, 7000), ours), "what was ours")
	assert.True(t, Shared(before, crowdedImage(set, 98_000, 7000), nil))
	assert.True(t, Shared(before, crowdedImage(set, 98_000, 5000), ours), "somebody gave back")
	another := crowdedImage(set, 100_000, 5000)
	another.Incarnation = []byte("another")
	assert.True(t, Shared(before, another, nil), "somebody made it anew")
	assert.True(t, Shared(before, nil, nil), "or deleted it")
	assert.True(t, Shared(before, crowdedImage(schema.NewLimitSets().Of([]string{"rpm"}), 100_000, 5000), nil), "or changed its limits")
}
