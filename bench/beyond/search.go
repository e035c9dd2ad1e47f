package main

import "fmt"

// rule says what may happen to tokens in a chain of levels, of which each debits the
// one above it ahead, besides being passed on and admitted.
type rule string

const (
	// anew: a token's age counts from when it came to its level, and it lapses.
	anew rule = "anew"
	// carried: its age counts from its debit at the root, wherever it is.
	carried rule = "carried"
	// up: as carried, and a level may put it back into the one above, below the root.
	up rule = "carried, put back below the root"
	// upAnew: as anew, and a level may put it back into the one above, below the root.
	upAnew rule = "anew, put back below the root"
	// toRoot: as carried, and what is not used is given back to the root.
	toRoot rule = "carried, given back to the root"
	// leaseToLeaf: as carried, and a lease gives back into its leaf, as a young token.
	leaseToLeaf rule = "carried, leases give back into the leaf"
	// leaseToRoot: as carried, and a lease gives back to the root.
	leaseToRoot rule = "carried, leases give back to the root"
)

const (
	// mostLevels bounds the levels below a root that are searched.
	mostLevels = 3
	// mostHeld bounds the tokens below a root of a state.
	mostHeld = 16
	// mostLeases bounds the open leases of a state that may give back.
	mostLeases = 3
)

// chain is a small bucket and the horizons, in ticks, of the levels below it.
type chain struct {
	burst, refill int8
	horizons      []int8
	rule          rule
}

// state is one state of a chain. All numbers are small: a burst is.
type state struct {
	level  int8 // of the root
	queue  int8 // of what was admitted, drained by the refill
	leases int8 // open ones
	// held counts, by level and age, what was debited and not admitted.
	held [mostLevels][mostHeld]int8
}

// bound is by how much what is admitted may exceed the burst: refill × the time
// from a token's debit at the root to its last moment.
func (c chain) bound() int {
	sum, longest := int8(0), int8(0)
	for _, h := range c.horizons {
		sum, longest = sum+h, max(longest, h)
	}
	if c.rule == anew || c.rule == upAnew {
		return int(c.refill * sum)
	}
	return int(c.refill * longest)
}

// found is what a search found.
type found struct {
	states int
	worst  int // the most admitted above the burst
	// complete means that every state was visited; else the search was ended by an
	// excess far above the bound, or by the number of states.
	complete bool
}

func (f found) String() string {
	end := "complete"
	if !f.complete {
		end = "cut off"
	}
	return fmt.Sprintf("%s after %d states, %d above the burst", end, f.states, f.worst)
}

// search visits every state that a chain can reach, at most so many.
func (c chain) search(most int) found {
	start := state{level: c.burst}
	seen, todo := map[state]struct{}{start: {}}, []state{start}
	f := found{complete: true}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f.worst = max(f.worst, int(s.queue-c.burst))
		if len(seen) > most || f.worst > 4*c.bound() {
			f.complete = false
			break
		}
		for _, next := range c.after(s) {
			if _, ok := seen[next]; !ok {
				seen[next] = struct{}{}
				todo = append(todo, next)
			}
		}
	}
	f.states = len(seen)
	return f
}

// after lists what can come after a state.
func (c chain) after(s state) []state {
	all := []state{c.tick(s)}
	if s.level > 0 {
		n := s
		n.level--
		n.held[0][0]++
		all = append(all, n)
	}
	for level := range c.horizons {
		for age, n := range s.held[level] {
			if n > 0 {
				all = append(all, c.passed(s, level, age)...)
			}
		}
	}
	if s.leases > 0 {
		all = append(all, c.returned(s))
	}
	return all
}

// tick lets a tick go by: what became too old lapses, or goes back to the root.
func (c chain) tick(s state) state {
	n := state{level: s.level, queue: max(0, s.queue-c.refill), leases: s.leases}
	for level, horizon := range c.horizons {
		for age, count := range s.held[level] {
			if int8(age) < horizon {
				n.held[level][age+1] += count
			}
		}
	}
	n.level = min(c.burst, n.level+c.refill)
	return n
}

// passed lists where one token of a level can go.
func (c chain) passed(s state, level, age int) []state {
	s.held[level][age]--
	last := level == len(c.horizons)-1
	below, above := age, age
	if c.rule == anew || c.rule == upAnew {
		below, above = 0, 0
	}
	var all []state
	if last {
		all = append(all, c.admitted(s))
	} else {
		n := s
		n.held[level+1][below]++
		all = append(all, n)
	}
	if level > 0 && (c.rule == up || c.rule == upAnew) {
		n := s
		n.held[level-1][above]++
		all = append(all, n)
	}
	if c.rule == toRoot {
		n := s
		n.level = min(c.burst, n.level+1)
		all = append(all, n)
	}
	return all
}

func (c chain) admitted(s state) state {
	s.queue++
	if c.rule == leaseToLeaf || c.rule == leaseToRoot {
		s.leases = min(mostLeases, s.leases+1)
	}
	return s
}

// returned lets a lease give back the token it was admitted.
func (c chain) returned(s state) state {
	s.leases--
	s.queue = max(0, s.queue-1)
	if c.rule == leaseToLeaf {
		s.held[0][0]++
	} else {
		s.level = min(c.burst, s.level+1)
	}
	return s
}
