package dynalimit

import "slices"

// A bucket's waiters stand in line, first come first served. The first of those
// who need a scarce limit are at the head: they alone ask the store, at the
// exact time the last answer gives, and what they need is left to them by
// everyone else in the process.

// waiter is one blocked Wait in a bucket's line; the lane's mutex guards it.
type waiter struct {
	amounts []signed
	// scarce are the limits it was last denied for.
	scarce []string
	// head says that nobody before it waits for a limit it needs.
	head bool
	// called says that it fits beside those before it, and may try.
	called bool
	// served says that a landed write carried it.
	served bool
	wake   chan struct{} // holds one wake-up
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// needs reports whether the waiter takes any of the limits.
func (w *waiter) needs(names []string) bool {
	for _, a := range w.amounts {
		if slices.Contains(names, a.name) {
			return true
		}
	}
	return false
}

// join puts a waiter at the end of the line.
func (l *lane) join(w *waiter, amounts []signed, scarce []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.amounts, w.scarce, w.head, w.called, w.served = amounts, scarce, false, false, false
	l.line = append(l.line, w)
	l.order()
}

// lacks notes what a waiter in line was denied for this time.
func (l *lane) lacks(w *waiter, scarce []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.scarce, w.served = scarce, false
	l.order()
}

// quit takes a waiter out of the line.
func (l *lane) quit(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = slices.DeleteFunc(l.line, func(o *waiter) bool { return o == w })
	l.order()
}

// order finds who is at the head, and wakes those who newly are.
func (l *lane) order() {
	var scarce []string
	for _, w := range l.line {
		was := w.head
		if w.head = !w.needs(scarce); w.head && !was {
			w.rouse()
		}
		for _, name := range w.scarce {
			if !slices.Contains(scarce, name) {
				scarce = append(scarce, name)
			}
		}
	}
}

// mayTry reports whether a waiter is at the head, or has been called.
func (l *lane) mayTry(w *waiter) (head, called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, w.called = w.called, false
	return w.head, called
}

// callAlong wakes those behind a waiter that fit beside it and each other by
// the last image, so that one write carries them all.
func (l *lane) callAlong(at place, cfg *bucketConfig) {
	w := at.waiter
	if at.lane != l {
		return
	}
	now := l.owner.nowMS()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known || l.image == nil || len(l.line) < 2 || !cfg.is(l.image) {
		return
	}
	v := newView(l.image, cfg, current, now)
	var s sums
	for _, o := range l.line {
		if o.served {
			continue
		}
		ask := op{take: true, amounts: o.amounts}
		if !ask.fits(v, s, nil) {
			if o == w {
				continue
			}
			return // nobody overtakes it
		}
		ask.addTo(&s)
		if o != w && !o.head {
			o.called = true
			o.rouse()
		}
	}
}

// leftTo is what is left to the heads of the line by a take, beside those that
// are carried with it.
func (l *lane) leftTo(o *op, carried []*op) sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reserved(o.waiter, carried)
}

func (l *lane) reserved(own *waiter, carried []*op) sums {
	var s sums
	for _, w := range l.line {
		if w.head && w != own && !w.served && !slices.ContainsFunc(carried, func(o *op) bool { return o.waiter == w }) {
			for _, a := range w.amounts {
				s.at(a.name).Take += a.amount
			}
		}
	}
	return s
}

// ahead is what those in line before a waiter need; all of it for nil.
func (l *lane) ahead(w *waiter) []signed {
	l.mu.Lock()
	defer l.mu.Unlock()
	var need []signed
	for _, o := range l.line {
		if o == w {
			break
		}
		if !o.served {
			need = plus(need, o.amounts)
		}
	}
	return need
}

// outlook is a waiter's bucket as last seen: a reading to work out the wait
// from, and whether it is recent.
func (l *lane) outlook(cfg *bucketConfig) (r reading, recent bool) {
	now := l.owner.nowMS()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known || l.image == nil || !cfg.is(l.image) {
		return reading{}, false
	}
	return reading{entity: l.entity, resource: l.resource, image: l.image, cfg: cfg, now: now}, fresh(l.seenAt, now)
}
