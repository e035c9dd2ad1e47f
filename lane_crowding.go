package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// among is what the lane knows of others who write to its bucket, for a write
// whose ops were refused so many times.
func (l *lane) among(refusals int) plan.Crowding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crowding.Within(refusals)
}

// met learns from the answer to a write, which shows the image, of others who
// write.
func (l *lane) met(p *plan.Write, v verdict, image *schema.Image) {
	if v != landed && v != refused {
		return
	}
	now := l.owner.nowMS()
	l.mu.Lock()
	defer l.mu.Unlock()
	if v == landed && l.crowding.Slack == 0 {
		l.crowding.Refused = 0
		return
	}
	l.crowding = l.crowding.After(plan.Meet(p, v == landed, image, now), p.Guess, now)
}

// hears notes when an image came; l.mu must be held.
func (l *lane) hears(asked int64) {
	l.crowding.Heard = l.owner.nowMS()
	if asked > 0 {
		l.crowding.Trip = l.crowding.Heard - asked
	}
}
