// The lazy refill of buckets is in internal/bucket/bucket.go, which has no imports. This file converts
// images of buckets for users.

package dynalimit

import (
	"cmp"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/sources"
)

// limitOf returns a stored limit, with numbers in millitokens, as a limit in whole tokens: a token bucket, a
// quota or calls in flight. MaxDebt, Reserve and Unit stay unset, and Longest of slots is the default.
func limitOf(name string, capacity int64, rate bucket.Rate) (l Limit) {
	if rate.Period == 0 { // slots
		n, hold := rate.Burst/milli, time.Duration(rate.Hold())*time.Millisecond
		return Limit{Name: name, Capacity: n, Burst: n, RefillAmount: n, Hold: cmp.Or(hold.Truncate(time.Second), time.Minute)}.withDefaults()
	}
	if rate.Period < 0 { // a quota
		return newQuota(name, rate.Burst/milli, rate.Windows().Unit(), rate.Windows().Zone())
	}
	l.setBucket(name, capacity, &rate)
	return l
}

// setBucket sets the name, capacity, burst, refill amount and refill period of a zero limit, as of a token
// bucket. It converts capacity and rate from millitokens to whole tokens, rounded towards 0.
func (l *Limit) setBucket(name string, capacity int64, rate *bucket.Rate) {
	l.Name, l.Capacity, l.Burst, l.RefillAmount = name, capacity/milli, rate.Burst/milli, rate.Amount/milli
	l.RefillPeriod = time.Duration(rate.Period) * time.Millisecond
}

// tokensOf returns a map from limits to whole tokens of amounts in millitokens, which may be negative, rounded
// towards 0. A nil list gives an empty map.
func tokensOf(list []plan.Signed) Amounts { return plan.Tokens(list) }

// setBalance fills in a zero status from a balance, and converts it to whole tokens. If the bucket did not
// answer, it shows the limit as configured. It sets Unlimited, InFlight and the money's unit too.
func (s *LimitStatus) setBalance(b *call.Balance) {
	s.EntityID, s.Resource = b.Lane.Entity, b.Lane.Resource
	s.Limit, s.Degraded, s.ByEstimates = limitOf(b.Limit, b.Capacity, b.Rate), b.Degraded, b.ByEstimates
	if i := b.Index; i >= 0 {
		l := &b.Config.Limits[i]
		if s.Source = sources.Source(l.Source); b.Degraded {
			s.Limit = limitOf(b.Limit, l.Capacity, l.Rate)
		}
		if l.Rate.Period == 0 && s.Limit.Hold != 0 {
			s.Limit.Hold, s.Limit.Longest = time.Duration(l.Rate.Hold())*time.Millisecond, time.Duration(l.Longest)*time.Millisecond
		}
		s.Limit.MaxDebt, s.Limit.Reserve = l.MaxDebt/milli, l.Reserve/milli
		if s.Limit.Shadow = b.Config.Shadow>>i&1 == 1; s.Limit.Shadow {
			s.Unlimited = b.Config.From().Counted>>i&1 == 1
		}
		if b.Config.Money != 0 && b.Config.IsMoney(i) {
			s.Limit.Unit = USD
		}
	}
	s.setOutlook(b.Asked, b.Outlook)
	if s.Limit.Hold != 0 {
		s.InFlight, s.Estimated = s.Limit.Capacity-s.Remaining, b.Estimated
	}
}

// setOutlook sets Requested, Remaining (rounded down) and Reset of a status in whole tokens; asked and o are in
// millitokens. If asked is above 0, it also sets RetryAfter, and Exceeded or, in shadow, WouldDeny if asked
// does not fit. If asked is 0 the limit denies nothing, also in debt.
func (s *LimitStatus) setOutlook(asked int64, o bucket.Outlook) {
	s.Requested, s.Remaining, s.Reset = asked/milli, floorDiv(o.Level, milli), call.Duration(o.Full)
	if asked > 0 { // debt on a limit that is not asked for denies nobody
		s.Exceeded = asked > o.Level && !s.Limit.Shadow
		s.WouldDeny = asked > o.Level && s.Limit.Shadow
		s.RetryAfter = call.Duration(o.Wait)
	}
}

// floorDiv returns a/b, rounded towards minus infinity, because a bucket in debt has less left than the
// truncated number.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
