package dynalimit

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxRefusals bounds how often an op is decided again.
	maxRefusals = 24
	// laterAfter is the number of refusals after which an adjust is written so
	// that it commutes with claims.
	laterAfter = 2
)

// carry decides and sends one batch. What it does not end stays queued.
func (l *lane) carry(b batch) {
	ctx := context.WithoutCancel(b.ops()[0].ctx)
	var s sums
	for _, o := range b.adjusts {
		o.addTo(&s)
	}
	if len(b.takes) == 0 && !s.charges() {
		l.giveBack(ctx, b, s)
		return
	}
	if !l.known {
		if err := l.look(ctx); err != nil {
			l.finish(b.ops(), result{err: err})
			return
		}
	}
	v, err := l.view(ctx, b, s)
	if err != nil {
		l.finish(b.ops(), result{err: err})
		return
	}
	l.admit(ctx, v, b, s)
}

// look reads the bucket.
func (l *lane) look(ctx context.Context) error {
	asked := l.owner.nowMS()
	image, err := l.owner.store.readBucket(ctx, l.key, l.hint(), l.owner.ids.slot)
	if err == nil {
		l.learn(image, asked)
	}
	return err
}

// view puts the image under the batch's configuration, which is read again when
// the image may hold a newer one that matters.
func (l *lane) view(ctx context.Context, b batch, s sums) (view, error) {
	cfg := b.config()
	st := stand(l.image, cfg, l.seenTick)
	missing := l.misses(b, s, cfg)
	if len(b.takes) == 0 && !missing && l.image != nil && l.image.Fingerprint != nil && l.image.HasRefilled {
		st = older // an adjust charges what is there; configuration comes with takes
	} else if st == older {
		l.owner.store.forgetConfig(l.entity, l.resource)
	}
	if st == unsure || st == older && missing {
		resolved, err := l.owner.store.rereadConfig(ctx, l.entity, l.resource)
		if err != nil {
			return view{}, err
		}
		cfg = l.owner.recompile(resolved, cfg)
		for _, o := range b.takes {
			o.cfg = cfg
		}
		st = stand(l.image, cfg, l.seenTick)
		missing = l.misses(b, s, cfg)
	}
	if missing && st == current {
		st = newer
	}
	if l.image == nil {
		st = newer
	}
	return newView(l.image, cfg, st, l.owner.nowMS()), nil
}

// config is what the batch is decided under: the takes', else the last adjust's.
func (b *batch) config() *bucketConfig {
	if len(b.takes) > 0 {
		return b.takes[0].cfg
	}
	return b.adjusts[len(b.adjusts)-1].cfg
}

// misses reports whether the batch charges a configured limit that the image
// does not have.
func (l *lane) misses(b batch, s sums, cfg *bucketConfig) bool {
	lacks := func(name string) bool {
		return cfg.index(name) >= 0 && (l.image == nil || l.image.Set.Index(name) < 0 || l.image.Limits[l.image.Set.Index(name)].Ghost)
	}
	for _, n := range s {
		if n.Adjust > 0 && lacks(n.name) {
			return true
		}
	}
	for _, o := range b.takes {
		for _, a := range o.amounts {
			if lacks(a.name) {
				return true
			}
		}
	}
	return false
}

// admit carries the adjusts and as many takes as fit, in their order.
func (l *lane) admit(ctx context.Context, v view, b batch, s sums) {
	var admitted, left []*op
	for _, o := range b.takes {
		if o.fits(v, s, l.leftTo(o, admitted)) {
			o.addTo(&s)
			admitted = append(admitted, o)
		} else {
			left = append(left, o)
		}
	}
	carried := append(b.adjusts, admitted...)
	if len(carried) == 0 {
		l.deny(ctx, v, left)
		return
	}
	l.requeue(left) // decided from the answer
	oldest := 0
	for _, o := range carried {
		oldest = max(oldest, o.refusals)
	}
	p := v.plan(s, planRules{tidy: !l.tidied, later: len(admitted) == 0 && oldest >= laterAfter})
	if p.kind == planNothing {
		l.finish(carried, result{image: v.image, now: v.now, cfg: v.cfg})
		return
	}
	l.settle(carried, v, p, l.write(ctx, p, s, carried), len(b.adjusts) > 0)
}

// deny ends takes that do not fit, on a state that is known to be recent; else
// it looks once, and leaves them for the next round.
func (l *lane) deny(ctx context.Context, v view, left []*op) {
	if !fresh(l.seenAt, v.now) {
		if err := l.look(ctx); err != nil {
			l.finish(left, result{err: err})
			return
		}
		l.requeue(left)
		return
	}
	if v.adopt && v.image != nil { // the newer configuration arrives with the denial
		p := v.plan(nil, planRules{})
		if a := l.write(ctx, p, nil, left); a.verdict != landed && a.verdict != refused {
			l.finish(left, result{err: a.err, unknown: a.verdict == ambiguous})
		} else if !l.refuse(left) {
			l.requeue(left)
		}
		return
	}
	denied := result{denied: true, image: v.image, now: v.now, cfg: v.cfg}
	if !l.attended() {
		l.finish(left, denied)
		return
	}
	for _, o := range left {
		denied.reserved = l.leftTo(o, nil)
		l.finish([]*op{o}, denied)
	}
}

