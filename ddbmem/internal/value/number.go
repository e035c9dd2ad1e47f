package value

import (
	"errors"
	"math/big"
	"math/bits"
)

// Limits of a DynamoDB number.
const (
	maxDigits   = 38
	maxExponent = 125  // of the leading digit: 9.99…E125
	minExponent = -130 // 1E-130
)

// Errors about numbers, worded as DynamoDB words them.
var (
	ErrNotNumeric = errors.New("The parameter cannot be converted to a numeric value")                                     //nolint:staticcheck // DynamoDB's wording
	ErrPrecision  = errors.New("Attempting to store more than 38 significant digits in a Number")                          //nolint:staticcheck // DynamoDB's wording
	ErrOverflow   = errors.New("Number overflow. Attempting to store a number with magnitude larger than supported range") //nolint:staticcheck // DynamoDB's wording
	ErrUnderflow  = errors.New("Number underflow. Attempting to store a number with magnitude smaller than supported range")
)

// Number is an exact decimal, coefficient × 10^exp, of at most 38 significant
// digits (so the coefficient fits 128 bits). Every number has one form, with no
// trailing zeros in the coefficient: == is equality, and the zero value is 0.
type Number struct {
	hi, lo uint64
	exp    int32
	neg    bool
}

// NumberFromInt returns n as a Number.
func NumberFromInt(n int64) Number {
	if n < 0 {
		return normalized(true, 0, uint64(-n), 0)
	}
	return normalized(false, 0, uint64(n), 0)
}

// ParseNumber returns the number of a decimal text such as -1.5 or 1e3. It fails with ErrNotNumeric for other
// text, and with ErrPrecision, ErrOverflow or ErrUnderflow beyond DynamoDB's limits.
func ParseNumber(s string) (Number, error) {
	i, neg := 0, false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		neg = s[i] == '-'
		i++
	}
	var (
		hi, lo         uint64
		digits, zeros  int // significant so far; zeros after them, not yet in the coefficient
		exp            int
		seen, fraction bool
	)
scan:
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '.' && !fraction:
			fraction = true
			continue
		case c >= '0' && c <= '9':
		default:
			break scan
		}
		seen = true
		if fraction {
			exp--
		}
		if c == '0' {
			if digits > 0 {
				zeros++
			}
			continue
		}
		digits += zeros + 1
		if digits > maxDigits {
			return Number{}, ErrPrecision
		}
		for ; zeros > 0; zeros-- {
			hi, lo = times10(hi, lo, 0)
		}
		hi, lo = times10(hi, lo, uint64(c-'0'))
	}
	written, ok := parseExponent(s[i:])
	if !seen || !ok {
		return Number{}, ErrNotNumeric
	}
	if digits == 0 {
		return Number{}, nil
	}
	return checkRange(Number{hi: hi, lo: lo, exp: int32(exp + zeros + written), neg: neg}, digits)
}

// parseExponent returns the exponent in s, the rest of a number: 0 for an empty s. It returns false for other
// text. A huge exponent is cut to about a million, which is still out of range.
func parseExponent(s string) (int, bool) {
	const far = 1 << 20
	if s == "" {
		return 0, true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if s == "" {
		return 0, false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), far)
	}
	if neg {
		n = -n
	}
	return n, true
}

// checkRange returns n, or the zero Number with ErrOverflow or ErrUnderflow if its leading digit is beyond
// DynamoDB's range. The coefficient of n has the given number of digits.
func checkRange(n Number, digits int) (Number, error) {
	switch lead := int(n.exp) + digits - 1; {
	case lead > maxExponent:
		return Number{}, ErrOverflow
	case lead < minExponent:
		return Number{}, ErrUnderflow
	}
	return n, nil
}

// times10 returns ten times the 128-bit number hi, lo plus add. The result must fit 128 bits.
func times10(hi, lo, add uint64) (uint64, uint64) {
	carry, low := bits.Mul64(lo, 10)
	low, c := bits.Add64(low, add, 0)
	return hi*10 + carry + c, low
}

