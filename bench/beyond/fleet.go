package main

import (
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/internal/prefetch"
)

// fleet is a simulation under way.
type fleet struct {
	settings
	events    queue
	rnd       *rand.Rand
	processes []process
	// buckets has the root, or each group's bucket of a split limit; leaves the leaves.
	buckets []*bucket
	leaves  []*leaf

	// drained is the queue of what was admitted, drained by the refill, as of drainedAt;
	// most is the most that it came to.
	drained   float64
	drainedAt int64
	most      float64

	counts
	group   []int64 // granted, by group
	asked   []int64 // by group
	grants  latency.Histogram
	misses  latency.Histogram
	denials latency.Histogram
}

// counts are calls of the measured time, but for admitted and lapsed, which are of all.
type counts struct {
	offered, granted, denied int64
	// memory are grants without a request; missed those for which the leaf had to be
	// filled; early the denials without a request.
	memory, missed, early int64
	admitted, lapsed      int64
	// lapsedBefore and debitedBefore are of the warm-up.
	lapsedBefore, debitedBefore int64
}

// process is a process with one lane.
type process struct {
	group   int
	stock   *prefetch.Stock // nil if it does not debit ahead
	waiting []int64         // when those came who wait for the lane
	busy    bool
	seen    sight // its bucket, if it has no leaf
	counter int64 // of the bucket, as seen
	// denies is until when the leaf is known to have nothing; poor means that it reads
	// before it writes.
	denies int64
	poor   bool
}

func newFleet(s settings) *fleet {
	f := &fleet{
		settings: s, rnd: rand.New(rand.NewPCG(s.Seed, 2)), processes: make([]process, s.Processes),
		group: make([]int64, max(1, s.Groups)), asked: make([]int64, max(1, s.Groups)),
		grants: latency.New(), misses: latency.New(), denials: latency.New(),
	}
	buckets := 1
	if s.Split {
		buckets = s.Groups
	}
	for range buckets {
		b := &bucket{refill: s.refill() / float64(buckets)}
		b.burst = b.refill * s.Burst * second
		if !s.Empty {
			b.level = b.burst
		}
		f.buckets = append(f.buckets, b)
	}
	if s.Empty {
		f.drained = s.refill() * s.Burst * second
	}
	for range s.Groups {
		f.leaves = append(f.leaves, &leaf{stock: prefetch.New(s.Leaf), horizon: s.Leaf * 1000})
	}
	for i := range f.processes {
		p := &f.processes[i]
		if s.Groups > 0 {
			p.group = i * s.Groups / s.Processes
		}
		if s.Process > 0 {
			p.stock = prefetch.New(s.Process)
		}
		f.nextCall(p, 0)
	}
	return f
}

// run plays the warm-up and the measured time.
func (f *fleet) run() {
	end := int64(f.WarmUp+f.For) * second
	f.events.push(event{at: int64(f.WarmUp) * second, do: func(now int64) { f.lapsedBefore, f.debitedBefore = f.lapsedBy(now), f.debited() }})
	for len(f.events.events) > 0 && f.events.events[0].at < end {
		e := f.events.pop()
		if e.do != nil {
			e.do(e.at)
		} else {
			f.call(e.caller, e.at)
		}
	}
	f.lapsed = f.lapsedBy(end)
}

// debited is what the buckets were debited since the start.
func (f *fleet) debited() (n int64) {
	for _, b := range f.buckets {
		n += b.debited
	}
	return n
}

// lapsedBy is what has lapsed since the start.
func (f *fleet) lapsedBy(now int64) (n int64) {
	count := func(s *prefetch.Stock) {
		s.Expire(now / 1000)
		lapsed := s.TakeLapsed()
		s.Lapse(lapsed)
		for _, a := range lapsed {
			n += a.Amount / token
		}
	}
	for _, l := range f.leaves {
		count(l.stock)
	}
	for i := range f.processes {
		if s := f.processes[i].stock; s != nil {
			count(s)
		}
	}
	return n
}

// trip is half a round trip of 2 to 8 ms.
func (f *fleet) trip() int64 { return 1000 + f.rnd.Int64N(3001) }

// after has something happen when a request, or its answer, arrives.
func (f *fleet) after(now int64, do func(now int64)) {
	f.events.push(event{at: now + f.trip(), do: do})
}

// nextCall has a process call at random.
func (f *fleet) nextCall(p *process, now int64) {
	rate := f.each(p.group, now)
	if rate == 0 { // a pause, to the next second
		f.events.push(event{at: (now/second+1)*second + f.rnd.Int64N(second/100), do: func(now int64) { f.nextCall(p, now) }})
		return
	}
	f.events.push(event{at: now + int64(f.rnd.ExpFloat64()/rate*second), caller: p})
}

func (f *fleet) measured(came int64) bool { return came >= int64(f.WarmUp)*second }

// call is one acquire of a token.
func (f *fleet) call(p *process, now int64) {
	f.nextCall(p, now)
	if f.measured(now) {
		f.offered++
		f.asked[p.group]++
	}
	if p.stock != nil && f.serve(p, now) {
		return
	}
	if f.deniesAtOnce(p, now) {
		f.deny([]int64{now}, now, true)
		return
	}
	p.waiting = append(p.waiting, now)
	f.step(p, now)
}

// serve admits a call from what the process debited ahead.
func (f *fleet) serve(p *process, now int64) bool {
	_, ok := p.stock.Serve(amounts(1), now/1000)
	if ok {
		p.stock.Admitted(amounts(1), now/1000)
		f.admit(1, now)
		f.grant(p, []int64{now}, now, fromMemory)
	}
	if p.stock.Low(now / 1000) {
		f.step(p, now)
	}
	return ok
}

// deniesAtOnce reports whether what the process remembers proves that there is
// nothing.
func (f *fleet) deniesAtOnce(p *process, now int64) bool {
	if f.ofLeaf() {
		return now < p.denies
	}
	return p.seen.known && now-p.seen.at <= second && p.seen.worth(f.bucket(p), now) < 1
}

func (f *fleet) ofLeaf() bool { return f.Groups > 0 && !f.Split }

func (f *fleet) bucket(p *process) *bucket { return f.buckets[min(p.group, len(f.buckets)-1)] }

// admit counts what is debited for calls at the instant at which it is.
func (f *fleet) admit(n int, now int64) {
	f.drained = max(0, f.drained-float64(now-f.drainedAt)*f.refill()) + float64(n)
	f.drainedAt = now
	f.most = max(f.most, f.drained)
	f.admitted += int64(n)
}

// way is how a call was granted.
type way int

const (
	fromMemory way = iota
	byWrite
	byFetch
)

func (f *fleet) grant(p *process, came []int64, now int64, how way) {
	for _, at := range came {
		if !f.measured(at) {
			continue
		}
		f.granted++
		f.group[p.group]++
		took := time.Duration(now-at) * time.Microsecond
		f.grants.Record(took)
		switch how {
		case fromMemory:
			f.memory++
		case byFetch:
			f.missed++
			f.misses.Record(took)
		}
	}
}

func (f *fleet) deny(came []int64, now int64, early bool) {
	for _, at := range came {
		if !f.measured(at) {
			continue
		}
		f.denied++
		if early {
			f.early++
		}
		f.denials.Record(time.Duration(now-at) * time.Microsecond)
	}
}

// step sends what waits for the lane, unless it is busy.
func (f *fleet) step(p *process, now int64) {
	if p.busy {
		return
	}
	if f.ofLeaf() {
		f.stepToLeaf(p, now)
	} else {
		f.stepToBucket(p, now)
	}
}
