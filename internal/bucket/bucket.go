// Package bucket computes the lazy refill of one token-bucket limit in integers: the level of a stored state
// at an instant, the wait until an amount fits, and the update that spends it. It is pure: integers in,
// integers out, time is an argument.
//
// Amounts are millitokens, times are milliseconds since the epoch. Refill lies
// on an absolute grid, grid(t) = floor(t·amount/period), so the credit between
// two instants telescopes: many small claims earn exactly what one big one does.
// Products are 128 bits wide; nothing wraps.
package bucket

import (
	"math"
	"math/bits"
)

const (
	// MaxCredit is the largest credit a write can carry. An item that has
	// earned more since its refill instant is claimed at its burst first.
	MaxCredit = 1 << 62
	// Never is the wait for an amount that cannot fit.
	Never = -1
)

// Rate is the burst and refill of a limit: Burst millitokens at once, Amount millitokens refilled per Period
// milliseconds. All three are positive, except the period of a calendar quota (see Quota), which encodes its
// windows, and that of slots (see Slots), which is 0.
type Rate struct {
	Burst, Amount, Period int64
}

// State is one stored limit: Tokens at the instant Refilled or, of a quota, in the window Refilled.
type State struct {
	Rate
	Tokens, Refilled int64
}

// IsQuota reports whether the rate is that of a calendar quota.
func (r Rate) IsQuota() bool { return r.Period < 0 }

// earned returns grid(now) - grid(since) as a 128-bit integer, or 0 unless now is after since. It is
// floor(((now-since)·amount + begun)/period).
func (r Rate) earned(since, now int64, begun uint64) (hi, lo uint64) {
	if now <= since {
		return 0, 0
	}
	hi, lo = bits.Mul64(uint64(now-since), uint64(r.Amount))
	lo, carry := bits.Add64(lo, begun, 0)
	hi += carry
	period := uint64(r.Period)
	if hi == 0 { // nearly always
		return 0, lo / period
	}
	q := hi / period
	lo, _ = bits.Div64(hi%period, lo, period)
	return q, lo
}

// begun returns the earned part of the next millitoken at t, in units of 1/period: (t·amount) mod period.
func (r Rate) begun(t int64) uint64 {
	period := uint64(r.Period)
	hi, lo := bits.Mul64(uint64(t)%period, uint64(r.Amount)%period)
	if hi == 0 { // nearly always
		return lo % period
	}
	return bits.Rem64(hi, lo, period)
}

// Credit returns the refill, in millitokens, since the stored instant or window that is not in Tokens yet;
// slots have none. A clock at or behind that instant earns nothing. Above MaxCredit it returns MaxCredit, and
// false for a token bucket.
func (s State) Credit(now int64) (credit int64, ok bool) {
	if s.Period <= 0 {
		return s.openedCredit(now), true
	}
	hi, lo := s.earned(s.Refilled, now, s.begun(s.Refilled))
	if hi > 0 || lo > MaxCredit {
		return MaxCredit, false
	}
	return int64(lo), true
}

// Level returns the level at now, in millitokens: tokens and credit, at most the burst. Slots, and a quota in
// its stored window, have exactly their tokens, even above the burst.
func (s State) Level(now int64) int64 {
	if s.Period <= 0 {
		return s.quotaLevel(now)
	}
	return s.bucketLevel(now, s.begun(s.Refilled))
}

// bucketLevel returns the level of a token bucket at now, in millitokens. begun is Rate.begun at the refill
// instant.
func (s State) bucketLevel(now int64, begun uint64) int64 {
	if s.Tokens >= s.Burst {
		return s.Burst
	}
	room := uint64(s.Burst) - uint64(s.Tokens) // exact: the difference fits 64 bits
	hi, lo := s.earned(s.Refilled, now, begun)
	if hi > 0 || lo >= room {
		return s.Burst
	}
	return int64(uint64(s.Tokens) + lo)
}

