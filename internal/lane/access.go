package lane

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// access reads one bucket and its configuration. It changes nothing of its lane but the contact.
type access struct {
	store            Store
	configs          Configs
	entity, resource string
	key              schema.Item
	slot             int
	contact          *Contact
	// nowMS is the time in Unix ms, and sureMS the latest time that has surely passed by DynamoDB's
	// clock. ask returns the instant and order of a request.
	nowMS, sureMS func() int64
	ask           func() Asked
}

// read reads the bucket. asked is the instant and order of the request.
func (a access) read(ctx context.Context, hint *schema.LimitSet) (image *schema.Image, asked Asked, err error) {
	asked = a.ask()
	image, err = a.store.Read(ctx, a.key, hint, a.slot)
	if heard(err) {
		a.contact.NoteAnswer()
	}
	return image, asked, err
}

// readPatiently reads for a caller that cannot come back to the bucket later. It retries a throttled
// read as often as a write.
func (a access) readPatiently(ctx context.Context, hint *schema.LimitSet) (image *schema.Image, asked Asked, err error) {
	for try := range MaxTries {
		image, asked, err = a.read(ctx, hint)
		if !throttling(err) || !Backoff.Pause(ctx, try) {
			break
		}
	}
	return image, asked, err
}

// turnMS is the time for which callers that give an entity another plan accept the limits in the
// bucket, in ms.
const turnMS = 1000

// view applies the batch's configuration to the known image. It reads the configuration again if the
// image may have a newer one that matters. If that read gets no answer, the bucket's own parameters
// decide, as if its configuration were newer.
func (a access) view(ctx context.Context, known *sight, b *batch) (plan.View, error) {
	cfg := b.config()
	if cfg != nil && cfg.Origin != nil && cfg.Origin.Phase != nil { // it may have raises that have ended
		cfg = cfg.AsOf(known.image)
	}
	missing := b.chargesUnknownLimit(known.image, cfg)
	st := a.standing(known, b, cfg, missing)
	if st == plan.Unsure || missing && (st == plan.Older || st == plan.Early) {
		current, err := a.reread(ctx, b)
		switch {
		case err == nil:
			cfg = current.AsOf(known.image)
			st, missing = known.compare(cfg), b.chargesUnknownLimit(known.image, cfg)
		case missing || ctx.Err() != nil || !errors.Is(err, fault.ErrUnavailable):
			return plan.View{}, err
		default:
			st = plan.Older
		}
	}
	if brings := missing && (st == plan.Current || st == plan.Early); brings || known.image == nil {
		st = plan.Newer
	}
	v := plan.View{Image: known.image, Config: cfg, Adopt: st == plan.Newer, Now: plan.DecidedAt(known.image, cfg, a.sureMS, a.nowMS())}
	if v.Adopt {
		if waiting, wait := v.Overfull(); waiting != nil {
			return v, &Failure{Reason: Overfull, Configured: len(cfg.Limits), Waiting: waiting, Wait: wait}
		}
	}
	return v, nil
}

// standing compares a configuration with the image before a new read. missing means that the batch
// charges a limit that the bucket lacks.
func (a access) standing(known *sight, b *batch, cfg *plan.Config, missing bool) plan.Standing {
	st := plan.Compare(known.image, cfg, known.seenTick)
	switch {
	case !missing && b.adjustsOnly(known):
		return plan.Older // an adjust charges the bucket as it is; takes bring the configuration
	case st == plan.Rival && (missing || known.seenFor(a.nowMS()) >= turnMS):
		return plan.Newer
	case st == plan.Rival: // to read it again would find the same
		return plan.Older
	case st == plan.Older:
		a.configs.Forget(a.entity, a.resource, cfg.OfGroup())
	}
	return st
}

// reread reads the configuration again and gives it to the batch's takes. It returns nil, for adjusts,
// if nothing limits the bucket any more.
func (a access) reread(ctx context.Context, b *batch) (*plan.Config, error) {
	cfg, err := a.configs.Reread(ctx, a.entity, a.resource, b.config().OfGroup())
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
