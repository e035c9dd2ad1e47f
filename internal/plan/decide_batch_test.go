package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A write carries a batch call beside interactive ones where enough is left, and where it was left once already. It
// leaves the batch call where the bound may refuse the write, and after a refusal.
func TestInteractiveTakesGoAlone(t *testing.T) {
	cfg := &Config{Fingerprint: []byte("12345678"), Permanent: true, Limits: []schema.Limit{{Name: "x", Rate: bucket.Rate{Burst: 100_000, Amount: 1000, Period: 1000}}}}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"x"}), Refilled: 1, HasRefilled: true, Fingerprint: cfg.Fingerprint}
	for name, c := range map[string]struct {
		level, interactive  int64
		refusals, postponed int
		want                Fate
	}{
		"a tenth is left above the reserve":    {32_000, 1000, 0, 0, Carried},
		"less is left":                         {31_999, 1000, 0, 0, Deferred},
		"less is left beside none":             {31_999, 0, 0, 0, Carried},
		"less is left, and it was left before": {31_999, 1000, 0, 1, Carried},
		"the reserve is left, and it was left": {22_000, 1000, 0, 1, Carried},
		"less than the reserve is left":        {21_999, 1000, 0, 1, Denied},
		"refused":                              {90_000, 1000, 1, 0, Deferred},
		"refused, and left before":             {90_000, 1000, 1, 1, Deferred},
		"refused, and left twice":              {90_000, 1000, 1, 2, Carried},
		"refused beside none":                  {90_000, 0, 1, 0, Carried},
	} {
		image.Limits = []schema.Stored{{Rate: cfg.Limits[0].Rate, Tokens: c.level}}
		batch := &Ask{Take: true, Batch: true, Amounts: []Signed{{Name: "x", Amount: 1000}}, Refusals: c.refusals, Postponed: c.postponed}
		asks := []*Ask{{Take: true, Amounts: []Signed{{Name: "x", Amount: c.interactive}}}, batch}
		if c.interactive == 0 {
			asks = asks[1:]
		}
		d := Decide(View{Image: image, Config: cfg, Now: 1}, asks, nil, Rules{})
		assert.Equal(t, c.want, batch.Fate, name)
		if c.interactive > 0 {
			keep := int64(0)
			if batch.Fate == Carried {
				keep = 20_000
			}
			assert.Equal(t, keep, d.Rows.Of("x").Keep, name)
		}
	}
}
