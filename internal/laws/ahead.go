package laws

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Limiters that debit ahead of calls: what they admit from memory is held against the
// laws when it is admitted, not when it was debited.

// served is what a call was admitted from memory.
type served struct {
	// after is how many writes had been committed, at when, in true time.
	after int
	at    int64
	// from is whose memory, entity of which bucket.
	from   *lane.Lane
	entity string
	stake  *stake
	lane.Served
	// back says that it was put back: no call was admitted.
	back bool
}

// serves hears of what lanes serve from memory.
func (o *oracle) serves(ctx context.Context, from *lane.Lane, s lane.Served) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !s.Back {
		o.served = append(o.served, &served{len(o.writes), time.Now().UnixMilli(), from, from.Entity, stakeOf(ctx), s, false})
		return
	}
	for _, e := range slices.Backward(o.served) {
		if !e.back && e.from == from && e.stake == stakeOf(ctx) && e.Sent == s.Sent && slices.Equal(e.Amounts, s.Amounts) {
			e.back = true
			return
		}
	}
	o.served = append(o.served, &served{len(o.writes), time.Now().UnixMilli(), from, from.Entity, nil, s, true})
	o.strange = append(o.strange, fmt.Sprintf("L9: %v was put back to %s that nobody was served", s.Amounts, from.Entity))
}

// ahead is what is debited ahead of calls of one limit of one bucket, as it really is.
type ahead struct {
	// queue is that of admissions: what is debited ahead is in it once a call was
	// served.
	queue int64
	// held is what processes were told they debited ahead, and neither admitted nor
	// took off the counter.
	held int64
	// returned is what left the queue otherwise than by time, of the last horizon; most
	// is how much that was at most. adjusted is what was charged without being asked
	// for.
	returned, adjusted recent
	most               int64
}

// recent are amounts of a limit, with their instants.
type recent []struct{ at, amount int64 }

// add adds an amount, and forgets what is older than a horizon.
func (r *recent) add(amount, at, horizon int64) {
	*r = append(*r, struct{ at, amount int64 }{at, amount})
	*r = slices.DeleteFunc(*r, func(one struct{ at, amount int64 }) bool { return at-one.at > horizon })
}

// sum is what was added since an instant.
func (r recent) sum(since int64) (sum int64) {
	for _, one := range r {
		if one.at >= since {
			sum += one.amount
		}
	}
	return sum
}

// returns books what was given back, or cut off the burst: while tokens are held, it
// makes room that the queue of admissions may not have needed.
func (a *ahead) returns(amount, at, horizon int64) {
	if amount <= 0 || horizon == 0 {
		return
	}
	a.queue = max(0, a.queue-amount)
	a.returned.add(amount, at, horizon)
	a.most = max(a.most, a.returned.sum(at-horizon))
}

// adjusts books what was charged without being asked for.
func (a *ahead) adjusts(amount, at, horizon int64) {
	a.queue += amount
	a.adjusted.add(amount, at, horizon)
}

// admits adds a call to the queue of admissions, which may exceed the burst by what is
// refilled in a horizon, and by what was given back in one; and by what was charged in
// one unasked, since it was debited.
func (j *judge) admits(t *truth, name string, amount, burst, at int64) (wrong string) {
	if j.rules.horizon == 0 {
		return ""
	}
	t.ahead.queue += amount
	bound := burst + j.slack(t) + t.fastest.RefilledIn(1000*j.rules.horizon) + 1 + t.ahead.most + t.ahead.adjusted.sum(at-j.rules.horizon)
	if over := t.ahead.queue - bound; over > 0 && amount > 0 {
		wrong = fmt.Sprintf("L1: %s admitted %d too much: %d at a queue of %d, burst %d, slack %d, given back %d",
			name, over, amount, t.ahead.queue-amount, burst, j.slack(t), t.ahead.most)
	}
	if excess := t.ahead.queue - burst; excess > 0 && amount > 0 {
		j.tally["admitted above the burst"]++
	}
	return wrong
}

// serve replays what was served from memory before the nth write.
func (j *judge) serve(n int) {
	for len(j.oracle.served) > 0 && j.oracle.served[0].after <= n {
		e := j.oracle.served[0]
		j.oracle.served = j.oracle.served[1:]
		if !e.back {
			j.tally["served"]++
			j.admitted(e)
		}
	}
}

