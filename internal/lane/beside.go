package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Beside reads and decides for a bucket outside the lane's own work, from a copy of the lane's sight.
// It belongs to one goroutine.
type Beside struct {
	owner *Registry
	lane  *Lane
	site  site
	known sight
	// returning means that an adjust was queued or in flight, which may give something back.
	returning bool
}

// BesideOf returns a Beside of a lane with a copy of its current sight of the bucket. It notes whether an
// adjust is queued or in flight.
func BesideOf(l *Lane) Beside {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Beside{l.owner, l, l.site(), l.Memory.sight, l.queue.hasAdjusts()}
}

// Tight reports whether amounts would leave less than a tenth of a limit's burst now, by the last image. It is
// false without an image.
func (b *Beside) Tight(amounts []plan.Signed, now int64) bool {
	return b.known.known && b.known.image != nil && plan.Tight(b.known.image, amounts, now)
}

// ReadBucket reads the bucket into its own copy of the sight, and gives the image to the lane if that rests; an
// error changes nothing. It retries a throttled read. It also updates the lane's pause, and logs once that
// another implementation writes the bucket.
func (b *Beside) ReadBucket(ctx context.Context) error {
	l, owner := b.lane, b.owner
	image, asked, err := b.site.ReadPatiently(ctx, b.known.hint())
	if err != nil {
		return err
	}
	if b.known.known && image.ForeignSince(b.known.image) {
		b.site.NoticeForeign()
	}
	b.known.replace(image, asked, owner.NowMS(), owner.Tick)
	if image != nil {
		l.Pause.learn(image.PausedUntil(), owner.NowMS)
	}
	l.Memory.ObserveLook(image, asked)
	return nil
}

