package budget

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Setup configures organisations and apps, in the name of its keeper, and lists the audit
// events. Make one with Keeper.Setup. It is safe for concurrent use and has no state.
type Setup struct{ k *Keeper }

// Setup returns the access to organisations, apps and audit events. Its changes carry this keeper's principal,
// see Keeper.As. It sends no request.
func (k *Keeper) Setup() *Setup { return &Setup{k} }

// keeper returns the keeper of s. It is nil for a nil s, so that methods of s return an error.
func (s *Setup) keeper() *Keeper {
	if s == nil {
		return nil
	}
	return s.k
}

// PutOrg creates or replaces an organisation's configuration. It does not change credentials.
// Timezone and Scope are fixed at the first PUT, because stored sums depend on them. Every app
// must stay valid. It raises the version and writes an audit.Event, even if nothing changes.
//
// To change a part, read the organisation with GetOrg, change the part, and put it with its
// Version. If another caller was faster, PutOrg fails with ErrConflict and writes nothing.
//
// Errors: *fault.ValidationError, ErrConflict, *fault.UnavailableError.
func (s *Setup) PutOrg(ctx context.Context, org Org) (Org, error) {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return Org{}, err
	}
	return k.admin.putOrg(ctx, by, org)
}

// PutApp creates or replaces an app's configuration; the app inherits nil and empty fields from its
// organisation. It raises the version and writes an audit.Event, even if nothing changes. It returns
// ErrNotFound without the organisation, and ErrConflict unless App.Version permits the replacement, as for
// PutOrg.
func (s *Setup) PutApp(ctx context.Context, org string, app App) (App, error) {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return App{}, err
	}
	return k.admin.putApp(ctx, by, org, app)
}

// GetOrg reads an organisation's configuration from the store, without a cache, with the Version for a later
// PutOrg. It returns ErrNotFound if the organisation does not exist or was deleted.
func (s *Setup) GetOrg(ctx context.Context, org string) (Org, error) {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return Org{}, err
	}
	return k.admin.getOrg(ctx, org)
}

// GetApp reads an app's own configuration from the store, without a cache and inherited fields, with the
// Version for a later PutApp. It returns ErrNotFound if the app does not exist, or if it or its organisation
// was deleted.
func (s *Setup) GetApp(ctx context.Context, org, app string) (App, error) {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return App{}, err
	}
	return k.admin.getApp(ctx, org, app)
}

// Apps lists the apps of an organisation that are not deleted, ordered by id, also those that only calls
// registered under Options.AllowUnknownApps. An error is the last element: ErrNotFound for a deleted
// organisation. An unknown one has an empty list.
func (s *Setup) Apps(ctx context.Context, org string) iter.Seq2[App, error] {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[App](err)
	}
	if err := validUUID("org_id", org); err != nil {
		return problem.ErrorList[App](err)
	}
	return k.admin.listApps(ctx, org)
}

// Orgs lists every organisation that is not deleted. It scans the control table, and a failed scan ends the
// list with its error. An organisation that this version cannot serve comes last, with its id and an error.
func (s *Setup) Orgs(ctx context.Context) iter.Seq2[Org, error] {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[Org](err)
	}
	return k.admin.listOrgs(ctx)
}

// DeleteOrg deletes an organisation with its apps. Calls for it then fail with ErrNotFound: in
// this process at once, in others within Options.ConfigTTL, or five minutes while they cannot
// read the control table. Its counters stay until their time to live ends, see
// Options.KeepDays. A nil revoke leaves credentials alone.
//
// It may be called again at any time, and completes an interrupted deletion. Until then PutOrg
// fails with ErrConflict, so neither credentials nor apps outlive their organisation. An
// organisation that is put again continues with the next version and with its counters; each of
// its apps must be put again. Otherwise DynamoDB removes the remaining items together with the
// counters.
//
// The deletion, and that of each app, has an audit.Event. Earlier events stay.
//
// Errors: *fault.ValidationError, ErrNotFound if it never existed, ErrConflict,
// *fault.UnavailableError, and errors of revoke.
func (s *Setup) DeleteOrg(ctx context.Context, org string, revoke Revoke) error {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	if err := validUUID("org_id", org); err != nil {
		return err
	}
	d := &deletion{admin: k.admin, by: by, org: org, revoke: revoke}
	return d.deleteAll(ctx, "DeleteOrg")
}

// DeleteApp deletes an app in the same way as DeleteOrg. If the organisation counts the spend of its apps
// together, the app's spend stays in the sum. PutApp creates the app again. A mere call does not, until the
// last item of the app has expired.
func (s *Setup) DeleteApp(ctx context.Context, org, app string, revoke Revoke) error {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	if err := validTarget(org, app); err != nil {
		return err
	}
	d := &deletion{admin: k.admin, by: by, org: org, app: app, revoke: revoke}
	return d.deleteAll(ctx, "DeleteApp")
}

