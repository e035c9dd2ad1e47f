package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What memory denies is what does not fit the view, with the outlook of each limit, whatever
// was asked before: in the same millisecond or in another one, of the same image or of another.
func TestDenialIsWhatDoesNotFit(t *testing.T) {
	names, sets := []string{"a", "b", "c"}, schema.NewLimitSets()
	rate := bucket.Rate{Burst: 20_000, Amount: 3_000, Period: 70}
	cfg := &Config{Fingerprint: []byte("12345678")}
	for _, name := range names {
		cfg.Limits = append(cfg.Limits, Limit{Name: name, Rate: rate})
	}
	rapid.Check(t, func(t *rapid.T) {
		image := func() *schema.Image {
			shown := rapid.SampledFrom([][]string{names, {"a", "b", "c", "d"}, {"0", "a", "b", "c"}, {"a", "c"}}).Draw(t, "shown")
			m := &schema.Image{Set: sets.Of(shown), HasRefilled: true, Refilled: 1_000, Fingerprint: cfg.Fingerprint}
			for range shown {
				m.Limits = append(m.Limits, schema.Stored{Rate: rate, Tokens: rapid.Int64Range(-5_000, 20_000).Draw(t, "tokens"), Ghost: rapid.IntRange(0, 9).Draw(t, "ghost") == 0})
			}
			return m
		}
		images := []*schema.Image{image(), image()}
		var d Denial
		for range 20 {
			m := rapid.SampledFrom(images).Draw(t, "image")
			now := rapid.Int64Range(999, 1_003).Draw(t, "now")
			var needs Needs
			var asked []Signed
			for i, name := range names {
				if needs[i] = rapid.Int64Range(-1, 5).Draw(t, name) * 5_000; needs[i] > 0 {
					asked = append(asked, Signed{Name: name, Amount: needs[i]})
				}
			}
			v := NewView(m, cfg, Current, now)
			denied := d.Denies(m, cfg, &needs, now)
			require.Equal(t, !v.Fits(asked, nil, nil) && !v.Lacks(asked), denied)
			for i, name := range names {
				if denied && needs[i] > 0 {
					require.Equal(t, m.State(m.Set.Index(name)).Outlook(now, needs[i]), d.Outlooks[i])
				}
			}
		}
	})
}

// Of a quota the general way decides.
func TestDenialOfAQuotaIsNone(t *testing.T) {
	rate := bucket.Quota(1000, 1)
	cfg := &Config{Limits: []Limit{{Name: "a", Rate: rate}}}
	m := &schema.Image{Set: schema.NewLimitSets().Of([]string{"a"}), Limits: []schema.Stored{{Rate: rate}}}
	var d Denial
	require.False(t, d.Denies(m, cfg, &Needs{1000}, 0))
}