// Wait returns the smallest time in ms after which the level reaches need, without other traffic. It is 0 if
// need fits now, Never if it exceeds the burst, and otherwise SlotLookMS for slots.
func (s State) Wait(now, need int64) int64 {
	if s.Period <= 0 {
		return s.quotaWait(now, need)
	}
	begun := s.begun(s.Refilled)
	return s.bucketWait(now, need, s.bucketLevel(now, begun), begun)
}

// bucketWait returns the time in ms until a token bucket at a level reaches need; Never if need exceeds the
// burst. begun is Rate.begun at the refill instant.
func (s State) bucketWait(now, need, level int64, begun uint64) int64 {
	if need <= level {
		return 0
	}
	if need > s.Burst {
		return Never
	}
	missing := uint64(need) - uint64(s.Tokens)
	hi, lo := bits.Mul64(missing, uint64(s.Period))
	lo, borrow := bits.Sub64(lo, begun, 0)
	hi -= borrow
	since := ceilDiv(hi, lo, uint64(s.Amount))
	return max(0, SaturatingAdd(SaturatingAdd(since, s.Refilled), -now))
}

// At returns the state as it would be stored at now, with the refill in its tokens. Refilled becomes now or, of
// a quota, its window, unless the stored one is later.
func (s State) At(now int64) State {
	s.Tokens = s.Level(now)
	if s.IsQuota() {
		now = s.Windows().At(now)
	}
	s.Refilled = max(s.Refilled, now)
	return s
}

// FillTime returns the time in ms, rounded up, until a bucket at -debt millitokens is full again. Of a quota it
// is the longest possible time, and of slots the time until every hold has run out.
func (r Rate) FillTime(debt int64) int64 {
	if r.Period <= 0 {
		return r.quotaFill(debt)
	}
	hi, lo := bits.Mul64(uint64(r.Burst)+uint64(max(0, debt)), uint64(r.Period))
	return ceilDiv(hi, lo, uint64(r.Amount))
}

// DebtCovered returns the deepest debt, in millitokens, that is refilled to the burst within ms milliseconds on
// any phase of the grid. It is negative if ms does not even fill an empty bucket, and MaxCredit for slots.
func (r Rate) DebtCovered(ms int64) int64 {
	if r.Period <= 0 {
		return r.quotaDebtCovered(ms)
	}
	if ms <= 0 {
		return -r.Burst
	}
	hi, lo := bits.Mul64(uint64(ms), uint64(r.Amount))
	period := uint64(r.Period)
	if hi >= period {
		return MaxCredit
	}
	filled, _ := bits.Div64(hi, lo, period)
	if filled > MaxCredit {
		return MaxCredit
	}
	return int64(filled) - r.Burst
}

// RefilledIn returns the refill, in millitokens, in a number of microseconds, rounded down, at most MaxCredit.
// Of a quota, and of slots, it is 0.
func (r Rate) RefilledIn(micros int64) int64 {
	if micros <= 0 || r.Period <= 0 || r.Period > MaxCredit/1000 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(micros), uint64(r.Amount))
	period := uint64(r.Period) * 1000
	if hi >= period {
		return MaxCredit
	}
	q, _ := bits.Div64(hi, lo, period)
	return int64(min(q, MaxCredit))
}

// ceilDiv returns ceil((hi·2^64 + lo) / d), at most the largest int64.
func ceilDiv(hi, lo, d uint64) int64 {
	const most = 1<<63 - 1
	if hi >= d {
		return most
	}
	q, rem := lo/d, lo%d
	if hi > 0 {
		q, rem = bits.Div64(hi, lo, d)
	}
	if rem > 0 {
		q++
	}
	if q > most {
		return most
	}
	return int64(q)
}

// SaturatingAdd returns a + b, or the largest or smallest int64 if the sum is beyond that.
func SaturatingAdd(a, b int64) int64 {
	switch s := a + b; {
	case b > 0 && s < a:
		return math.MaxInt64
	case b < 0 && s > a:
		return math.MinInt64
	default:
		return s
	}
}

