package bucket

import (
	"math/big"
	"testing"
)

func bigGrid(t, amount, period int64) *big.Int {
	p := new(big.Int).Mul(big.NewInt(t), big.NewInt(amount))
	return p.Div(p, big.NewInt(period)) // t is not negative, so this floors
}

func bigLevel(s State, now int64) *big.Int {
	level := big.NewInt(s.Tokens)
	if now > s.Refilled {
		level.Add(level, bigGrid(now, s.Amount, s.Period))
		level.Sub(level, bigGrid(s.Refilled, s.Amount, s.Period))
	}
	if burst := big.NewInt(s.Burst); level.Cmp(burst) > 0 {
		return burst
	}
	return level
}

// FuzzAgainstBig compares level, wait, fill time and covered debt with
// arbitrary-precision integers over the whole range of stored values.
func FuzzAgainstBig(f *testing.F) {
	f.Add(int64(0), int64(1_769_182_245_000), int64(100_000), int64(100_000), int64(60_000), int64(30_000), int64(50_000))
	f.Add(int64(-1)<<62, int64(0), int64(1e15), int64(4e12), int64(1), int64(3_155_760_000_000), int64(1e15))
	f.Add(int64(5), int64(86_399_999), int64(10_000), int64(10_000), int64(86_400_000), int64(1), int64(6))
	f.Fuzz(func(t *testing.T, tokens, refilled, burst, amount, period, age, need int64) {
		s := State{
			Rate:     Rate{Burst: within(burst, 1, 1e15), Amount: within(amount, 1, 1e15), Period: within(period, 1, 1e12)},
			Tokens:   within(tokens, -1<<62, 1e15),
			Refilled: within(refilled, 0, 1<<43),
		}
		now := max(0, s.Refilled+within(age, -1e10, 1<<43))
		need = within(need, 0, s.Burst+1)
		if got, want := s.Level(now), bigLevel(s, now); want.Cmp(big.NewInt(got)) != 0 {
			t.Fatalf("level of %+v at %d: %d, want %s", s, now, got, want)
		}
		checkWait(t, s, now, need)
		checkFill(t, s.Rate, within(tokens, 0, 1<<61))
	})
}

// checkWait: after the wait the amount fits, one millisecond earlier it does not.
func checkWait(t *testing.T, s State, now, need int64) {
	wait := s.Wait(now, need)
	switch {
	case wait == Never:
		if need <= s.Burst {
			t.Fatalf("%+v at %d: %d never fits", s, now, need)
		}
	case wait < 1<<62: // else saturated: centuries away
		if bigLevel(s, now+wait).Cmp(big.NewInt(need)) < 0 {
			t.Fatalf("%+v at %d: %d does not fit after %d ms", s, now, need, wait)
		}
		if wait > 0 && bigLevel(s, now+wait-1).Cmp(big.NewInt(need)) >= 0 {
			t.Fatalf("%+v at %d: %d fits before %d ms", s, now, need, wait)
		}
	}
}

func checkFill(t *testing.T, r Rate, debt int64) {
	fill := r.FillTime(debt)
	if fill >= 1<<62 {
		return
	}
	owed := new(big.Int).Add(big.NewInt(r.Burst), big.NewInt(debt))
	if bigGrid(fill, r.Amount, r.Period).Cmp(owed) < 0 || bigGrid(fill-1, r.Amount, r.Period).Cmp(owed) >= 0 {
		t.Fatalf("%+v: debt %d filled in %d ms", r, debt, fill)
	}
	if covered := r.DebtCovered(fill); covered < debt || r.FillTime(covered) > fill {
		t.Fatalf("%+v: %d ms covers %d, want at least %d", r, fill, covered, debt)
	}
}

// within folds any integer into lo…hi.
func within(v, lo, hi int64) int64 {
	if v >= lo && v <= hi {
		return v
	}
	return lo + int64(uint64(v)%uint64(hi-lo+1))
}