// Inspect reads the bucket and returns a view of it under a configuration. It writes nothing to the table. If
// the bucket does not exist, older reads the bucket of the older layout that a call would take over. older may
// be nil, and the lane does not get its image.
func (b *Beside) Inspect(ctx context.Context, cfg *plan.Config, older func(context.Context) (*schema.Image, error)) (plan.View, error) {
	if err := b.ReadBucket(ctx); err != nil {
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

// MarkDenial starts, within 2 s in the background, the write of a mark in the bucket: a quota denied a call in
// a window or, with shadow, would have denied it. It returns at once. It does nothing unless the quota has an
// alert for denials and no mark yet.
func (b *Beside) MarkDenial(limit string, window int64, shadow bool) {
	b.owner.denials.markDenial(b.site, &b.lane.Memory, limit, window, shadow)
}

// view returns the known image under the configuration of a take. It reads the configuration again if the image
// may have a newer one that matters.
func (b *Beside) view(ctx context.Context, o *Op) (plan.View, error) {
	return b.site.View(ctx, &b.known, &batch{takes: o.asList(), cfg: o.cfg}, b.owner.NowMS())
}

// Proposal is one bucket's part of a transaction.
type Proposal struct {
	// View is the basis of the proposal, Write the decision and Rows its effect on each limit.
	View  plan.View
	Write plan.Write
	Rows  plan.Rows
	// Beyond is the part that exceeds limits in shadow: it is counted and not charged.
	Beyond []plan.Signed
	// Model is the counter by model that the take moves.
	Model plan.Model
	// Waits means that the take does not fit next to Left, the amounts left to waiters. Then Write is
	// empty.
	Waits bool
	Left  plan.Promises
	// Returning means that a give-back to the bucket was in flight, which the view lacks.
	Returning bool
}

// Propose returns a take's part of a transaction, and sends no write; Waits means that it does not fit. It
// reads the bucket if a denial, or with certain any proposal, would be from an image older than a second.
// refused is the number of refusals of the call.
func (b *Beside) Propose(ctx context.Context, cfg *plan.Config, amounts []plan.Signed, model plan.Model, by Caller, refused int, certain bool) (Proposal, error) {
	o := NewTake(ctx, amounts, cfg)
	o.Refusals, o.Model, o.Batch = refused, model, by.Batch
	v, err := b.recentView(ctx, o, certain)
	if err != nil {
		return Proposal{}, err
	}
	rules := plan.Rules{Crowding: b.known.crowding}
	var left plan.Promises
	r := v.Reading()
	r.Batch = by.Batch
	if left = b.lane.Memory.LeftTo(by.Rank, r); left != nil {
		rules.Left = func(int) plan.Promises { return left }
	}
	d := plan.Decide(v, []*plan.Ask{&o.Ask}, nil, rules)
	if v.Config.Quotas || v.Image != nil && v.Image.Set.Quotas {
		d.Write.SetMoney(v.Money(&d.Write, d.Rows, []*plan.Ask{&o.Ask}, b.owner.Models.areForbidden()))
	}
	return Proposal{View: v, Write: d.Write, Rows: d.Rows, Beyond: o.Down, Model: o.Model, Waits: o.Fate == plan.Denied, Left: left, Returning: b.returning}, nil
}

// recentView returns the bucket under the configuration of a take. It reads the bucket first without a known
// image, or if that is old and does not fit the take, is nearly empty, or certain is set. It returns a *Failure
// with the reason Outdated for a limit that does not exist.
func (b *Beside) recentView(ctx context.Context, o *Op, certain bool) (plan.View, error) {
	for look := !b.known.known || b.known.isWary(o.asList(), 0, b.owner.NowMS()); ; look = true {
		if look {
			if err := b.ReadBucket(ctx); err != nil {
				return plan.View{}, err
			}
		}
		v, err := b.view(ctx, o)
		if missing := v.Missing(o.Amounts); err == nil && missing != "" {
			err = &Failure{Reason: Outdated, Limit: missing}
		}
		if err != nil || look || b.known.fresh(v.Now) || !certain && v.Fits(o.Amounts, nil, o.Batch, nil) {
			return v, err
		}
	}
}

// Due returns the wait in ms until a waiter's amounts fit after those of the waiters before it. It is 0 if they never
// fit, because a try tells that. known is false if the last image is too old to say, or was written under another
// configuration.
func (b *Beside) Due(w *Waiter, now int64) (wait int64, known bool) {
	if !b.known.known || !b.known.fresh(now) {
		return 0, false
	}
	return LineOf(b.lane, w.batch).due(w, b.known.image, b.owner.SureMS(), now)
}

// NextTry returns the instants at which a head next tries, and next reads the bucket. Its amounts are there at
// exact, and looked is its last read. A head that does not compete reads more rarely the longer no other
// process has used the bucket, at most every rarely.
func (b *Beside) NextTry(w *Waiter, exact, looked time.Time, rarely time.Duration, now time.Time) (try, look time.Time) {
	if b.known.known {
		if heard := time.UnixMilli(b.known.crowding.Heard); heard.After(looked) {
			looked = heard
		}
		if at, next, ok := LineOf(b.lane, w.batch).nextTry(w, b.known.image, b.knownCalls(now), milliseconds(exact), milliseconds(looked), milliseconds(now)); ok {
			return instant(at), instant(next)
		}
	}
	if b.known.shared > 0 {
		quiet := time.Duration(now.UnixMilli()-b.known.shared) * time.Millisecond
		rarely = max(leastLook, min(rarely, quiet/looksPerQuiet))
	}
	return exact, looked.Add(rarely)
}

// knownCalls returns the mean duration of this process's calls in ms, and whether other processes use the
// bucket. It is empty for a bucket without slots.
func (b *Beside) knownCalls(now time.Time) (c plan.Calls) {
	if b.known.image != nil && b.known.image.Set.Slots {
		c.Mean = b.owner.SlotsOf(b.lane).meanCall()
		c.Shared = plan.IsShared(b.known.shared, now.UnixMilli())
	}
	return c
}

const (
	// leastLook is the least time between two looks of a head that does not compete.
	leastLook = time.Second
	// looksPerQuiet is the number of looks in the time since another process used the bucket.
	looksPerQuiet = 30
)

// RecordLoss records in the line that a waiter's try outside the lane came too late, because others were first.
// It resets the waiter's next try, and may give it a note to leave.
func (b *Beside) RecordLoss(w *Waiter, now time.Time) {
	LineOf(b.lane, w.batch).recordLoss([]*Waiter{w}, b.known.image, milliseconds(now))
}

// LeaveNote writes the waiter's pending note, once, to the item, if that still has the note seen before; else
// it does nothing. A resting lane gets the answer's image. If the role forbids notes, the bucket's lines leave
// none for ten minutes.
func (b *Beside) LeaveNote(ctx context.Context, w *Waiter) {
	n := LineOf(b.lane, w.batch).takeNote(w)
	if n == nil {
		return
	}
	asked := b.owner.Ask()
	a := b.owner.Store.Update(ctx, b.site.Key(), schema.LeaveNote(n.note, n.seen, w.batch), b.known.hint(), b.owner.IDs.Slot)
	switch {
	case a.Err == nil:
		b.site.Contact.NoteAnswer()
	case ddb.DeniesAccess(a.Err):
		b.lane.extra.loadOrMake().muteNotes(float64(b.owner.NowMS()))
	}
	if a.Seen {
		b.lane.Memory.Observe(a.Image, asked)
	}
}

// Disputed reports whether the bucket again has limits of other callers under which the waiter has already
// tried. It is false at the first such limits, which it stores in the waiter, and if no image is known.
func (b *Beside) Disputed(w *Waiter) bool {
	return b.known.known && LineOf(b.lane, w.batch).disputed(w, b.known.image)
}

// LastResult returns the result of a call that the policy Allow admits without the bucket: the lane's last image,
// however old, marked Degraded. It is empty without an image.
func (b *Beside) LastResult(cfg *plan.Config) Result {
	if !b.known.known || b.known.image == nil {
		return Result{}
	}
	return Result{Image: b.known.image, Config: cfg, Now: b.owner.NowMS(), Degraded: true}
}

// BookSlots counts the slots that a committed transaction took from the bucket as open, and adds their windows
// to r. It sets the timer that renews them.
func (b *Beside) BookSlots(r *Result, rows plan.Rows) {
	b.owner.SlotsOf(b.lane).grantTogether(r, rows)
}

// SlotWait returns an estimate, in ms, of the time until one of a limit's n slots, in thousandths, is free. The
// estimate is 1000 before a call has ended, and else from 50 to the hold.
func (b *Beside) SlotWait(limit string, n int64) int64 {
	return b.owner.SlotsOf(b.lane).wait(limit, n)
}

// SlotsNow returns the window of slots of calls that begin now.
func (b *Beside) SlotsNow() bucket.WindowID { return bucket.SlotsSince(secondAt(b.site.elapsed())) }
