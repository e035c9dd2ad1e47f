package dynalimit

import (
	"context"
	"errors"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// proposal is one level's part of a transaction.
type proposal struct {
	view plan.View
	plan plan.Write
	sums plan.Sums
	// waits says that the take does not fit beside what is left to waiters.
	waits bool
	left  plan.Promises
}

// takeTogether charges all levels in one transaction. A denial by a recent
// image writes nothing; one that must bring a newer configuration first takes
// the parallel way.
func (l *RateLimiter) takeTogether(caller context.Context, lease *Lease, policy UnavailablePolicy, at place, p patience) error {
	ctx, cancel := context.WithDeadline(caller, p.bound())
	defer cancel()
	fail := func(err error) error {
		if ctx.Err() != nil && !errors.Is(err, errMaybeCharged) && !isValidation(err) {
			err = l.overdue(lease, &p)
		}
		return l.concludeTogether(caller, lease, l.failAll(lease, err), policy)
	}
	for round := 0; round < maxRefusals; round++ {
		proposals, err := l.propose(ctx, lease, at, round, false)
		if err == nil && slices.ContainsFunc(proposals, func(p proposal) bool { return p.waits }) {
			proposals, err = l.propose(ctx, lease, at, round, true) // a denial waits for every level as it is
		}
		if err != nil {
			return fail(err)
		}
		denied, adopts := false, false
		for i := range proposals {
			denied = denied || proposals[i].waits
			adopts = adopts || proposals[i].waits && proposals[i].view.Adopt && proposals[i].view.Image != nil
		}
		if adopts {
			return l.takeAtOnce(caller, lease, policy, at, p)
		}
		if denied {
			for i := range proposals {
				v := proposals[i].view
				if v.Config == nil {
					continue
				}
				lease.levels[i].saw(result{image: v.Image, cfg: v.Config, now: v.Now, before: plan.Precedence{Left: proposals[i].left}})
			}
			return lease.denial()
		}
		done, underWay, err := l.commit(ctx, lease, proposals, round)
		switch {
		case done:
			return nil
		case underWay != nil:
			for _, o := range underWay {
				if o.result.pending {
					o.result.err = l.overdue(lease, &p)
				}
			}
			return l.concludeTogether(caller, lease, underWay, policy)
		case err != nil:
			return fail(err)
		}
		if !writeBackoff.Pause(ctx, round) {
			return fail(ctx.Err())
		}
	}
	r := lease.request
	return fail(contended(r.entity, r.resource))
}

// concludeTogether turns the failure of a transaction into an error, or into a
// lease where the policy says so; the caller whose context has ended gets that.
func (l *RateLimiter) concludeTogether(ctx context.Context, lease *Lease, ops []*op, policy UnavailablePolicy) error {
	if ctx.Err() == nil {
		return l.conclude(ctx, lease, ops, policy)
	}
	for i, o := range ops {
		if o.result.pending {
			lease.levels[i].lane.disown(o)
		}
	}
	return ctx.Err()
}

// overdue is the error of a call whose time for the store is over.
func (l *RateLimiter) overdue(lease *Lease, p *patience) error {
	for i := range lease.levels {
		if lv := &lease.levels[i]; !lv.skipped() && lv.lane.quiet(p.began) < leastSilence {
			return &UnavailableError{Op: "acquire", Err: errPatience}
		}
	}
	return l.lanes.silence(errPatience)
}

// failAll makes results of one error for every level.
func (l *RateLimiter) failAll(lease *Lease, err error) []*op {
	ops := make([]*op, len(lease.levels))
	for i := range ops {
		ops[i] = &op{result: result{err: err, unknown: errors.Is(err, errMaybeCharged)}}
	}
	return ops
}

// propose decides every level's write, of a call that was refused so many rounds;
// certain lets no level pass by an image too old to deny from.
func (l *RateLimiter) propose(ctx context.Context, lease *Lease, at place, round int, certain bool) ([]proposal, error) {
	proposals := make([]proposal, len(lease.levels))
	for i := range lease.levels {
		lv, p := &lease.levels[i], &proposals[i]
		if lv.skipped() {
			continue
		}
		o := op{take: true, amounts: lv.asked}
		var err error
		if p.view, err = lv.lane.consider(ctx, lv.cfg, &o, certain); err != nil {
			return nil, err
		}
		p.left = lv.lane.leftTo(at.rank(), nil, p.view.Reading())
		if p.waits = !p.view.Fits(o.amounts, nil, p.left); p.waits {
			continue
		}
		o.addTo(&p.sums)
		p.plan = p.view.Plan(p.sums, plan.Rules{Crowding: lv.lane.among(round)})
	}
	return proposals, nil
}

// consider puts a recent image of the bucket under a configuration, without the
// lane's queue: a denial needs an image no older than a second, and so does
// what is to be certain.
func (l *lane) consider(ctx context.Context, cfg *plan.Config, o *op, certain bool) (plan.View, error) {
	shadow := l.shadow()
	b := batch{takes: []*op{{take: true, amounts: o.amounts, cfg: cfg}}}
	for {
		looked := false
		if !shadow.known {
			if err := shadow.look(ctx); err != nil {
				return plan.View{}, err
			}
			looked = true
		}
		v, err := shadow.view(ctx, b, nil)
		if err == nil && v.Lacks(o.amounts) {
			err = l.outdated(v, o.amounts)
		}
		if err != nil || looked || plan.Fresh(shadow.seenAt, v.Now) || !certain && v.Fits(o.amounts, nil, nil) {
			if looked {
				l.correct(shadow.image, shadow.seenAt)
			}
			return v, err
		}
		shadow.known = false
	}
}

// shadow is a copy that looks and decides beside the lane's own work.
func (l *lane) shadow() *lane {
	s := &lane{owner: l.owner, entity: l.entity, resource: l.resource, key: l.key}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.known, s.image, s.seenAt, s.seenTick = l.known, l.image, l.seenAt, l.seenTick
	return s
}

// inspect reads the bucket and puts it under a configuration.
func (l *lane) inspect(ctx context.Context, cfg *plan.Config) (plan.View, error) {
	s := l.shadow()
	if err := s.look(ctx); err != nil {
		return plan.View{}, err
	}
	l.correct(s.image, s.seenAt)
	return s.view(ctx, batch{takes: []*op{{take: true, cfg: cfg}}}, nil)
}

// correct gives a resting lane an image seen by a request of another's.
func (l *lane) correct(image *schema.Image, asked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && asked >= l.seenAt {
		l.remember(image, asked)
	}
}

// suppose gives a resting lane whose image is still before the one that a
// committed transaction must have left: others may have written since, so it is
// good to spend from, which the store decides, not to deny from.
func (l *lane) suppose(before, after *schema.Image) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return
	}
	if !l.known || l.image == before {
		l.remember(after, 0)
	}
	l.seenAt = 0
}

// forget makes a resting lane read the bucket before its next write.
func (l *lane) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		l.known, l.seenAt = false, 0
	}
}

// committed is what a level was granted by a transaction, which returns no image:
// it is worked out, and the lane reads the bucket before it denies anything.
func (lv *level) committed(p *proposal, decode func(schema.Item, int) (*schema.Image, error)) result {
	image := p.view.Image
	if image == nil {
		image, _ = decode(p.plan.Create.Item(), 0) // what was put
	} else {
		image = p.view.After(lv.asked, &p.plan)
	}
	if p.plan.Kind == plan.Claim {
		lv.lane.forget()
	} else {
		lv.lane.suppose(p.view.Image, image)
	}
	return result{image: image, cfg: p.view.Config, now: p.view.Now}
}
