package budget

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Adjustment is an audited credit or charge.
type Adjustment struct {
	// ID is a canonical lower-case UUID. An adjustment is applied once under its ID, however
	// often it is sent. Defaults to a random UUID.
	ID string `json:"id"`
	// Label is a label that the organisation uses or has used.
	Label string `json:"model_label"`
	// Day is the adjusted day, such as 20260123. Defaults to today.
	Day string `json:"day"`
	// DeltaMicros is the change in µ$: positive for a charge, negative for a credit. Within
	// ±10^12 and not 0.
	DeltaMicros int64 `json:"delta_usd_micros"`
	// Reason is stored with the adjustment: 1 to 256 bytes.
	Reason string `json:"reason"`

	// The keeper sets the fields below. Adjust ignores them.

	App       string    `json:"app_id"`              // the id of the app
	At        time.Time `json:"at"`                  // when it was first sent
	Duplicate bool      `json:"duplicate,omitempty"` // an adjustment with this ID was applied before
}

// adjustmentOf returns a stored adjustment of the ledger as an Adjustment, with the amount in micro-dollars and
// not marked Duplicate.
func adjustmentOf(a ledger.Adjustment) Adjustment {
	return Adjustment{
		ID: a.ID, App: a.App, Label: a.Label, Day: a.Day, DeltaMicros: a.Change.Micros(), Reason: a.Reason, At: a.At.UTC(),
	}
}

const maxReason = 256

// validate returns a *fault.ValidationError for a bad id, an amount of 0 or beyond ±10^12 micro-dollars, or a
// bad reason. Label and day are checked later, because they need the organisation's configuration.
func (a Adjustment) validate() error {
	if err := validUUID("id", a.ID); err != nil {
		return err
	}
	if a.DeltaMicros == 0 || a.DeltaMicros < -maxQuota || a.DeltaMicros > maxQuota {
		return invalid("delta_micros", "%d µ$ is not within ±%d and other than 0", a.DeltaMicros, int64(maxQuota))
	}
	if a.Reason == "" || len(a.Reason) > maxReason || !utf8.ValidString(a.Reason) {
		return invalid("reason", "must have 1 to %d bytes of UTF-8", maxReason)
	}
	return nil
}

// applyAdjustment validates the adjustment a, registers its app, applies a once under its id, and waits for the
// write. It returns a with its id, app, day and time set; a repetition returns the first adjustment, marked
// Duplicate. Bad fields are a *fault.ValidationError, and the same id with other contents is ErrConflict.
func (c *charges) applyAdjustment(ctx context.Context, by, org, app string, a Adjustment) (Adjustment, error) {
	if a.ID == "" {
		a.ID = store.NewID()
	}
	if err := validTarget(org, app); err != nil {
		return a, err
	}
	if err := a.validate(); err != nil {
		return a, err
	}
	t, err := c.tenants.get(ctx, org, app)
	if err != nil {
		return a, err
	}
	anyDay, now := a.Day == "", c.now()
	if a.Day, err = t.dayOrToday(a.Day, now); err != nil {
		return a, err
	}
	if first := t.firstDay(now); a.Day < first {
		return a, invalid("day", "%s is before the organisation was made; give %s or a later day", a.Day, first)
	}
	if !slices.Contains(t.labels, a.Label) {
		return a, invalidLabelError(a.Label)
	}
	if err := c.tenants.registerApp(ctx, t); err != nil {
		return a, err
	}
	a.App, a.At, a.Duplicate = app, now, false
	o, err := c.newAdjustment(by, t, a, anyDay)
	if err != nil {
		return a, err
	}
	if err := c.writeOperation(ctx, o); err != nil {
		return a, asCallFailure("Adjust", err)
	}
	if v := o.Verdict; v.Conflict {
		return a, fmt.Errorf("%w: the adjustment id %s was used with other contents, on day %s for label %q", ErrConflict,
			a.ID, v.Adjusted.Day, v.Adjusted.Label)
	} else if v.Duplicate {
		a = adjustmentOf(*v.Adjusted)
		a.Duplicate = true
	}
	return a, nil
}

// newAdjustment returns the ledger operation that applies a to its day's counters and stores its audit event in
// the name of by; it writes nothing. With anyDay, an earlier adjustment with the same id counts as the same on
// any day.
func (c *charges) newAdjustment(by string, t *tenant, a Adjustment, anyDay bool) (*ledger.Operation, error) {
	desk := c.admin.desk
	event, err := desk.newEvent(a.At, audit.Event{Principal: by, Action: actionAdjusted, Target: t.org, Resource: t.app}, nil, a.eventFields())
	if err != nil {
		return nil, err
	}
	return t.account(a.Label, a.Day).NewAdjustment(ledger.Adjustment{
		ID: a.ID, App: a.App, Label: a.Label, Day: a.Day, Reason: a.Reason, At: a.At.UTC(),
		Change: money.FromMicros(a.DeltaMicros), AnyDay: anyDay, Event: desk.layout.Item(event),
	}, t.calendar.MayBeClosed(a.Day, a.At)), nil
}

// listAdjustments returns the adjustments of an app, or of a whole organisation if app is empty, oldest first.
// It reads all before it yields the first. An error, also for one malformed item, is the only element.
func (c *charges) listAdjustments(ctx context.Context, org, app string) iter.Seq2[Adjustment, error] {
	return func(yield func(Adjustment, error) bool) {
		if err := validReadTarget(org, app); err != nil {
			yield(Adjustment{}, err)
			return
		}
		prefix := appPrefix
		if app != "" {
			prefix = ledger.AuditKey(app)
		}
		var all []Adjustment
		err := c.store.Query(ctx, c.store.Usage, ledger.AuditPartition(org), prefix, prefix+"~", func(item store.Item) error {
			a, err := ledger.DecodeAdjustment(item)
			all = append(all, adjustmentOf(*a))
			return err
		})
		if err != nil {
			yield(Adjustment{}, wrapFailure("Adjustments", err))
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

// eventFields returns the fields of the adjustment's audit event: its id, label, day, change in micro-dollars,
// and reason.
func (a Adjustment) eventFields() trail.Fields {
	return trail.Fields{"id": a.ID, "label": a.Label, "day": a.Day, "delta_micros": a.DeltaMicros, "reason": a.Reason}
}
