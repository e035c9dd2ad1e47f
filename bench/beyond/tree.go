package main

import (
	"math"

	"github.com/dynalimit/dynalimit/internal/prefetch"
)

const (
	// fairWrites is how many writes a second of the root's partition the leaves share.
	fairWrites = 800
	// again bounds the pause of a call that finds its leaf being filled.
	again = second / 100
	// grows is how many times as much as a moment before a leaf is filled with, of at
	// most what its part of the limit is in a horizon.
	grows = 16
)

// pause is the least time between two fetches of a leaf while tokens are scarce: its part of
// the root's partition.
func (f *fleet) pause() int64 { return max(second*int64(f.Groups*f.Scale)/fairWrites, again) }

// stepToLeaf reads the leaf where tokens are scarce, else writes it.
func (f *fleet) stepToLeaf(p *process, now int64) {
	l, ahead := f.leaves[p.group], int64(0)
	if p.stock != nil && !p.poor {
		ahead = total(p.stock, prefetch.Level{Level: math.MaxInt64 / 4}, now)
	}
	if len(p.waiting) == 0 && ahead == 0 {
		return
	}
	p.busy = true
	if !p.poor {
		f.writeLeaf(p, l, ahead, false, now)
		return
	}
	f.after(now, func(now int64) {
		count(&l.reads, now)
		l.ask(int64(len(p.waiting)), now)
		held, fetching, next, scarce := l.held, l.fetching, l.next, l.scarce
		f.after(now, func(now int64) {
			p.poor = scarce
			switch {
			case held >= int64(len(p.waiting)):
				f.writeLeaf(p, l, 0, false, now)
			case fetching || now < next:
				f.denyAll(p, max(next, now+again), now)
			default:
				f.claim(p, l, now)
			}
		})
	})
}

// denyAll denies who waits, and from memory who comes up to an instant.
func (f *fleet) denyAll(p *process, until, now int64) {
	f.deny(p.waiting, now, false)
	p.waiting = nil
	p.denies, p.poor, p.busy = until, true, false
}

// writeLeaf takes from the leaf for who waits and ahead. The write that leaves so little that the
// leaf has to be filled is known by its answer, and its process does that beside.
func (f *fleet) writeLeaf(p *process, l *leaf, ahead int64, waited bool, now int64) {
	came, sent := p.waiting, now/1000
	p.waiting = nil
	f.after(now, func(now int64) {
		n := int64(len(came)) + ahead
		birth, ok := l.take(n, now)
		if ok {
			f.admit(len(came), now)
		}
		fills := l.stock.Low(now/1000) && !l.fetching && now >= l.next && ok
		if fills {
			l.fetching = true
		}
		fetching, next, scarce := l.fetching, l.next, l.scarce
		f.after(now, func(now int64) {
			if fills {
				f.fetch(nil, l, now)
			}
			if ok {
				if f.Carried {
					sent = min(sent, birth+f.Leaf-f.Process)
				}
				f.landed(p, came, ahead, sent, waited, now)
				p.poor = scarce
				return
			}
			p.waiting = append(came, p.waiting...)
			f.refused(p, l, fetching, next, scarce, now)
		})
	})
}

// landed ends a write that landed; sent is from when on what it debited ahead is aged.
func (f *fleet) landed(p *process, came []int64, ahead, sent int64, waited bool, now int64) {
	f.keep(p, int64(len(came)), ahead, sent, now)
	how := byWrite
	if waited {
		how = byFetch
	}
	f.grant(p, came, now, how)
	p.busy = false
	f.step(p, now)
}

// refused goes on after a write that found too little.
func (f *fleet) refused(p *process, l *leaf, fetching bool, next int64, scarce bool, now int64) {
	switch {
	case len(p.waiting) == 0: // it was ahead alone
		p.busy = false
	case scarce && (fetching || now < next):
		f.denyAll(p, max(next, now+again), now)
	case fetching || now < next:
		at := max(next, now) + again/2 + f.rnd.Int64N(again/2)
		f.events.push(event{at: at, do: func(now int64) { f.writeLeaf(p, l, 0, true, now) }})
	default:
		f.claim(p, l, now)
	}
}