// admitted replays one call that was served from memory.
func (j *judge) admitted(e *served) {
	here, current := j.made[e.entity+"#"+string(e.Incarnation)]
	current = current && here == j.incarnations[e.entity] && j.images[e.entity] != nil
	if current {
		j.drain(e.entity, j.images[e.entity], e.at)
	}
	for _, a := range e.Amounts {
		j.account(e.entity, a.Name).granted += a.Amount
		if e.stake != nil {
			l := e.stake.whole().lot(lot{e.entity, here, a.Name})
			l.debited, l.told = l.debited+a.Amount, l.told+a.Amount
		}
		if !current {
			continue // of a bucket that is gone nothing is owed
		}
		t, i := j.buckets[e.entity][a.Name], j.images[e.entity].Set.Index(a.Name)
		if t == nil || i < 0 {
			continue
		}
		if wrong := j.admits(t, a.Name, a.Amount, j.images[e.entity].Limits[i].Burst, e.at); wrong != "" {
			j.violations = append(j.violations, fmt.Sprintf("served at %d: %s", e.at, wrong))
		}
		if t.ahead.held -= a.Amount; t.ahead.held < 0 {
			j.violations = append(j.violations, fmt.Sprintf("L9: served at %d: %d of %s were admitted that nobody debited", e.at, -t.ahead.held, a.Name))
		}
	}
}

// aheadIn is what a write debits ahead of a limit, and takes off its counter; a
// transaction, which is sent beside what a lane carries, does neither.
func (w *sentWrite) aheadIn(name string) (debited, lapsed int64) {
	if w.transaction {
		return 0, 0
	}
	return amountOf(w.debited, name), amountOf(w.lapsed, name)
}

// lapses is what a write that lands takes off a counter of what was debited ahead:
// nothing of a limit that its client does not know, or that it brings.
func (j *judge) lapses(w *ddbmem.Write, sent *sentWrite, name string, a plan.Named, before, after *schema.Image) int64 {
	_, lapsed := sent.aheadIn(name)
	if lapsed == 0 || before == nil || before.Set.Index(name) < 0 {
		return 0
	}
	moved := after.Limits[after.Set.Index(name)].Consumed - before.Limits[before.Set.Index(name)].Consumed
	if moved == a.Consumed()+lapsed {
		return 0
	}
	if sent.landings > 1 {
		j.fail(w, "L5: %d of %s, which lapsed, are taken off the counter %d times", lapsed, name, sent.landings)
	}
	j.tally["lapsed"]++
	return lapsed
}

func amountOf(list []plan.Signed, name string) (sum int64) {
	for _, a := range list {
		if a.Name == name {
			sum += a.Amount
		}
	}
	return sum
}

// stream makes calls of one kind at a rate that is worth debiting ahead for; then,
// when what is held has become old, some that take all there is, and more of the same.
func (h *history) stream(r *rand.Rand, m *member) {
	entity := h.entities[r.IntN(len(h.entities))]
	amounts, bursts := dynalimit.Amounts{}, dynalimit.Amounts{}
	h.mu.Lock()
	for _, l := range h.config[entity] {
		if r.IntN(3) > 0 {
			amounts[l.Name], bursts[l.Name] = 1+r.Int64N(1+l.Burst/200), l.Burst
		}
	}
	h.mu.Unlock()
	if len(amounts) == 0 {
		return
	}
	pause := time.Duration(5+r.Int64N(60)) * time.Millisecond
	h.repeat(m, entity, amounts, 10+r.IntN(30), pause)
	if r.IntN(2) == 0 {
		elapse(time.Duration(r.Int64N(4 * int64(h.horizon))))
		for _, part := range []int64{4, 20, 100} {
			some := dynalimit.Amounts{}
			for name, burst := range bursts {
				some[name] = max(1, burst/part)
			}
			h.repeat(m, entity, some, 6, time.Millisecond)
		}
		h.repeat(m, entity, amounts, r.IntN(30), time.Millisecond)
	}
}

// repeat makes so many calls, one every pause, and waits for them.
func (h *history) repeat(m *member, entity string, amounts dynalimit.Amounts, calls int, pause time.Duration) {
	var group sync.WaitGroup
	for range calls {
		ctx, own := staked(h.ctx)
		group.Go(func() {
			lease, err := m.limiter.Acquire(ctx, entity, resource, amounts)
			if err != nil {
				h.tolerate(m, err)
				return
			}
			h.granted(&grant{Lease: lease, owner: m, stake: own, entity: entity}, amounts)
		})
		elapse(pause)
	}
	group.Wait()
}
