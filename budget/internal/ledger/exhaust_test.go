package ledger

import (
	"fmt"
	"strconv"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// The search below visits every state of one scope, label and day shared by
// two clients that reserve, call, settle, release or die, a plain submission,
// one of a client's own record and a change of quota, with answers lost at every write and transactions
// merged. The decisions are compose and resolve, as the keeper runs them; only
// DynamoDB is replaced, by apply. Quota 3, estimate 2, actual 1.

const (
	xQuota, xRaised      = 3, 6
	xEstimate, xCost     = 2, 1
	xClients             = 2
	xSoft                = xClients // the plain submission's index
	xMissing         int = -100     // the counter has no used yet
)

type xWorld struct {
	rules xRules
	seen  map[xState]xStep
	queue []xState
}

type xStep struct {
	from xState
	what string
}

var xRef = CounterRef{"c", "DAY#SH#", 1}

func xKey(kind string, i int) store.Key { return store.Key{PK: kind, SK: fmt.Sprint(i)} }

func (w *xWorld) op(s xState, kind opKind, i int) *Operation {
	o := newOp(kind)
	o.writer = fmt.Sprint("writer ", i)
	o.debits = []Debit{{CounterRef: xRef, Hard: true, bound: money.Of(int64(s.quota)), capped: true}}
	if kind != opSubmit {
		o.Hold = &Hold{ID: fmt.Sprint(i), Keys: []store.Key{xKey("hold", i)}, Estimate: money.Of(xEstimate), Debits: o.debits}
	}
	if kind == opSettle || kind == opSubmit {
		o.record = &Record{Key: xKey("dedup", i), Cost: money.Of(xCost), Hash: "h"}
	}
	return o
}

// apply is DynamoDB: all conditions, then all writes.
func (w *xWorld) apply(s xState, items []write) (xState, []refusal) {
	var refused []refusal
	index := func(it write) int {
		var i int
		_, _ = fmt.Sscan(it.key.SK, &i)
		return i
	}
	for n, it := range items {
		switch it.kind {
		case putDedup:
			switch i := index(it); s.dedup[i] {
			case xOwn:
				refused = append(refused, refusal{item: n, stored: Stored{Hash: "h", writer: fmt.Sprint("writer ", i)}})
			case xOthers:
				refused = append(refused, refusal{item: n, stored: Stored{Hash: "h", writer: "another"}})
			}
		case putHold:
			if s.holds[index(it)] != xNone {
				refused = append(refused, refusal{item: n})
			}
		case deleteHold:
			if s.holds[index(it)] == xNone {
				refused = append(refused, refusal{item: n})
			}
		case addCounter:
			if it.capped && !w.fits(s, it) {
				refused = append(refused, refusal{item: n, counter: Counter{Used: w.usedOf(s), Hard: true}})
			}
		}
	}
	if len(refused) > 0 {
		return s, refused
	}
	for _, it := range items {
		switch it.kind {
		case putDedup:
			s.dedup[index(it)] = xOwn
			if it.op.writer == "another" {
				s.dedup[index(it)] = xOthers
			}
		case putHold:
			s.holds[index(it)] = xLive
			for c := range s.clients { // another hold than the one found expired
				s.clients[c].saw[index(it)] = false
			}
		case deleteHold:
			s.holds[index(it)] = xNone
		case addCounter:
			s.spent += small(it.sum.Cost)
			s.used = w.debit(s, small(it.sum.Used), it.capped)
		}
	}
	return s, nil
}

// small is an amount of the search, which are all of a few picos.
func small(p money.Picos) int {
	n, err := strconv.Atoi(p.String())
	if err != nil {
		panic(err)
	}
	return n
}

func (w *xWorld) fits(s xState, it write) bool {
	room := it.room()
	if s.used == xMissing {
		return !room.IsNegative()
	}
	if w.rules.storeLeft {
		return s.used >= small(it.sum.Used)
	}
	return money.Of(int64(s.used)).Cmp(room) <= 0
}

func (w *xWorld) usedOf(s xState) money.Picos {
	used := s.used
	switch {
	case used == xMissing:
		used = 0
	case w.rules.storeLeft:
		used = s.quota - used
	}
	return money.Of(int64(used))
}

// debit adds to the counter; what is left, as the left-out rule stores it,
// starts from the quota for a reservation and from nothing for an ADD.
func (w *xWorld) debit(s xState, delta int, reservation bool) int {
	switch {
	case !w.rules.storeLeft && s.used == xMissing:
		return delta
	case !w.rules.storeLeft:
		return s.used + delta
	case s.used == xMissing && reservation:
		return s.quota - delta
	case s.used == xMissing:
		return -delta
	}
	return s.used - delta
}

// send runs one transaction of some clients' operations to its decision: the
// state after it if it is answered, and if the answer is lost.
func (w *xWorld) send(s xState, what string, clients ...int) {
	var ops []*Operation
	who := map[*Operation]int{}
	for _, i := range clients {
		kind := opSettle
		switch s.clients[i].phase {
		case xIdle, xReserving, xRetrying:
			kind = opReserve
		case xGiveBack, xCounted:
			kind = opRelease
		}
		o := w.op(s, kind, i)
		o.keysGone = int(s.clients[i].tried)
		who[o], ops = i, append(ops, o)
	}
	t, left := compose(ops, func(int) int { return 0 })
	if len(left) > 0 {
		panic("operations of two clients do not fit in one transaction")
	}
	items := t.items
	if w.rules.noDedup {
		items = keepItems(items, func(it write) bool { return it.kind != putDedup })
	}
	if w.rules.splitReserve && ops[0].kind == opReserve {
		items = keepItems(items, func(it write) bool { return it.kind != putHold })
	}
	after, refused := w.apply(s, items)
	finished, again := t.ops, []*Operation(nil)
	if len(refused) > 0 {
		for n := range refused { // positions in the whole transaction
			refused[n].item = indexOf(t.items, items[refused[n].item])
		}
		var deferred []*Operation
		finished, again, deferred = t.resolve(refused)
		again = append(again, deferred...)
	} else { // answer lost: the clients only know that they sent
		lost := after
		for _, o := range ops {
			lost.clients[who[o]] = sent(lost.clients[who[o]])
		}
		w.add(s, what+", ANSWER LOST", lost)
	}
	next := after
	for _, o := range finished {
		w.finish(&next, who[o], o)
	}
	for _, o := range again {
		c := &next.clients[who[o]]
		*c = sent(*c)
		c.tried = int8(o.keysGone)
		if o.kind == opRelease && c.phase == xSettling {
			c.phase = xCounted
			if w.rules.keepHold {
				c.phase = xDone
			}
		}
		if w.rules.needHold && o.kind == opSettle && o.holdGone() {
			c.phase = xDone // refused: no hold
		}
	}
	w.add(s, what, next)
}

func keepItems(items []write, keep func(write) bool) []write {
	var kept []write
	for _, it := range items {
		if keep(it) {
			kept = append(kept, it)
		}
	}
	return kept
}

func indexOf(items []write, it write) int {
	for i := range items {
		if items[i].key == it.key {
			return i
		}
	}
	return -1
}

func sent(c xClient) xClient {
	switch c.phase {
	case xIdle:
		c.phase = xReserving
	case xCalled:
		c.phase = xSettling
	}
	return c
}

// finish moves a client on by its verdict.
func (w *xWorld) finish(s *xState, i int, o *Operation) {
	c := &s.clients[i]
	switch {
	case o.kind == opReserve && o.Verdict.NoRoom && c.phase != xRetrying && !w.rules.ignoreExpired:
		c.phase = xReleasing
		for j, h := range s.holds {
			c.saw[j] = h == xExpired
		}
	case o.kind == opReserve && o.Verdict.NoRoom:
		c.phase = xDenied
		held := 0
		for j, h := range s.holds {
			if h == xLive || h == xExpired && !w.rules.ignoreExpired && !c.saw[j] { // expired since it looked
				held += xEstimate
			}
		}
		waiting := false
		for _, other := range s.clients {
			waiting = waiting || other.phase == xDebited
		}
		if s.spent+held+xEstimate <= s.quota && !waiting {
			c.phase = xWrong
		}
	case o.kind == opReserve && w.rules.splitReserve:
		c.phase = xDebited
	case o.kind == opReserve:
		c.phase = xHeld
	case o.kind == opSettle && w.rules.recordToo:
		c.phase = xRecord
	default:
		c.phase = xDone
	}
	if c.phase != xReleasing {
		c.saw = [xClients]bool{}
	}
}

func (w *xWorld) add(from xState, what string, to xState) {
	if _, ok := w.seen[to]; !ok {
		w.seen[to] = xStep{from, what}
		w.queue = append(w.queue, to)
	}
}

// releaseHold is anybody giving a hold back.
func (w *xWorld) releaseHold(s xState, j int) xState {
	t, _ := compose([]*Operation{w.op(s, opRelease, j)}, func(int) int { return 0 })
	next, _ := w.apply(s, t.items)
	return next
}

func (w *xWorld) steps(s xState) {
	sendable := func(p xPhase) bool {
		return p == xIdle || p == xReserving || p == xRetrying || p == xCalled || p == xSettling || p == xGiveBack || p == xCounted
	}
	for i, c := range s.clients {
		move := func(what string, p xPhase, money int) {
			next := s
			next.clients[i].phase, next.money = p, s.money+money
			w.add(s, fmt.Sprintf("client %d %s", i, what), next)
		}
		if sendable(c.phase) {
			w.send(s, fmt.Sprintf("client %d sends in phase %d", i, c.phase), i)
		}
		switch c.phase {
		case xHeld:
			move("calls", xCalled, xCost)
			if !w.rules.noGive {
				move("does not call", xGiveBack, 0)
			}
			move("dies", xDead, 0)
		case xReserving, xReleasing, xRetrying, xGiveBack, xCounted:
			move("dies", xDead, 0)
		case xDebited:
			next := s
			next.holds[i], next.clients[i].phase = xLive, xHeld
			w.add(s, fmt.Sprintf("client %d puts the hold", i), next)
			move("dies", xDead, 0)
		case xRecord:
			o := w.op(s, opSubmit, i)
			o.record.Key = xKey("dedup", xClients+1)
			t, _ := compose([]*Operation{o}, func(int) int { return 0 })
			next, _ := w.apply(s, t.items)
			next.clients[i].phase = xDone
			w.add(s, fmt.Sprintf("client %d submits the record", i), next)
		}
		if c.phase == xReleasing {
			w.releasing(s, i)
		}
		if (c.phase == xCalled || c.phase == xSettling) && !w.rules.noSoft {
			w.countElsewhere(s, i)
		}
	}
	a, b := s.clients[0].phase, s.clients[1].phase
	if sendable(a) && sendable(b) && !w.rules.splitReserve && !w.rules.noDedup {
		w.send(s, "both send in one transaction", 0, 1)
	}
	w.surroundings(s)
}

// countElsewhere submits the record of a client that has not settled yet.
func (w *xWorld) countElsewhere(s xState, i int) {
	o := w.op(s, opSubmit, i)
	o.writer = "another"
	t, _ := compose([]*Operation{o}, func(int) int { return 0 })
	if next, refused := w.apply(s, t.items); len(refused) == 0 {
		w.add(s, fmt.Sprintf("somebody submits the record of client %d", i), next)
	}
}

// releasing gives back one hold found expired, or asks again.
func (w *xWorld) releasing(s xState, i int) {
	for j, saw := range s.clients[i].saw {
		if saw && s.holds[j] != xNone {
			w.add(s, fmt.Sprintf("client %d gives back the hold of %d", i, j), w.releaseHold(s, j))
			return
		}
	}
	next := s
	next.clients[i].phase = xRetrying
	w.add(s, fmt.Sprintf("client %d asks again", i), next)
}

func (w *xWorld) surroundings(s xState) {
	for j, h := range s.holds {
		switch h {
		case xLive:
			next := s
			next.holds[j] = xExpired
			w.add(s, fmt.Sprintf("lease of %d ends", j), next)
		case xExpired:
			w.add(s, fmt.Sprintf("somebody gives back the hold of %d", j), w.releaseHold(s, j))
		}
	}
	if !s.soft && !w.rules.noSoft {
		t, _ := compose([]*Operation{w.op(s, opSubmit, xSoft)}, func(int) int { return 0 })
		next, refused := w.apply(s, t.items)
		if len(refused) == 0 {
			next.money += xCost
		}
		next.soft = true
		w.add(s, "plain submission", next)
	}
	if s.quota == xQuota && !w.rules.noRaise {
		next := s
		next.quota = xRaised
		w.add(s, "quota raised", next)
	}
}
