package lock

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Margin is the time after its end for which a lease is still respected. The end is an instant of
// the holder's clock and is compared with the taker's. Both follow the Date of DynamoDB's
// answers, which has whole seconds: each may be off by one, and by half of the answer's
// duration. 5 s cover two such clocks and answers of 3 s.
const Margin = 5 * time.Second

// The bounds of a hold.
const (
	ShortestHold = time.Second
	LongestHold  = time.Hour
)

// renewAfter is when a hold is renewed: another two tries fit before it ends.
func renewAfter(hold time.Duration) time.Duration { return hold / 3 }

// retryAfter is the pause after a renewal that failed.
func retryAfter(hold time.Duration) time.Duration { return hold / 12 }

// endsAfter is the time after which a holder stops, counted from before the request that
// extended the lease was sent: a sixth before its end, to finish the work.
func endsAfter(hold time.Duration) time.Duration { return hold - hold/6 }

// freeAt is the time from which another process can take a lease; the zero time for now.
func freeAt(l schema.Lease) time.Time {
	if l.Token == "" {
		return time.Time{}
	}
	return time.UnixMilli(l.Until).Add(Margin)
}

// taken is the lease that a taker stores now; ok is false while another process holds it.
// The fence is above that of every earlier take, also if their item expired.
func taken(stored schema.Lease, holder, token string, now time.Time, hold time.Duration) (schema.Lease, bool) {
	if now.Before(freeAt(stored)) {
		return stored, false
	}
	return schema.Lease{
		Holder: holder, Token: token, Fence: max(stored.Fence+1, now.UnixMilli()), Until: now.Add(hold).UnixMilli(),
	}, true
}
