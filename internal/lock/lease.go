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

// renewAfter returns the time after which a hold is renewed, a third of it: two more tries fit before its end.
func renewAfter(hold time.Duration) time.Duration { return hold / 3 }

// retryAfter returns the pause after a failed renewal, a twelfth of the hold.
func retryAfter(hold time.Duration) time.Duration { return hold / 12 }

// endsAfter returns the time after which a holder stops, from before the request that extended the lease. That
// is a sixth of the hold before its end, to finish the work.
func endsAfter(hold time.Duration) time.Duration { return hold - hold/6 }

// freeAt returns the time from which another process can take a lease; the zero time for a released one.
func freeAt(l schema.Lease) time.Time {
	if l.Token == "" {
		return time.Time{}
	}
	return time.UnixMilli(l.Until).Add(Margin)
}

// nextLease returns the lease that a taker stores at now; ok is false while another process holds it. The fence
// is above that of every earlier take, also if their item expired.
func nextLease(stored schema.Lease, holder, token string, now time.Time, hold time.Duration) (schema.Lease, bool) {
	if now.Before(freeAt(stored)) {
		return stored, false
	}
	return schema.Lease{
		Holder: holder, Token: token, Fence: max(stored.Fence+1, now.UnixMilli()), Until: now.Add(hold).UnixMilli(),
	}, true
}
