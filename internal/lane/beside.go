package lane

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Beside looks at a bucket, and decides, beside the lane's own work: from a copy of what the
// lane knew when it was made. It belongs to one goroutine.
type Beside struct {
	lane  *Lane
	known sight
	// returning means that an adjust was on its way, which may give something back.
	returning bool
}

// BesideOf returns what is known of a lane's bucket now.
func BesideOf(l *Lane) Beside {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Beside{l, l.sight, l.queue.givesBack()}
}

// Tight reports whether the bucket may well deny amounts now, as last seen.
func (b *Beside) Tight(amounts []plan.Signed, now int64) bool {
	return b.known.known && b.known.image != nil && plan.Tight(b.known.image, amounts, now)
}

// Look reads the bucket, and tells the lane.
func (b *Beside) Look(ctx context.Context) error {
	l := b.lane
	image, asked, err := l.owner.access(l).readPatiently(ctx, b.known.hint())
	if err != nil {
		return err
	}
	if b.known.known && image.ForeignSince(b.known.image) {
		l.owner.noticeForeign(l)
	}
	b.known.replace(image, asked, l.owner.NowMS(), l.owner.Tick)
	if image != nil {
		l.Pause.learn(image.PausedUntil(), l.owner.NowMS)
	}
	l.Observe(image, asked)
	return nil
}

// Inspect reads the bucket and puts it under a configuration. It writes nothing. If there is
// no bucket, older reads the one that a call would find in its place, and the lane hears
// nothing of it. A nil older reads nothing.
func (b *Beside) Inspect(ctx context.Context, cfg *plan.Config, older func(context.Context) (*schema.Image, error)) (plan.View, error) {
	if err := b.Look(ctx); err != nil {
		return plan.View{}, err
	}
	if b.known.image == nil && older != nil {
		image, err := older(ctx)
		if err != nil {
			return plan.View{}, err
		}
		b.known.image = image
	}
	return b.view(ctx, NewTake(ctx, nil, cfg))
}

// view puts what is known under the configuration of a take.
func (b *Beside) view(ctx context.Context, o *Op) (plan.View, error) {
	return b.lane.owner.access(b.lane).view(ctx, &b.known, &batch{takes: o.asList()})
}

// Proposal is one bucket's part of a transaction.
type Proposal struct {
	// View is what the proposal was decided from, Write the decision and Rows what it does to each
	// limit.
	View  plan.View
	Write plan.Write
	Rows  plan.Rows
	// Beyond is what limits in shadow do not have: it is counted and not charged.
	Beyond []plan.Signed
	// Waits means that the take does not fit beside Left, what is left to waiters. There
	// is no Write then.
	Waits bool
	Left  plan.Promises
	// Returning means that something was on its way back to the bucket, which the view lacks.
	Returning bool
}

// Propose decides how to charge the bucket together with others: for a caller of a rank
// whose call was refused so many times. A denial needs an image no older than a second, and
// so does what is to be certain.
func (b *Beside) Propose(ctx context.Context, cfg *plan.Config, amounts []plan.Signed, rank uint64, refused int, certain bool) (Proposal, error) {
	o := NewTake(ctx, amounts, cfg)
	o.Refusals = refused
	v, err := b.recent(ctx, o, certain)
	if err != nil {
		return Proposal{}, err
	}
	rules := plan.Rules{Crowding: b.known.crowding}
	var left plan.Promises
	if b.lane.Line.Waited() {
		left = b.lane.Line.LeftTo(rank, v.Reading())
		rules.Left = func(int) plan.Promises { return left }
	}
	d := plan.Decide(v, []*plan.Ask{&o.Ask}, nil, rules)
	return Proposal{View: v, Write: d.Write, Rows: d.Rows, Beyond: o.Down, Waits: o.Fate == plan.Denied, Left: left, Returning: b.returning}, nil
}

// recent puts a recent image of the bucket under the configuration of a take.
func (b *Beside) recent(ctx context.Context, o *Op, certain bool) (plan.View, error) {
	for look := !b.known.known || b.known.wary(o.asList(), 0, b.lane.owner.NowMS()); ; look = true {
		if look {
			if err := b.Look(ctx); err != nil {
				return plan.View{}, err
			}
		}
		v, err := b.view(ctx, o)
		if missing := v.Missing(o.Amounts); err == nil && missing != "" {
			err = &Failure{Reason: Outdated, Limit: missing}
		}
		if err != nil || look || b.known.fresh(v.Now) || !certain && v.Fits(o.Amounts, nil, nil) {
			return v, err
		}
	}
}

// Due is how long a waiter has to wait, in ms, until its amounts fit after the waiters
// before it have been served. known is false if the last image is too old to say, or was
// written under another configuration.
func (b *Beside) Due(w *Waiter, now int64) (wait int64, known bool) {
	if !b.known.known || !b.known.fresh(now) {
		return 0, false
	}
	return b.lane.Line.due(w, b.known.image, b.lane.owner.SureMS(), now)
}

// Disputed reports whether the bucket is again under limits of other callers that the
// waiter has already tried under.
func (b *Beside) Disputed(w *Waiter) bool {
	return b.known.known && b.lane.Line.disputed(w, b.known.image)
}

// Memory is the bucket as the lane last saw it, however long ago.
func (b *Beside) Memory(cfg *plan.Config) Result {
	if !b.known.known || b.known.image == nil {
		return Result{}
	}
	return Result{Image: b.known.image, Config: cfg, Now: b.lane.owner.NowMS(), Degraded: true}
}
