package budget

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

const (
	minLease   = time.Second
	maxLease   = 24 * time.Hour
	holdMargin = 49 * time.Hour // a hold's ttl after its longest period
	keptLonger = time.Hour      // a record is known after the id of the hold that it settled
)

// Hold is money set aside for one call. Keeper.Reserve and ReserveAs make it, ResumeHold
// and GetHold find it again. Settle ends it with
// what the call cost, Release ends it if the call was not made, and Extend prolongs it.
// If none of them happens, it ends with its lease, and the money is free again. It is
// safe for concurrent use.
type Hold struct {
	ID             string // chosen by Reserve, or given to ReserveAs
	Org, App       string // whose budget it is
	Label          string // the label it was reserved under
	Model          string // the label's model id; of a Degraded hold the last one known, empty when none is
	Day            string // the call is counted on
	EstimateMicros int64  // what was asked for, in µ$
	// Soft says that nothing is held: enforcement is soft and the label had room.
	Soft bool
	// Degraded says that nothing is held because the store did not answer, see
	// OnUnavailable.
	Degraded bool

	charges *charges
	remote  HoldKeeper                  // in the place of charges: it is kept elsewhere
	named   bool                        // its id was chosen by the caller of ReserveAs
	since   time.Time                   // of the reservation: no price from before it holds for the call
	kept    int64                       // until when the id of a named hold is, in unix seconds; 0: not known
	mu      sync.Mutex                  // one of Settle, Release and Extend at a time
	ref     atomic.Pointer[ledger.Hold] // nil when nothing is held; changed under mu
	ended   bool
}

// ExpiresAt is when the lease ends, as far as this process knows; the zero time if
// nothing is held. It does not wait for an Extend that is under way.
func (h *Hold) ExpiresAt() time.Time {
	if h == nil {
		return time.Time{}
	}
	ref := h.ref.Load()
	if ref == nil {
		return time.Time{}
	}
	return time.UnixMilli(ref.ExpireMs)
}