// divideBy10 divides the 128-bit number hi, lo by ten and returns quotient and remainder.
func divideBy10(hi, lo uint64) (qhi, qlo, rem uint64) {
	qhi, rem = hi/10, hi%10
	qlo, rem = bits.Div64(rem, lo, 10)
	return qhi, qlo, rem
}

// normalized returns the number without trailing zeros in its coefficient hi, lo; exp grows instead. Zero is
// always the zero Number.
func normalized(neg bool, hi, lo uint64, exp int32) Number {
	if hi == 0 && lo == 0 {
		return Number{}
	}
	for {
		qhi, qlo, rem := divideBy10(hi, lo)
		if rem != 0 {
			return Number{hi: hi, lo: lo, exp: exp, neg: neg}
		}
		hi, lo, exp = qhi, qlo, exp+1
	}
}

// coefficient writes the digits of |n| into the end of buf and returns them. There are no trailing zeros, and
// no digits for 0.
func (n Number) coefficient(buf *[40]byte) []byte {
	i := len(buf)
	hi, lo := n.hi, n.lo
	for hi != 0 {
		var rem uint64
		hi, lo, rem = divideBy10(hi, lo)
		i--
		buf[i] = byte('0' + rem)
	}
	for lo != 0 {
		i--
		buf[i] = byte('0' + lo%10)
		lo /= 10
	}
	return buf[i:]
}

// Append appends n to b in plain decimal notation, without an exponent, as DynamoDB returns numbers.
func (n Number) Append(b []byte) []byte {
	if n == (Number{}) {
		return append(b, '0')
	}
	if n.neg {
		b = append(b, '-')
	}
	var buf [40]byte
	digits := n.coefficient(&buf)
	point := len(digits) + int(n.exp) // digits before the decimal point
	switch {
	case n.exp >= 0:
		b = append(b, digits...)
		return appendZeros(b, int(n.exp))
	case point > 0:
		b = append(b, digits[:point]...)
		b = append(b, '.')
		return append(b, digits[point:]...)
	default:
		b = append(b, '0', '.')
		return append(appendZeros(b, -point), digits...)
	}
}

// appendZeros appends n times the digit 0, nothing if n is negative.
func appendZeros(b []byte, n int) []byte {
	for ; n > 0; n-- {
		b = append(b, '0')
	}
	return b
}

// String returns n in plain decimal notation, without an exponent.
func (n Number) String() string {
	var buf [64]byte
	return string(n.Append(buf[:0]))
}

// Negate returns -n; zero stays zero.
func (n Number) Negate() Number {
	n.neg = !n.neg && n != Number{}
	return n
}

// Add returns n + m. It fails with ErrPrecision if the exact sum has more than 38 digits, and with ErrOverflow
// or ErrUnderflow if it is out of range.
func (n Number) Add(m Number) (Number, error) {
	if sum, ok := addSmall(n, m); ok {
		return sum, nil
	}
	exp := min(n.exp, m.exp)
	sum := n.scaledTo(exp)
	sum.Add(sum, m.scaledTo(exp))
	return fromBig(sum, exp)
}

// Sub returns n - m. It fails as Add does.
func (n Number) Sub(m Number) (Number, error) { return n.Add(m.Negate()) }

// addSmall returns n + m by integer arithmetic. It returns false, which is rare, if a coefficient at the common
// exponent exceeds 62 bits, or near the ends of the range. Add then uses big integers.
func addSmall(n, m Number) (Number, bool) {
	exp := min(n.exp, m.exp)
	a, ok := n.asSmall(exp)
	if !ok {
		return Number{}, false
	}
	b, ok := m.asSmall(exp)
	if !ok {
		return Number{}, false
	}
	a += b
	if a < 0 {
		return inSmallRange(normalized(true, 0, uint64(-a), exp))
	}
	return inSmallRange(normalized(false, 0, uint64(a), exp))
}

