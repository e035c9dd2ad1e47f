package lane

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// read reads the bucket, and says when it was asked to.
func (l *Lane) read(ctx context.Context, hint *schema.LimitSet) (image *schema.Image, asked Asked, err error) {
	asked = l.owner.Ask()
	image, err = l.owner.Store.Read(ctx, l.Key(), hint, l.owner.IDs.Slot)
	if heard(err) {
		l.Contact.Hear()
	}
	return image, asked, err
}

// readPatiently is read for who cannot leave the bucket and come back: a read that is
// throttled is sent again, as often as a write.
func (l *Lane) readPatiently(ctx context.Context, hint *schema.LimitSet) (image *schema.Image, asked Asked, err error) {
	for try := range MaxTries {
		image, asked, err = l.read(ctx, hint)
		if !throttling(err) || !Backoff.Pause(ctx, try) {
			break
		}
	}
	return image, asked, err
}

// look reads the bucket for the lane. Only the running goroutine may call it.
func (l *Lane) look(ctx context.Context) error {
	image, asked, err := l.read(ctx, l.sight.hint())
	if err == nil {
		l.learn(image, asked, nil)
	}
	return err
}

// lookBeside reads the bucket into a copy of what the lane knows, and tells the
// lane.
func (l *Lane) lookBeside(ctx context.Context, known *sight) error {
	image, asked, err := l.readPatiently(ctx, known.hint())
	if err != nil {
		return err
	}
	if known.known && image.ForeignSince(known.image) {
		l.noticeForeign()
	}
	known.replace(image, asked, l.owner.NowMS(), l.owner.Tick)
	l.Observe(image, asked)
	return nil
}

// Inspect reads the bucket and puts it under a configuration. It writes nothing.
func (l *Lane) Inspect(ctx context.Context, cfg *plan.Config) (plan.View, error) {
	known := l.snapshot()
	if err := l.lookBeside(ctx, &known); err != nil {
		return plan.View{}, err
	}
	return l.view(ctx, &known, batch{takes: []*Op{{take: true, cfg: cfg}}}, nil)
}

// Proposal is one bucket's part of a transaction.
type Proposal struct {
	// View is what the proposal was decided from, Write the decision and Sums the
	// amounts it takes.
	View  plan.View
	Write plan.Write
	Sums  plan.Sums
	// Waits means that the take does not fit beside Left, what is left to waiters. There
	// is no Write then.
	Waits bool
	Left  plan.Promises
}

// Propose decides how to charge the bucket together with others, beside the
// lane's own work: for a caller of a rank whose call was refused so many times.
// A denial needs an image no older than a second, and so does what is to be
// certain.
func (l *Lane) Propose(ctx context.Context, cfg *plan.Config, amounts []plan.Signed, rank uint64, refused int, certain bool) (Proposal, error) {
	o := &Op{take: true, Amounts: amounts, cfg: cfg, Rank: rank, refusals: refused}
	known, v, err := l.viewFor(ctx, o, certain)
	if err != nil {
		return Proposal{}, err
	}
	d := choose(&known, v, queue{takes: o.asList(), heads: l.Line.heads()})
	return Proposal{View: v, Write: d.write, Sums: d.sums, Waits: len(d.left) > 0, Left: d.promised}, nil
}

// viewFor puts a recent image of the bucket under the configuration of a take.
func (l *Lane) viewFor(ctx context.Context, o *Op, certain bool) (sight, plan.View, error) {
	known, b := l.snapshot(), batch{takes: o.asList()}
	for look := !known.known || known.wary(b.takes, l.owner.NowMS()); ; look = true {
		if look {
			if err := l.lookBeside(ctx, &known); err != nil {
				return known, plan.View{}, err
			}
		}
		v, err := l.view(ctx, &known, b, nil)
		if err == nil && v.Lacks(o.Amounts) {
			err = outdated(v, o.Amounts)
		}
		if err != nil || look || known.fresh(v.Now) || !certain && v.Fits(o.Amounts, nil, nil) {
			return known, v, err
		}
	}
}

// view puts what is known of the bucket under the batch's configuration. It reads the
// configuration again if the image may hold a newer one that matters. If that read brings
// no answer, the bucket's own parameters decide, as if its configuration were newer.
func (l *Lane) view(ctx context.Context, known *sight, b batch, s plan.Sums) (plan.View, error) {
	cfg := b.config()
	st := plan.Compare(known.image, cfg, known.seenTick)
	missing := b.chargesUnknownLimit(known.image, s, cfg)
	if !missing && b.adjustsOnly(known) {
		st = plan.Older // an adjust charges what is there; configuration comes with takes
	} else if st == plan.Older {
		l.owner.Store.ForgetConfig(l.Entity, l.Resource)
	}
	if st == plan.Unsure || st == plan.Older && missing {
		current, err := l.reread(ctx, b)
		switch {
		case err == nil:
			cfg = current
			st, missing = known.compare(cfg), b.chargesUnknownLimit(known.image, s, cfg)
		case missing || ctx.Err() != nil || !errors.Is(err, problem.ErrUnavailable):
			return plan.View{}, err
		default:
			st = plan.Older
		}
	}
	if brings := missing && st == plan.Current; brings || known.image == nil {
		st = plan.Newer
	}
	v := plan.NewView(known.image, cfg, st, l.owner.NowMS())
	if waiting, wait := v.Overfull(); waiting != nil {
		return v, &Failure{Reason: Overfull, Configured: len(cfg.Limits), Waiting: waiting, Wait: wait}
	}
	return v, nil
}

// reread reads the configuration again and puts the batch under it. It returns nil, for
// adjusts, if nothing limits the bucket any more.
func (l *Lane) reread(ctx context.Context, b batch) (*plan.Config, error) {
	cfg, err := l.owner.Store.RereadConfig(ctx, l.Entity, l.Resource)
	if err != nil {
		return nil, err
	}
	if cfg == nil && len(b.takes) > 0 {
		return nil, &Failure{Reason: Unlimited}
	}
	for _, o := range b.takes {
		o.cfg = cfg
	}
	return cfg, nil
}

// config is the configuration that the batch is decided under: that of the takes, or of
// the last adjust if there are none.
func (b *batch) config() *plan.Config {
	if len(b.takes) > 0 {
		return b.takes[0].cfg
	}
	return b.adjusts[len(b.adjusts)-1].cfg
}

// adjustsOnly reports whether the batch only adjusts a bucket that a client of this
// library wrote.
func (b *batch) adjustsOnly(known *sight) bool { return len(b.takes) == 0 && known.whole() }

// chargesUnknownLimit reports whether the batch charges a configured limit that the
// image does not have.
func (b *batch) chargesUnknownLimit(image *schema.Image, s plan.Sums, cfg *plan.Config) bool {
	lacks := func(name string) bool {
		return cfg.Index(name) >= 0 && (image == nil || image.Set.Index(name) < 0 || image.Limits[image.Set.Index(name)].Ghost)
	}
	for _, n := range s {
		if n.Adjust > 0 && lacks(n.Name) {
			return true
		}
	}
	for _, o := range b.takes {
		for _, a := range o.Amounts {
			if lacks(a.Name) {
				return true
			}
		}
	}
	return false
}

// outdated is the failure of amounts that name a limit which does not exist any more.
func outdated(v plan.View, amounts []plan.Signed) *Failure {
	f := &Failure{Reason: Outdated}
	for _, a := range amounts {
		if _, known := v.Room(a.Name, 0); !known {
			f.Limit = a.Name
			break
		}
	}
	return f
}
