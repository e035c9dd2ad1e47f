package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Reserve sets micros µ$ aside for one call under a label, for at most lease (1 s to 24
// h). The amount counts against every quota until the hold is settled or released, or
// its lease ends. 0 µ$ hold a pico-dollar, so that a quota that is used up has no room
// for it. If there is no room, it gives expired holds back and tries again, and then
// fails with a *QuotaExceededError. Under soft enforcement nothing is held, and the
// answer comes from what is known to be spent. Settle counts as the call's record: do
// not Submit it too.
func (k *Keeper) Reserve(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*Hold, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	return k.charges.reserve(ctx, &Hold{ID: store.NewID(), Org: org, App: app, Label: label, EstimateMicros: micros}, lease)
}

func (c *charges) reserve(ctx context.Context, h *Hold, lease time.Duration) (*Hold, error) {
	if err := validTarget(h.Org, h.App); err != nil {
		return nil, err
	}
	if h.EstimateMicros < 0 || h.EstimateMicros > maxQuota {
		return nil, invalid("micros", "%d µ$ is not within 0 to %d", h.EstimateMicros, int64(maxQuota))
	}
	if lease < minLease || lease > maxLease {
		return nil, invalid("lease", "%v is not within 1 s to 24 h", lease)
	}
	ctx, cancel := c.opts.patience(ctx)
	defer cancel()
	h.charges, h.since = c, c.now()
	held, err := c.reserveOnce(ctx, h, lease)
	if err != nil && unavailable(err) && c.opts.OnUnavailable.Reserve == Allow {
		c.opts.Logger.WarnContext(ctx, "budget: reserved nothing", "error", err)
		return &Hold{
			ID: h.ID, Org: h.Org, App: h.App, Label: h.Label, Model: c.knownModel(h.Org, h.App, h.Label),
			EstimateMicros: h.EstimateMicros, Degraded: true, charges: c, since: h.since, named: h.named,
		}, nil
	}
	return held, err
}

// reserveOrCheck decides by what is spent under soft enforcement, and writes a hold under hard
// enforcement.
func (c *charges) reserveOrCheck(ctx context.Context, h *Hold, lease time.Duration) (*Hold, error) {
	t, err := c.tenants.get(ctx, h.Org, h.App)
	if err != nil {
		return nil, err
	}
	now := c.now()
	p := t.policy(now)
	if !slices.Contains(p.ordering, h.Label) {
		return nil, invalidLabel(h.Label)
	}
	if _, _, err := t.cost(h.Label, Tokens{}, now); err != nil {
		return nil, err
	}
	rule := t.calendar.At(now)
	h.Model, h.Day, h.since = t.model(p, h.Label), t.calendar.Day(now), now
	if err := c.admin.register(ctx, t); err != nil {
		return nil, err
	}
	if rule.Enforcement != Hard {
		if err := c.roomBySpend(ctx, t, h.Label); err != nil {
			return nil, err
		}
		h.Soft = true
		return h, c.nameSoft(ctx, h, now.Add(lease), t.keepHold(rule, h.Day))
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
	if err := c.write(ctx, o); err != nil {
		return nil, asUnavailable("Reserve", err)
	}
	if o.Verdict.Named != nil {
		return nil, &sentBefore{o.Verdict.Named}
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

// noRoom is the error of a reservation that is refused until retryAt; the zero time
// means that it can never fit.
func (c *charges) noRoom(ctx context.Context, t *tenant, retryAt time.Time) error {
	exceeded := &QuotaExceededError{made: c.now()}
	if out, err := c.standing.look(ctx, t, false); out != nil && err == nil {
		exceeded = out.exceeded()
	}
	exceeded.RetryAt = retryAt
	return exceeded
}

// newReservation debits every counter that the label has under hard enforcement at the instant
// of the reservation: the next day may have other rules. Each is bounded by the quotas that are
// set on it.
func (c *charges) newReservation(ctx context.Context, t *tenant, h *Hold, expires time.Time) (*ledger.Operation, error) {
	rule, p := t.calendar.At(h.since), t.policy(h.since)
	reset := t.calendar.Reset(h.since)
	estimate := money.FromMicros(h.EstimateMicros)
	if estimate.IsZero() {
		estimate = money.Of(1) // so that nothing fits at a quota that is used up
	}
	id := h.ID
	if h.named {
		id = store.NewID()
	}
	o := t.account(rule, h.Label, h.Day).Reservation(h.App, id, estimate, expires, t.keepHold(rule, h.Day))
	if h.named {
		o.Named(h.name())
		h.kept = o.Hold.TTL
	}
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

// capByLimits bounds a reservation by the further quotas on its label. If what was spent
// outside a quota's counter leaves no room, it returns when the period of that quota
// ends; the latest of several.
func (c *charges) capByLimits(ctx context.Context, t *tenant, p policy, h *Hold, o *ledger.Operation, reset time.Time) (blocked time.Time, err error) {
	for _, l := range p.limits {
		if l.Label != "" && l.Label != h.Label {
			continue
		}
		outside, err := c.uncountedSpend(ctx, t, l, h.Day)
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

// keepHold is how long a hold of a day is kept at most, as unix seconds: until
// holdMargin after the end of the longest period in which it counts.
func (t *tenant) keepHold(rule calendar.Regime, day string) int64 {
	longest := t.calendar.End(day)
	for _, kind := range rule.Kinds() {
		_, last := calendar.Bounds(kind.Period, day)
		longest = calendar.Latest(longest, t.calendar.End(last))
	}
	return longest.Add(holdMargin).Unix()
}

// uncountedSpend is what was spent in a limit's period on days that its counter does not
// contain.
func (c *charges) uncountedSpend(ctx context.Context, t *tenant, l PeriodQuota, day string) (money.Picos, error) {
	if len(t.calendar.Uncounted(l.limit().Kind(), day)) == 0 {
		return money.Picos{}, nil
	}
	out, err := c.standing.look(ctx, t, false)
	if err != nil {
		return money.Picos{}, err
	}
	return out.board.Uncounted(t.calendar, l.limit(), day).Sum(), nil
}

// knownModel is a label's model as far as it is known without asking the store.
func (c *charges) knownModel(org, app, label string) string {
	if t := c.tenants.last(org, app); t != nil {
		return t.model(t.policy(c.now()), label)
	}
	return c.opts.Models[label]
}