// inSmallRange returns n, and whether its exponent is between -100 and 100, excluded. Beyond that only the
// exact path of Add checks for overflow.
func inSmallRange(n Number) (Number, bool) {
	return n, n.exp > -100 && n.exp < 100
}

// asSmall returns n / 10^exp as an integer, where exp must not exceed n's exponent. It returns false if that
// does not fit 62 bits.
func (n Number) asSmall(exp int32) (int64, bool) {
	if n.hi != 0 || n.exp-exp > 18 {
		return 0, false
	}
	over, c := bits.Mul64(n.lo, pow10[n.exp-exp])
	if over != 0 || c >= 1<<62 {
		return 0, false
	}
	if n.neg {
		return -int64(c), true
	}
	return int64(c), true
}

var pow10 = func() (p [19]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// scaledTo returns n / 10^exp as a new integer; exp must not exceed n's exponent unless n is 0.
func (n Number) scaledTo(exp int32) *big.Int {
	c := new(big.Int).SetUint64(n.hi)
	c.Lsh(c, 64).Or(c, new(big.Int).SetUint64(n.lo))
	if n.neg {
		c.Neg(c)
	}
	if n == (Number{}) {
		return c
	}
	return c.Mul(c, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.exp-exp)), nil))
}

// fromBig returns c × 10^exp. It fails if that needs more than 38 digits or is out of range.
func fromBig(c *big.Int, exp int32) (Number, error) {
	text := new(big.Int).Abs(c).String()
	if text == "0" {
		return Number{}, nil
	}
	digits := len(text)
	for text[digits-1] == '0' {
		digits--
	}
	exp += int32(len(text) - digits)
	if digits > maxDigits {
		return Number{}, ErrPrecision
	}
	n := Number{exp: exp, neg: c.Sign() < 0}
	for i := range digits {
		n.hi, n.lo = times10(n.hi, n.lo, uint64(text[i]-'0'))
	}
	return checkRange(n, digits)
}

// Compare returns -1, 0 or 1 if n is below, equal to or above m.
func (n Number) Compare(m Number) int {
	if n == m {
		return 0
	}
	if s, t := n.sign(), m.sign(); s != t {
		if s < t {
			return -1
		}
		return 1
	}
	c := compareMagnitude(n, m)
	if n.neg {
		return -c
	}
	return c
}

// sign returns -1, 0 or 1 as n is negative, zero or positive.
func (n Number) sign() int {
	switch {
	case n.neg:
		return -1
	case n.hi == 0 && n.lo == 0:
		return 0
	}
	return 1
}

// compareMagnitude returns -1, 0 or 1 as |n| is below, equal to or above |m|. Neither may be zero. The place
// of the leading digit decides, then the digits.
func compareMagnitude(n, m Number) int {
	if n.exp == m.exp && n.hi == m.hi {
		if n.lo < m.lo {
			return -1
		}
		if n.lo > m.lo {
			return 1
		}
		return 0
	}
	var nb, mb [40]byte
	nd, md := n.coefficient(&nb), m.coefficient(&mb)
	if a, b := len(nd)+int(n.exp), len(md)+int(m.exp); a != b {
		if a < b {
			return -1
		}
		return 1
	}
	if string(nd) < string(md) {
		return -1
	}
	return 1
}

// Int64 returns n as an integer, cut toward zero. It returns false, with a meaningless integer, beyond int64.
func (n Number) Int64() (int64, bool) {
	exp := min(n.exp, 0)
	c := n.scaledTo(exp)
	c.Quo(c, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-exp)), nil))
	return c.Int64(), c.IsInt64()
}

// size returns the bytes that n takes in an item: one per two significant digits, one more, and one for a minus
// sign.
func (n Number) size() int {
	var buf [40]byte
	size := (len(n.coefficient(&buf))+1)/2 + 1
	if n.neg {
		size++
	}
	return size
}
