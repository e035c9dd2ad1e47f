package budget

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// override is a label forced by an administrator until an instant.
type override struct {
	label string
	until time.Time
}

const attrUntil = "until_epoch_ms"

func decodeOverride(item store.Item) (override, error) {
	var d store.Decoder
	return override{d.String(item, store.AttrLabel), time.UnixMilli(d.Int(item, attrUntil))}, d.Err
}

// Override forces an app's recommendation to one label of its ordering until an
// instant. Under soft enforcement that holds whatever was spent, for Reserve
// too. A hard quota is not lifted by it: once the label has no room, the choice
// is the usual one; raise the quota to go on. It survives a PUT; other
// processes follow within Options.ConfigTTL. A label whose model has no price is
// a *ValidationError.
func (k *Keeper) Override(ctx context.Context, org, app, label string, until time.Time) error {
	if err := k.usable(ctx); err != nil {
		return err
	}
	return k.admin.override(ctx, org, app, label, until)
}

func (adm *administration) override(ctx context.Context, org, app, label string, until time.Time) error {
	if err := validTarget(org, app); err != nil {
		return err
	}
	if !until.After(adm.now()) {
		return invalid("until", "%s is not in the future", until.Format(time.RFC3339))
	}
	t, err := adm.tenants.get(ctx, org, app)
	if err != nil {
		return err
	}
	now := adm.now()
	if !slices.Contains(t.policy(now).ordering, label) {
		return invalidLabel(label)
	}
	if _, _, err := t.cost(label, Tokens{}, now); err != nil {
		return err
	}
	item := overrideKey(org, app).Attributes()
	item[store.AttrLabel], item[attrUntil] = store.String(label), store.Int(until.UnixMilli())
	item[store.AttrTTL] = store.Int(until.Unix() + 1)
	err = store.Retry(ctx, func() error { return adm.store.Put(ctx, adm.store.Control, item, "", nil, nil) })
	adm.tenants.evict(org)
	return failure("Override", err)
}

// ClearOverride ends an override; there need not be one.
func (k *Keeper) ClearOverride(ctx context.Context, org, app string) error {
	if err := k.usable(ctx); err != nil {
		return err
	}
	return k.admin.clearOverride(ctx, org, app)
}

func (adm *administration) clearOverride(ctx context.Context, org, app string) error {
	if err := validTarget(org, app); err != nil {
		return err
	}
	err := adm.store.Delete(ctx, adm.store.Control, overrideKey(org, app))
	adm.tenants.evict(org)
	return failure("ClearOverride", err)
}

func invalidLabel(label string) error {
	return &ValidationError{
		Package: pkg, Field: "model_label", Code: CodeInvalidModelLabel, Reason: fmt.Sprintf("label %q is not in the app's ordering", label),
	}
}
