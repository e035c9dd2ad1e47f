package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// MaxSum bounds the amount of one limit that one write gives back or charges. The sums of a write, with a
	// credit of 2^62, then stay within 64 bits.
	MaxSum = 1 << 59
	// MaxDebt bounds the debt that a bucket stores, in millitokens: 2.3·10^15 tokens. Its numbers then stay
	// within 64 bits, even if other processes charge at the same time.
	MaxDebt = 1 << 61
)

// Rows are the limits of a decision, in name order.
type Rows []Row

// At returns a pointer to the row of a limit, valid until another row is added. If the rows lack the limit, it
// inserts a row without facts.
func (rows *Rows) At(name string) *Row {
	r := rows.find(name)
	if r == nil {
		*rows = rows.withLimit(name)
		r = rows.find(name)
	}
	return r
}

// With returns the rows, completed by one without facts for each limit of the asks, and may change their array.
func (rows Rows) With(asks ...*Ask) Rows {
	for _, a := range asks {
		for _, one := range a.Amounts {
			rows = rows.withLimit(one.Name)
		}
		for _, one := range a.Late {
			rows = rows.withLimit(one.Name)
		}
	}
	return rows
}

// withLimit returns the rows with one of a limit, without facts if it is new, and may change their array. It takes
// no pointer, so that rows on the stack stay there.
func (rows Rows) withLimit(name string) Rows {
	i := 0
	for i < len(rows) && rows[i].Name < name { // there are few, so this is faster than a binary search
		i++
	}
	if i == len(rows) || rows[i].Name != name {
		rows = slices.Insert(rows, i, Row{Name: name})
	}
	return rows
}

// Of returns the sums of a limit, zero ones if it has no row.
func (rows Rows) Of(name string) Row {
	if r := rows.find(name); r != nil {
		return *r
	}
	return Row{Name: name}
}

// Consumed returns the change of a limit's counter by the write, in millitokens; 0 for slots, and for a limit
// without a row.
func (rows Rows) Consumed(name string) int64 {
	if r := rows.find(name); r != nil {
		return r.Consumed()
	}
	return 0
}

