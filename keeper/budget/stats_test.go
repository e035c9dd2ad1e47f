package budget

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// How near a quota is is told of the nearest app, for each label.
func TestStatsOfQuotas(t *testing.T) {
	for name, adapt := range map[string]func(*Options){
		"events":    func(o *Options) { o.OnEvent = func(context.Context, Event) {} },
		"no events": func(o *Options) { o.OnEvent = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, adapt)
			o := fixtureOrg()
			o.Sticky, o.NoSticky = false, true
			w.org(o)
			assert.Empty(t, w.b.Stats().QuotaPercent, "nobody asked")
			w.spend(appA, "premium", 8_250_000)
			w.spend(appB, "premium", 4_000_000)
			w.spend(appB, "standard", 6_000_000)
			w.recommend(w.b, appB)
			assert.Equal(t, map[string]float64{"premium": 40, "standard": 120, "economy": 0}, w.b.Stats().QuotaPercent)
			w.recommend(w.b, appA)
			assert.Equal(t, map[string]float64{"premium": 82.5, "standard": 120, "economy": 0}, w.b.Stats().QuotaPercent)

			w.clock.Advance(nearFor - time.Second)
			w.recommend(w.b, appB)
			w.clock.Advance(time.Second)
			assert.Equal(t, map[string]float64{"premium": 40, "standard": 120, "economy": 0}, w.b.Stats().QuotaPercent, "of who asked lately")
			w.clock.Advance(nearFor)
			assert.Empty(t, w.b.Stats().QuotaPercent)

			w.clock.Set(w.recommend(w.b, appB).ResetAt.Add(-time.Second))
			w.recommend(w.b, appB)
			assert.Len(t, w.b.Stats().QuotaPercent, 3)
			w.clock.Advance(time.Second)
			assert.Empty(t, w.b.Stats().QuotaPercent, "of a day that is over")
			w.recommend(w.b, appB)
			assert.Equal(t, map[string]float64{"premium": 0, "standard": 0, "economy": 0}, w.b.Stats().QuotaPercent)
		})
	}
}
