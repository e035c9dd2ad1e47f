package backlog

import "fmt"

// The model: one bucket of a burst of 2, up to three leases in two processes, every order
// of takes, corrections, outages, lost answers, deletions and writes of what waits. What a
// lease has is a Holding; what is true of the bucket is kept beside it. A rule of the
// design that is left out, by its name, has to break it.

const burst = 2

// modelLease is a lease, and what is true of it.
type modelLease struct {
	phase uint8 // unused, open or ended
	// used is what its caller uses: the truth.
	used int8
	// held to gone are those of its Holding, held in the bucket of incarnation.
	held, counted, doubt, gone, incarnation int8
	// take is under way, though the policy admitted its caller. charge and giveBack are of
	// a correction under way; known says what its lease can learn of it.
	take, charge, giveBack, giveBackTo int8
	known                              uint8
	landedIn                           int8
	// count and back wait to be told, back to the bucket of backTo.
	count, back, backTo int8
	// took is what was taken from the tokens of the bucket of tookFrom, and not given back.
	took, tookFrom      int8
	consumed, corrected bool // how often it may still be changed
}

const (
	unused = iota
	open
	ended
)

// What a lease can learn of a correction that was under way.
const (
	unknown   = 0
	landed    = 1 // with the amount, four times
	unwritten = 2
)

// model is a state: all of it is comparable.
type model struct {
	out, exists     bool
	incarnation     int8
	tokens, queue   int8
	counter         int8
	doubted, gone   int8 // what is told to be uncertain
	others          int8
	ticks, outages  int8
	deleted, filled int8
	leases          [3]modelLease
}

// world says what may happen, and which rule is left out.
type world struct {
	without           string
	leases            int
	apart             bool // two leases are of two processes
	deletions, resets bool
}

// successor is a state that follows, after which event. wrong is the law that it broke.
type successor struct {
	model
	event, wrong string
}

func (w *world) process(i int) int {
	if w.apart {
		return i
	}
	return i / 2
}

func (l *modelLease) holding() Holding {
	return Holding{Held: int64(l.held), Counted: int64(l.counted), Doubt: int64(l.doubt), Gone: int64(l.gone)}
}

func (l *modelLease) keep(h Holding) {
	l.held, l.counted, l.doubt, l.gone = int8(h.Held), int8(h.Counted), int8(h.Doubt), int8(h.Gone)
}

func (l *modelLease) change(do func(h *Holding)) {
	h := l.holding()
	do(&h)
	l.keep(h)
}

func (m *model) create() {
	m.exists, m.tokens, m.queue = true, burst, 0
	m.incarnation++
}

// takeLands takes from the bucket, which may deny it.
func (m *model) takeLands(i int, amount int8) (granted bool, wrong string) {
	if !m.exists {
		m.create()
	}
	if m.tokens < amount {
		return false, ""
	}
	if m.charge(i, amount); m.queue > burst {
		wrong = "admitted above the burst"
	}
	return true, wrong
}

// charge takes from the bucket, whatever it has.
func (m *model) charge(i int, amount int8) {
	m.tokens -= amount
	m.queue += amount
	m.counter += amount
	if i < 0 {
		return
	}
	if l := &m.leases[i]; l.tookFrom == m.incarnation {
		l.took += amount
	} else {
		l.took, l.tookFrom = amount, m.incarnation
	}
}

// hold books an amount of an answered write.
func (m *model) hold(i int, amount int8) {
	l := &m.leases[i]
	if l.incarnation != m.incarnation {
		m.gone += l.held
		l.change((*Holding).BucketDeleted)
	}
	l.incarnation = m.incarnation
	l.held += amount
}

// backLands gives back to one incarnation of the bucket.
func (m *model) backLands(w *world, i int, amount, to int8) (wrong string) {
	if !m.exists || m.incarnation != to && w.without != "incarnation of a give-back" {
		m.gone += amount
		return ""
	}
	l, really := &m.leases[i], int8(0)
	if l.tookFrom == m.incarnation {
		really = min(amount, l.took)
	}
	m.tokens = min(burst, m.tokens+amount)
	m.counter -= amount
	l.took -= really
	m.queue = max(0, m.queue-really)
	if amount > really {
		return "gave back what was not taken"
	}
	return ""
}

