package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
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

	k     *Keeper
	since time.Time               // of the reservation: no price from before it holds for the call
	mu    sync.Mutex              // one of Settle, Release and Extend at a time
	ref   atomic.Pointer[holdRef] // nil when nothing is held; changed under mu
	end   bool
}

// Reserve sets micros µ$ aside for one call under a label, for at most lease
// (1 s to 24 h): the amount counts against every quota until the hold is
// settled, released, or its lease ends; 0 µ$ hold a pico-dollar, which a quota
// that is used up has no room for. No room: *QuotaExceededError, after
// expired holds were given back. Under soft enforcement nothing is held and
// the answer comes from what is known to be spent. Settle counts as the call's
// record: do not Submit it too.
func (k *Keeper) Reserve(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*Hold, error) {
	if err := validTarget(org, app); err != nil {
		return nil, err
	}
	if micros < 0 || micros > maxQuota {
		return nil, invalid("micros", "%d µ$ is not within 0 to %d", micros, int64(maxQuota))
	}
	if lease < minLease || lease > maxLease {
		return nil, invalid("lease", "%v is not within 1 s to 24 h", lease)
	}
	ctx, cancel := k.patience(ctx)
	defer cancel()
	now := k.now()
	h, err := k.reserve(ctx, org, app, label, micros, lease)
	if err != nil && unavailable(err) && k.opts.OnUnavailable.Reserve == Allow {
		k.opts.Logger.WarnContext(ctx, "budget: reserved nothing", "error", err)
		return &Hold{
			ID: store.NewID(), Org: org, App: app, Label: label, Model: k.modelInHand(org, app, label),
			EstimateMicros: micros, Degraded: true, k: k, since: now,
		}, nil
	}
	return h, err
}

func (k *Keeper) reserve(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*Hold, error) {
	t, err := k.tenants.get(ctx, org, app)
	if err != nil {
		return nil, err
	}
	now := k.now()
	p := t.policy(now)
	if !slices.Contains(p.ordering, label) {
		return nil, invalidLabel(label)
	}
	if _, _, err := t.cost(label, Tokens{}, now); err != nil {
		return nil, err
	}
	day, rule := t.calendar.Day(now), t.calendar.At(now)
	h := &Hold{
		ID: store.NewID(), Org: org, App: app, Label: label, Model: t.model(p, label), Day: day, EstimateMicros: micros, k: k, since: now,
	}
	if err := k.register(ctx, t); err != nil {
		return nil, err
	}
	if rule.Enforcement != Hard {
		if err := k.roomBySpend(ctx, t, label); err != nil {
			return nil, err
		}
		h.Soft = true
		return h, nil
	}
	o, err := k.newReservation(ctx, t, h, now.Add(lease))
	if err != nil {
		return nil, err
	}
	b := k.board(o)
	if o.full = b.refuses(o, now); len(o.full) > 0 {
		return nil, k.noRoom(ctx, t, b.roomAt(o))
	}
	h.ref.Store(o.hold)
	if err := k.enqueue(o.lane, o); err != nil {
		return nil, err
	}
	if err := k.wait(ctx, o); err != nil {
		return nil, asUnavailable("Reserve", err)
	}
	if o.verdict.noRoom {
		return nil, k.noRoom(ctx, t, b.roomAt(o))
	}
	return h, nil
}

// roomBySpend admits by what is known to be spent.
func (k *Keeper) roomBySpend(ctx context.Context, t *tenant, label string) error {
	out, err := k.look(ctx, t, false)
	if err != nil {
		return err
	}
	if out.override && out.labels[out.index].label == label {
		return nil // forced, whatever was spent
	}
	if l, ok := out.label(label); !ok || !l.selectable(out.tight) {
		return k.exceeded(ctx, out)
	}
	return nil
}

// noRoom is the error of a reservation refused until an instant; the zero time
// says that it can never fit.
func (k *Keeper) noRoom(ctx context.Context, t *tenant, retryAt time.Time) error {
	exceeded := &QuotaExceededError{made: k.now()}
	if out, err := k.look(ctx, t, false); out != nil && err == nil {
		exceeded = out.exceeded()
	}
	exceeded.RetryAt = retryAt
	return exceeded
}

