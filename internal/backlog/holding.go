package backlog

// Holding is what one level of a lease holds of one limit. It is not safe for concurrent
// use; the charges that it points to are.
type Holding struct {
	Name string
	// Held is surely debited, Doubt perhaps debited.
	Held, Doubt int64
	// Gone was debited in a bucket that does not exist any more. It stays consumed. What
	// was debited after it is given back before it.
	Gone int64
	// Lost is doubt that is not used any more: it was perhaps debited, and is never
	// given back.
	Lost int64
	owed []chargePart
}

// chargePart is a holding's share of a charge, less what it gave back of that.
type chargePart struct {
	charge *Charge
	amount int64
}

// Owe notes that a charge carries an amount for this holding.
func (h *Holding) Owe(c *Charge, amount int64) {
	h.owed = append(h.owed, chargePart{c, amount})
}

// Resolve learns the outcomes of the charges. onLanded is called with the incarnation of
// the bucket in which a charge landed, before its amount counts as held.
func (h *Holding) Resolve(onLanded func(where []byte)) {
	unresolved := h.owed[:0]
	for _, p := range h.owed {
		c := p.charge
		c.mu.Lock()
		for c.state == moved {
			to := c.to
			c.mu.Unlock()
			c = to
			c.mu.Lock()
		}
		p.charge = c
		s, where := c.state, c.incarnation
		if s == landed && c.line(h.Name).dropped {
			s = dropped
		}
		c.mu.Unlock()
		switch s {
		case landed:
			onLanded(where)
			h.Held += p.amount
		case doubtful, dropped: // what was dropped is not charged again
			h.Doubt += p.amount
		default:
			unresolved = append(unresolved, p)
		}
	}
	clear(h.owed[len(unresolved):])
	h.owed = unresolved
}

// Owed is the sum of what charges without an outcome carry for it.
func (h *Holding) Owed() int64 {
	sum := int64(0)
	for _, p := range h.owed {
		sum += p.amount
	}
	return sum
}

// Used is what the level holds in all; all of it counts as consumed.
func (h *Holding) Used() int64 { return h.Held + h.Owed() + h.Doubt + h.Gone }

// Missing is what has to be charged (positive) or given back (negative) so that the
// level holds target. Doubt counts as consumed, so it is not charged again. It does not
// count as held, so it is not given back.
func (h *Holding) Missing(target int64) int64 {
	target = max(0, target-h.Gone)
	sure := h.Held + h.Owed()
	switch {
	case target > sure+h.Doubt:
		return target - sure - h.Doubt
	case target < sure:
		return target - sure
	}
	return 0
}

// Lower lowers the level to target as far as nothing has to be written for it: doubt
// above the target is lost, and what is owed above it is not charged, or given back by
// its charge. It returns what has to be given back of what is held. If a charge has
// ended meanwhile, more than that is still Missing: resolve and lower again.
func (h *Holding) Lower(target, now int64) (back int64) {
	kept := min(h.Gone, target)
	target -= kept
	h.Gone = kept
	sure := h.Held + h.Owed()
	if excess := h.Doubt - max(0, target-sure); excess > 0 {
		h.Doubt -= excess
		h.Lost += excess
	}
	excess := sure - target
	for i := len(h.owed) - 1; i >= 0 && excess > 0; i-- {
		n := min(excess, h.owed[i].amount)
		if h.owed[i].charge.lower(h.Name, n, now) {
			h.owed[i].amount -= n
		}
		excess -= n
	}
	return max(0, min(excess, h.Held))
}

// Charged books an amount that was surely debited.
func (h *Holding) Charged(amount int64) { h.Held += amount }

// Doubted books an amount that was perhaps debited.
func (h *Holding) Doubted(amount int64) { h.Doubt += amount }

// GivenBack books a give-back that was surely written.
func (h *Holding) GivenBack(amount int64) { h.takeOff(amount) }

// takeOff takes an amount off what is held. What was held when the give-back began may
// be gone since.
func (h *Holding) takeOff(amount int64) {
	n := min(amount, h.Held)
	h.Held -= n
	h.Gone = max(0, h.Gone-(amount-n))
}

// GaveInVain books a give-back for which it is not known whether it was written. It
// stays consumed and is never given back again.
func (h *Holding) GaveInVain(amount int64) {
	h.takeOff(amount)
	h.Lost += amount
}

// Bereave notes that the bucket in which the held amount was debited does not exist any
// more.
func (h *Holding) Bereave() {
	h.Gone += h.Held
	h.Held = 0
}

// Join adds what another holding of the same limit holds. The other must not be used any
// more.
func (h *Holding) Join(other *Holding) {
	h.Held += other.Held
	h.Doubt += other.Doubt
	h.Lost += other.Lost
	h.Gone += other.Gone
	h.owed = append(h.owed, other.owed...)
}
