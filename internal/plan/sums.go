package plan

import (
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// MaxSum bounds what one write gives back, or charges, of one limit: the sums
	// of a write, beside a credit of 2^62, stay within 64 bits.
	MaxSum = 1 << 59
	// MaxDebt bounds the debt that a bucket stores, in millitokens: 2.3·10^15
	// tokens. Its numbers stay within 64 bits whoever charges beside.
	MaxDebt = 1 << 61
)

// Named is what a batch does to one limit.
type Named struct {
	// Name is the limit's.
	Name string
	// Amounts are what is taken, adjusted and given back, in millitokens.
	bucket.Amounts
	// Late is charged to the counter only, not to the tokens, in millitokens: it was
	// used so long ago that the bucket has refilled it since. If it is below 0, it was
	// debited ahead of calls and has lapsed.
	Late int64
	// PassedOn and PassedBack are the parts of what is charged, and of what is given back
	// or has lapsed, that a level above counts too.
	PassedOn, PassedBack int64
	// Window is the one from which Back was taken.
	Window bucket.WindowID
}

// Sums are the amounts of a batch, in name order.
type Sums []Named

// At returns the entry of a limit, making one if need be.
func (s *Sums) At(name string) *Named {
	i, ok := slices.BinarySearchFunc(*s, name, func(n Named, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		*s = slices.Insert(*s, i, Named{Name: name})
	}
	return &(*s)[i]
}

// Take adds what a take takes.
func (s *Sums) Take(amounts []Signed) {
	for _, a := range amounts {
		at := s.At(a.Name)
		at.Pass(a)
		at.Take += a.Amount
	}
}

// GiveBack adds what was taken in a window. One write gives back to one window of a limit (see
// OfOtherWindows). Of a closed window it comes off the counter alone.
func (n *Named) GiveBack(amount int64, window bucket.WindowID) {
	if window.IsClosed() {
		n.Late -= amount
		return
	}
	n.Back, n.Window = n.Back+amount, window
}

// Of returns the amounts of a limit.
func (s Sums) Of(name string) Named {
	for i := range s {
		if s[i].Name == name {
			return s[i]
		}
	}
	return Named{Name: name}
}

// Consumed is the change of the limit's counter, in millitokens.
func (n Named) Consumed() int64 { return n.Take + n.Adjust + n.Late - n.Back }

// Passed is the change of the part of the counter that a level above counts too.
func (n Named) Passed() int64 { return n.PassedOn - n.PassedBack }

// Pass adds the part of an amount that a level above counts too.
func (n *Named) Pass(a Signed) {
	n.PassedOn += max(0, a.Passed)
	n.PassedBack += max(0, -a.Passed)
}

// isZero reports whether the batch does nothing to the limit.
func (n Named) isZero() bool { return n.Amounts == (bucket.Amounts{}) && n.Late == 0 }

// HasBack reports whether the sums give something back, or take lapsed tokens off a
// counter. Such a write must not land twice, nor in another incarnation.
func (s Sums) HasBack() bool {
	for i := range s {
		if s[i].Back > 0 || s[i].Late < 0 {
			return true
		}
	}
	return false
}

// TooDeep names a limit that the adjusts put deeper into debt than can be stored; "" if
// there is none.
func (s Sums) TooDeep(m *schema.Image) string {
	if m == nil {
		return ""
	}
	for _, n := range s {
		if i := m.Set.Index(n.Name); i >= 0 && n.Adjust > 0 && m.Limits[i].Tokens < n.Adjust-MaxDebt {
			return n.Name
		}
	}
	return ""
}

// Carriable reports whether one write can give the amounts back.
func Carriable(amounts []Signed) bool {
	return !slices.ContainsFunc(amounts, func(a Signed) bool { return a.Amount > MaxSum })
}

// OfOtherWindows reports whether the sums give back to a limit what was taken in another window
// than what the adjusts give back.
func (s Sums) OfOtherWindows(adjusts []Signed) bool {
	for _, a := range adjusts {
		if carried := s.Of(a.Name); a.Amount < 0 && carried.Back > 0 && carried.Window != a.Window {
			return true
		}
	}
	return false
}

// Overflows reports whether the sums with these adjusts exceed what one write carries.
func (s Sums) Overflows(adjusts []Signed) bool {
	for _, a := range adjusts {
		carried := s.Of(a.Name)
		if a.Amount > MaxSum-carried.Adjust || -a.Amount > MaxSum-carried.Back {
			return true
		}
	}
	return false
}
