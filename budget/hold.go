package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

const (
	minLease   = time.Second
	maxLease   = 24 * time.Hour
	holdMargin = 49 * time.Hour // a hold's ttl after its longest period
)

// Hold is money set aside for one call. Settle or Release ends it; if neither
// happens, it ends with its lease, and the money is free again. It is safe for
// concurrent use.
type Hold struct {
	ID             string // chosen by Reserve
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
	since   time.Time                   // of the reservation: no price from before it holds for the call
	mu      sync.Mutex                  // one of Settle, Release and Extend at a time
	ref     atomic.Pointer[ledger.Hold] // nil when nothing is held; changed under mu
	end     bool
}

// Reserve sets micros µ$ aside for one call under a label, for at most lease
// (1 s to 24 h): the amount counts against every quota until the hold is
// settled, released, or its lease ends; 0 µ$ hold a pico-dollar, which a quota
// that is used up has no room for. No room: *QuotaExceededError, after
// expired holds were given back. Under soft enforcement nothing is held and
// the answer comes from what is known to be spent. Settle counts as the call's
// record: do not Submit it too.
func (k *Keeper) Reserve(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*Hold, error) {
	return k.charges.reserve(ctx, org, app, label, micros, lease)
}

func (c *charges) reserve(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*Hold, error) {
	if err := validTarget(org, app); err != nil {
		return nil, err
	}
	if micros < 0 || micros > maxQuota {
		return nil, invalid("micros", "%d µ$ is not within 0 to %d", micros, int64(maxQuota))
	}
	if lease < minLease || lease > maxLease {
		return nil, invalid("lease", "%v is not within 1 s to 24 h", lease)
	}
	ctx, cancel := c.opts.patience(ctx)
	defer cancel()
	now := c.now()
	h, err := c.setAside(ctx, org, app, label, micros, lease)
	if err != nil && unavailable(err) && c.opts.OnUnavailable.Reserve == Allow {
		c.opts.Logger.WarnContext(ctx, "budget: reserved nothing", "error", err)
		return &Hold{
			ID: store.NewID(), Org: org, App: app, Label: label, Model: c.modelInHand(org, app, label),
			EstimateMicros: micros, Degraded: true, charges: c, since: now,
		}, nil
	}
	return h, err
}

// setAside decides by what is spent under soft enforcement, and writes a hold under
// hard.
func (c *charges) setAside(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*Hold, error) {
	t, err := c.tenants.get(ctx, org, app)
	if err != nil {
		return nil, err
	}
	now := c.now()
	p := t.policy(now)
	if !slices.Contains(p.ordering, label) {
		return nil, invalidLabel(label)
	}
	if _, _, err := t.cost(label, Tokens{}, now); err != nil {
		return nil, err
	}
	day, rule := t.calendar.Day(now), t.calendar.At(now)
	h := &Hold{
		ID: store.NewID(), Org: org, App: app, Label: label, Model: t.model(p, label), Day: day, EstimateMicros: micros, charges: c, since: now,
	}
	if err := c.admin.register(ctx, t); err != nil {
		return nil, err
	}
	if rule.Enforcement != Hard {
		if err := c.roomBySpend(ctx, t, label); err != nil {
			return nil, err
		}
		h.Soft = true
		return h, nil
	}
	o, err := c.newReservation(ctx, t, h, now.Add(lease))
	if err != nil {
		return nil, err
	}
	b := c.ledger.Board(t.org, o.Scope)
	if b.Refuses(o, now) {
		return nil, c.noRoom(ctx, t, b.RoomAt(o))
	}
	h.ref.Store(o.Hold)
	if err := c.ledger.Write(ctx, o); err != nil {
		return nil, asUnavailable("Reserve", err)
	}
	if o.Verdict.NoRoom {
		return nil, c.noRoom(ctx, t, b.RoomAt(o))
	}
	return h, nil
}

