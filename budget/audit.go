package budget

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// AuditEvent is one change by an administrator: who changed what, when, and the fields
// before and after. It was written in the transaction of its change, so that there is no
// change without its event and no event without its change. Target is an organisation's
// id or a PriceTarget, Resource the app that was changed, and Action one of:
//
//   - org_created and org_updated, by PutOrg. An update that changes nothing raises the
//     version, and has an event without Changes.
//   - app_created and app_updated, by PutApp, likewise.
//   - org_deleted, by DeleteOrg, and app_deleted, by DeleteApp and for each app of an
//     organisation that is deleted.
//   - override_set and override_cleared, by Override and ClearOverride, and prices_set, by
//     PutPrices, ImportPrices and PutModelInfo. What changes nothing writes nothing, and has no event.
//   - adjusted, by Adjust, once for each adjustment's id.
//   - credentials_created, credentials_imported, secret_rotated, credentials_revoked and
//     credentials_deleted, by package credentials; key_created and key_revoked, whose target
//     is a KeyTarget.
//
// Fields have the names that a ValidationError gives them. It is one type for the package
// dynalimit too.
type AuditEvent = audit.Event

// AuditChange is a field of an AuditEvent, before and after the change. It is one type
// for the package dynalimit too.
type AuditChange = audit.Change

// PriceTarget is the target of events of a model's prices, for Audit. A prefix of the
// model's id, such as us., does not matter.
func PriceTarget(model string) string {
	name, _ := splitModel(model)
	return audit.PricePrefix + name
}

// KeyTarget is the target of events of a provisioning key, for Audit.
func KeyTarget(name string) string { return audit.KeyPrefix + name }

// As returns a keeper that makes changes in somebody's name, as Options.Principal does.
// It is the same keeper otherwise and shares everything with k; to close either closes
// both. It takes no time and makes no request. A name that cannot be one is refused by
// the first change.
func (k *Keeper) As(principal string) *Keeper {
	if k == nil {
		return &Keeper{}
	}
	return &Keeper{core: k.core, principal: principal}
}

// author is who makes a change, or why nobody may: it comes before anything is read.
func (k *Keeper) author(ctx context.Context) (string, error) {
	if err := k.usable(ctx); err != nil {
		return "", err
	}
	if k.principal == "" {
		if k.opts.AllowAnonymous {
			return "", nil
		}
		return "", invalid("principal", "is empty; say who makes the change with keeper.As(name) or Options.Principal, or set Options.AllowAnonymous")
	}
	if reason := audit.CheckPrincipal(k.principal); reason != "" {
		return "", invalid("principal", "%s", reason)
	}
	return k.principal, nil
}

// Audit lists the changes of an organisation and its apps, of a model's prices
// (PriceTarget) or of a provisioning key (KeyTarget), oldest first: those from one time, and before another. A zero time is no
// bound. Events go by themselves when Options.AuditRetention is over, a day or two late.
// Pages are read as they are needed.
//
// Errors: *ValidationError for a target that can have no events, *UnavailableError; the
// list ends with it.
func (k *Keeper) Audit(ctx context.Context, target string, from, to time.Time) iter.Seq2[AuditEvent, error] {
	if err := k.usable(ctx); err != nil {
		return problem.List[AuditEvent](err)
	}
	if !besidesOrgs(target) {
		if err := validUUID("target", target); err != nil {
			return problem.List[AuditEvent](err)
		}
	}
	return k.admin.events(ctx, target, from, to)
}

// besidesOrgs says that a target is a model's prices or a key, not an organisation.
func besidesOrgs(target string) bool {
	for _, prefix := range []string{audit.PricePrefix, audit.KeyPrefix} {
		if name, ok := strings.CutPrefix(target, prefix); ok && name != "" {
			return true
		}
	}
	return false
}

// errEnough ends a query whose caller has seen enough.
var errEnough = errors.New("enough")

func (adm *administration) events(ctx context.Context, target string, from, to time.Time) iter.Seq2[AuditEvent, error] {
	first, last := audit.SortPrefix, audit.SortPrefix+"~"
	if !from.IsZero() {
		first += audit.FirstID(from)
	}
	if !to.IsZero() {
		last = audit.SortPrefix + audit.FirstID(to)
	}
	return func(yield func(AuditEvent, error) bool) {
		if first >= last {
			return
		}
		err := adm.store.Query(ctx, adm.store.Control, adm.trail.layout.Partition(target), first, last, func(item store.Item) error {
			if !yield(audit.Decode(item), nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(AuditEvent{}, failure("Audit", err))
		}
	}
}
