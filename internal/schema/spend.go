package schema

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// SpendLimit is the change of one limit by a Spend.
type SpendLimit struct {
	// Index is the position of the limit in the image's set.
	Index int
	// Update is the change of the tokens and its bounds.
	bucket.Update
	// Consumed is the change of the counter, and Passed that of the part of it that a level above counts too.
	Consumed, Passed int64
	// Backs means that tokens are given back.
	Backs bool
}

// livesOf returns the required life of the limit: any, the first one, or another one. A give-back to a quota,
// or to a limit that has been one, must meet the life from which it was taken. For a limit that was always a
// token bucket the refill instant is enough.
func (l *SpendLimit) livesOf(stored *Stored) livesRule {
	switch {
	case !l.Backs || !stored.IsQuota() && stored.Life == 0:
		return anyLife
	case stored.Life == 0:
		return firstLife
	}
	return laterLife
}

// livesRule is a spend's requirement of a limit's life.
type livesRule uint8

const (
	anyLife livesRule = iota
	firstLife
	laterLife
)

// Spend is the usual write. It changes the tokens and counters of some limits and leaves the refill instant
// unchanged, so that spends of different clients commute.
type Spend struct {
	Seen *Image
	// Limits in index order, at least one.
	Limits []SpendLimit
	// LaterRefill also accepts a later refill instant than the seen one. It is set for an adjust with bounds
	// that hold for any instant (High must allow no excess).
	LaterRefill bool
	// TTL is the earliest expiry that the write may leave; 0 for any.
	TTL int64
	// Backs means that the write gives tokens back, so the item must be the same incarnation as the image.
	Backs bool
	Op    Op
}

// Statement returns the conditional update.
func (s *Spend) Statement() Statement {
	var room [96]byte
	text := s.Seen.Set.texts.of(s, s.shape(room[:0]))
	values := make(map[string]types.AttributeValue, len(text.places))
	next := 0
	put := func(v types.AttributeValue) {
		values[text.places[next]] = v
		next++
	}
	var numbers numbers
	numbers.prepare(len(text.places))
	put(Bytes(s.Op.ID))
	if s.Op.Rule != OpAny {
		put(Bytes(s.Op.required()))
	}
	put(numbers.value(s.Seen.Refilled))
	put(Bytes(s.Seen.Fingerprint))
	if s.Backs && s.Seen.Incarnation != nil {
		put(Bytes(s.Seen.Incarnation))
	}
	if s.TTL > 0 {
		put(numbers.value(s.TTL))
	}
	for i := range s.Limits {
		l, stored := &s.Limits[i], &s.Seen.Limits[s.Limits[i].Index]
		if l.livesOf(stored) == laterLife {
			put(numbers.value(int64(stored.Life)))
		}
		if stored.IsQuota() {
			l.quotaValues(int64(stored.Window), numbers.value, put)
			continue
		}
		if l.Full {
			put(numbers.value(l.Put))
			put(numbers.value(l.Consumed))
			if l.Passed != 0 {
				put(numbers.value(l.Passed))
			}
			put(numbers.value(l.Low))
			continue
		}
		put(numbers.value(l.Add))
		put(numbers.value(l.Consumed))
		if l.Passed != 0 {
			put(numbers.value(l.Passed))
		}
		if l.HasLow {
			put(numbers.value(l.Low))
		}
		put(numbers.value(l.High))
	}
	numbers.finish()
	return Statement{Update: text.update, Condition: text.condition, Names: text.names, Values: values}
}

// quotaValues puts the values of a quota's text.
func (l *SpendLimit) quotaValues(window int64, number func(int64) types.AttributeValue, put func(types.AttributeValue)) {
	put(number(l.Add))
	put(number(l.Consumed))
	if l.Passed != 0 {
		put(number(l.Passed))
	}
	put(number(window))
	if l.HasLow {
		put(number(l.Low))
	}
}

// numbers makes many number values with few allocations: the digits of all
// share one string.
type numbers struct {
	members []types.AttributeValueMemberN
	ends    []uint32
	digits  []byte
	fewEnds [32]uint32
	few     [384]byte
}

// prepare makes room for at most most values.
func (n *numbers) prepare(most int) {
	n.members = make([]types.AttributeValueMemberN, 0, most)
	n.ends, n.digits = n.fewEnds[:0], n.few[:0]
}

// value returns a value. It is complete only after finish.
func (n *numbers) value(v int64) types.AttributeValue {
	n.digits = strconv.AppendInt(n.digits, v, 10)
	n.ends = append(n.ends, uint32(len(n.digits))) //nolint:gosec // an item of 400 KB holds no more
	n.members = append(n.members, types.AttributeValueMemberN{})
	return &n.members[len(n.members)-1]
}

func (n *numbers) finish() {
	all, from := string(n.digits), uint32(0)
	for i, end := range n.ends {
		n.members[i].Value = all[from:end]
		from = end
	}
}

// GiveBackLimit returns tokens to one limit.
type GiveBackLimit struct {
	Name   string
	Amount int64
	// Lapsed is taken off the counter and not returned to the tokens: these tokens were prefetched and never
	// used.
	Lapsed int64
	// Passed is the part of both that a level above counted too.
	Passed int64
	// Quota means that the limit is a quota. Window is the window from which Amount was taken.
	Quota  bool
	Window bucket.WindowID
}

// GiveBack is the write that only gives tokens back. It needs no image and commutes with every other write.
// It requires the limits to exist in the incarnation from which the tokens were taken, and its op rule makes
// it land at most once.
type GiveBack struct {
	Incarnation []byte
	Limits      []GiveBackLimit
	Op          Op
}

// Statement returns the conditional update.
func (g *GiveBack) Statement() Statement {
	b := newStatementBuilder()
	b.op(g.Op)
	b.incarnation(g.Incarnation)
	for _, l := range g.Limits {
		a := attrsOf(l.Name, l.Quota)
		if l.Amount > 0 {
			b.addNumber(a.tokens, l.Amount)
			b.takenIn(a, l.Window)
		}
		b.addNumber(a.consumed, -l.Amount-l.Lapsed)
		b.addPassed(a, -l.Passed)
		b.exists(a.burst)
	}
	return b.build()
}

// takenIn requires a limit to be in the window and the life of a take.
func (b *statementBuilder) takenIn(a limitAttrs, w bucket.WindowID) {
	if a.isQuota() {
		b.compare(a.window, "=", Number(w.Ordinal()))
	}
	b.inLife(a, w.Life())
}

// addPassed adds to the part of a counter that a level above counts too. It writes nothing for 0, so that a
// bucket without a level above does not get the attribute.
func (b *statementBuilder) addPassed(a limitAttrs, n int64) {
	if n != 0 {
		b.addNumber(a.passed, n)
	}
}