// find returns the row of a limit, or nil.
func (rows Rows) find(name string) *Row {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

// Rows returns rows with one for each of the amounts and each limit with slots of open calls, and sets the
// facts of all. It does not add the amounts to the sums.
func (v View) Rows(rows Rows, amounts []Signed) Rows {
	for _, a := range amounts {
		rows = rows.withLimit(a.Name)
	}
	if v.InFlight != nil {
		rows = v.withInFlight(rows)
	}
	for i := range rows {
		r := &rows[i]
		if v.setFacts(r); r.Back != 0 { // summed before the facts
			r.GiveBack(0, r.Window)
		}
	}
	return rows
}

// Fits reports whether a take fits on its own, with the tokens promised to waiters in left subtracted. It
// builds the rows in room. batch means that it is a batch call's.
func (v View) Fits(amounts []Signed, left Promises, batch bool, room Rows) bool {
	return v.Rows(room, amounts).Fit(amounts, left, batch)
}

// rowOf returns the row of a limit. Without one it returns a new row with its facts, and does not add it to the
// rows.
func (v View) rowOf(rows Rows, name string) *Row {
	r := rows.find(name)
	if r == nil {
		r = &Row{Name: name}
		v.setFacts(r)
	}
	return r
}

// Ask is the request of one caller to a bucket, and the decision about it.
type Ask struct {
	// Amounts are the amounts of a take or, in an adjust, those to charge, above 0, and to give back,
	// below 0.
	Amounts []Signed
	// Late are the lapsed prefetched tokens, below 0. They come off the counter alone.
	Late []Signed
	// Take means that the ask may be denied. Without it the ask is an adjust, which may not. Prefetch means
	// that the take debits tokens ahead of calls, and Batch that it is a batch call's, which leaves the reserve of
	// each limit to other calls.
	Take, Prefetch, Batch bool
	// RefundDropped means that the give-back is dropped because its bucket is gone.
	RefundDropped bool
	// Model names the counter by model that the amounts move.
	Model Model
	// Fate is the decision. Limit names the limit of an ask that is Unknown or TooDeep.
	Fate  Fate
	Limit string
	// Refusals counts the refused writes of the ask, and Postponed the writes that left it for the next one.
	Refusals, Postponed int

	// Down are the amounts that go to the counter alone: the charges of an adjust beyond the deepest debt of
	// a limit, and the part of a take beyond limits in shadow. Unbound is the part of a take of limits in
	// shadow that is charged without a bound.
	Down, Unbound []Signed
	// Dropped are the limits of an adjust that the bucket does not have. The write leaves them out.
	Dropped []string
}

// Fate is the decision about an ask.
type Fate uint8

// The fates of an ask.
const (
	Carried  Fate = iota // the write carries it
	Denied               // it does not fit
	Deferred             // it fits, but waits for the next write, because other processes wrote first of late
	Unknown              // it names a limit that the bucket neither has nor gets
	TooDeep              // it charges more debt than a bucket can store
	NotAhead             // it would debit scarce tokens ahead of calls
)

// GiveBackRows returns rows for a write that only gives back: with the sums of the asks and with their facts,
// but without the levels of token buckets. room is space for the rows.
func (v View) GiveBackRows(asks []*Ask, room Rows) Rows {
	v.noLevels = true
	rows := v.Rows(room.With(asks...), nil)
	for _, a := range asks {
		a.AddTo(rows)
	}
	return rows
}

// AddTo adds the amounts of the ask to the sums of rows, without give-backs that are dropped. Of a take,
// amounts in Down go to the counter alone, and those in Unbound count as adjusts. A batch take sets the row's
// Keep to the reserve. The rows must include the limits (see With).
func (a *Ask) AddTo(rows Rows) {
	if !a.RefundDropped {
		for _, one := range a.Late {
			at := rows.find(one.Name)
			at.Late += one.Amount
			at.AddPassed(one)
		}
	}
	for _, one := range a.Amounts {
		if !a.Take && one.Amount <= 0 && a.RefundDropped {
			continue
		}
		at := rows.find(one.Name)
		if one.Passed != 0 {
			at.AddPassed(one)
		}
		switch {
		case a.Take && a.Down != nil && Includes(a.Down, one.Name):
			at.Late += one.Amount
		case a.Take && (a.Unbound == nil || !Includes(a.Unbound, one.Name)): // nil without a limit in shadow
			if at.Take += one.Amount; a.Batch {
				at.Keep = at.kept()
			}
		case one.Amount > 0:
			at.Adjust += one.Amount
		default:
			at.GiveBack(-one.Amount, one.Window)
		}
	}
}

// Take adds the amounts of a take to the sums. It adds rows without facts for new limits.
func (rows *Rows) Take(amounts []Signed) {
	for _, a := range amounts {
		at := rows.At(a.Name)
		at.AddPassed(a)
		at.Take += a.Amount
	}
}

// Taken returns new rows without facts. Take is the tokens that the sums take from a limit, by takes and
// adjusts, and Back those that they give back.
func (rows Rows) Taken() (taken Rows) {
	for i := range rows {
		at := taken.At(rows[i].Name)
		at.Take += rows[i].Take + rows[i].Adjust
		at.Back += rows[i].back // first, and a full bucket holds no more
	}
	return taken
}

// Missing returns the names of the limits of amounts that the bucket does not have and the write does not add.
// The rows must include the limits.
func (rows Rows) Missing(amounts []Signed) (names []string) {
	for _, a := range amounts {
		if !rows.find(a.Name).known {
			names = append(names, a.Name)
		}
	}
	return names
}

// tooDeep returns the first limit that the charges of an adjust, added to the sums, would put deeper into
// debt than a bucket can store; "" if every debt can be stored.
func (rows Rows) tooDeep(charges []Signed, m *schema.Image) string {
	for _, a := range charges {
		r := rows.find(a.Name)
		if r.place >= 0 && a.Amount > 0 && m.Limits[r.place].Tokens < r.Adjust+a.Amount-MaxDebt {
			return a.Name
		}
	}
	return ""
}

// Fit reports whether a take fits every limit after the sums and the tokens promised to waiters in left are
// subtracted. A batch call's take leaves the reserve, too. It is false if the bucket lacks a limit; a limit in shadow
// always fits. The rows must include the limits.
func (rows Rows) Fit(amounts []Signed, left Promises, batch bool) bool {
	for _, a := range amounts {
		r, promised := rows.find(a.Name), int64(0)
		if left != nil {
			promised = left.Of(a.Name).Amount
		}
		if batch {
			promised += r.kept()
		}
		if !r.known || !r.shadow && a.Amount > r.room()-r.Take-promised {
			return false
		}
	}
	return true
}

// isModest reports whether a take and the sums together stay within a share of each limit's room. The share is
// halved the given number of times. Limits in shadow do not count.
func (rows Rows) isModest(amounts []Signed, halved int) bool {
	for _, a := range amounts {
		if r := rows.find(a.Name); !r.shadow && r.Take+a.Amount > r.room()>>halved {
			return false
		}
	}
	return true
}

// leaveHalf reports whether every limit of a take keeps half its burst or more after the take and the sums. It
// is false for slots, and for a limit that the bucket lacks or has as a ghost.
func (rows Rows) leaveHalf(amounts []Signed) bool {
	for _, a := range amounts {
		if r := rows.find(a.Name); !r.stored || r.moves != nil || r.room()-r.Take-r.Adjust-a.Amount < r.state.Burst/2 {
			return false
		}
	}
	return true
}

// HasBack reports whether the sums give tokens back or take lapsed tokens off a counter. Such a write must
// land at most once, and only in the same incarnation.
func (rows Rows) HasBack() bool {
	for i := range rows {
		if rows[i].Back > 0 || rows[i].Late < 0 {
			return true
		}
	}
	return false
}

// IsCarriable reports whether one write can give the amounts back: none exceeds MaxSum, about 6·10^17
// millitokens.
func IsCarriable(amounts []Signed) bool {
	return !slices.ContainsFunc(amounts, func(a Signed) bool { return a.Amount > MaxSum })
}

// OfOtherWindows reports whether the sums already give back to a limit in another window than the adjusts do.
func (rows Rows) OfOtherWindows(adjusts []Signed) bool {
	for _, a := range adjusts {
		if carried := rows.find(a.Name); a.Amount < 0 && carried != nil && carried.Back > 0 && carried.Window != a.Window {
			return true
		}
	}
	return false
}

// Overflows reports whether, with these adjusts, the charges or the give-backs of a limit would exceed MaxSum,
// the most of one write.
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

// Precedence is the tokens that go before a take: those of earlier ops of the same write, and those promised
// to waiters.
type Precedence struct {
	// Taken are the sums of the earlier ops of the same write.
	Taken Rows
	// Left are the promises to waiters.
	Left Promises
}

// withInFlight returns the rows with one for each limit of the process's slots, if the bucket has the limit or
// the write adds it.
func (v View) withInFlight(rows Rows) Rows {
	for _, l := range v.InFlight.Limits {
		if v.Image.HasLimit(l.Name) || v.Config.Index(l.Name) >= 0 && (v.Adopt || v.Image == nil) {
			rows = rows.withLimit(l.Name)
		}
	}
	return rows
}

// MovesSlots reports whether a write moves slots that the process has. It must land at most once then.
func (rows Rows) MovesSlots() bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.moves != nil && r.moves.ChangesHeld() })
}