// roomBySpend admits by what is known to be spent.
func (c *charges) roomBySpend(ctx context.Context, t *tenant, label string) error {
	out, err := c.standing.look(ctx, t, false)
	if err != nil {
		return err
	}
	if out.override && out.labels[out.index].label == label {
		return nil // forced, whatever was spent
	}
	if l, ok := out.label(label); !ok || !l.selectable(out.tight) {
		return c.standing.exceeded(ctx, out)
	}
	return nil
}

// noRoom is the error of a reservation refused until an instant; the zero time
// says that it can never fit.
func (c *charges) noRoom(ctx context.Context, t *tenant, retryAt time.Time) error {
	exceeded := &QuotaExceededError{made: c.now()}
	if out, err := c.standing.look(ctx, t, false); out != nil && err == nil {
		exceeded = out.exceeded()
	}
	exceeded.RetryAt = retryAt
	return exceeded
}

// newReservation debits every counter the label has under hard enforcement,
// bounded by the quotas that are set on them.
func (c *charges) newReservation(ctx context.Context, t *tenant, h *Hold, expires time.Time) (*ledger.Operation, error) {
	now := c.now()
	rule, p := t.calendar.At(now), t.policy(now)
	reset := t.calendar.Reset(now)
	estimate := money.FromMicros(h.EstimateMicros)
	if estimate.IsZero() {
		estimate = money.Of(1) // so that nothing fits at a quota that is used up
	}
	o := t.account(rule, h.Label, h.Day).Reservation(h.ID, estimate, expires, t.keepHold(rule, h.Day))
	quota := money.FromMicros(p.quotas[h.Label])
	o.Cap(ledger.LabelDay(o.Scope, h.Label, h.Day), quota, reset)
	blocked, err := c.capByLimits(ctx, t, p, h, o, reset)
	if err != nil {
		return nil, err
	}
	if estimate.Cmp(quota) > 0 {
		return nil, c.noRoom(ctx, t, time.Time{})
	}
	if !blocked.IsZero() {
		return nil, c.noRoom(ctx, t, blocked)
	}
	return o, nil
}

// capByLimits bounds a reservation by the further quotas on its label. Where what
// was spent outside a quota's counter leaves no room, it returns the end of that
// quota's period, the last of several.
func (c *charges) capByLimits(ctx context.Context, t *tenant, p policy, h *Hold, o *ledger.Operation, reset time.Time) (blocked time.Time, err error) {
	for _, l := range p.limits {
		if l.Label != "" && l.Label != h.Label {
			continue
		}
		outside, err := c.outside(ctx, t, l, h.Day)
		if err != nil {
			return time.Time{}, err
		}
		quota, end := money.FromMicros(l.Micros), t.calendar.PeriodEnd(l.Period, h.Day, reset)
		bound := quota.Sub(outside)
		o.Cap(l.limit().Ref(o.Scope, h.Day), bound, end)
		switch { // whether it is counted yet or from the next day on
		case o.Hold.Estimate.Cmp(quota) > 0:
			return time.Time{}, c.noRoom(ctx, t, time.Time{})
		case o.Hold.Estimate.Cmp(bound) > 0:
			blocked = calendar.Latest(blocked, end)
		}
	}
	return blocked, nil
}

// keepHold is until when a hold of a day is kept at most, in unix seconds: holdMargin
// after the longest period it counts in.
func (t *tenant) keepHold(rule calendar.Regime, day string) int64 {
	longest := t.calendar.End(day)
	for _, kind := range rule.Kinds() {
		_, last := calendar.Bounds(kind.Period, day)
		longest = calendar.Latest(longest, t.calendar.End(last))
	}
	return longest.Add(holdMargin).Unix()
}

// outside is what a limit's period spent on days that are not in its counter.
func (c *charges) outside(ctx context.Context, t *tenant, l PeriodQuota, day string) (money.Picos, error) {
	if len(t.calendar.Uncounted(l.limit().Kind(), day)) == 0 {
		return money.Picos{}, nil
	}
	out, err := c.standing.look(ctx, t, false)
	if err != nil {
		return money.Picos{}, err
	}
	return out.board.Uncounted(t.calendar, l.limit(), day).Sum(), nil
}

