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

// Setup configures organisations and apps, in the name of its keeper, and lists who changed
// what. Make one with Keeper.Setup. It is safe for concurrent use and has no state of its
// own.
type Setup struct{ k *Keeper }

// Setup is what configures in this keeper's name, see Keeper.As.
func (k *Keeper) Setup() *Setup { return &Setup{k} }

func (s *Setup) keeper() *Keeper {
	if s == nil {
		return nil
	}
	return s.k
}

// PutOrg creates or replaces an organisation's configuration; credentials are
// left alone. Timezone and Scope are fixed when it is made: what was counted is by them.
// Every app must stay valid under it. It raises the version and writes
// an audit.Event, also when nothing differs.
//
// To change a part of it, read it with GetOrg, change that and put it, with its Version: if
// somebody else was quicker PutOrg fails with ErrConflict and writes nothing.
//
// Errors: *fault.ValidationError, ErrConflict, *fault.UnavailableError.
func (s *Setup) PutOrg(ctx context.Context, org Org) (Org, error) {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return Org{}, err
	}
	return k.admin.putOrg(ctx, by, org)
}

// PutApp creates or replaces an app's configuration. Nil and empty fields are
// inherited from the organisation, which must exist. It raises the version and writes
// an audit.Event, also when nothing differs. App.Version is compared as PutOrg does.
func (s *Setup) PutApp(ctx context.Context, org string, app App) (App, error) {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return App{}, err
	}
	return k.admin.putApp(ctx, by, org, app)
}

// GetOrg reads an organisation's configuration from the store.
func (s *Setup) GetOrg(ctx context.Context, org string) (Org, error) {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return Org{}, err
	}
	return k.admin.getOrg(ctx, org)
}

// GetApp reads an app's own configuration from the store, without what it inherits.
func (s *Setup) GetApp(ctx context.Context, org, app string) (App, error) {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return App{}, err
	}
	return k.admin.getApp(ctx, org, app)
}

// Apps lists the apps of an organisation, by id: those that were put, and with
// Options.AllowUnknownApps those that only made calls.
func (s *Setup) Apps(ctx context.Context, org string) iter.Seq2[App, error] {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return problem.List[App](err)
	}
	if err := validUUID("org_id", org); err != nil {
		return problem.List[App](err)
	}
	return k.admin.apps(ctx, org)
}

// Orgs lists every organisation. It scans the control table. One that cannot be served comes
// with its id and an error, after all others.
func (s *Setup) Orgs(ctx context.Context) iter.Seq2[Org, error] {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return problem.List[Org](err)
	}
	return k.admin.orgs(ctx)
}

// DeleteOrg deletes an organisation with its apps. From the moment its item says so nothing
// is admitted or counted for it any more: by this process at once, by others within
// Options.ConfigTTL, or five minutes while they cannot read the control table. Calls fail
// with ErrNotFound then. What was counted stays until its time to live ends, see
// Options.KeepDays. A nil revoke leaves credentials alone.
//
// It may be called again at any time, and goes on where one that was interrupted stopped.
// Until then PutOrg fails with ErrConflict, so that no credentials and no app outlive their
// organisation. An organisation that is put again goes on with the next version, and with what
// was counted; each of its apps must be put again. DynamoDB removes what is left of one that is
// not, with what was counted.
//
// The deletion and that of each app have an audit.Event; events stay.
//
// Errors: *fault.ValidationError, ErrNotFound for one that never was, ErrConflict,
// *fault.UnavailableError, those of revoke.
func (s *Setup) DeleteOrg(ctx context.Context, org string, revoke Revoke) error {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	if err := validUUID("org_id", org); err != nil {
		return err
	}
	d := &deletion{admin: k.admin, by: by, org: org, revoke: revoke}
	return d.run(ctx, "DeleteOrg")
}

// DeleteApp deletes an app, as DeleteOrg does an organisation. Where the organisation's
// quotas count all apps together, what the app spent stays in them. PutApp creates it again;
// a call does not while anything is left of it.
func (s *Setup) DeleteApp(ctx context.Context, org, app string, revoke Revoke) error {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	if err := validTarget(org, app); err != nil {
		return err
	}
	d := &deletion{admin: k.admin, by: by, org: org, app: app, revoke: revoke}
	return d.run(ctx, "DeleteApp")
}

