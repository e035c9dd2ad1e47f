package backlog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// The exhaustive search: two leases of one bucket, every order of takes,
// corrections, writes under way, flushes and their outcomes. A state is reached
// by replaying the steps that led to it, and visited once.

var exhaustRate = bucket.Rate{Burst: 2, Amount: 1, Period: 1 << 40} // refills nothing meanwhile

// ledgerWorld is what is true beside what the holdings believe.
type ledgerWorld struct {
	charged    int64 // what the bucket's counter really was charged
	lostBacks  int64 // refunds of charges that may have been written
	target     [2]int64
	holding    [2]Holding
	live       [2]bool
	collecting *Charge
	flush      *Charge // under way
	inFlight   [2]*Charge
	dropped    int64
	rule       string // left out
}

// outcome is what comes of a write.
type outcome int

const (
	answered outcome = iota // landed
	refusedSurely
	lostAfter  // landed, and no answer told
	lostBefore // did not land, and no answer told
)

// step is one event; its fields choose what and to whom.
type step struct {
	what    string
	lease   int
	amount  int64
	outcome outcome
}

func steps() []step {
	all := []step{{what: "send"}, {what: "drop"}}
	for o := answered; o <= lostBefore; o++ {
		all = append(all, step{what: "flushed", outcome: o})
		for lease := range 2 {
			all = append(all, step{what: "arrived", lease: lease, outcome: o})
			for amount := range int64(3) {
				all = append(all, step{what: "correct", lease: lease, amount: amount, outcome: o})
			}
		}
	}
	for lease := range 2 {
		for amount := range int64(3) {
			all = append(all, step{what: "owe", lease: lease, amount: amount})
			if amount > 0 {
				all = append(all, step{what: "grant", lease: lease, amount: amount},
					step{what: "admit", lease: lease, amount: amount}, step{what: "depart", lease: lease, amount: amount})
			}
		}
	}
	return all
}

// do plays a step; false if it cannot happen now.
func (w *ledgerWorld) do(s step) bool {
	switch s.what {
	case "grant", "admit", "depart":
		return w.take(s)
	case "correct", "owe":
		return w.correct(s)
	case "send":
		if w.flush != nil || !w.collecting.Send() {
			return false
		}
		w.flush, w.collecting = w.collecting, NewCharge()
	case "drop":
		if w.flush == nil {
			return false
		}
		for _, d := range w.flush.Due(0) {
			w.dropped += d.Count
		}
		w.flush.Dropped()
		w.flush = nil
	case "flushed":
		if w.flush == nil {
			return false
		}
		w.ends(w.flush, s.outcome)
		w.flush = nil
	case "arrived":
		if w.inFlight[s.lease] == nil {
			return false
		}
		w.ends(w.inFlight[s.lease], s.outcome)
		w.inFlight[s.lease] = nil
	}
	return true
}

// take is an acquire: granted by the bucket, admitted by the policy, or admitted
// while its write is under way.
func (w *ledgerWorld) take(s step) bool {
	if w.live[s.lease] {
		return false
	}
	h := &w.holding[s.lease]
	w.live[s.lease], w.target[s.lease] = true, s.amount
	switch s.what {
	case "grant":
		w.charged += s.amount
		h.Charged(s.amount)
	case "admit":
		w.collecting.Add("x", exhaustRate, s.amount, 0)
		h.Owe(w.collecting, s.amount)
	default:
		c := UnderWay()
		c.Carry("x", exhaustRate, s.amount, 0)
		h.Owe(c, s.amount)
		w.inFlight[s.lease] = c
	}
	return true
}

// correct is a Settle, an Adjust or a Rollback to an amount: written at once, or
// owed while the bucket does not answer.
func (w *ledgerWorld) correct(s step) bool {
	if !w.live[s.lease] {
		return false
	}
	h := &w.holding[s.lease]
	h.Resolve(func([]byte) {})
	if missing := h.Missing(s.amount); missing > 0 {
		switch {
		case s.what == "owe":
			w.collecting.Add("x", exhaustRate, missing, 0)
			h.Owe(w.collecting, missing)
		case s.outcome == answered:
			w.charged += missing
			h.Charged(missing)
		case s.outcome == refusedSurely:
			return true // the lease stands for what it stood for
		case w.rule == "unknown charge is held":
			h.Charged(missing)
		default:
			h.Doubted(missing)
		}
		if s.outcome == lostAfter && s.what != "owe" {
			w.charged += missing
		}
		w.target[s.lease] = s.amount
		return true
	}
	back := h.Lower(s.amount, 0)
	w.target[s.lease] = s.amount
	if back == 0 {
		return s.outcome == answered // the outcomes are all one
	}
	switch s.outcome {
	case answered:
		w.charged -= back
		h.GivenBack(back)
	case refusedSurely:
		w.target[s.lease] = h.Used()
	case lostAfter:
		w.charged -= back
		h.GaveInVain(back)
	case lostBefore:
		if w.rule == "lost give-back is repeated" {
			w.charged -= back // it arrives late, after its repetition
			return true
		}
		h.GaveInVain(back)
	}
	return true
}

// ends gives a write under way its outcome.
func (w *ledgerWorld) ends(c *Charge, o outcome) {
	total := int64(0)
	for _, d := range c.Due(0) {
		total += d.Count
	}
	switch o {
	case answered:
		w.charged += total
		for _, r := range c.Landed(nil, nil) {
			w.charged -= r.Amount
		}
	case refusedSurely:
		c.MoveTo(w.collecting, 0)
	case lostAfter:
		w.charged += total
		for i := range c.lines {
			w.lostBacks += c.lines[i].refund
		}
		c.Unanswered()
	case lostBefore:
		c.Unanswered()
	}
}