// Update is the change of one limit by a write. Below full it adds Add to the tokens if they lie in Low…High;
// without HasLow there is no lower bound. A full bucket has its burst, even if more is stored. With Full the
// write therefore sets the tokens to Put if they are at least Low, so takes since the image do not matter.
type Update struct {
	Add, Low, High int64
	HasLow         bool
	Full           bool
	Put            int64
}

// Amounts are the sums of one write for a limit. Back is given back first, then Take is admitted or denied,
// then Adjust is charged without a check. A take leaves Keep.
type Amounts struct {
	Back, Take, Adjust, Keep int64
}

// Form selects one of the two updates of a limit. Either is exact on every state that it accepts, so a writer
// may choose freely.
type Form uint8

const (
	// ByState fills if the seen state is full, else adds.
	ByState Form = iota
	// Adding always adds.
	Adding
	// Filling always sets a full bucket's tokens.
	Filling
)

// Way is the form of a write of a limit.
type Way struct {
	// Move means that the write also sets the refill instant to max(Refilled, now), so that the credit must
	// be in the tokens.
	Move bool
	Form Form
	// Slack is the gap below the burst at which the filling form accepts a bucket as full, and which it leaves: 0 to
	// the burst less the take and what that leaves. The tokens in the slack are forfeited. Concurrent filling writes
	// then pass each other's conditions.
	Slack int64
}

// Decide returns the update that carries a from the seen state. The take of a must fit, and credit must be
// the credit at the time of the decision.
//
// The update is exact, apart from the slack, on every accepted state with the same refill instant and rate.
// Above High the bucket is full and would be credited for the time since. Below Low the take does not fit, or
// the bucket is not full any more. A credit above MaxCredit must be moved (see Credit).
func (s State) Decide(credit int64, a Amounts, w Way) Update {
	kept := credit // credit that the tokens will not include
	if w.Move {
		kept = 0
	}
	full := s.Burst - credit - a.Back        // tokens from which the bucket is full
	low := a.Take + a.Keep - credit - a.Back // tokens from which the take fits
	if w.Form == Filling || w.Form == ByState && s.Tokens > full {
		return Update{Full: true, Put: s.Burst - w.Slack - kept - a.Take - a.Adjust, Low: full - w.Slack, HasLow: true}
	}
	u := Update{Add: credit - kept + a.Back - a.Take - a.Adjust, High: full}
	if a.Take > 0 {
		u.Low, u.HasLow = low, true
	}
	return u
}

// reserveShare is the divisor of a burst for the usual reserve, and tokenSize is a token in millitokens.
const reserveShare, tokenSize = 5, 1000

// ReserveOf returns the amount of a limit that batch calls leave to interactive calls, in millitokens. n is the
// configured amount: 0 for a fifth of the burst in whole tokens, below 0 for none. It is at most half of the
// burst.
func (r Rate) ReserveOf(n int64) int64 {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return r.Burst / (reserveShare * tokenSize) * tokenSize
	}
	return min(n, r.Burst/2)
}

// Outlook is the level of a limit at an instant and its waits from then on: the results of State.Level and
// State.Wait in one pass.
type Outlook struct {
	// Level is in millitokens. Wait is until a need fits, and Full until the bucket is full, in
	// ms; either is Never as that of State.Wait.
	Level, Wait, Full int64
}

// Outlook returns the level at now, in millitokens, and the waits from then on, in ms, until need fits and
// until the bucket is full. The numbers are those of Level and Wait.
func (s State) Outlook(now, need int64) Outlook {
	if s.Period <= 0 {
		return Outlook{s.quotaLevel(now), s.quotaWait(now, need), s.quotaWait(now, s.Burst)}
	}
	begun := s.begun(s.Refilled)
	level := s.bucketLevel(now, begun)
	return Outlook{level, s.bucketWait(now, need, level, begun), s.bucketWait(now, s.Burst, level, begun)}
}