// Override forces an app's recommendation to one label of its ordering until an
// instant, whatever was spent. It survives a PUT; other
// processes follow within Options.ConfigTTL. A label whose model has no price is
// a *fault.ValidationError. It writes an audit.Event, unless just that is in force already.
func (s *Setup) Override(ctx context.Context, org, app, label string, until time.Time) error {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	return k.admin.override(ctx, by, org, app, label, until)
}

// ClearOverride ends an override; there need not be one. It writes an audit.Event if there
// was one.
func (s *Setup) ClearOverride(ctx context.Context, org, app string) error {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	return k.admin.clearOverride(ctx, by, org, app)
}

// Adjust charges (DeltaMicros above zero) or credits (below) a label's day,
// with a reason that is kept. Days that are closed are opened again for it.
//
// It is applied once under its ID for Options.KeepDays after its day: sent again, it answers what was applied,
// marked Duplicate; with other contents it is ErrConflict. What Adjust returns
// has the ID and the day in it, with an error too: after an *fault.UnavailableError
// send just that again. One that is applied has one audit.Event, one that is not has none.
func (s *Setup) Adjust(ctx context.Context, org, app string, a Adjustment) (Adjustment, error) {
	k := s.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return Adjustment{}, err
	}
	return k.charges.adjust(ctx, by, org, app, a)
}

// Adjustments lists what was credited and charged by hand to an app, oldest
// first; of the whole organisation for an empty app.
func (s *Setup) Adjustments(ctx context.Context, org, app string) iter.Seq2[Adjustment, error] {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return problem.List[Adjustment](err)
	}
	return k.charges.adjustments(ctx, org, app)
}

// Audit lists the changes of an organisation and its apps, of a model's prices
// (audit.Price) or of a provisioning key (audit.Key), oldest first: those from one time, and
// before another. A zero time is no bound. Events go by themselves when
// Options.AuditRetention is over, a day or two late. Pages are read as they are needed.
//
// An event was written in the transaction of its change: there is none without the other.
// Its Resource is the app that was changed, its Fields have the names that a fault.ValidationError
// gives them, and its Action is one of:
//
//   - org_created and org_updated, by PutOrg. An update that changes nothing raises the
//     version, and has an event without Changes.
//   - app_created and app_updated, by PutApp, likewise.
//   - org_deleted, by DeleteOrg, and app_deleted, by DeleteApp and for each app of an
//     organisation that is deleted.
//   - override_set and override_cleared, by Override and ClearOverride, and prices_set, by
//     Prices.Put, Prices.Import and Prices.PutInfo. What changes nothing writes nothing, and
//     has no event.
//   - adjusted, by Adjust, once for each adjustment's id.
//   - settings_changed, by PutSettings, whose target is audit.Settings; the days that the first
//     keeper stores have no event.
//   - credentials_created, credentials_imported, secret_rotated, credentials_revoked and
//     credentials_deleted, by package credentials; key_created and key_revoked, whose target
//     is an audit.Key.
//
// Errors: *fault.ValidationError for a target that can have no events, *fault.UnavailableError; the
// list ends with it.
func (s *Setup) Audit(ctx context.Context, target string, from, to time.Time) iter.Seq2[audit.Event, error] {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return problem.List[audit.Event](err)
	}
	if model, ok := strings.CutPrefix(target, audit.Price("")); ok {
		target = priceTarget(model)
	}
	if !besidesOrgs(target) {
		if err := validUUID("target", target); err != nil {
			return problem.List[audit.Event](err)
		}
	}
	return k.admin.desk.events(ctx, target, from, to)
}

// CreateTables creates the two tables, on-demand and with TTL on ttl_epoch, and
// waits until they can be used. Tables that exist are left as they are.
func (s *Setup) CreateTables(ctx context.Context) error {
	k := s.keeper()
	if err := k.usable(ctx); err != nil {
		return err
	}
	for _, in := range (Tables{Control: k.store.Control, Usage: k.store.Usage}).inputs() {
		name := *in.TableName
		_, err := k.client.CreateTable(ctx, in)
		var exists *types.ResourceInUseException
		if err != nil && !errors.As(err, &exists) {
			return failure("CreateTables", err)
		}
		waiter := dynamodb.NewTableExistsWaiter(k.client)
		if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
			return failure("CreateTables", err)
		}
		if err := enableTTL(ctx, k.client, name); err != nil {
			return failure("CreateTables", err)
		}
	}
	return nil
}
