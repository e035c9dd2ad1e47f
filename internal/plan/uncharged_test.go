package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A take of a limit in shadow is charged what fits beside the other asks of its write. The rest goes to the counter.
func TestShadowTakesAreChargedBesideTheirWrite(t *testing.T) {
	const now = 1_000_000
	rate := bucket.Rate{Burst: 100_000, Amount: 100_000, Period: 60_000}
	cfg := &Config{Fingerprint: []byte{1}, Shadow: 1, Limits: []schema.Limit{{Name: "tpm", Capacity: 100_000, Rate: rate}}}
	image := &schema.Image{
		Set: schema.NewLimitSets().Of(cfg.Names()), Fingerprint: cfg.Fingerprint, HasRefilled: true, Refilled: now,
		Limits: []schema.Stored{{Rate: rate, Tokens: 100_000}},
	}
	v := View{Image: image, Config: cfg, Now: now}
	for name, c := range map[string]struct {
		before Ask
		fits   bool
	}{
		"alone":                      {Ask{}, true},
		"beside a take that fits":    {Ask{Take: true, Amounts: []Signed{{Name: "tpm", Amount: 50_000}}}, true},
		"beside a larger take":       {Ask{Take: true, Amounts: []Signed{{Name: "tpm", Amount: 50_001}}}, false},
		"beside a charge that fits":  {Ask{Amounts: []Signed{{Name: "tpm", Amount: 50_000}}}, true},
		"beside a larger charge":     {Ask{Amounts: []Signed{{Name: "tpm", Amount: 50_001}}}, false},
		"beside a give-back as well": {Ask{Amounts: []Signed{{Name: "tpm", Amount: -50_000}}}, true},
	} {
		take := Ask{Take: true, Amounts: []Signed{{Name: "tpm", Amount: 50_000}}}
		asks := []*Ask{&c.before, &take}
		if c.before.Amounts == nil {
			asks = asks[1:]
		}
		Decide(v, asks, nil, Rules{})
		assert.Equal(t, Carried, take.Fate, name)
		if c.fits {
			assert.Empty(t, take.Down, name)
		} else {
			assert.Equal(t, take.Amounts, take.Down, name)
		}
	}
}