// ExpiresAt is when the lease ends, as far as is known; the zero time when
// nothing is held. It does not wait for an Extend that is under way.
func (h *Hold) ExpiresAt() time.Time {
	ref := h.ref.Load()
	if ref == nil {
		return time.Time{}
	}
	return time.UnixMilli(ref.ExpireMs)
}

// Settle counts what the call cost, as Submit does, and gives the hold back in
// the same transaction; what was spent beyond the estimate counts too. The
// record belongs to the hold's day, and a time before the reservation counts as
// the reservation's: no older price holds. After the lease it counts all the same. A
// Duplicate gives the hold back and counts nothing; ErrConflict leaves it, to be
// settled under another request id or released.
func (h *Hold) Settle(ctx context.Context, usage Usage) (Receipt, error) {
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
	ctx, cancel := h.charges.opts.patience(ctx)
	defer cancel()
	received := h.charges.now()
	ref := h.ref.Load()
	receipt, err := h.charges.settleHold(ctx, h.Org, h.App, ref, h.Day, h.since, usage, received)
	entry := SpooledUsage{Org: h.Org, App: h.App, Usage: usage, Received: received, Hold: spooledHold(ref, h.Day)}
	entry.Hold.Reserved = h.since
	receipt, err = h.charges.orSpool(receipt, err, entry)
	if err == nil {
		h.end = true
	}
	return receipt, err
}

// settleHold counts a record in place of a hold of since; ref is nil when
// nothing was held, day empty when it is not known.
func (c *charges) settleHold(ctx context.Context, org, app string, ref *ledger.Hold, day string, since time.Time, usage Usage, received time.Time) (Receipt, error) {
	t, err := c.tenants.get(ctx, org, app)
	if err != nil {
		return Receipt{}, err
	}
	at := received
	if now := c.now(); !usage.Time.IsZero() && !usage.Time.After(now) {
		at = usage.Time
	}
	if at.Before(since) {
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
	if ref != nil {
		o.Settles(ref)
	}
	if err := c.ledger.Write(ctx, o); err != nil {
		return Receipt{}, asUnavailable("Settle", err)
	}
	return c.receipt(ctx, t, usage.Label, o.Verdict)
}

// Release gives the hold back: the call did not happen. After Settle, after
// Release and after the lease it does nothing. It goes on when ctx is
// cancelled.
func (h *Hold) Release(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ref := h.ref.Load()
	if ref == nil || h.end {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledger.WriteTimeout)
	defer cancel()
	if err := h.charges.giveBack(ctx, "Release", ref); err != nil {
		return err
	}
	h.end = true
	return nil
}

// giveBack releases a hold, which does nothing where it was done.
func (c *charges) giveBack(ctx context.Context, operation string, ref *ledger.Hold) error {
	return asUnavailable(operation, c.ledger.Write(ctx, ledger.GiveBack(ref)))
}

// Extend moves the end of the lease to d from now, for a call that takes
// longer. ErrNotFound: the lease had ended and the money was given back.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	if d < minLease || d > maxLease {
		return invalid("lease", "%v is not within 1 s to 24 h", d)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end {
		return notFound("hold %s: it was settled or released", h.ID)
	}
	ref := h.ref.Load()
	if ref == nil {
		return nil
	}
	moved, err := h.charges.ledger.Move(ctx, ref, h.charges.now().Add(d))
	h.ref.Store(moved)
	if errors.Is(err, ledger.ErrNoHold) {
		return notFound("hold %s: its lease has ended", h.ID)
	}
	return failure("Extend", err)
}

// modelInHand is a label's model as far as it is known without the store.
func (c *charges) modelInHand(org, app, label string) string {
	if t, ok := c.tenants.cache.Peek(store.Key{PK: org, SK: app}); ok {
		return t.model(t.policy(c.now()), label)
	}
	return c.opts.Models[label]
}
