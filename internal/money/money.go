// Package money is exact arithmetic on amounts of money. It knows neither
// budgets nor the store.
package money

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
)

// picosPerMicro is how many pico-dollars one micro-dollar has.
const picosPerMicro = 1_000_000

// Picos is an exact amount of money in pico-dollars (10^-12 $), signed, 128
// bits wide. A price is in micro-dollars per million tokens, so tokens × price
// is a whole number of picos: nothing is rounded before it is shown.
type Picos struct {
	hi int64
	lo uint64
}

var (
	maxPicos = Picos{hi: math.MaxInt64, lo: math.MaxUint64}
	minPicos = Picos{hi: math.MinInt64}
)

var errNotInteger = errors.New("not a whole number of pico-dollars within 128 bits")

// Of is a whole number of pico-dollars.
func Of(n int64) Picos { return Picos{hi: n >> 63, lo: uint64(n)} }

// FromMicros converts whole micro-dollars exactly.
func FromMicros(micros int64) Picos {
	return Of(micros).Mul(picosPerMicro)
}

// Cost is tokens × price in micro-dollars per million tokens; neither may be
// negative.
func Cost(tokens, microsPerMillion int64) Picos {
	hi, lo := bits.Mul64(uint64(tokens), uint64(microsPerMillion))
	return Picos{hi: int64(hi), lo: lo}
}

// IsNegative says that p is below zero.
func (p Picos) IsNegative() bool { return p.hi < 0 }

// IsZero says that p is nothing.
func (p Picos) IsZero() bool { return p.hi == 0 && p.lo == 0 }

// Sign is -1, 0 or 1.
func (p Picos) Sign() int {
	switch {
	case p.hi < 0:
		return -1
	case p.IsZero():
		return 0
	}
	return 1
}

// Add saturates at the ends of 128 bits instead of wrapping.
func (p Picos) Add(q Picos) Picos {
	lo, carry := bits.Add64(p.lo, q.lo, 0)
	hi, _ := bits.Add64(uint64(p.hi), uint64(q.hi), carry)
	sum := Picos{hi: int64(hi), lo: lo}
	if p.IsNegative() == q.IsNegative() && sum.IsNegative() != p.IsNegative() {
		if p.IsNegative() {
			return minPicos
		}
		return maxPicos
	}
	return sum
}

// Neg is -p; it saturates as Add does.
func (p Picos) Neg() Picos {
	if p == minPicos {
		return maxPicos
	}
	lo, borrow := bits.Sub64(0, p.lo, 0)
	hi, _ := bits.Sub64(0, uint64(p.hi), borrow)
	return Picos{hi: int64(hi), lo: lo}
}

// Sub is p-q; it saturates as Add does.
func (p Picos) Sub(q Picos) Picos { return p.Add(q.Neg()) }

// Cmp is -1 if p is less than q, 0 if they are equal, 1 if p is more.
func (p Picos) Cmp(q Picos) int {
	switch {
	case p.hi < q.hi, p.hi == q.hi && p.lo < q.lo:
		return -1
	case p == q:
		return 0
	}
	return 1
}

// Mul multiplies by a small non-negative factor and saturates.
func (p Picos) Mul(factor int64) Picos {
	if p.IsNegative() {
		return p.Neg().Mul(factor).Neg()
	}
	carry, lo := bits.Mul64(p.lo, uint64(factor))
	over, hi := bits.Mul64(uint64(p.hi), uint64(factor))
	hi, c := bits.Add64(hi, carry, 0)
	if over != 0 || c != 0 || hi > math.MaxInt64 {
		return maxPicos
	}
	return Picos{hi: int64(hi), lo: lo}
}

// Micros rounds to whole micro-dollars, half up, and saturates; for output
// only.
func (p Picos) Micros() int64 {
	quotient, rest := p.divFloor(picosPerMicro)
	if rest*2 >= picosPerMicro {
		quotient = quotient.Add(Picos{lo: 1})
	}
	switch {
	case quotient.hi > 0 || quotient.hi == 0 && quotient.lo > math.MaxInt64:
		return math.MaxInt64
	case quotient.hi < -1 || quotient.hi == -1 && quotient.lo < 1<<63:
		return math.MinInt64
	}
	return int64(quotient.lo)
}

// MicrosUp rounds up to whole micro-dollars: the held amount must cover the call.
func (p Picos) MicrosUp() int64 {
	return p.Add(Picos{lo: picosPerMicro/2 - 1}).Micros()
}

// divFloor divides by a small positive number, rounding down; the rest is
// never negative.
func (p Picos) divFloor(by uint64) (quotient Picos, rest uint64) {
	if p.IsNegative() {
		magnitude := p.Neg() // minPicos loses one pico here, which no amount reaches
		q, r := magnitude.divFloor(by)
		if r == 0 {
			return q.Neg(), 0
		}
		return q.Add(Picos{lo: 1}).Neg(), by - r
	}
	hi := uint64(p.hi) / by
	lo, r := bits.Div64(uint64(p.hi)%by, p.lo, by)
	return Picos{hi: int64(hi), lo: lo}, r
}

// String is the exact decimal number of picos, as it is stored.
func (p Picos) String() string { return p.big().String() }

func (p Picos) big() *big.Int {
	n := big.NewInt(p.hi)
	n.Lsh(n, 64)
	return n.Add(n, new(big.Int).SetUint64(p.lo))
}

// Parse reads the output of String; the empty string is 0. Text that is not a
// whole number within 128 bits is an error.
func Parse(s string) (Picos, error) {
	if s == "" {
		return Picos{}, nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || n.BitLen() > 127 && n.Cmp(minPicos.big()) != 0 {
		return Picos{}, errNotInteger
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
	return Picos{hi: new(big.Int).Rsh(n, 64).Int64(), lo: low.Uint64()}, nil
}

// PercentOf is 100·p/quota with one decimal, rounded half up; 0 when the quota
// is not positive. It is exact below 2^53 tenths.
func (p Picos) PercentOf(quotaMicros int64) float64 {
	if quotaMicros <= 0 {
		return 0
	}
	scaled := p.Mul(1000)
	q, _ := scaled.Add(FromMicros(quotaMicros).half()).divFloor(picosPerMicro)
	q, _ = q.divFloor(uint64(quotaMicros))
	return q.float() / 10
}

// float is the nearest number of 53 bits.
func (p Picos) float() float64 {
	if p.IsNegative() {
		return -p.Neg().float()
	}
	return math.Ldexp(float64(p.hi), 64) + float64(p.lo)
}

func (p Picos) half() Picos {
	q, _ := p.divFloor(2)
	return q
}