// claim makes one process of the group the one that fills the leaf, by a write of its
// own; who comes second waits, or is denied.
func (f *fleet) claim(p *process, l *leaf, now int64) {
	f.after(now, func(now int64) {
		count(&l.writes, now)
		mine := !l.fetching && now >= l.next
		l.fetching = l.fetching || mine
		next, scarce := l.next, l.scarce
		f.after(now, func(now int64) {
			if mine {
				f.fetch(p, l, now)
			} else {
				f.refused(p, l, true, next, scarce, now)
			}
		})
	})
}

// fetch debits the root and puts that into the leaf; p's callers, if it is not nil, wait for it.
func (f *fleet) fetch(p *process, l *leaf, now int64) {
	b, need, sent := f.buckets[0], int64(0), now
	if p != nil {
		need = int64(len(p.waiting))
	}
	n := f.wanted(l, b, need, now)
	if n == 0 {
		l.fetching, l.next = false, now+f.pause()
		return
	}
	f.after(now, func(now int64) {
		ok := b.take(n, now)
		shown, counter := b.sight(now), b.debited
		f.after(now, func(now int64) {
			if !ok {
				n = 0
			}
			l.stock.Moved(limitName, n*token, (counter-l.seen)*token, now/1000)
			l.root, l.seen = shown, counter
			f.after(now, func(now int64) { f.fill(p, l, n, sent, now) })
		})
	})
}

// wanted is what a fetch debits: what the horizon needs while the root stays half full; else
// what is needed until the next fetch, of no more than a group's part of what there is.
func (f *fleet) wanted(l *leaf, b *bucket, need, now int64) int64 {
	level := b.burst
	if l.root.known {
		level = l.root.worth(b, now)
	}
	until := int64(l.need*float64(f.pause())) - l.held
	if left := level - float64(need); left > b.burst/2 {
		spare := int64((left - b.burst/2) / float64(f.Groups))
		ahead := total(l.stock, prefetch.Level{Level: int64(left * token), Burst: int64(b.burst * token)}, now)
		moment := now-l.last < l.horizon/4
		l.begins = need > 0 || l.begins && moment
		if l.begins && moment { // it was filled a moment ago and empty again: calls begin
			ahead = max(ahead, min(grows*l.brought, spare, int64(b.refill*float64(l.horizon)/float64(f.Groups))))
		}
		if l.tight = max(ahead, spare) < until; !l.tight {
			return need + max(ahead, until)
		}
	}
	l.tight = true
	return max(need, min(need+max(0, until), int64(level/float64(f.Groups))))
}

// fill puts what was debited into the leaf, and serves who waited for it, in one
// write; one that was refused tells the group what the root holds.
func (f *fleet) fill(p *process, l *leaf, n, sent, now int64) {
	count(&l.writes, now)
	if n > 0 {
		l.stock.Add(amounts(n), sent/1000)
	}
	l.last, l.brought = sent, n
	l.fetching, l.scarce = false, n == 0 || l.tight
	if l.scarce {
		l.next = sent + f.pause()*3/4 + f.rnd.Int64N(f.pause()/2) // not always behind the same others
	}
	ok := false
	var came []int64
	if p != nil {
		came = p.waiting
		_, ok = l.stock.Serve(amounts(int64(len(came))), now/1000)
	}
	if ok {
		p.waiting = nil
		l.stock.Admitted(amounts(int64(len(came))), now/1000)
		f.admit(len(came), now)
	}
	l.held = l.stock.Held(limitName) / token
	if p == nil {
		return
	}
	scarce, next := l.scarce, l.next
	f.after(now, func(now int64) {
		if ok {
			f.landed(p, came, 0, 0, true, now)
			p.poor = scarce
			return
		}
		f.denyAll(p, max(next, now+again), now)
	})
}