// broken is the law that a state breaks.
func (m *model) broken() string {
	if m.exists && m.tokens > burst-m.queue {
		return "the bucket holds more than burst − queue"
	}
	used := m.others
	for i := range m.leases {
		l := &m.leases[i]
		if m.out || l.phase == open || l.take+l.charge+l.giveBack != 0 || l.back != 0 || l.count != 0 {
			return ""
		}
		used += l.used
	}
	switch unsure := m.doubted + m.gone; {
	case used-m.counter > unsure:
		return "too little is told"
	case m.counter-used > unsure:
		return "too much is told"
	}
	return ""
}

// next are all states that may follow.
func (w *world) next(m model) []successor {
	s := &steps{world: w}
	if m.ticks < 2 {
		n := m
		n.ticks++
		if n.exists {
			n.tokens, n.queue = min(burst, n.tokens+1), max(0, n.queue-1)
		}
		s.add(n, "time passes", "")
	}
	s.others(m)
	s.outages(m)
	for i := range w.leases {
		switch l := &m.leases[i]; l.phase {
		case unused:
			if i == 0 || m.leases[i-1].phase != unused || w.apart {
				s.acquire(m, i)
			}
		case open:
			s.consume(m, i)
			for target := range int8(4) {
				s.correct(m, i, target, true)
				if !l.corrected && target != l.used {
					s.correct(m, i, target, false)
				}
			}
		}
		s.arrivals(m, i)
	}
	for p := 0; p < 2 && !m.out; p++ {
		s.tell(m, p)
	}
	return s.list
}

// steps collects successors.
type steps struct {
	*world
	list []successor
}

func (s *steps) add(m model, event, wrong string) {
	s.list = append(s.list, successor{m, event, wrong})
}

// others are other clients, and administrators.
func (s *steps) others(m model) {
	for amount := int8(1); amount <= burst && !m.out && m.others < 2*burst; amount++ {
		n := m
		if granted, wrong := n.takeLands(-1, amount); granted {
			n.others += amount
			s.add(n, fmt.Sprintf("another takes %d", amount), wrong)
		}
	}
	if s.deletions && m.deleted == 0 && m.exists {
		n := m
		n.deleted++
		n.exists, n.tokens, n.queue = false, 0, 0
		s.add(n, "the bucket is deleted", "")
	}
	if s.resets && m.filled == 0 && m.exists {
		n := m
		n.filled++
		n.tokens, n.queue = burst, 0
		s.add(n, "the bucket is filled", "")
	}
}

func (s *steps) outages(m model) {
	switch n := m; {
	case m.out:
		n.out = false
		s.add(n, "the outage ends", "")
	case m.outages < 2:
		n.falls()
		s.add(n, "an outage begins", "")
	}
}

func (m *model) falls() {
	m.out = true
	m.outages++
}

// count books what is used without the bucket.
func (l *modelLease) countUp(amount int8) {
	l.counted += amount
	l.count += amount
}

func (s *steps) acquire(m model, i int) {
	for amount := int8(1); amount <= burst; amount++ {
		n := m
		l := &n.leases[i]
		l.phase, l.used = open, amount
		if m.out {
			l.countUp(amount)
			s.add(n, fmt.Sprintf("the policy admits %d to lease %d", amount, i), "")
			continue
		}
		granted := n
		if ok, wrong := granted.takeLands(i, amount); ok {
			granted.hold(i, amount)
			s.add(granted, fmt.Sprintf("lease %d takes %d", i, amount), wrong)
		}
		if m.outages < 2 {
			n.falls()
			l.take = amount
			l.countUp(amount)
			s.add(n, fmt.Sprintf("lease %d's take of %d is under way; outage; the policy admits", i, amount), "")
		}
	}
}

func (s *steps) consume(m model, i int) {
	if m.leases[i].consumed {
		return
	}
	m.resolve(i)
	m.leases[i].consumed = true
	m.leases[i].used++
	if m.out {
		m.leases[i].countUp(1)
		s.add(m, fmt.Sprintf("the policy admits 1 more to lease %d", i), "")
	} else if granted, wrong := m.takeLands(i, 1); granted {
		m.hold(i, 1)
		s.add(m, fmt.Sprintf("lease %d consumes 1", i), wrong)
	}
}