// Override forces an app's recommendation to one label of its ordering until an instant, whatever the spend,
// and writes an audit.Event unless the same override is active already. It survives a PUT, and other processes
// follow within Options.ConfigTTL. A past instant, or a label outside the ordering or without a price, is a
// *fault.ValidationError.
func (s *Setup) Override(ctx context.Context, org, app, label string, until time.Time) error {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	return k.admin.putOverride(ctx, by, org, app, label, until)
}

// ClearOverride ends an app's override, for other processes within Options.ConfigTTL, and writes an
// audit.Event. Without an active override it writes no event and returns nil.
func (s *Setup) ClearOverride(ctx context.Context, org, app string) error {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	return k.admin.clearOverride(ctx, by, org, app)
}

// Adjust charges (positive DeltaMicros) or credits (negative DeltaMicros) a label's day, with a
// reason. It reopens a closed day.
//
// An adjustment is applied once under its ID for Options.KeepDays after its day. Sent again, it
// returns the applied one, marked Duplicate. With other contents it is ErrConflict. The result
// contains the ID and the day, even with an error: after an *fault.UnavailableError send the
// result again. An applied adjustment has exactly one audit.Event.
func (s *Setup) Adjust(ctx context.Context, org, app string, a Adjustment) (Adjustment, error) {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return Adjustment{}, err
	}
	return k.charges.applyAdjustment(ctx, by, org, app, a)
}

// Adjustments lists the manual credits and charges of an app, oldest first, or of the whole organisation for an
// empty app. An error is the last element.
func (s *Setup) Adjustments(ctx context.Context, org, app string) iter.Seq2[Adjustment, error] {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[Adjustment](err)
	}
	return k.charges.listAdjustments(ctx, org, app)
}

// Audit lists the changes of an organisation and its apps, of a model's prices (audit.Price) or
// of a provisioning key (audit.Key), oldest first, from one time (included) to another
// (excluded). A zero time is no bound. Events expire after Options.AuditRetention, a day or two
// late. It reads pages as needed.
//
// An event is written in the transaction of its change. Its Resource is the changed app, its
// Fields have the names of fault.ValidationError, and its Action is one of:
//
//   - org_created and org_updated, by PutOrg. An update without a difference raises the
//     version, and has an event without Changes.
//   - app_created and app_updated, by PutApp, likewise.
//   - org_deleted, by DeleteOrg, and app_deleted, by DeleteApp and for each app of a
//     deleted organisation.
//   - override_set and override_cleared, by Override and ClearOverride, and prices_set, by
//     Prices.Put, Prices.Import and Prices.PutInfo. A call without a difference writes
//     nothing, and has no event.
//   - adjusted, by Adjust, once for each adjustment's id.
//   - settings_changed, by PutSettings, whose target is audit.Settings. The days that the
//     first keeper stores have no event.
//   - credentials_created, credentials_imported, secret_rotated, credentials_revoked and
//     credentials_deleted, by package credentials; key_created and key_revoked, whose target
//     is an audit.Key.
//
// Errors: *fault.ValidationError for a target without events, *fault.UnavailableError. An error
// ends the list.
func (s *Setup) Audit(ctx context.Context, target string, from, to time.Time) iter.Seq2[audit.Event, error] {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[audit.Event](err)
	}
	if model, ok := strings.CutPrefix(target, audit.Price("")); ok {
		target = priceTarget(model)
	}
	if !isSharedTarget(target) {
		if err := validUUID("target", target); err != nil {
			return problem.ErrorList[audit.Event](err)
		}
	}
	return k.admin.desk.queryEvents(ctx, target, from, to)
}

// CreateTables creates those of the two tables that are missing, on-demand, and waits until both are
// usable. It turns on TTL on ttl_epoch where it is off, of existing tables too, and changes nothing else
// of them.
func (s *Setup) CreateTables(ctx context.Context) error {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return err
	}
	for _, in := range (Tables{Control: k.store.Control, Usage: k.store.Usage}).createInputs() {
		name := *in.TableName
		_, err := k.client.CreateTable(ctx, in)
		var exists *types.ResourceInUseException
		if err != nil && !errors.As(err, &exists) {
			return wrapFailure("CreateTables", err)
		}
		waiter := dynamodb.NewTableExistsWaiter(k.client)
		if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
			return wrapFailure("CreateTables", err)
		}
		if err := enableTTL(ctx, k.client, name); err != nil {
			return wrapFailure("CreateTables", err)
		}
	}
	return nil
}