// HasMoves reports whether the rows include a limit of calls in flight, even if no slot moves.
func (rows Rows) HasMoves() bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.moves != nil })
}

// areTight reports whether a batch call's take would leave less than a tenth of the burst of a limit above the
// reserve. Limits in shadow do not count.
func (rows Rows) areTight(amounts []Signed) bool {
	for _, a := range amounts {
		if r := rows.find(a.Name); !r.shadow && r.room()-r.Take-a.Amount-r.kept() < r.burst()/lowShare {
			return true
		}
	}
	return false
}

// Shared reports whether another process took or gave back tokens between two images. The writes of ours landed
// between them. It is also true if the incarnation or the set of limits differs, and false if before is nil.
func Shared(before, after *schema.Image, ours Rows) bool {
	if before == nil || after == nil || before.Set != after.Set || string(before.Incarnation) != string(after.Incarnation) {
		return before != nil
	}
	for i, name := range after.Set.Names {
		consumed := after.Limits[i].Consumed - before.Limits[i].Consumed
		for len(ours) > 0 && ours[0].Name < name { // both are in name order
			ours = ours[1:]
		}
		if len(ours) > 0 && ours[0].Name == name {
			consumed -= ours[0].Consumed()
		}
		if consumed != 0 {
			return true
		}
	}
	return false
}
