package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Limits are the limits of the system, resources, plans and entities, by Scope.
type Limits struct{ d *desk }

// GetConfig returns what a level of configuration says; the zero LimitConfig, of Version
// 0, if nothing is stored. It is read consistently, not from the cache.
func (l Limits) GetConfig(ctx context.Context, at Scope) (LimitConfig, error) {
	if err := l.d.repo.Usable(ctx); err != nil {
		return LimitConfig{}, err
	}
	if err := at.check("scope."); err != nil {
		return LimitConfig{}, err
	}
	if err := l.d.mayRead(ctx, at.owner()); err != nil {
		return LimitConfig{}, err
	}
	stored, err := l.d.repo.Items.Configs.Get(ctx, "read limits", at.owner())
	if err != nil {
		return LimitConfig{}, l.malformedConfig(at, err)
	}
	return configOf(at.level(), stored)
}

// GetConfigs is GetConfig for many levels, which may stand in the list more than once: it
// returns them in the order of the list, with Version 0 where nothing is stored. 100 are
// read with each request, 800 at once: ten thousand take a fraction of a second. It fails
// for a level that cannot be read, which the error names, and returns nothing then.
func (l Limits) GetConfigs(ctx context.Context, scopes []Scope) ([]ScopedConfig, error) {
	if err := l.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	owners := make([]schema.ConfigOwner, len(scopes))
	for i, at := range scopes {
		if err := at.check(fmt.Sprintf("scopes[%d].", i)); err != nil {
			return nil, err
		}
		owners[i] = at.owner()
	}
	if err := l.d.mayReadAll(ctx, owners); err != nil {
		return nil, err
	}
	read, err := l.d.repo.Items.Configs.GetMany(ctx, "read limits", owners)
	if err != nil {
		return nil, err
	}
	configs := make([]ScopedConfig, len(scopes))
	for i, at := range scopes {
		err := l.malformedConfig(at, read[i].Err)
		if err == nil {
			configs[i].Scope = at.normal()
			configs[i].Config, err = configOf(at.level(), read[i].Config)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("scopes[%d] (%s): ", i, at), err)
		}
	}
	return configs, nil
}

// SetConfig replaces what a level says by c, limits and all, if what is stored has c's
// Version: the one that GetConfig returned, 0 for nothing stored, or AnyVersion. It
// returns c with its new Version; to store again what is stored writes nothing. It fails
// with a *ConfigConflictError that shows both if somebody changed the level meanwhile,
// and with a *ValidationError for bad input.
func (l Limits) SetConfig(ctx context.Context, at Scope, c LimitConfig) (LimitConfig, error) {
	if err := l.d.repo.Usable(ctx); err != nil {
		return LimitConfig{}, err
	}
	next, err := l.checkConfig(ScopedConfig{Scope: at, Config: c}, "")
	if err != nil {
		return LimitConfig{}, err
	}
	return l.putConfig(ctx, at, c, next)
}

// DeleteConfig removes what a level says, being blocked too, if what is stored has the
// version, or with AnyVersion. Removing what is not there is no error. It fails with a
// *ConfigConflictError if somebody changed the level meanwhile.
func (l Limits) DeleteConfig(ctx context.Context, at Scope, version int64) error {
	if err := l.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	if err := checkConfigVersion("version", version); err != nil {
		return err
	}
	_, err := l.putConfig(ctx, at, LimitConfig{Version: version}, nil)
	return err
}

// SetBlocked blocks a level, or lifts that: nothing else that it says is changed. A
// blocked level admits no call, whatever more specific levels say: Acquire fails with
// ErrBlocked. It is in force in this process at once, in others within their ConfigTTL.
func (l Limits) SetBlocked(ctx context.Context, at Scope, blocked bool) error {
	if err := l.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	return l.changeConfig(ctx, "set blocked", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{}
		if old != nil {
			next = *old
		}
		next.Blocked = blocked
		return next.OrNone(), nil
	})
}

// SetUnlimited makes a level unlimited instead of what limits it has: for what it is
// about, neither less specific levels nor Options.Limits apply. Parents that a call
// charges too keep their limits. Limits.Set ends it.
func (l Limits) SetUnlimited(ctx context.Context, at Scope) error {
	if err := l.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	return l.changeConfig(ctx, "set unlimited", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		return keeping(old, schema.ConfigItem{Unlimited: true}), nil
	})
}

// SetConfigs makes many changes, each like SetConfig or DeleteConfig: as many as fit in
// each transaction, so that a thousand take seconds. Changes of one transaction are made
// together; those whose level was changed meanwhile are left out. It returns an error for
// each change, nil for one that was made, in their order, or a single error if the input
// is bad: then nothing was written. A call that failed can be repeated.
func (l Limits) SetConfigs(ctx context.Context, changes []ScopedConfig) ([]error, error) {
	if err := l.d.repo.Usable(ctx); err != nil {
		return nil, err
	}
	edits := make([]admin.ConfigEdit, len(changes))
	for i, c := range changes {
		edit, err := l.editOf(c, fmt.Sprintf("changes[%d].", i))
		if err != nil {
			return nil, err
		}
		edits[i] = edit
	}
	if twice, ok := sameScope(changes); ok {
		return nil, invalid("changes", "change %s twice; give each level once", twice)
	}
	by, err := l.d.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.d.takeOverAllBeforeChange(ctx, edits); err != nil {
		return nil, err
	}
	owners := make([]schema.ConfigOwner, len(edits))
	for i := range edits {
		owners[i] = edits[i].Owner
	}
	l.d.repo.Told.Owners(owners...)
	defer l.d.repo.Told.Owners(owners...)
	errs := l.d.repo.Items.Configs.ChangeMany(ctx, by, "set limits", edits)
	for i, err := range errs {
		errs[i] = l.d.repo.Layout.KindError(fmt.Sprintf("changes[%d]", i), err)
	}
	return errs, nil
}

