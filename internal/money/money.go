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

// FromPicos returns n pico-dollars.
func FromPicos(n int64) Picos { return Picos{hi: n >> 63, lo: uint64(n)} }

// FromMicros returns an amount given in micro-dollars as pico-dollars, exactly.
func FromMicros(micros int64) Picos {
	return FromPicos(micros).Mul(picosPerMicro)
}

// Cost returns the exact cost, in pico-dollars, of tokens at a price in micro-dollars per million tokens.
// Neither may be negative.
func Cost(tokens, microsPerMillion int64) Picos {
	hi, lo := bits.Mul64(uint64(tokens), uint64(microsPerMillion))
	return Picos{hi: int64(hi), lo: lo}
}

// IsNegative reports whether p is below zero.
func (p Picos) IsNegative() bool { return p.hi < 0 }

// IsZero reports whether p is zero.
func (p Picos) IsZero() bool { return p.hi == 0 && p.lo == 0 }

// Sign returns -1, 0 or 1: the sign of p.
func (p Picos) Sign() int {
	switch {
	case p.hi < 0:
		return -1
	case p.IsZero():
		return 0
	}
	return 1
}

// Add returns p+q. Beyond 128 bits it returns the largest or the smallest amount.
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

// Neg returns -p; of the smallest amount it returns the largest.
func (p Picos) Neg() Picos {
	if p == minPicos {
		return maxPicos
	}
	lo, borrow := bits.Sub64(0, p.lo, 0)
	hi, _ := bits.Sub64(0, uint64(p.hi), borrow)
	return Picos{hi: int64(hi), lo: lo}
}

// Sub returns p-q. Beyond 128 bits it returns the largest or the smallest amount.
func (p Picos) Sub(q Picos) Picos { return p.Add(q.Neg()) }

// Cmp returns -1 if p is less than q, 0 if they are equal, and 1 if p is more.
func (p Picos) Cmp(q Picos) int {
	switch {
	case p.hi < q.hi, p.hi == q.hi && p.lo < q.lo:
		return -1
	case p == q:
		return 0
	}
	return 1
}

// Mul returns p times a factor that is not negative. Beyond 128 bits it returns the largest or the smallest
// amount.
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

// Micros returns p rounded to whole micro-dollars, half up, for output only. Beyond 64 bits it returns the
// nearest int64.
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

// MicrosUp returns p rounded up to whole micro-dollars, so that a held amount covers the call. Beyond 64 bits
// it returns the nearest int64.
func (p Picos) MicrosUp() int64 {
	return p.Add(Picos{lo: picosPerMicro/2 - 1}).Micros()
}

// divFloor returns p divided by a small positive number, rounded down, and the rest, which is never negative.
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

// String returns the exact decimal number of pico-dollars, as it is stored.
func (p Picos) String() string { return p.toBig().String() }

// toBig returns p as a big.Int.
func (p Picos) toBig() *big.Int {
	n := big.NewInt(p.hi)
	n.Lsh(n, 64)
	return n.Add(n, new(big.Int).SetUint64(p.lo))
}

// ParsePicos returns the amount of a text of String, in pico-dollars; "" is 0. It fails for a text that is not
// a whole number within 128 bits.
func ParsePicos(s string) (Picos, error) {
	if s == "" {
		return Picos{}, nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || n.BitLen() > 127 && n.Cmp(minPicos.toBig()) != 0 {
		return Picos{}, errNotInteger
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
	return Picos{hi: new(big.Int).Rsh(n, 64).Int64(), lo: low.Uint64()}, nil
}

// PercentOf returns p as a percentage of a quota in micro-dollars, with one decimal, rounded half up; 0 if the
// quota is not positive. It is exact below 2^53 tenths.
func (p Picos) PercentOf(quotaMicros int64) float64 {
	if quotaMicros <= 0 {
		return 0
	}
	scaled := p.Mul(1000)
	q, _ := scaled.Add(FromMicros(quotaMicros).half()).divFloor(picosPerMicro)
	q, _ = q.divFloor(uint64(quotaMicros))
	return q.toFloat() / 10
}

// toFloat returns the nearest float64 of p.
func (p Picos) toFloat() float64 {
	if p.IsNegative() {
		return -p.Neg().toFloat()
	}
	return math.Ldexp(float64(p.hi), 64) + float64(p.lo)
}

// half returns p/2, rounded down.
func (p Picos) half() Picos {
	q, _ := p.divFloor(2)
	return q
}