// FuzzDecide checks an update against its meaning: whatever its form, on every
// state it accepts with the seen refill instant it does exactly what it says, and
// loses at most the slack.
func FuzzDecide(f *testing.F) {
	f.Add(int64(100_000), int64(100_000), int64(1_000), int64(0), int64(0), int64(60_000), int64(0), int64(0), uint8(0), false)
	f.Add(int64(100_000), int64(100_000), int64(1_000), int64(0), int64(0), int64(60_000), int64(-4_000), int64(5_000), uint8(2), false)
	f.Add(int64(99_000), int64(100_000), int64(1_000), int64(7), int64(9), int64(1), int64(10), int64(12_000), uint8(2), true)
	f.Fuzz(func(t *testing.T, tokens, burst, take, adjust, back, age, drift, slack int64, form uint8, move bool) {
		s := State{Rate: Rate{Burst: within(burst, 1, 1e12), Amount: 100_000, Period: 60_000}, Refilled: 1_769_182_245_123}
		s.Tokens = within(tokens, -1e12, s.Burst)
		now := s.Refilled + within(age, 0, 1e9)
		a := Amounts{Back: within(back, 0, s.Burst), Take: within(take, 0, s.Burst), Adjust: within(adjust, 0, s.Burst)}
		w := Way{Move: move, Form: Form(within(int64(form), 0, 2)), Slack: within(slack, 0, s.Burst-a.Take)}
		level := s.Level(now)
		if a.Take > min(s.Burst, level+a.Back) {
			return
		}
		credit, _ := s.Credit(now)
		u := s.Decide(credit, a, w)
		if u.Full != (w.Form == Filling || w.Form == ByState && s.Tokens > s.Burst-credit-a.Back) {
			t.Fatalf("%+v on %+v: %+v", w, s, u)
		}
		if got, want := u.applied(s, now, w), min(s.Burst, level+a.Back)-a.Take-a.Adjust; w.Form == ByState && !u.Full && got != want {
			t.Fatalf("%+v %+v: level %d after, want %d", s, a, got, want)
		}
		for _, other := range []State{s, {s.Rate, s.Tokens + within(drift, -1e9, 1e9), s.Refilled}} {
			if u.HasLow && other.Tokens < u.Low || !u.Full && other.Tokens > u.High {
				continue
			}
			held := min(s.Burst, other.Level(now)+a.Back)
			if a.Take > held {
				t.Fatalf("%+v admitted from %+v, which held %d", a, other, held)
			}
			want, got := held-a.Take-a.Adjust, u.applied(other, now, w)
			if lost := want - got; lost < 0 || lost > w.Slack || !u.Full && lost > 0 {
				t.Fatalf("%+v by %+v on %+v leaves %d, want %d", a, w, other, got, want)
			}
			if u.Full && got != s.Burst-w.Slack-a.Take-a.Adjust {
				t.Fatalf("%+v by %+v on %+v leaves %d", a, w, other, got)
			}
		}
	})
}

// applied is the level at now after the update of a state.
func (u Update) applied(s State, now int64, w Way) int64 {
	if s.Tokens += u.Add; u.Full {
		s.Tokens = u.Put
	}
	if w.Move {
		s.Refilled = now
	}
	return s.Level(now)
}

func TestRefilledIn(t *testing.T) {
	r := Rate{Burst: 1, Amount: 3, Period: 2}
	for micros, want := range map[int64]int64{-1: 0, 0: 0, 666: 0, 667: 1, 1000: 1, 1334: 2} {
		if got := r.RefilledIn(micros); got != want {
			t.Errorf("%d µs of %+v: %d, want %d", micros, r, got, want)
		}
	}
	if got := (Rate{Amount: 1 << 62, Period: 1}).RefilledIn(1 << 62); got != MaxCredit {
		t.Errorf("%d", got)
	}
	if got := (Rate{Amount: 4000, Period: 1}).RefilledIn(1 << 62); got != MaxCredit { // the period times 2^64, exactly
		t.Errorf("%d", got)
	}
	if got := (Rate{Amount: 1 << 61, Period: MaxCredit / 1000}).RefilledIn(1_000_000); got != 500_000 {
		t.Errorf("%d: the longest period that can be told", got)
	}
	if got := (Rate{Amount: 1 << 62, Period: 1 << 62}).RefilledIn(1 << 62); got != 0 {
		t.Errorf("%d", got)
	}
}
