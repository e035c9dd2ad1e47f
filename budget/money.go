package budget

import (
	"errors"
	"math"
	"math/big"
	"math/bits"
)

// picosPerMicro is how many pico-dollars one micro-dollar has.
const picosPerMicro = 1_000_000

// picos is an exact amount of money in pico-dollars (10^-12 $), signed, 128
// bits wide. A price is in micro-dollars per million tokens, so tokens × price
// is a whole number of picos: nothing is rounded before it is shown.
type picos struct {
	hi int64
	lo uint64
}

var (
	maxPicos = picos{hi: math.MaxInt64, lo: math.MaxUint64}
	minPicos = picos{hi: math.MinInt64}
)

var errNotInteger = errors.New("not a whole number of pico-dollars within 128 bits")

// microsToPicos converts whole micro-dollars exactly.
func microsToPicos(micros int64) picos {
	return picos{hi: micros >> 63, lo: uint64(micros)}.mul(picosPerMicro)
}

// costOf is tokens × price in micro-dollars per million tokens; neither may be
// negative.
func costOf(tokens, microsPerMillion int64) picos {
	hi, lo := bits.Mul64(uint64(tokens), uint64(microsPerMillion))
	return picos{hi: int64(hi), lo: lo}
}

func (p picos) isNegative() bool { return p.hi < 0 }
func (p picos) isZero() bool     { return p.hi == 0 && p.lo == 0 }

// sign is -1, 0 or 1.
func (p picos) sign() int {
	switch {
	case p.hi < 0:
		return -1
	case p.isZero():
		return 0
	}
	return 1
}

// add saturates at the ends of 128 bits instead of wrapping.
func (p picos) add(q picos) picos {
	lo, carry := bits.Add64(p.lo, q.lo, 0)
	hi, _ := bits.Add64(uint64(p.hi), uint64(q.hi), carry)
	sum := picos{hi: int64(hi), lo: lo}
	if p.isNegative() == q.isNegative() && sum.isNegative() != p.isNegative() {
		if p.isNegative() {
			return minPicos
		}
		return maxPicos
	}
	return sum
}

func (p picos) neg() picos {
	if p == minPicos {
		return maxPicos
	}
	lo, borrow := bits.Sub64(0, p.lo, 0)
	hi, _ := bits.Sub64(0, uint64(p.hi), borrow)
	return picos{hi: int64(hi), lo: lo}
}

func (p picos) sub(q picos) picos { return p.add(q.neg()) }

func (p picos) cmp(q picos) int {
	switch {
	case p.hi < q.hi, p.hi == q.hi && p.lo < q.lo:
		return -1
	case p == q:
		return 0
	}
	return 1
}

// mul multiplies by a small non-negative factor and saturates.
func (p picos) mul(factor int64) picos {
	if p.isNegative() {
		return p.neg().mul(factor).neg()
	}
	carry, lo := bits.Mul64(p.lo, uint64(factor))
	over, hi := bits.Mul64(uint64(p.hi), uint64(factor))
	hi, c := bits.Add64(hi, carry, 0)
	if over != 0 || c != 0 || hi > math.MaxInt64 {
		return maxPicos
	}
	return picos{hi: int64(hi), lo: lo}
}

// micros rounds to whole micro-dollars, half up, and saturates; for output
// only.
func (p picos) micros() int64 {
	quotient, rest := p.divFloor(picosPerMicro)
	if rest*2 >= picosPerMicro {
		quotient = quotient.add(picos{lo: 1})
	}
	switch {
	case quotient.hi > 0 || quotient.hi == 0 && quotient.lo > math.MaxInt64:
		return math.MaxInt64
	case quotient.hi < -1 || quotient.hi == -1 && quotient.lo < 1<<63:
		return math.MinInt64
	}
	return int64(quotient.lo)
}

// microsUp rounds up to whole micro-dollars: what is held must cover the call.
func (p picos) microsUp() int64 {
	return p.add(picos{lo: picosPerMicro/2 - 1}).micros()
}

// divFloor divides by a small positive number, rounding down; the rest is
// never negative.
func (p picos) divFloor(by uint64) (quotient picos, rest uint64) {
	if p.isNegative() {
		magnitude := p.neg() // minPicos loses one pico here, which no amount reaches
		q, r := magnitude.divFloor(by)
		if r == 0 {
			return q.neg(), 0
		}
		return q.add(picos{lo: 1}).neg(), by - r
	}
	hi := uint64(p.hi) / by
	lo, r := bits.Div64(uint64(p.hi)%by, p.lo, by)
	return picos{hi: int64(hi), lo: lo}, r
}

// String is the exact decimal number of picos, as it is stored.
func (p picos) String() string { return p.big().String() }

func (p picos) big() *big.Int {
	n := big.NewInt(p.hi)
	n.Lsh(n, 64)
	return n.Add(n, new(big.Int).SetUint64(p.lo))
}

// parsePicos reads what String wrote.
func parsePicos(s string) (picos, error) {
	if s == "" {
		return picos{}, nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || n.BitLen() > 127 && n.Cmp(minPicos.big()) != 0 {
		return picos{}, errNotInteger
	}
	low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
	return picos{hi: new(big.Int).Rsh(n, 64).Int64(), lo: low.Uint64()}, nil
}

// percentOf is 100·p/quota with one decimal, rounded half up; 0 when the quota
// is not positive.
func (p picos) percentOf(quotaMicros int64) float64 {
	if quotaMicros <= 0 {
		return 0
	}
	scaled := p.mul(1000)
	q, _ := scaled.add(microsToPicos(quotaMicros).half()).divFloor(picosPerMicro)
	q, _ = q.divFloor(uint64(quotaMicros))
	if q.hi != 0 && q.hi != -1 {
		return math.MaxInt64
	}
	return float64(int64(q.lo)) / 10
}

func (p picos) half() picos {
	q, _ := p.divFloor(2)
	return q
}