// write sends a plan.
func (l *lane) write(ctx context.Context, p plan, s sums, carried []*op) answer {
	d := delivery{
		kind: p.kind.observed(), callers: len(carried),
		operation: l.owner.ids.operation(),
		backs:     s.hasBack() && p.kind != planCreate,
		abandoned: func() bool { return l.deserted(carried) },
	}
	switch p.kind {
	case planCreate:
		p.create.Keys, p.create.Entity, p.create.Resource = l.owner.keys, l.entity, l.resource
		d.send = func(ctx context.Context, o schema.Op) answer {
			p.create.OpID = o.ID
			return l.owner.store.createBucket(ctx, &p.create, l.hint(), o.Slot)
		}
	case planSpend:
		d.send = func(ctx context.Context, o schema.Op) answer {
			p.spend.Op = o
			return l.owner.store.updateBucket(ctx, l.key, p.spend.Statement(), l.hint(), o.Slot)
		}
	default:
		d.send = func(ctx context.Context, o schema.Op) answer {
			p.claim.Op = o
			return l.owner.store.updateBucket(ctx, l.key, p.claim.Statement(), l.hint(), o.Slot)
		}
	}
	return l.send(ctx, d, s)
}

// send delivers a write and remembers what its answer shows.
func (l *lane) send(ctx context.Context, d delivery, s sums) answer {
	if l.owner.onSend != nil {
		l.owner.onSend(l, d.operation, s)
	}
	asked := l.owner.nowMS()
	var a answer
	if o := l.owner.observer; o != nil {
		a = l.observed(ctx, o, d)
	} else {
		a = l.deliver(ctx, d)
	}
	if a.seen {
		l.learn(a.image, asked)
	} else {
		l.outdate()
	}
	return a
}

// observed delivers a write between the observer's start and end.
func (l *lane) observed(ctx context.Context, o Observer, d delivery) answer {
	began := l.owner.nowMS()
	ctx = o.WriteStart(ctx, WriteStart{EntityID: l.entity, Resource: l.resource, Kind: d.kind, Callers: d.callers})
	a := l.deliver(ctx, d)
	o.WriteEnd(ctx, WriteEnd{
		EntityID: l.entity, Resource: l.resource, Kind: d.kind, Callers: d.callers, Outcome: a.verdict.String(), Tries: a.tries,
		Duration: time.Duration(l.owner.nowMS()-began) * time.Millisecond, Err: a.err,
	})
	return a
}

// observed names the shape for the observer.
func (k planKind) observed() WriteKind {
	switch k {
	case planCreate:
		return WriteCreate
	case planSpend:
		return WriteSpend
	default:
		return WriteClaim
	}
}

// deserted reports whether every op is a take whose caller has gone.
func (l *lane) deserted(ops []*op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range ops {
		if !o.take || !o.abandoned {
			return false
		}
	}
	return true
}

// settle ends the ops of a write by its answer, or queues them again.
func (l *lane) settle(carried []*op, v view, p plan, a answer, adjusts bool) {
	l.tidied = p.housekeeping && a.verdict != landed
	switch a.verdict {
	case landed:
		l.finish(carried, result{image: a.image, now: v.now, cfg: v.cfg, err: a.err})
	case refused:
		l.alone = adjusts
		if !l.refuse(carried) {
			l.requeue(carried)
		}
	default:
		l.finish(carried, result{err: a.err, unknown: a.verdict == ambiguous})
	}
}

// refuse counts a refusal of the ops; true if they were refused too often, and
// are ended.
func (l *lane) refuse(ops []*op) bool {
	worst := 0
	for _, o := range ops {
		o.refusals++
		worst = max(worst, o.refusals)
	}
	if worst >= maxRefusals {
		l.finish(ops, result{err: &UnavailableError{Op: "write the bucket", Err: errContended}})
		return true
	}
	if worst > 1 {
		sleep(context.Background(), jitter(worst-2))
	}
	return false
}

// giveBack sends a write that only returns tokens. Limits that the bucket no
// longer has drop their refund, as does a bucket that is gone.
func (l *lane) giveBack(ctx context.Context, b batch, s sums) {
	g := schema.GiveBack{}
	for _, n := range s {
		if l.known && (l.image == nil || l.image.Set.Index(n.name) < 0) {
			continue
		}
		if n.Back > 0 {
			g.Limits = append(g.Limits, schema.GiveBackLimit{Name: n.name, Amount: n.Back})
		}
	}
	now := l.owner.nowMS()
	if len(g.Limits) == 0 {
		l.finish(b.adjusts, result{image: l.image, now: now, cfg: b.config()})
		return
	}
	a := l.send(ctx, delivery{
		kind: WriteGiveBack, callers: len(b.adjusts),
		operation: l.owner.ids.operation(), backs: true, abandoned: func() bool { return false },
		send: func(ctx context.Context, o schema.Op) answer {
			g.Op = o
			return l.owner.store.updateBucket(ctx, l.key, g.Statement(), l.hint(), o.Slot)
		},
	}, s)
	l.settle(b.adjusts, view{now: now, cfg: b.config()}, plan{}, a, true)
}

// gone reports whether an error means that the store did not answer.
func gone(err error) bool { return errors.Is(err, ErrUnavailable) }
