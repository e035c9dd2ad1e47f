package budget

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Adjustment is an audited credit or charge.
type Adjustment struct {
	// ID is a canonical lower-case UUID; an adjustment is applied once under it,
	// however often it is sent. Defaults to a random one.
	ID string
	// Label is one of those the organisation uses or has used.
	Label string
	// Day is the day it counts on, like 20260123. Defaults to today.
	Day string
	// DeltaMicros is what it charges, in µ$; below zero it credits. Within
	// ±10^12 and not 0.
	DeltaMicros int64
	// Reason is kept with it: 1 to 256 bytes.
	Reason string

	// The rest is set by the keeper and ignored by Adjust.

	App       string    // whose it is
	At        time.Time // when it was first sent
	Duplicate bool      // it was applied before, under this ID
}

// adjustment is an Adjustment as stored.
type adjustment struct {
	Adjustment
	writer string
	change money.Picos
	anyDay bool // no day was named: the first one stands
}

func (a *adjustment) key(org string) store.Key {
	return store.Key{PK: auditPK(org), SK: auditSK(a.App) + a.ID}
}

func (a *adjustment) item(key store.Key) store.Item {
	item := key.Item()
	for name, v := range map[string]string{
		"adjustment_id": a.ID, "reason": a.Reason, store.AttrLabel: a.Label, store.AttrDay: a.Day, "app_id": a.App, store.AttrWriter: a.writer,
	} {
		item[name] = store.String(v)
	}
	item["change_picos"] = store.Picos(a.change)
	item["at_epoch_ms"] = store.Int(a.At.UnixMilli())
	return item
}

func decodeAdjustment(item store.Item) (*adjustment, error) {
	var d store.Decoder
	a := &adjustment{writer: d.String(item, store.AttrWriter), change: d.Picos(item, "change_picos")}
	a.Adjustment = Adjustment{
		ID: d.String(item, "adjustment_id"), App: d.String(item, "app_id"), Label: d.String(item, store.AttrLabel), Day: d.String(item, store.AttrDay),
		DeltaMicros: a.change.Micros(), Reason: d.String(item, "reason"), At: time.UnixMilli(d.Int(item, "at_epoch_ms")),
	}
	return a, d.Err
}

// repeats says that the adjustment asks for what stored did.
func (a *adjustment) repeats(stored *adjustment) bool {
	return a.Label == stored.Label && a.change == stored.change && a.Reason == stored.Reason && (a.anyDay || a.Day == stored.Day)
}

const maxReason = 256

func (a Adjustment) validate() error {
	if err := validUUID("id", a.ID); err != nil {
		return err
	}
	if a.DeltaMicros == 0 || a.DeltaMicros < -maxQuota || a.DeltaMicros > maxQuota {
		return invalid("delta_micros", "%d µ$ is not within ±%d and other than 0", a.DeltaMicros, int64(maxQuota))
	}
	if a.Reason == "" || len(a.Reason) > maxReason {
		return invalid("reason", "must have 1 to %d bytes", maxReason)
	}
	return nil
}

// Adjust charges (DeltaMicros above zero) or credits (below) a label's day,
// with a reason that is kept. Days that are closed are opened again for it.
//
// It is applied once under its ID: sent again, it answers what was applied,
// marked Duplicate; with other contents it is ErrConflict. What Adjust returns
// has the ID and the day in it, with an error too: after an *UnavailableError
// send just that again.
func (k *Keeper) Adjust(ctx context.Context, org, app string, a Adjustment) (Adjustment, error) {
	if a.ID == "" {
		a.ID = store.NewID()
	}
	if err := validTarget(org, app); err != nil {
		return a, err
	}
	if err := a.validate(); err != nil {
		return a, err
	}
	t, err := k.tenants.get(ctx, org, app)
	if err != nil {
		return a, err
	}
	anyDay, now := a.Day == "", k.now()
	if a.Day, err = t.dayOrToday(a.Day, now); err != nil {
		return a, err
	}
	if !slices.Contains(t.labels, a.Label) {
		return a, invalidLabel(a.Label)
	}
	if err := k.register(ctx, t); err != nil {
		return a, err
	}
	a.App, a.At, a.Duplicate = app, now, false
	o := k.newAdjustment(t, a, anyDay)
	if err := k.enqueue(o.lane, o); err != nil {
		return a, err
	}
	if err := k.wait(ctx, o); err != nil {
		return a, asUnavailable("Adjust", err)
	}
	if v := o.verdict; v.conflict {
		return a, fmt.Errorf("%w: the adjustment id %s was used with other contents, on day %s for label %q", ErrConflict,
			a.ID, v.adjusted.Day, v.adjusted.Label)
	} else if v.duplicate {
		a = v.adjusted.Adjustment
		a.Duplicate = true
	}
	return a, nil
}

// newAdjustment is the operation that applies a to the counters of its day.
func (k *Keeper) newAdjustment(t *tenant, a Adjustment, anyDay bool) *op {
	rule := t.calendar.Of(a.Day)
	scope := scopeKey(rule.Scope, t.org, t.app)
	o := newOp(opAdjust)
	o.org, o.board, o.lane = t.org, scope, laneKey(rule, scope, a.Label, a.Day)
	o.debits, o.reopen = t.debits(rule, scope, a.Label, a.Day), t.reopen(scope, a.Label, a.Day, a.At)
	o.adjust = &adjustment{Adjustment: a, writer: o.writer, change: money.FromMicros(a.DeltaMicros), anyDay: anyDay}
	return o
}

// dayOrToday checks a day that is not in the future.
func (t *tenant) dayOrToday(day string, now time.Time) (string, error) {
	today := t.calendar.Day(now)
	if day == "" {
		return today, nil
	}
	if _, err := validDay("day", day); err != nil {
		return "", err
	}
	if day > today {
		return "", invalid("day", "%s is in the future: today is %s", day, today)
	}
	return day, nil
}

// Adjustments lists what was credited and charged by hand to an app, oldest
// first; of the whole organisation for an empty app.
func (k *Keeper) Adjustments(ctx context.Context, org, app string) iter.Seq2[Adjustment, error] {
	return func(yield func(Adjustment, error) bool) {
		if err := validReadTarget(org, app); err != nil {
			yield(Adjustment{}, err)
			return
		}
		prefix := appPrefix
		if app != "" {
			prefix = auditSK(app)
		}
		var all []Adjustment
		err := k.store.Query(ctx, k.store.Usage, auditPK(org), prefix, prefix+"~", func(item store.Item) error {
			a, err := decodeAdjustment(item)
			all = append(all, a.Adjustment)
			return err
		})
		if err != nil {
			yield(Adjustment{}, failure("Adjustments", err))
			return
		}
		slices.SortStableFunc(all, func(a, b Adjustment) int { return a.At.Compare(b.At) })
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// scopeNow is the key of the scope an app's spend is counted in now.
func (k *Keeper) scopeNow(ctx context.Context, org, app string) (string, error) {
	if err := validTarget(org, app); err != nil {
		return "", err
	}
	t, err := k.tenants.get(ctx, org, app)
	if err != nil {
		return "", err
	}
	return scopeKey(t.calendar.At(k.now()).Scope, org, app), nil
}