// editOf is a checked change. Fields are named with a prefix.
func (l Limits) editOf(c ScopedConfig, prefix string) (admin.ConfigEdit, error) {
	next, err := l.checkConfig(c, prefix)
	return admin.ConfigEdit{Owner: c.Scope.owner(), Edit: c.Config.replacing(c.Scope, next), Removes: next == nil}, err
}

// checkConfig refuses a change that cannot be made, and returns what it leaves stored.
func (l Limits) checkConfig(c ScopedConfig, prefix string) (*schema.ConfigItem, error) {
	next, err := c.item(prefix)
	if err != nil || next == nil { // what other tools refuse can be removed
		return nil, err
	}
	return next, l.d.compatible(c.Scope.Resource, prefix+"config.limits", next.Limits)
}

// replacing makes next of what is stored, nil to remove it, if its version is c's.
func (c LimitConfig) replacing(at Scope, next *schema.ConfigItem) admin.Edit {
	return func(stored *schema.ConfigItem) (*schema.ConfigItem, error) {
		var version int64
		if stored != nil {
			version = stored.Version
		}
		if c.Version != AnyVersion && c.Version != version {
			now, err := configOf(at.level(), stored)
			if err != nil { // what is stored cannot be shown: its version can
				now = LimitConfig{Version: version}
			}
			return nil, &ConfigConflictError{Scope: at.normal(), Yours: c, Stored: now}
		}
		return next, nil
	}
}

// putConfig replaces what a level says, if its version is c's, and returns what is stored.
func (l Limits) putConfig(ctx context.Context, at Scope, c LimitConfig, next *schema.ConfigItem) (LimitConfig, error) {
	stored, err := l.editConfig(ctx, "set limits", at, c.replacing(at, next))
	if err != nil {
		return LimitConfig{}, err
	}
	return configOf(at.level(), stored)
}

// malformedConfig is an error that says which level cannot be read.
func (l Limits) malformedConfig(at Scope, err error) error {
	if reason, ok := admin.Malformed(err); ok {
		if unknown := l.d.repo.Layout.KindError(storedField(at.level()), reason); errors.Is(unknown, fault.ErrVersion) {
			return unknown
		}
		return invalid(storedField(at.level()), "cannot be read: %v; set them again", reason)
	}
	return err
}

// Set replaces the limits of a level; what else it says stays. They are in force in
// this process at once, in others within their ConfigTTL. It fails with a
// *ValidationError before anything is written. To store again what is stored writes
// nothing. An entity or a plan needs no record.
func (l Limits) Set(ctx context.Context, at Scope, limits []dynalimit.Limit) error {
	if err := l.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	stored, err := configLimits("limits", limits)
	if err != nil {
		return err
	}
	if err := l.d.compatible(at.Resource, "limits", stored); err != nil {
		return err
	}
	return l.changeConfig(ctx, "set limits", at, replacingLimits(stored))
}

// Delete removes what a level says, but for being blocked: nobody is to be let in by
// a call that does not speak of it. Removing what is not there is no error. DeleteConfig
// removes a block too.
func (l Limits) Delete(ctx context.Context, at Scope) error {
	if err := l.d.repo.Usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	return l.changeConfig(ctx, "delete limits", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		if old != nil && old.Blocked {
			return &schema.ConfigItem{Blocked: true, ManagedBy: old.ManagedBy}, nil
		}
		return nil, nil
	})
}

// replacingLimits replaces the limits of a level.
func replacingLimits(stored []schema.ConfigLimit) admin.Edit {
	return func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		return keeping(old, schema.ConfigItem{Limits: stored}), nil
	}
}

// keeping is next with what is not about limits of the old configuration; nil for none.
func keeping(old *schema.ConfigItem, next schema.ConfigItem) *schema.ConfigItem {
	if old != nil {
		next.OnUnavailable, next.Blocked, next.ManagedBy = old.OnUnavailable, old.Blocked, old.ManagedBy
	}
	return &next
}

// changeConfig changes what a level says.
func (l Limits) changeConfig(ctx context.Context, op string, at Scope, edit admin.Edit) error {
	if err := l.d.repo.Usable(ctx); err != nil {
		return err
	}
	_, err := l.editConfig(ctx, op, at, edit)
	return err
}

// editConfig changes what a level says, and returns what is stored.
func (l Limits) editConfig(ctx context.Context, op string, at Scope, edit admin.Edit) (*schema.ConfigItem, error) {
	by, err := l.d.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	owner := at.owner()
	if err := l.d.takeOverBeforeChange(ctx, owner); err != nil {
		return nil, err
	}
	l.d.repo.Told.Owners(owner)
	defer l.d.repo.Told.Owners(owner)
	stored, err := l.d.repo.Items.Configs.Change(ctx, by, op, owner, edit)
	return stored, l.d.repo.Layout.KindError(storedField(at.level()), err)
}