// correct corrects a lease to a target, in every way that this can go.
func (s *steps) correct(m model, i int, target int8, ends bool) {
	m.resolve(i)
	l := &m.leases[i]
	h := l.holding()
	c := h.To(int64(target))
	if c.GiveUp > 0 {
		if l.charge != 0 && s.without != "doubt of what is given up" {
			m.doubted += int8(c.GiveUp)
		}
		l.change(func(h *Holding) { h.GiveUp(c.GiveUp) })
	}
	if off := int8(c.Uncount); s.without != "corrections of counts" {
		l.counted, l.count = l.counted-off, l.count-off
	}
	l.used = target
	if l.corrected = true; ends {
		l.phase, l.corrected = ended, m.leases[i].corrected
	}
	event := fmt.Sprintf("lease %d is corrected to %d", i, target)
	charge, back := int8(c.Charge), int8(c.Back)
	switch {
	case charge == 0 && back == 0:
		s.add(m, event, "")
	case m.out && back == 0:
		l.countUp(charge)
		s.add(m, event+": counted", "")
	case m.out:
		if l.back > 0 && l.backTo != l.incarnation {
			return // another waits: the model keeps one
		}
		l.held, l.back, l.backTo = l.held-back, l.back+back, l.incarnation
		s.add(m, event+": the give-back waits", "")
	default:
		s.write(m, i, charge, back, event)
	}
}

// write writes a correction: it is answered, or its answer is lost, or it is under way
// when an outage begins.
func (s *steps) write(m model, i int, charge, back int8, event string) {
	for _, outcome := range []string{"answered", "landed, answer lost", "not landed, answer lost", "under way, outage"} {
		n, wrong := m, ""
		l := &n.leases[i]
		if outcome == "under way, outage" {
			if m.outages >= 2 || l.charge+l.giveBack != 0 {
				continue
			}
			n.falls()
			l.charge, l.giveBack, l.giveBackTo, l.known = charge, back, l.incarnation, unknown
			l.doubt, l.held = l.doubt+charge, l.held-back
			s.add(n, event+": "+outcome, "")
			continue
		}
		if outcome != "not landed, answer lost" {
			if back > 0 {
				wrong = n.backLands(s.world, i, back, l.incarnation)
			} else {
				if !n.exists {
					n.create()
				}
				n.charge(i, charge)
			}
		}
		l.held -= back
		switch {
		case outcome == "answered" && charge > 0:
			n.hold(i, charge)
		case outcome == "answered":
		case s.without == "doubt is not held":
			n.doubted += charge + back
			l.held += charge
		default:
			n.doubted += charge + back
			l.doubt += charge
		}
		if outcome != "answered" {
			n.falls()
		}
		if outcome != "answered" && back > 0 && s.without == "give-backs are sent once" {
			l.back, l.backTo = back, l.incarnation
		}
		s.add(n, event+": "+outcome, wrong)
	}
}

// resolve is what a lease learns of a correction that was under way.
func (m *model) resolve(i int) {
	l := &m.leases[i]
	amount := int8(l.known &^ (landed | unwritten))
	switch amount /= 4; {
	case l.known&unwritten != 0:
		l.change(func(h *Holding) { h.Unwritten(int64(amount)) })
	case l.known&landed == 0:
	case l.held > 0 && l.incarnation != l.landedIn:
		m.gone += amount // another bucket has been taken from since
	default:
		l.incarnation = l.landedIn
		l.change(func(h *Holding) { h.Landed(int64(amount), 0) })
	}
	l.known, l.landedIn = unknown, 0
}

// arrivals are the outcomes of what was under way when an outage began.
func (s *steps) arrivals(m model, i int) {
	if m.leases[i].take > 0 {
		s.takeArrives(m, i)
	}
	if l := &m.leases[i]; l.charge+l.giveBack > 0 {
		s.correctionArrives(m, i)
	}
}

func (s *steps) takeArrives(m model, i int) {
	amount := m.leases[i].take
	m.leases[i].take = 0
	event := fmt.Sprintf("lease %d's take under way ", i)
	n := m
	if granted, wrong := n.takeLands(i, amount); granted {
		lost := n
		switch l := &n.leases[i]; {
		case s.without == "a late grant is given back":
		case s.without == "a late grant is not held":
			n.hold(i, amount)
		case l.back > 0 && l.backTo != n.incarnation:
			return
		default:
			l.back, l.backTo = l.back+amount, n.incarnation
		}
		s.add(n, event+"landed", wrong)
		lost.doubted += amount
		s.add(lost, event+"landed, answer lost", wrong)
	}
	s.add(m, event+"did not land", "")
	n = m
	n.doubted += amount
	s.add(n, event+"did not land, answer lost", "")
	if n = m; s.without == "a take whose caller was admitted is not sent again" && !m.out {
		if granted, wrong := n.takeLands(i, amount); granted {
			s.add(n, event+"is sent again", wrong)
		}
	}
}