// Settle counts what the call cost, as Submit does, and gives the hold back in the same
// transaction. What was spent beyond the estimate counts too. The record counts on the
// hold's day. A time before the reservation counts as the time of the reservation, so
// that no older price applies. After the lease has ended, the record is counted all the
// same. A Duplicate gives the hold back and counts nothing; ErrConflict leaves the hold,
// to be settled under another request id or released.
func (h *Hold) Settle(ctx context.Context, usage Usage) (Receipt, error) {
	if err := h.usable(ctx); err != nil {
		return Receipt{}, err
	}
	if usage.Label == "" {
		usage.Label = h.Label
	}
	if usage.Label != h.Label {
		return Receipt{}, invalid("model_label", "%q is not the hold's label %q", usage.Label, h.Label)
	}
	if err := usage.Validate(); err != nil {
		return Receipt{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.remote != nil {
		return h.settleRemote(ctx, usage)
	}
	ctx, cancel := h.charges.opts.patience(ctx)
	defer cancel()
	received := h.charges.now()
	ref := h.ref.Load()
	entry := SpooledUsage{Org: h.Org, App: h.App, Usage: usage, Received: received, Hold: spooledHold(ref, h.Day)}
	entry.Hold.Reserved, entry.Hold.Kept = h.since, h.kept
	receipt, err := h.charges.settleHold(ctx, ref, entry)
	receipt, err = h.charges.spoolIfUnavailable(receipt, err, entry)
	if err == nil {
		h.ended = true
	}
	return receipt, err
}

// settleHold counts a record and gives its hold back. ref is nil if nothing was held,
// and the hold's day is empty if it is not known.
func (c *charges) settleHold(ctx context.Context, ref *ledger.Hold, entry SpooledUsage) (Receipt, error) {
	usage, day := entry.Usage, entry.Hold.Day
	t, err := c.tenants.get(ctx, entry.Org, entry.App)
	if err != nil {
		return Receipt{}, err
	}
	at := entry.Received
	if now := c.now(); !usage.Time.IsZero() && !usage.Time.After(now) {
		at = usage.Time
	}
	if since := entry.Hold.Reserved; at.Before(since) {
		at = since
	}
	if day == "" {
		day = t.calendar.Day(at)
	}
	o, refusal := c.newSubmission(t, usage, day, at)
	if refusal != nil {
		receipt, err := c.countedBefore(ctx, t, usage, refusal)
		if err == nil && ref != nil {
			err = c.giveBack(ctx, "Settle", ref)
		}
		return receipt, err
	}
	if err := c.admin.register(ctx, t); err != nil {
		return Receipt{}, err
	}
	o.KeepRecord(time.Unix(entry.Hold.Kept, 0).Add(keptLonger))
	if ref != nil {
		o.Settles(ref)
	}
	if err := c.writeSettlement(ctx, o, ref); err != nil {
		return Receipt{}, asUnavailable("Settle", err)
	}
	return c.receipt(ctx, t, usage.Label, o.Verdict)
}

// writeSettlement writes a settlement. The record stays counted even if a hold that was moved
// cannot be given back: it ends with its lease.
func (c *charges) writeSettlement(ctx context.Context, o *ledger.Operation, ref *ledger.Hold) error {
	if err := c.write(ctx, o); err != nil {
		return err
	}
	if o.Missed() {
		if err := c.giveBackMoved(ctx, ref); err != nil {
			c.opts.Logger.WarnContext(ctx, "budget: giving back a hold that was extended meanwhile", "hold", ref.ID, "error", err)
		}
	}
	return nil
}

// Release gives the hold back because the call was not made. After Settle, after Release
// and after the lease has ended it does nothing. It goes on if ctx is cancelled.
func (h *Hold) Release(ctx context.Context) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ref := h.ref.Load()
	if ref == nil || h.ended {
		return nil
	}
	if h.remote != nil {
		return h.releaseRemote(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledger.WriteTimeout)
	defer cancel()
	if err := h.charges.giveBack(ctx, "Release", ref); err != nil {
		return err
	}
	h.ended = true
	return nil
}

// giveBack releases a hold. It does nothing if that was done already.
func (c *charges) giveBack(ctx context.Context, operation string, ref *ledger.Hold) error {
	o := ledger.GiveBack(ref)
	err := c.write(ctx, o)
	if err == nil && o.Missed() {
		err = c.giveBackMoved(ctx, ref)
	}
	return asUnavailable(operation, err)
}

// giveBackMoved releases a hold that was not where it was looked for: an Extend elsewhere may
// have moved it since it was found. Where it is then is known of those of ReserveAs alone.
func (c *charges) giveBackMoved(ctx context.Context, ref *ledger.Hold) error {
	for {
		moved, err := c.ledger.Moved(ctx, ref)
		if err != nil || moved == nil {
			return err
		}
		o := ledger.GiveBack(moved)
		if err := c.write(ctx, o); err != nil || !o.Missed() {
			return err
		}
		ref = moved
	}
}

// Extend moves the end of the lease to d from now, for a call that takes
// longer. ErrNotFound: the lease had ended and the money was given back.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	if d < minLease || d > maxLease {
		return invalid("lease", "%v is not within 1 s to 24 h", d)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return notFound("hold %s: it was settled or released", h.ID)
	}
	ref := h.ref.Load()
	switch {
	case ref == nil && (h.Soft || h.Degraded):
		return nil
	case ref == nil: // see ResumeHold
		return notFound("hold %s: its lease has ended", h.ID)
	case h.remote != nil:
		return h.extendRemote(ctx, d)
	}
	moved, err := h.charges.extend(ctx, ref, h.charges.now().Add(d))
	h.ref.Store(moved)
	if errors.Is(err, ledger.ErrNoHold) {
		return notFound("hold %s: its lease has ended", h.ID)
	}
	return failure("Extend", err)
}

// extend moves a hold, also one that was moved elsewhere since it was found: by the same
// request, for one, that was sent again before it was answered.
func (c *charges) extend(ctx context.Context, ref *ledger.Hold, expires time.Time) (*ledger.Hold, error) {
	moved, err := c.ledger.Move(ctx, ref, expires)
	if !errors.Is(err, ledger.ErrNoHold) {
		return moved, err
	}
	found, findErr := c.ledger.Find(ctx, ref.Scope, ref.ExpireMs, ref.ID)
	if findErr != nil || found == nil {
		return ref, cmp.Or(findErr, err)
	}
	found.Name = ref.Name
	return c.ledger.Move(ctx, found, expires)
}