// newReservation debits every counter the label has under hard enforcement,
// bounded by the quotas that are set on them.
func (k *Keeper) newReservation(ctx context.Context, t *tenant, h *Hold, expires time.Time) (*op, error) {
	now := k.now()
	rule, p := t.calendar.At(now), t.policy(now)
	scope := scopeKey(rule.Scope, t.org, t.app)
	debits := t.debits(rule, scope, h.Label, h.Day)
	reset := t.calendar.Reset(now)
	debits[0].cap(money.FromMicros(p.quotas[h.Label]), reset)
	longest := t.calendar.End(h.Day)
	for _, d := range rule.Kinds() {
		_, last := calendar.Bounds(d.Period, h.Day)
		if end := t.calendar.End(last); end.After(longest) {
			longest = end
		}
	}
	estimate := money.FromMicros(h.EstimateMicros)
	if estimate.IsZero() {
		estimate = money.Of(1) // so that nothing fits at a quota that is used up
	}
	var blocked time.Time // until then by what was spent outside the counters
	for _, l := range p.limits {
		if l.Label != "" && l.Label != h.Label {
			continue
		}
		outside, err := k.outside(ctx, t, l, h.Day)
		if err != nil {
			return nil, err
		}
		quota, end := money.FromMicros(l.Micros), t.calendar.PeriodEnd(l.Period, h.Day, reset)
		bound, ref := quota.Sub(outside), limitRef(scope, l, h.Day)
		if i := slices.IndexFunc(debits, func(d debit) bool { return d.ref() == ref }); i >= 0 {
			debits[i].cap(bound, end)
		}
		switch { // whether it is counted yet or from the next day on
		case estimate.Cmp(quota) > 0:
			return nil, k.noRoom(ctx, t, time.Time{})
		case estimate.Cmp(bound) > 0:
			blocked = latest(blocked, end)
		}
	}
	if estimate.Cmp(debits[0].bound) > 0 {
		return nil, k.noRoom(ctx, t, time.Time{})
	}
	if !blocked.IsZero() {
		return nil, k.noRoom(ctx, t, blocked)
	}
	o := newOp(opReserve)
	o.org, o.board, o.lane, o.debits = t.org, scope, laneKey(rule, scope, h.Label, h.Day), debits
	o.hold = &holdRef{
		id: h.ID, keys: []store.Key{holdKey(scope, expires.UnixMilli(), h.ID)}, scope: scope, label: h.Label, day: h.Day,
		estimate: estimate, debits: debits, expireMs: expires.UnixMilli(), ttl: longest.Add(holdMargin).Unix(), lane: o.lane,
	}
	return o, nil
}

// outside is what a limit's period spent on days that are not in its counter.
func (k *Keeper) outside(ctx context.Context, t *tenant, l PeriodQuota, day string) (money.Picos, error) {
	if len(t.calendar.Uncounted(l.kind(), day)) == 0 {
		return money.Picos{}, nil
	}
	out, err := k.look(ctx, t, false)
	if err != nil {
		return money.Picos{}, err
	}
	b := out.board
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := b.uncountedAmount(t, l, day, false)
	return sum.spend.Add(sum.held), nil
}

// ExpiresAt is when the lease ends, as far as is known; the zero time when
// nothing is held. It does not wait for an Extend that is under way.
func (h *Hold) ExpiresAt() time.Time {
	ref := h.ref.Load()
	if ref == nil {
		return time.Time{}
	}
	return time.UnixMilli(ref.expireMs)
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
	ctx, cancel := h.k.patience(ctx)
	defer cancel()
	received := h.k.now()
	ref := h.ref.Load()
	receipt, err := h.k.settleHold(ctx, h.Org, h.App, ref, h.Day, h.since, usage, received)
	entry := SpooledUsage{Org: h.Org, App: h.App, Usage: usage, Received: received, Hold: ref.spooled(h.Day)}
	entry.Hold.Reserved = h.since
	receipt, err = h.k.orSpool(receipt, err, entry)
	if err == nil {
		h.end = true
	}
	return receipt, err
}