func (s *steps) correctionArrives(m model, i int) {
	charge, back, to := m.leases[i].charge, m.leases[i].giveBack, m.leases[i].giveBackTo
	m.leases[i].charge, m.leases[i].giveBack, m.leases[i].giveBackTo = 0, 0, 0
	event := fmt.Sprintf("lease %d's correction under way ", i)
	n, wrong := m, ""
	if back > 0 {
		wrong = n.backLands(s.world, i, back, to)
	} else {
		if !n.exists {
			n.create()
		}
		n.charge(i, charge)
	}
	lost := n
	lost.doubted += charge + back
	s.add(lost, event+"landed, answer lost", wrong)
	if l := &n.leases[i]; charge > 0 {
		l.known, l.landedIn = landed+4*uint8(charge), n.incarnation
	}
	s.add(n, event+"landed", wrong)
	n = m
	n.doubted += charge + back
	s.add(n, event+"did not land, answer lost", "")
	n = m
	if l := &n.leases[i]; charge > 0 {
		l.count += charge
		l.known = unwritten + 4*uint8(charge)
	} else if l.back == 0 || l.backTo == to {
		l.back, l.backTo = l.back+back, to
	} else {
		return
	}
	s.add(n, event+"was not written", "")
}

// tell writes what waits in a process: its counts, and its give-backs.
func (s *steps) tell(m model, p int) {
	counts, backs := int8(0), false
	for i := range m.leases {
		if s.process(i) == p {
			counts, backs = max(counts, max(m.leases[i].count, -m.leases[i].count)), backs || m.leases[i].back > 0
		}
	}
	for _, outcome := range []string{"answered", "landed, answer lost", "not landed, answer lost"} {
		if backs {
			s.tellBacks(m, p, outcome)
		}
		if counts != 0 {
			s.tellCounts(m, p, outcome)
		}
	}
}

func (s *steps) tellBacks(m model, p int, outcome string) {
	wrong := ""
	for i := range m.leases {
		l := &m.leases[i]
		if s.process(i) != p || l.back == 0 {
			continue
		}
		if outcome != "not landed, answer lost" {
			if v := m.backLands(s.world, i, l.back, l.backTo); v != "" {
				wrong = v
			}
		}
		if outcome != "answered" {
			m.doubted += l.back
		}
		if outcome == "answered" || s.without != "give-backs are sent once" {
			l.back = 0
		}
	}
	if outcome != "answered" {
		m.falls()
	}
	s.add(m, fmt.Sprintf("process %d gives back: %s", p, outcome), wrong)
}

func (s *steps) tellCounts(m model, p int, outcome string) {
	for i := range m.leases {
		l := &m.leases[i]
		if s.process(i) != p || l.count == 0 {
			continue
		}
		amount, size := l.count, max(l.count, -l.count)
		if outcome == "answered" || s.without != "counts are sent once" {
			l.count = 0
		}
		if outcome != "not landed, answer lost" {
			switch {
			case m.exists:
				m.counter += amount
			case amount > 0 && s.without != "a bucket that is gone is made, or told":
				m.create()
				m.counter += amount
			case s.without != "a bucket that is gone is made, or told":
				m.gone += size
			}
		}
		switch {
		case outcome != "answered" && s.without == "doubt goes both ways" && amount < 0:
		case outcome != "answered" && l.count == 0:
			m.doubted += size
		}
		if outcome == "answered" && amount > 0 && s.without == "what is counted is not held" {
			if pays := min(amount, m.tokens); pays > 0 { // the first design: a burst of it was charged
				m.charge(i, pays)
				m.counter -= pays
			}
			m.hold(i, amount)
			l.counted -= min(amount, l.counted)
		}
	}
	if outcome != "answered" {
		m.falls()
	}
	s.add(m, fmt.Sprintf("process %d counts: %s", p, outcome), "")
}
