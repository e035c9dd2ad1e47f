package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Denies denies where Recall does, but beside those who stand in line, and leaves the lane as
// Recall does.
func TestDeniesAsRecallDoes(t *testing.T) {
	const age, more = 300, 7 * token
	for what, make := range map[string]func(l *Lane, cfg *plan.Config){
		"an image":          func(*Lane, *plan.Config) {},
		"none":              func(l *Lane, _ *plan.Config) { l.sight.image = nil },
		"unknown":           func(l *Lane, _ *plan.Config) { l.sight.known = false },
		"an old one":        func(l *Lane, _ *plan.Config) { l.sight.seenAt -= 1000 },
		"one of the future": func(l *Lane, _ *plan.Config) { l.sight.seenAt += 1000 },
		"of other limits":   func(l *Lane, cfg *plan.Config) { l.sight.image = imageOf(rpmOf(99), 0, time.Now().UnixMilli()) },
		"of a ghost":        func(l *Lane, _ *plan.Config) { l.sight.image.Limits[0].Ghost = true },
		"filled meanwhile":  func(l *Lane, _ *plan.Config) { l.sight.refilled = true },
		"beside a give-back": func(l *Lane, cfg *plan.Config) {
			l.queue.add(NewAdjust(context.Background(), plan.Negated(oneToken), nil, cfg))
		},
		"beside other takes":   func(l *Lane, cfg *plan.Config) { l.queue.add(NewTake(context.Background(), oneToken, cfg)) },
		"with somebody before": func(l *Lane, _ *plan.Config) { l.Line.Join(NewWaiter(1)) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, cfg := resting(t), rpmOf(60)
				now := time.Now().UnixMilli()
				l.sight.known, l.sight.image, l.sight.seenAt = true, imageOf(cfg, more-300, now), now-age
				make(l, cfg)
				var last plan.Denial
				for _, asked := range []int64{more - 301, more - 300, more - 299, more, 60 * token, 61 * token} {
					l.sight.scarce = false
					r, ok := MemoryOf(l).Recall([]plan.Signed{{Name: "rpm", Amount: asked}}, cfg, LastRank, now)
					scarce := l.sight.scarce
					l.sight.scarce = false
					image, ahead := MemoryOf(l).Denies(&plan.Needs{asked}, cfg, &last, now)
					if what == "with somebody before" {
						require.Nil(t, image)
						continue
					}
					require.Equal(t, ok && r.Denied, image != nil, asked)
					assert.Equal(t, scarce, l.sight.scarce)
					if image != nil {
						assert.Same(t, r.Image, image)
						assert.Equal(t, image.State(0).Outlook(now, asked), ahead[0])
					}
				}
				l.queue.ops = nil
			})
		})
	}
}
