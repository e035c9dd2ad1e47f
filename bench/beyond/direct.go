package main

import (
	"math"

	"github.com/dynalimit/dynalimit/internal/prefetch"
)

// Processes without a leaf write their bucket, as the library's lanes do.

// stepToBucket reads where tokens are scarce and the image is old, else decides
// from the image and writes.
func (f *fleet) stepToBucket(p *process, now int64) {
	b := f.bucket(p)
	old := !p.seen.known || now-p.seen.at > second
	if !old {
		fit := int(max(0, math.Floor(p.seen.worth(b, now))))
		if fit < len(p.waiting) {
			f.deny(p.waiting[fit:], now, false)
			p.waiting = p.waiting[:fit]
		}
	}
	ahead := f.aheadOfBucket(p, b, now)
	if len(p.waiting) == 0 && ahead == 0 {
		return
	}
	p.busy = true
	if old && p.poor {
		f.after(now, func(now int64) {
			count(&b.reads, now)
			shown := b.sight(now)
			f.after(now, func(now int64) { p.seen, p.busy = shown, false; f.step(p, now) })
		})
		return
	}
	f.writeBucket(p, b, ahead, now)
}

// aheadOfBucket is what a write debits ahead: by the library's own decision.
func (f *fleet) aheadOfBucket(p *process, b *bucket, now int64) int64 {
	if p.stock == nil || !p.seen.known || now-p.seen.at > max(p.horizon(f), second) {
		return 0
	}
	left := p.seen.worth(b, now) - float64(len(p.waiting))
	return total(p.stock, prefetch.Level{Level: int64(left * token), Burst: int64(b.burst * token)}, now)
}

func (p *process) horizon(f *fleet) int64 { return f.Process * 1000 }

// total is what a stock wants of an item, in tokens.
func total(s *prefetch.Stock, l prefetch.Level, now int64) (n int64) {
	for _, a := range s.Want(func(string) (prefetch.Level, bool) { return l, true }, now/1000) {
		n += a.Amount / token
	}
	return n
}

func (f *fleet) writeBucket(p *process, b *bucket, ahead, now int64) {
	came, sent := p.waiting, now
	p.waiting = nil
	f.after(now, func(now int64) {
		n := int64(len(came)) + ahead
		ok := b.take(n, now)
		if ok {
			f.admit(len(came), now)
		}
		shown, counter := b.sight(now), b.debited
		f.after(now, func(now int64) {
			f.learn(p, shown, counter, n, ok, now)
			if ok {
				f.keep(p, int64(len(came)), ahead, sent/1000, now)
				f.grant(p, came, now, byWrite)
			} else {
				p.waiting = append(came, p.waiting...) // decided again, from the answer
			}
			p.poor = !ok || shown.level < b.burst/10
			p.busy = false
			f.step(p, now)
		})
	})
}

// learn remembers a bucket that an answer showed.
func (f *fleet) learn(p *process, shown sight, counter, n int64, ok bool, now int64) {
	if p.stock != nil && p.seen.known {
		own := n
		if !ok {
			own = 0
		}
		p.stock.Moved(limitName, own*token, (counter-p.counter)*token, now/1000)
	}
	p.seen, p.counter = shown, counter
}

// keep counts the calls that a write admitted, and holds what it debited ahead.
func (f *fleet) keep(p *process, n, ahead, sent, now int64) {
	if p.stock == nil {
		return
	}
	for range n {
		p.stock.Admitted(amounts(1), now/1000)
	}
	if ahead > 0 {
		p.stock.Add(amounts(ahead), sent)
	}
}
