package plan

import (
	"slices"

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

// Rows are the limits of a decision, in name order.
type Rows []Row

// At returns the row of a limit. It makes one without facts if there is none.
func (rows *Rows) At(name string) *Row {
	i := 0
	for i < len(*rows) && (*rows)[i].Name < name { // there are few, so this is faster than a binary search
		i++
	}
	if i == len(*rows) || (*rows)[i].Name != name {
		*rows = slices.Insert(*rows, i, Row{Name: name})
	}
	return &(*rows)[i]
}

// Of returns the sums of a limit.
func (rows Rows) Of(name string) Row {
	if r := rows.find(name); r != nil {
		return *r
	}
	return Row{Name: name}
}

// Consumed is the change of the counter of a limit, in millitokens.
func (rows Rows) Consumed(name string) int64 {
	if r := rows.find(name); r != nil {
		return r.Consumed()
	}
	return 0
}

// find returns the row of a limit; nil if there is none.
func (rows Rows) find(name string) *Row {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

// Rows returns the rows with their facts, and with a row of each of the amounts.
func (v View) Rows(rows Rows, amounts []Signed) Rows {
	for _, a := range amounts {
		rows.At(a.Name)
	}
	for i := range rows {
		v.setFacts(&rows[i])
	}
	return rows
}

// Fits reports whether a take alone fits, beside what must be left to waiters. room is space for its
// rows.
func (v View) Fits(amounts []Signed, left Promises, room Rows) bool {
	return v.Rows(room, amounts).Fit(amounts, left)
}

// rowOf returns the row of a limit; a new one if there is none.
func (v View) rowOf(rows Rows, name string) *Row {
	r := rows.find(name)
	if r == nil {
		r = &Row{Name: name}
		v.setFacts(r)
	}
	return r
}

// Take adds what a take takes.
func (rows *Rows) Take(amounts []Signed) {
	for _, a := range amounts {
		at := rows.At(a.Name)
		at.Pass(a)
		at.Take += a.Amount
	}
}

// Taken is what a batch takes of each limit of a view: takes and adjusts together.
func (rows Rows) Taken() (taken Rows) {
	for i := range rows {
		at := taken.At(rows[i].Name)
		at.Take += rows[i].out()
		at.Back += rows[i].back() // first, and a full bucket holds no more
	}
	return taken
}

// Missing returns the first limit of amounts that the bucket neither has nor gets with the write; "" if
// there is none.
func (rows Rows) Missing(amounts []Signed) string {
	for _, a := range amounts {
		if !rows.find(a.Name).known {
			return a.Name
		}
	}
	return ""
}

// TooDeep names a limit that the adjusts put deeper into debt than can be stored; "" if
// there is none.
func (rows Rows) TooDeep(m *schema.Image) string {
	for i := range rows {
		if r := &rows[i]; r.place >= 0 && r.Adjust > 0 && m.Limits[r.place].Tokens < r.Adjust-MaxDebt {
			return r.Name
		}
	}
	return ""
}

// Fit reports whether a take fits beside the sums and what must be left to waiters. The rows have its
// limits.
func (rows Rows) Fit(amounts []Signed, left Promises) bool {
	for _, a := range amounts {
		r, promised := rows.find(a.Name), int64(0)
		if left != nil {
			promised = left.Of(a.Name).Amount
		}
		if !r.shadow && (!r.known || a.Amount > r.room()-r.Take-promised) {
			return false
		}
	}
	return true
}

// Modest reports whether a take, with the sums, stays within a share of what the bucket holds; the
// share has been halved the given number of times.
func (rows Rows) Modest(amounts []Signed, halved int) bool {
	for _, a := range amounts {
		if r := rows.find(a.Name); !r.shadow && r.Take+a.Amount > r.room()>>halved {
			return false
		}
	}
	return true
}

// LeaveHalf reports whether a take beside the sums leaves every limit that it names at half its burst
// or more.
func (rows Rows) LeaveHalf(amounts []Signed) bool {
	for _, a := range amounts {
		if r := rows.find(a.Name); !r.stored || r.room()-r.out()-a.Amount < r.state.Burst/2 {
			return false
		}
	}
	return true
}

// HasBack reports whether the sums give something back, or take lapsed tokens off a
// counter. Such a write must not land twice, nor in another incarnation.
func (rows Rows) HasBack() bool {
	for i := range rows {
		if rows[i].Back > 0 || rows[i].Late < 0 {
			return true
		}
	}
	return false
}

// Carriable reports whether one write can give the amounts back.
func Carriable(amounts []Signed) bool {
	return !slices.ContainsFunc(amounts, func(a Signed) bool { return a.Amount > MaxSum })
}

// OfOtherWindows reports whether the sums give back to a limit what was taken in another window
// than what the adjusts give back.
func (rows Rows) OfOtherWindows(adjusts []Signed) bool {
	for _, a := range adjusts {
		if carried := rows.find(a.Name); a.Amount < 0 && carried != nil && carried.Back > 0 && carried.Window != a.Window {
			return true
		}
	}
	return false
}

// Overflows reports whether the sums with these adjusts exceed what one write carries.
func (rows Rows) Overflows(adjusts []Signed) bool {
	for _, a := range adjusts {
		var carried bucket.Amounts
		if r := rows.find(a.Name); r != nil {
			carried = r.Amounts
		}
		if a.Amount > MaxSum-carried.Adjust || -a.Amount > MaxSum-carried.Back {
			return true
		}
	}
	return false
}

// Precedence is what goes before a take: what the ops before it in the same write take
// and give back, and what must be left to waiters until they have been served.
type Precedence struct {
	// Taken is what goes at once.
	Taken Rows
	// Left is what is left to waiters.
	Left Promises
}
