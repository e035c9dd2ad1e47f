package backlog

import (
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// state says where a charge is.
type state uint8

const (
	collecting state = iota // it grows and shrinks; nothing was sent
	sent                    // under way
	landed                  // debited
	doubtful                // perhaps debited: no answer told
	dropped                 // never debited: its bucket, or limit, is gone
	moved                   // surely not written: another charge carries it now
)

// Charge is a debit of one bucket that has to be written or is under way. Everything
// that it carries has the same outcome. It is safe for concurrent use.
type Charge struct {
	mu          sync.Mutex
	state       state
	to          *Charge // where it moved
	incarnation []byte  // the incarnation of the bucket it landed in
	lines       []line
}

// line is what a charge carries of one limit.
type line struct {
	name string
	rate bucket.Rate
	// total is what the counter is charged, queue what of it a queue of the
	// limit's rate still holds: the tokens are charged that.
	total int64
	queue Queue
	// refund is what its users gave back while the charge was under way.
	refund int64
	// dropped means that the bucket had no such limit when the other lines were debited.
	dropped bool
}

// Due is what a charge takes of one limit: Tokens from the bucket, at most its burst,
// and Count on the counter.
type Due struct {
	Name          string
	Tokens, Count int64
}

// Refund is an amount of one limit to be given back.
type Refund struct {
	Name   string
	Amount int64
}

// NewCharge returns a charge that collects.
func NewCharge() *Charge { return &Charge{} }

// UnderWay makes the charge of a write that has been sent. Carry adds its lines.
func UnderWay() *Charge { return &Charge{state: sent} }

func (c *Charge) line(name string) *line {
	for i := range c.lines {
		if c.lines[i].name == name {
			return &c.lines[i]
		}
	}
	c.lines = append(c.lines, line{name: name})
	return &c.lines[len(c.lines)-1]
}

// Add adds an amount of a limit that refills at rate. It returns false if the charge
// does not collect any more.
func (c *Charge) Add(name string, rate bucket.Rate, amount, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != collecting {
		return false
	}
	c.add(name, rate, amount, now)
	return true
}

// maxTotal bounds what a charge carries of one limit: 2^61 millitokens, so that no
// sum wraps.
const maxTotal = 1 << 61

// Room is how much more of a limit the charge can carry.
func (c *Charge) Room(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maxTotal - c.line(name).total
}

// Carry notes an amount that a write under way carries.
func (c *Charge) Carry(name string, rate bucket.Rate, amount, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(name, rate, amount, now)
}

func (c *Charge) add(name string, rate bucket.Rate, amount, now int64) {
	l := c.line(name)
	l.rate = rate
	l.total += amount
	l.queue.Fill(rate, amount, now)
}

// lower takes out an amount that its user does not need any more. While the charge
// collects, this happens at once; while it is under way, the amount is refunded once it
// has landed. It returns false if the charge has ended: its user first has to learn how.
func (c *Charge) lower(name string, amount, now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.line(name)
	switch c.state {
	case collecting:
		l.total -= amount
		l.queue.Give(l.rate, amount, now)
	case sent:
		l.refund += amount
	default:
		return false
	}
	return true
}

// Send ends the collecting. It returns false if there is nothing to charge.
func (c *Charge) Send() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != collecting || !c.carries() {
		return false
	}
	c.state = sent
	return true
}

// Empty reports whether there is nothing to charge.
func (c *Charge) Empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.carries()
}

func (c *Charge) carries() bool {
	for i := range c.lines {
		if c.lines[i].total > 0 {
			return true
		}
	}
	return false
}

// Due is what is to be charged at now.
func (c *Charge) Due(now int64) []Due {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := make([]Due, 0, len(c.lines))
	for i := range c.lines {
		if l := &c.lines[i]; l.total > 0 {
			due = append(due, Due{Name: l.name, Tokens: min(l.rate.Burst, l.total, l.queue.Level(l.rate, now)), Count: l.total})
		}
	}
	return due
}

// Landed ends a charge that was debited in an incarnation of its bucket. The dropped
// limits were not debited, because the bucket does not have them: their amounts are used
// and never charged. It returns what has to be given back.
func (c *Charge) Landed(incarnation []byte, dropped []string) []Refund {
	c.mu.Lock()
	c.incarnation = incarnation
	for i := range c.lines {
		c.lines[i].dropped = slices.Contains(dropped, c.lines[i].name)
	}
	c.mu.Unlock()
	return c.end(landed)
}

// Unanswered ends a charge for which it is not known whether it was debited.
func (c *Charge) Unanswered() { c.end(doubtful) }

// Dropped ends a charge whose bucket, or limits, do not exist any more.
func (c *Charge) Dropped() { c.end(dropped) }

func (c *Charge) end(s state) []Refund {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == landed || c.state == doubtful || c.state == dropped || c.state == moved {
		return nil
	}
	c.state = s
	var refunds []Refund
	for i := range c.lines {
		if l := &c.lines[i]; l.refund > 0 && !l.dropped {
			refunds = append(refunds, Refund{Name: l.name, Amount: l.refund})
		}
	}
	return refunds
}

// MoveTo ends a charge that was surely not written. What is still used of it is added to
// another charge, which must collect and must not be changed by anything else meanwhile.
func (c *Charge) MoveTo(other *Charge, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	for i := range c.lines {
		l := &c.lines[i]
		if l.total == 0 {
			continue
		}
		o := other.line(l.name)
		o.rate = l.rate
		o.total += l.total - l.refund
		o.queue.Fill(l.rate, max(0, l.queue.Level(l.rate, now)-l.refund), now)
	}
	c.state, c.to = moved, other
}

// Total is what the charge carries of all limits: what is owed while it
// collects, or in doubt once no answer came.
func (c *Charge) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := int64(0)
	for i := range c.lines {
		sum += c.lines[i].total
	}
	return sum
}
