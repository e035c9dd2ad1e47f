package main

import (
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/prefetch"
)

const (
	// second is a second of virtual time.
	second = 1_000_000
	// token is a token in the stocks' millitokens.
	token = 1000
	// limitName is that of the one limit there is.
	limitName = "x"
)

// amounts are n tokens of the limit.
func amounts(n int64) []plan.Signed { return []plan.Signed{{Name: limitName, Amount: n * token}} }

// meter counts the requests that an item's partition gets, by the second.
type meter struct{ writes, reads []int32 }

func count(seconds *[]int32, now int64) {
	s := int(now / second)
	for len(*seconds) <= s {
		*seconds = append(*seconds, 0)
	}
	(*seconds)[s]++
}

// rates are the mean and the busiest second of requests, of the seconds from one on up to
// another.
func rates(seconds []int32, from, to int) (mean, peak float64) {
	for s := from; s < min(to, len(seconds)); s++ {
		mean += float64(seconds[s]) / float64(to-from)
		peak = max(peak, float64(seconds[s]))
	}
	return mean, peak
}

// bucket is an item that the time refills. Its takes commute, as those of the
// library do; what collides at full is left out.
type bucket struct {
	meter
	level, burst, refill float64 // refill in tokens a µs
	at                   int64
	debited              int64
}

func (b *bucket) now(now int64) float64 {
	b.level = min(b.burst, b.level+float64(now-b.at)*b.refill)
	b.at = now
	return b.level
}

// take debits n tokens, all or nothing.
func (b *bucket) take(n, now int64) bool {
	count(&b.writes, now)
	if b.now(now) < float64(n) {
		return false
	}
	b.level -= float64(n)
	b.debited += n
	return true
}

// sight is a bucket as an answer showed it.
type sight struct {
	level float64
	at    int64
	known bool
}

// worth is what a sight proves of a bucket's level at most.
func (s sight) worth(b *bucket, now int64) float64 {
	return min(b.burst, s.level+float64(now-s.at)*b.refill)
}

func (b *bucket) sight(now int64) sight { return sight{b.now(now), now, true} }

// leaf is an item that is filled from the root, ahead of what its group needs.
type leaf struct {
	meter
	stock *prefetch.Stock
	// held is what is in the stock, as last changed, in tokens.
	held int64
	// fetching means that a process debits the root for it; next is from when on one
	// may again.
	fetching bool
	next     int64
	// root is the root as the last fetch saw it; the item has it, so that every process
	// of the group knows.
	root sight
	seen int64 // of the root's counter
	// last is when it was last filled, brought with how much.
	last, brought int64
	// begins means that it was found empty, and has been filled again and again since.
	begins  bool
	horizon int64 // in µs
	// tight means that the root leaves too little to debit ahead; scarce, that the last
	// fetch found that, or was refused.
	tight  bool
	scarce bool
	// asked is what was asked of the leaf since an instant; need the tokens a µs.
	asked   float64
	askedAt int64
	need    float64
}

// ask counts what is asked of the leaf, granted or not.
func (l *leaf) ask(n, now int64) {
	l.asked += float64(n)
	if passed := now - l.askedAt; passed > second/4 {
		l.need += (l.asked/float64(passed) - l.need) / 2
		l.asked, l.askedAt = 0, now
	}
}

// take admits n tokens from the leaf's stock, all or nothing; sent is when the oldest of them was
// debited, in ms.
func (l *leaf) take(n, now int64) (sent int64, ok bool) {
	count(&l.writes, now)
	l.ask(n, now)
	if sent, ok = l.stock.Serve(amounts(n), now/1000); ok {
		l.stock.Admitted(amounts(n), now/1000)
	}
	l.held = l.stock.Held(limitName) / token
	return sent, ok
}
