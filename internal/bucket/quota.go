package bucket

import (
	"math/bits"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// A calendar quota is a bucket on the axis of a calendar's windows; it regains its burst in each. Its refill
// instant is the ordinal of its window, and its period encodes the calendar. Within a window it regains
// nothing and has no upper bound: a grant lifts it above its burst until the next window opens.

// Quota returns the rate of a quota: n millitokens in each window of a calendar. Its period encodes the windows
// and is below 0.
func Quota(n int64, of calendar.Windows) Rate {
	return Rate{Burst: n, Amount: n, Period: -int64(of)}
}

// Windows returns the windows of a quota; 0 of a token bucket.
func (r Rate) Windows() calendar.Windows {
	if r.Period >= 0 {
		return 0
	}
	return calendar.Windows(-r.Period) //nolint:gosec // made by Quota
}

// WindowAt returns the ordinal of the quota's window at now, in Unix ms; 0 of a token bucket and of slots.
func (r Rate) WindowAt(now int64) int64 {
	if !r.IsQuota() {
		return 0
	}
	return r.Windows().At(now)
}

// Smooth returns the rate of a token bucket that regains a quota evenly over its longest window. A token
// bucket's rate stays as it is. A process that admits calls on its own uses the smooth rate.
func (r Rate) Smooth() Rate {
	if r.IsQuota() {
		r.Period = r.Windows().Longest()
	}
	return r
}

// Opens reports whether the next write of a quota at now has to open a later window than the stored one. It is
// false of a token bucket and of slots.
func (s State) Opens(now int64) bool {
	return s.IsQuota() && s.Windows().At(now) > s.Refilled
}

// openedCredit returns the tokens that a quota has regained since its window, in millitokens, at most
// MaxCredit. Slots regain none.
func (s State) openedCredit(now int64) int64 {
	if s.IsSlots() {
		return 0
	}
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

// quotaLevel returns the level of a quota or of slots at now, in millitokens: the stored tokens. In a later
// window it adds the regained ones, up to the burst.
func (s State) quotaLevel(now int64) int64 {
	credit := s.openedCredit(now)
	if credit == 0 {
		return s.Tokens
	}
	return min(s.Burst, s.Tokens+credit)
}

// quotaWait returns the time in ms until a quota holds need, without other traffic; Never if need exceeds the
// burst. For slots it is SlotLookMS, because calls end at any time.
func (s State) quotaWait(now, need int64) int64 {
	switch {
	case need <= s.quotaLevel(now):
		return 0
	case need > s.Burst:
		return Never
	case s.IsSlots():
		return SlotLookMS
	}
	missing := uint64(need) - uint64(s.Tokens)
	windows := ceilDiv(0, missing, uint64(s.Burst))
	if windows > mostAhead {
		return MaxCredit // it is not never
	}
	return max(1, s.Windows().Start(SaturatingAdd(s.Refilled, windows))-now)
}

// mostAhead bounds how many windows ahead the start of a window is computed.
const mostAhead = 1_000_000

// quotaFill returns the longest time in ms until a quota at -debt millitokens is full again; of slots, until
// every hold has run out.
func (r Rate) quotaFill(debt int64) int64 {
	if r.IsSlots() { // until every hold has run out
		return r.Hold() + 2*epochLength(r.Hold())
	}
	windows := 1 + ceilDiv(0, uint64(max(0, debt)), uint64(r.Burst))
	hi, lo := bits.Mul64(uint64(windows), uint64(r.Windows().Longest()))
	return ceilDiv(hi, lo, 1)
}

// quotaDebtCovered returns the deepest debt of a quota, in millitokens, that surely ends within ms. Of slots it
// is MaxCredit.
func (r Rate) quotaDebtCovered(ms int64) int64 {
	if r.IsSlots() {
		return MaxCredit
	}
	windows := max(0, ms) / r.Windows().Longest()
	hi, lo := bits.Mul64(uint64(windows), uint64(r.Burst))
	if hi > 0 || lo > MaxCredit {
		return MaxCredit
	}
	return int64(lo) - r.Burst
}

// WindowID identifies a window of one limit: the life of the limit, and the ordinal of the window in that
// life. A limit begins a new life when its kind or its unit changes. So ordinals of different calendars are
// never compared, and a window of an ended life never comes back. It is 0 for a token bucket in its first
// life. Of one limit the later window has the larger id.
type WindowID int64

// InLife returns the id of the window with an ordinal in a life. The ordinal of a token bucket is 0.
func InLife(life uint16, ordinal int64) WindowID {
	return WindowID(int64(life)<<ordinalBits | ordinal&(1<<ordinalBits-1))
}

// ordinalBits is the size of an ordinal: hours fit until the year 246,000.
const ordinalBits = 32

// Ordinal returns the ordinal of the window in its calendar; 0 of a token bucket.
func (w WindowID) Ordinal() int64 { return int64(int32(w)) } //nolint:gosec // its low bits

// Life returns the life of the limit, from 0 on.
func (w WindowID) Life() uint16 { return uint16(w >> ordinalBits) } //nolint:gosec // at most LastLife

// IsQuota reports whether the window is a quota's: its ordinal is above 0.
func (w WindowID) IsQuota() bool { return w.Ordinal() > 0 }

// LastLife is the largest stored life. A limit that changes again stays in it.
const LastLife = 1<<16 - 1

// Closed is a window without give-backs to tokens: its amounts come off the counter alone.
const Closed WindowID = -1

// IsClosed reports whether no give-back of the window goes to tokens. That is so in the last life, because
// the lives after it have the same number.
func (w WindowID) IsClosed() bool { return w.Life() == LastLife }

// NextLife returns the life after life, at most LastLife.
func NextLife(life uint16) uint16 { return min(life, LastLife-1) + 1 }

// Opening is the change of a quota's tokens by a write that opens a window or changes the quota.
type Opening struct {
	// Credit is the tokens regained by the windows since the stored one; 0 for a write within it.
	Credit int64
	// Change is the change of the burst within the window. It is negative for a lowered quota, because used
	// tokens stay used.
	Change int64
}

// DecideQuota returns the update that carries a. The take of a must fit. The update is within the seen
// window, or opens a later one, and it is exact on every state of that window. A take of an earlier window
// is not given back, so an opening write has no Back.
func (s State) DecideQuota(a Amounts, o Opening) Update {
	out := a.Take + a.Adjust
	if o.Credit > 0 && s.Tokens > s.Burst-o.Credit { // full, even if earlier windows left tokens
		return Update{Full: true, Put: s.Burst + o.Change - out, Low: s.Burst - o.Credit, HasLow: true}
	}
	u := Update{Add: o.Credit + o.Change + a.Back - out, High: MaxTokens}
	if o.Credit > 0 {
		u.High = s.Burst - o.Credit
	}
	if a.Take > 0 {
		u.Low, u.HasLow = a.Take+a.Keep-o.Credit-o.Change-a.Back, true
	}
	return u
}

// MaxTokens is above every level of a limit.
const MaxTokens = 1<<63 - 1