// judge compares belief and truth: nothing is minted, and nothing is charged
// that is neither used nor in doubt.
func (w *ledgerWorld) judge() string {
	var held, doubt, lost, owed int64
	for i := range w.holding {
		h := &w.holding[i]
		h.Resolve(func([]byte) {})
		held, doubt, lost, owed = held+h.Held, doubt+h.Doubt, lost+h.Lost, owed+h.Owed()
		if h.Held < 0 || h.Doubt < 0 || h.Lost < 0 || h.Owed() < 0 {
			return fmt.Sprintf("holding %d is %+v", i, *h)
		}
		if w.live[i] && h.Used() < w.target[i] {
			return fmt.Sprintf("lease %d uses %d and stands for %d", i, w.target[i], h.Used())
		}
	}
	if w.charged < held {
		return fmt.Sprintf("minted: charged %d, held %d", w.charged, held)
	}
	if most := held + doubt + lost + w.lostBacks; w.charged > most {
		return fmt.Sprintf("charged %d, held, in doubt and lost only %d", w.charged, most)
	}
	pending := int64(0)
	for _, c := range []*Charge{w.collecting, w.flush, w.inFlight[0], w.inFlight[1]} {
		if c != nil {
			for i := range c.lines {
				pending += c.lines[i].total - c.lines[i].refund
			}
		}
	}
	if pending != owed {
		return fmt.Sprintf("charges carry %d for owed %d", pending, owed)
	}
	return ""
}

// key tells states apart.
func (w *ledgerWorld) key() string {
	name := func(c *Charge) string {
		switch c {
		case nil:
			return "-"
		case w.collecting:
			return "c"
		case w.flush:
			return "f"
		case w.inFlight[0]:
			return "0"
		case w.inFlight[1]:
			return "1"
		}
		return "?"
	}
	text := fmt.Sprint(w.charged, w.lostBacks, w.dropped, w.target, w.live)
	for i := range w.holding {
		h := &w.holding[i]
		text += fmt.Sprint("|", h.Held, h.Doubt, h.Lost)
		for _, p := range h.owed {
			text += fmt.Sprint(" ", name(p.charge), p.amount)
		}
	}
	for _, c := range []*Charge{w.collecting, w.flush, w.inFlight[0], w.inFlight[1]} {
		text += "|" + name(c)
		if c != nil {
			for _, l := range c.lines {
				text += fmt.Sprint(" ", l.total, l.refund, l.queue.filled)
			}
		}
	}
	return text
}

// exploreLedger visits every state that so many steps reach.
func exploreLedger(rule string, depth int) (states int, found string) {
	all := steps()
	seen := map[string]bool{}
	todo := [][]step{nil}
	replay := func(path []step) *ledgerWorld {
		w := &ledgerWorld{collecting: NewCharge(), rule: rule, holding: [2]Holding{{Name: "x"}, {Name: "x"}}}
		for _, s := range path {
			w.do(s)
			w.judge() // resolves, as a lease that is looked at does
		}
		return w
	}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		for _, s := range all {
			w := replay(path)
			if !w.do(s) {
				continue
			}
			if found := w.judge(); found != "" {
				return len(seen), fmt.Sprintf("%s after %v", found, append(path[:len(path):len(path)], s))
			}
			if key := w.key(); !seen[key] {
				seen[key] = true
				if len(path)+1 < depth {
					todo = append(todo, append(path[:len(path):len(path)], s))
				}
			}
		}
	}
	return len(seen), ""
}

// TestNothingIsMintedInAnyOrder visits all orders of what can happen to two
// leases of one bucket.
func TestNothingIsMintedInAnyOrder(t *testing.T) {
	states, found := exploreLedger("", 6)
	require.Empty(t, found)
	t.Logf("%d states", states)
}

// TestEachRuleOfTheLedgerIsNeeded leaves out one rule at a time.
func TestEachRuleOfTheLedgerIsNeeded(t *testing.T) {
	for _, rule := range []string{"unknown charge is held", "lost give-back is repeated"} {
		_, found := exploreLedger(rule, 5)
		require.NotEmpty(t, found, rule)
		t.Logf("%s: %s", rule, found)
	}
}

// A limit that the bucket had no place for is used and not charged: it is not
// given back, and not charged again.
func TestDroppedLineIsNeitherHeldNorRefunded(t *testing.T) {
	c := UnderWay()
	c.Carry("rpm", exhaustRate, 1, 0)
	c.Carry("tpm", exhaustRate, 5, 0)
	rpm, tpm := Holding{Name: "rpm"}, Holding{Name: "tpm"}
	rpm.Owe(c, 1)
	tpm.Owe(c, 5)
	require.Zero(t, tpm.Lower(3, 0), "what is under way is not given back before it has landed")
	require.Empty(t, c.Landed(nil, []string{"tpm"}))
	for _, h := range []*Holding{&rpm, &tpm} {
		h.Resolve(func([]byte) {})
	}
	require.Equal(t, Holding{Name: "rpm", Held: 1, owed: rpm.owed}, rpm)
	require.Equal(t, int64(3), tpm.Doubt)
	require.Zero(t, tpm.Held)
	require.Zero(t, tpm.Missing(3))
}

// A backlog grows no further than its sums can tell.
func TestRoomOfACharge(t *testing.T) {
	c := NewCharge()
	require.Equal(t, int64(maxTotal), c.Room("x"))
	require.True(t, c.Add("x", exhaustRate, maxTotal-5, 0))
	require.Equal(t, int64(5), c.Room("x"))
	require.Equal(t, int64(maxTotal), c.Room("y"))
}
