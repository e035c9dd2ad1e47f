package dynalimit

import (
	"context"
	"errors"
	"slices"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

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
	for round := 0; round < lane.MaxRefusals; round++ {
		proposals, err := l.propose(ctx, lease, at, round, false)
		if err == nil && slices.ContainsFunc(proposals, func(p lane.Proposal) bool { return p.Waits }) {
			proposals, err = l.propose(ctx, lease, at, round, true) // a denial waits for every level as it is
		}
		if err != nil {
			return fail(err)
		}
		denied, adopts := false, false
		for i := range proposals {
			denied = denied || proposals[i].Waits
			adopts = adopts || proposals[i].Waits && proposals[i].View.Adopt && proposals[i].View.Image != nil
		}
		if adopts {
			return l.takeAtOnce(caller, lease, policy, at, p)
		}
		if denied {
			for i := range proposals {
				v := proposals[i].View
				if v.Config == nil {
					continue
				}
				lease.levels[i].saw(lane.Result{Image: v.Image, Config: v.Config, Now: v.Now, Before: plan.Precedence{Left: proposals[i].Left}})
			}
			return lease.denial()
		}
		done, underWay, err := l.commit(ctx, lease, proposals, round)
		switch {
		case done:
			return nil
		case underWay != nil:
			for _, o := range underWay {
				if o.Result.Pending {
					o.Result.Err = l.overdue(lease, &p)
				}
			}
			return l.concludeTogether(caller, lease, underWay, policy)
		case err != nil:
			return fail(err)
		}
		if !lane.Backoff.Pause(ctx, round) {
			return fail(ctx.Err())
		}
	}
	r := lease.request
	return fail(contended(r.entity, r.resource))
}

// concludeTogether turns the failure of a transaction into an error, or into a
// lease where the policy says so; the caller whose context has ended gets that.
func (l *RateLimiter) concludeTogether(ctx context.Context, lease *Lease, ops []*lane.Op, policy UnavailablePolicy) error {
	if ctx.Err() == nil {
		return l.conclude(ctx, lease, ops, policy)
	}
	for i, o := range ops {
		if o.Result.Pending {
			lease.levels[i].lane.Disown(o)
		}
	}
	return ctx.Err()
}

// overdue is the error of a call whose time for the store is over.
func (l *RateLimiter) overdue(lease *Lease, p *patience) error {
	for i := range lease.levels {
		if lv := &lease.levels[i]; !lv.skipped() && lv.lane.Quiet(p.began) < leastSilence {
			return &UnavailableError{Op: "acquire", Err: errPatience}
		}
	}
	return l.silence(errPatience)
}

// failAll makes results of one error for every level.
func (l *RateLimiter) failAll(lease *Lease, err error) []*lane.Op {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range ops {
		ops[i] = &lane.Op{Result: lane.Result{Err: err, Unknown: errors.Is(err, errMaybeCharged)}}
	}
	return ops
}

// propose decides every level's write, of a call that was refused so many rounds;
// certain lets no level pass by an image too old to deny from.
func (l *RateLimiter) propose(ctx context.Context, lease *Lease, at place, round int, certain bool) ([]lane.Proposal, error) {
	proposals := make([]lane.Proposal, len(lease.levels))
	for i := range lease.levels {
		lv, p := &lease.levels[i], &proposals[i]
		if lv.skipped() {
			continue
		}
		var err error
		if *p, err = lv.lane.Propose(ctx, lv.cfg, lv.asked, at.rank(), round, certain); err != nil {
			return nil, l.told(lv.lane, err)
		}
	}
	return proposals, nil
}

// committed is what a level was granted by a transaction, which returns no image:
// it is worked out, and the lane reads the bucket before it denies anything.
func (lv *level) committed(p *lane.Proposal, decode func(schema.Item, int) (*schema.Image, error)) lane.Result {
	image := p.View.Image
	if image == nil {
		image, _ = decode(p.Write.Create.Item(), 0) // what was put
	} else {
		image = p.View.After(lv.asked, &p.Write)
	}
	if p.Write.Kind == plan.Claim {
		lv.lane.Drop()
	} else {
		lv.lane.Assume(p.View.Image, image)
	}
	return lane.Result{Image: image, Config: p.View.Config, Now: p.View.Now}
}
