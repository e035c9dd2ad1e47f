package budget

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// adjustment is an audited credit or charge.
type adjustment struct {
	key    itemKey
	id     string
	app    string
	label  string
	day    string
	change picos
	reason string
	at     time.Time
}

func (a *adjustment) item() attrs {
	item := a.key.attrs()
	item["adjustment_id"], item["reason"], item[attrLabel], item[attrDay] = str(a.id), str(a.reason), str(a.label), str(a.day)
	item["app_id"] = str(a.app)
	item["change_picos"] = money(a.change)
	item["at_epoch_ms"] = num(a.at.UnixMilli())
	return item
}

const maxReason = 256

// Adjust charges (positive) or credits (negative) µ$ to a label's day, with a
// reason that is kept. An empty day is today. Days that are closed are opened
// again for it.
func (k *Keeper) Adjust(ctx context.Context, org, app, label, day string, deltaMicros int64, reason string) error {
	if err := validTarget(org, app); err != nil {
		return err
	}
	if deltaMicros == 0 || deltaMicros < -maxQuota || deltaMicros > maxQuota {
		return invalid("delta_micros", "%d µ$ is not within ±%d and other than 0", deltaMicros, int64(maxQuota))
	}
	if reason == "" || len(reason) > maxReason {
		return invalid("reason", "must have 1 to %d bytes", maxReason)
	}
	t, err := k.tenants.get(ctx, org, app)
	if err != nil {
		return err
	}
	now := k.now()
	if day, err = t.dayOrToday(day, now); err != nil {
		return err
	}
	if !slices.Contains(t.labels, label) {
		return invalidLabel(label)
	}
	rule := t.calendar.of(day)
	scope := scopeKey(rule.Scope, org, app)
	o := newOp(opAdjust)
	o.org, o.board, o.lane = org, scope, laneKey(rule, scope, label, day)
	o.debits, o.reopen = t.debits(rule, scope, label, day), t.reopen(scope, label, day, now)
	o.adjust = &adjustment{
		id: o.writer, app: app, label: label, day: day, change: microsToPicos(deltaMicros), reason: reason, at: now,
		key: itemKey{auditPK(scope), fmt.Sprintf("%013d#%s", now.UnixMilli(), o.writer)},
	}
	if err := k.enqueue(o.lane, o); err != nil {
		return err
	}
	if err := k.wait(ctx, o); err != nil {
		return asUnavailable("Adjust", err)
	}
	return nil
}

// dayOrToday checks a day that is not in the future.
func (t *tenant) dayOrToday(day string, now time.Time) (string, error) {
	today := t.calendar.day(now)
	if day == "" {
		return today, nil
	}
	if _, err := parseDay("day", day); err != nil {
		return "", err
	}
	if day > today {
		return "", invalid("day", "%s is in the future: today is %s", day, today)
	}
	return day, nil
}

// Adjustment is one audited credit or charge.
type Adjustment struct {
	ID          string
	App         string
	Label       string
	Day         string
	DeltaMicros int64
	Reason      string
	At          time.Time
}

// Adjustments lists what was credited and charged by hand in the scope the app
// is in now, oldest first.
func (k *Keeper) Adjustments(ctx context.Context, org, app string) iter.Seq2[Adjustment, error] {
	return func(yield func(Adjustment, error) bool) {
		scope, err := k.scopeNow(ctx, org, app)
		if err != nil {
			yield(Adjustment{}, err)
			return
		}
		var all []Adjustment
		err = k.store.query(ctx, k.store.tables.Usage, auditPK(scope), "0", "~", func(item attrs) error {
			var d decoder
			all = append(all, Adjustment{
				ID: d.str(item, "adjustment_id"), App: d.str(item, "app_id"), Label: d.str(item, attrLabel), Day: d.str(item, attrDay),
				DeltaMicros: d.picos(item, "change_picos").micros(), Reason: d.str(item, "reason"),
				At: time.UnixMilli(d.int(item, "at_epoch_ms")),
			})
			return d.err
		})
		if err != nil {
			yield(Adjustment{}, failure("Adjustments", err))
			return
		}
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
	return scopeKey(t.calendar.at(k.now()).Scope, org, app), nil
}
