package bucket

import (
	"math/bits"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// A calendar quota is a bucket on the axis of a calendar's windows, which regains its burst in
// each: its refill instant is the ordinal of the window that it was opened for, and its period
// says which calendar. Within a window nothing is regained, and nothing is full: whoever grants
// more lifts it above its burst until the next window opens.

// Quota is the rate of a quota: n millitokens in each window.
func Quota(n int64, of calendar.Windows) Rate {
	return Rate{Burst: n, Amount: n, Period: -int64(of)}
}

// Windows are those of a quota; 0 of a token bucket.
func (r Rate) Windows() calendar.Windows {
	if r.Period >= 0 {
		return 0
	}
	return calendar.Windows(-r.Period) //nolint:gosec // made by Quota
}

// IsQuota reports whether the rate is that of a calendar quota.
func (r Rate) IsQuota() bool { return r.Period < 0 }

// WindowAt is the ordinal of the window at now; 0 of a token bucket.
func (r Rate) WindowAt(now int64) int64 {
	if !r.IsQuota() {
		return 0
	}
	return r.Windows().At(now)
}

// Smooth is the rate of a bucket that regains a quota evenly, in its longest window; a bucket's
// own rate. What a process admits on its own goes by it.
func (r Rate) Smooth() Rate {
	if r.IsQuota() {
		r.Period = r.Windows().Longest()
	}
	return r
}

// Opens reports whether a quota's next write has to open a later window than the stored one;
// false of a bucket.
func (s State) Opens(now int64) bool {
	return s.IsQuota() && s.Windows().At(now) > s.Refilled
}

// opened is what a quota has regained since its window, at most MaxCredit.
func (s State) opened(now int64) int64 {
	windows := s.Windows().At(now) - s.Refilled
	if windows <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(windows), uint64(s.Burst))
	if hi > 0 || lo > MaxCredit {
		return MaxCredit
	}
	return int64(lo)
}

// quotaLevel is what a quota is worth at now.
func (s State) quotaLevel(now int64) int64 {
	credit := s.opened(now)
	if credit == 0 {
		return s.Tokens
	}
	return min(s.Burst, s.Tokens+credit)
}

// quotaWait is the time in ms until a quota holds need, with no other traffic.
func (s State) quotaWait(now, need int64) int64 {
	switch {
	case need <= s.quotaLevel(now):
		return 0
	case need > s.Burst:
		return Never
	}
	missing := uint64(need) - uint64(s.Tokens)
	windows := ceilDiv(0, missing, uint64(s.Burst))
	if windows > mostAhead {
		return MaxCredit // it is not never
	}
	return max(1, s.Windows().Start(SaturatingAdd(s.Refilled, windows))-now)
}

// mostAhead is how many windows ahead the beginning of one is worked out.
const mostAhead = 1_000_000

// quotaFill is the longest that a quota at -debt needs to be full again.
func (r Rate) quotaFill(debt int64) int64 {
	windows := 1 + ceilDiv(0, uint64(max(0, debt)), uint64(r.Burst))
	hi, lo := bits.Mul64(uint64(windows), uint64(r.Windows().Longest()))
	return ceilDiv(hi, lo, 1)
}

// quotaDebtCovered is the deepest debt that surely ends within ms.
func (r Rate) quotaDebtCovered(ms int64) int64 {
	windows := max(0, ms) / r.Windows().Longest()
	hi, lo := bits.Mul64(uint64(windows), uint64(r.Burst))
	if hi > 0 || lo > MaxCredit {
		return MaxCredit
	}
	return int64(lo) - r.Burst
}

// WindowID identifies a window of one limit: the life of the limit, and the ordinal of the window in
// it. A limit begins a new life when its kind or its unit changes, so that no ordinals of different
// calendars are compared, and no window of a life that has ended is met again. It is 0 for a token
// bucket that has never been anything else. Of one limit the later window is the larger one.
type WindowID int64

// InLife is the window of an ordinal in a life; the ordinal of a token bucket is 0.
func InLife(life uint16, ordinal int64) WindowID {
	return WindowID(int64(life)<<ordinalBits | ordinal&(1<<ordinalBits-1))
}

// ordinalBits is how many bits an ordinal has: hours fit until the year 246,000.
const ordinalBits = 32

// Ordinal is the window's in its calendar; 0 of a token bucket.
func (w WindowID) Ordinal() int64 { return int64(int32(w)) } //nolint:gosec // its low bits

// Life says which life of the limit the window is in, from 0 on.
func (w WindowID) Life() uint16 { return uint16(w >> ordinalBits) } //nolint:gosec // at most LastLife

// IsQuota reports whether the window is that of a quota.
func (w WindowID) IsQuota() bool { return w.Ordinal() != 0 }

// LastLife is the largest life that is stored. A limit that begins anew then keeps it.
const LastLife = 1<<16 - 1

// Closed is a window in which nothing is given back to tokens: what comes off a counter alone.
const Closed WindowID = -1

// IsClosed reports whether nothing that was taken in the window is given back to tokens. In the
// last life that is so, because lives after it are not told from it.
func (w WindowID) IsClosed() bool { return w.Life() == LastLife }

// NextLife is the life that follows one.
func NextLife(life uint16) uint16 { return min(life, LastLife-1) + 1 }

// Opening is how a write of a quota goes about its window.
type Opening struct {
	// Credit is what the windows since the stored one add; 0 for a write within it.
	Credit int64
	// Change is what a changed quota adds within its window, below 0 what it takes away: a
	// lowered one counts what was used.
	Change int64
}

// DecideQuota returns the update that carries a, whose take fits, within the seen window, or into the
// one that it opens. It is exact on every state of that window. What was
// taken in an earlier window is not given back, so an opening write has no Back.
func (s State) DecideQuota(a Amounts, o Opening) Update {
	out := a.Take + a.Adjust
	if o.Credit > 0 && s.Tokens > s.Burst-o.Credit { // full, whatever is left of the windows before
		return Update{Full: true, Put: s.Burst + o.Change - out, Low: s.Burst - o.Credit, HasLow: true}
	}
	u := Update{Add: o.Credit + o.Change + a.Back - out, High: MaxTokens}
	if o.Credit > 0 {
		u.High = s.Burst - o.Credit
	}
	if a.Take > 0 {
		u.Low, u.HasLow = a.Take-o.Credit-o.Change-a.Back, true
	}
	return u
}

// MaxTokens is above everything that a limit holds.
const MaxTokens = 1<<63 - 1
