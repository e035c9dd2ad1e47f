package budget

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/audit"
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
//     Prices.Put, Prices.Import and Prices.PutInfo. What changes nothing writes nothing, and has no event.
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

func (k *desk) events(ctx context.Context, target string, from, to time.Time) iter.Seq2[AuditEvent, error] {
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
		err := k.store.Query(ctx, k.store.Control, k.layout.Partition(target), first, last, func(item store.Item) error {
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