// settleHold counts a record in place of a hold of since; ref is nil when
// nothing was held, day empty when it is not known.
func (k *Keeper) settleHold(ctx context.Context, org, app string, ref *holdRef, day string, since time.Time, usage Usage, received time.Time) (Receipt, error) {
	t, err := k.tenants.get(ctx, org, app)
	if err != nil {
		return Receipt{}, err
	}
	at := received
	if now := k.now(); !usage.Time.IsZero() && !usage.Time.After(now) {
		at = usage.Time
	}
	if at.Before(since) {
		at = since
	}
	if day == "" {
		day = t.calendar.Day(at)
	}
	o, refusal := k.newSubmission(t, usage, day, at)
	if refusal != nil {
		receipt, err := k.countedBefore(ctx, t, usage, refusal)
		if err == nil && ref != nil {
			err = k.giveBack(ctx, "Settle", ref)
		}
		return receipt, err
	}
	if err := k.register(ctx, t); err != nil {
		return Receipt{}, err
	}
	if ref != nil {
		tags := slices.DeleteFunc(o.debits, func(d debit) bool { return d.hard || !d.bare })
		o.kind, o.hold, o.lane, o.board = opSettle, ref, ref.lane, ref.scope
		o.debits = append(slices.Clone(ref.debits), tags...)
	}
	if err := k.enqueue(o.lane, o); err != nil {
		return Receipt{}, err
	}
	if err := k.wait(ctx, o); err != nil {
		return Receipt{}, asUnavailable("Settle", err)
	}
	return k.receipt(ctx, t, usage.Label, o.verdict)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := h.k.giveBack(ctx, "Release", ref); err != nil {
		return err
	}
	h.end = true
	return nil
}

// giveBack releases a hold, which does nothing where it was done.
func (k *Keeper) giveBack(ctx context.Context, operation string, ref *holdRef) error {
	o := k.releaseOp(ref)
	if err := k.enqueue(o.lane, o); err != nil {
		return err
	}
	if err := k.wait(ctx, o); err != nil {
		return asUnavailable(operation, err)
	}
	return nil
}

func (k *Keeper) releaseOp(ref *holdRef) *op {
	o := newOp(opRelease)
	o.org, o.board, o.lane = orgOf(ref.scope), ref.scope, ref.lane
	o.hold, o.debits = ref, ref.debits
	return o
}

// orgOf is the organisation's id within a scope's key.
func orgOf(scope string) string { return scope[len("ORG#"):][:36] }

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
	moved := *ref
	moved.expireMs = h.k.now().Add(d).UnixMilli()
	if moved.expireMs == ref.expireMs {
		return nil
	}
	to := holdKey(moved.scope, moved.expireMs, moved.id)
	var err error
	for _, from := range ref.keys {
		if err = h.k.moveHold(ctx, &moved, from, to); !errors.Is(err, ErrNotFound) {
			break
		}
	}
	switch {
	case err == nil:
		moved.keys = []store.Key{to}
		h.ref.Store(&moved)
	case !errors.Is(err, ErrNotFound): // may have moved: both places are tried
		moved.keys = append(slices.Clone(ref.keys), to)
		h.ref.Store(&moved)
	}
	return err
}

func (k *Keeper) moveHold(ctx context.Context, moved *holdRef, from, to store.Key) error {
	if from == to {
		return nil
	}
	token := store.NewID()
	put := putAbsent(k.store.Usage, moved.item(to))
	err := store.Retry(ctx, func() error {
		_, err := k.store.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token,
			TransactItems: []types.TransactWriteItem{
				{Delete: &types.Delete{
					TableName: &k.store.Usage, Key: from.Item(), ConditionExpression: aws.String("attribute_exists(#pk)"),
					ExpressionAttributeNames: map[string]string{"#pk": "PK"},
				}},
				put,
			},
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return notFound("hold %s: its lease has ended", moved.id)
	}
	return failure("Extend", err)
}

// releaseExpired gives back every hold of a scope whose lease has ended, and
// tells which end next.
func (k *Keeper) releaseExpired(ctx context.Context, scope string) (released int, live []*holdRef, err error) {
	expired, live, err := k.readHolds(ctx, scope, k.now())
	if err != nil {
		return 0, nil, err
	}
	ops := make([]*op, len(expired))
	for i, ref := range expired {
		ops[i] = k.releaseOp(ref)
	}
	for left := slices.Clone(ops); len(left) > 0; {
		left = k.transact(left)
	}
	for _, o := range ops {
		if o.verdict.err != nil {
			err = errors.Join(err, o.verdict.err)
		}
	}
	return len(ops), live, err
}
