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

// FuzzDecide checks an update against its meaning: on every state it accepts
// with the seen refill instant it does exactly what it says.
func FuzzDecide(f *testing.F) {
	f.Add(int64(100_000), int64(100_000), int64(1_000), int64(0), int64(0), int64(60_000), int64(0), false)
	f.Fuzz(func(t *testing.T, tokens, burst, take, adjust, back, age, drift int64, move bool) {
		s := State{Rate: Rate{Burst: within(burst, 1, 1e12), Amount: 100_000, Period: 60_000}, Refilled: 1_769_182_245_123}
		s.Tokens = within(tokens, -1e12, s.Burst)
		now := s.Refilled + within(age, 0, 1e9)
		a := Amounts{Back: within(back, 0, s.Burst), Take: within(take, 0, s.Burst), Adjust: within(adjust, 0, s.Burst)}
		level := s.Level(now)
		u, fits := s.Decide(now, a, move)
		if after := min(s.Burst, level+a.Back); (a.Take > after) == fits {
			t.Fatalf("%+v %+v at %d: fits %v", s, a, now, fits)
		} else if !fits {
			return
		}
		apply := func(from State) int64 {
			if from.Tokens += u.Add; u.Full {
				from.Tokens = u.Put
			}
			if move {
				from.Refilled = now
			}
			return from.Level(now)
		}
		if got, want := apply(s), min(s.Burst, level+a.Back)-a.Take-a.Adjust; got != want {
			t.Fatalf("%+v %+v: level %d after, want %d", s, a, got, want)
		}
		other := s
		other.Tokens += within(drift, -1e9, 1e9)
		if u.HasLow && other.Tokens < u.Low || !u.Full && other.Tokens > u.High {
			return
		}
		held := min(s.Burst, other.Level(now)+a.Back)
		if a.Take > held {
			t.Fatalf("%+v admitted from %+v, which held %d", a, other, held)
		}
		if got := apply(other); got != held-a.Take-a.Adjust {
			t.Fatalf("%+v on %+v leaves %d, want %d", a, other, got, held-a.Take-a.Adjust)
		}
	})
}
