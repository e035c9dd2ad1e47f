package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Limits are the limits of the system, resources, plans and entities, by Scope.
type Limits struct{ d *desk }

// GetConfig returns a source's configuration; the zero LimitConfig, of Version
// 0, if nothing is stored. It is read consistently, not from the cache.
func (l Limits) GetConfig(ctx context.Context, at Scope) (LimitConfig, error) {
	if err := cmp.Or(l.d.Usable(ctx), at.validate("scope.")); err != nil {
		return LimitConfig{}, err
	}
	item, err := l.d.readConfig(ctx, opReadLimits, at.asOwner())
	if err != nil {
		return LimitConfig{}, err
	}
	return at.decodeSource(l.d, item)
}

// GetConfigs is GetConfig for many sources, which may be repeated. It
// returns them in the order of the list, with Version 0 if nothing is stored. 100 are
// read with each request, 800 at once: ten thousand take a fraction of a second. If
// a source cannot be read, it returns only an error that names the source.
func (l Limits) GetConfigs(ctx context.Context, scopes []Scope) ([]ScopedConfig, error) {
	return readConfigs(ctx, l.d, scopes, l.d.readConfigsOf)
}

// GetConfigsEventually is GetConfigs with eventually consistent reads, at half the price: a source may lack the
// change of the last moment. It does not find limits of the layout before composite items.
func (l Limits) GetConfigsEventually(ctx context.Context, scopes []Scope) ([]ScopedConfig, error) {
	return readConfigs(ctx, l.d, scopes, func(ctx context.Context, op string, owners []schema.ConfigOwner) ([]schema.Item, error) {
		keys := make([]schema.Key, len(owners))
		for i, owner := range owners {
			keys[i] = l.d.Keys.Config(owner)
		}
		return l.d.Table.GetManyEventually(ctx, op, keys)
	})
}

// readConfigs reads the configurations of scopes with the function read, and returns them in that order, with
// Version 0 if nothing is stored. A bad scope or an unreadable source fails the whole call.
func readConfigs(ctx context.Context, d *desk, scopes []Scope, read func(context.Context, string, []schema.ConfigOwner) ([]schema.Item, error)) ([]ScopedConfig, error) {
	if err := d.Usable(ctx); err != nil {
		return nil, err
	}
	owners := make([]schema.ConfigOwner, len(scopes))
	for i, at := range scopes {
		if err := at.validate(fmt.Sprintf("scopes[%d].", i)); err != nil {
			return nil, err
		}
		owners[i] = at.asOwner()
	}
	items, err := read(ctx, opReadLimits, owners)
	if err != nil {
		return nil, err
	}
	configs := make([]ScopedConfig, len(scopes))
	for i, at := range scopes {
		configs[i].Scope = at.normalized()
		if configs[i].Config, err = at.decodeSource(d, items[i]); err != nil {
			return nil, withinField(fmt.Sprintf("scopes[%d] (%s): ", i, at), err)
		}
	}
	return configs, nil
}

// SetConfig replaces a source's whole configuration by c, if the stored one has c's Version. That is the one
// that GetConfig returned, 0 for nothing stored, or AnyVersion. It returns c with its new Version; storing the
// stored configuration again writes nothing. It fails with a *ConflictError[ScopedConfig] with both if another
// writer changed the source meanwhile. It fails with a *ValidationError for bad input, and for limits that go
// out of force without LimitConfig.Only.
func (l Limits) SetConfig(ctx context.Context, at Scope, c LimitConfig) (LimitConfig, error) {
	return l.setConfig(ctx, at, c, nil)
}

// setConfig is SetConfig for a caller that takes the limits named in removed off the list. Among these only
// limits of money need LimitConfig.Only.
func (l Limits) setConfig(ctx context.Context, at Scope, c LimitConfig, removed []string) (LimitConfig, error) {
	next, err := ScopedConfig{Scope: at, Config: c}.checkFor(l.d, "")
	if err != nil {
		return LimitConfig{}, err
	}
	if err := l.d.checkChange(ctx); err != nil {
		return LimitConfig{}, err
	}
	if err := l.d.prepareConfigs(ctx, lossCheck{removed: removed}, ScopedConfig{Scope: at, Config: c}); err != nil {
		return LimitConfig{}, err
	}
	stored, err := l.editAndReturn(ctx, "set limits", at, c.replaceEdit(at, next))
	if err != nil {
		return LimitConfig{}, err
	}
	return configOf(at.sourceOf(), stored)
}

// SetUnlimited makes a source unlimited in place of its limits, lifted names and raises. For its owner and
// resource, neither less specific sources nor Options.Limits apply. Charged parents keep their limits.
// Limits.Set ends it. It refuses to take money out of force: lift that with SetConfig and LimitConfig.Only.
func (l Limits) SetUnlimited(ctx context.Context, at Scope) error {
	if err := l.d.refuseLosses(ctx, lossCheck{keepsGroups: true}, ScopedConfig{Scope: at, Config: LimitConfig{Unlimited: true}}); err != nil {
		return err
	}
	return l.editSource(ctx, "set unlimited", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		return withRestOf(old, schema.ConfigItem{Unlimited: true}), nil
	})
}

// replaceEdit returns an edit that replaces the configuration by next, or removes it if next is nil. The edit
// returns a *ConflictError[ScopedConfig] if the stored version is not c's, and an error for a raise that is not
// stored.
func (c LimitConfig) replaceEdit(at Scope, next *schema.ConfigItem) edit {
	return func(stored *schema.ConfigItem) (*schema.ConfigItem, error) {
		var version int64
		if stored != nil {
			version = stored.Version
		}
		if c.Version != AnyVersion && c.Version != version {
			now, err := configOf(at.sourceOf(), stored)
			if err != nil { // the stored configuration is unreadable, but has a version
				now = LimitConfig{Version: version}
			}
			at := at.normalized()
			return nil, &ConflictError[ScopedConfig]{Yours: ScopedConfig{Scope: at, Config: c}, Stored: ScopedConfig{Scope: at, Config: now}}
		}
		return next, checkNoNewRaise(next, stored)
	}
}

// decodeSource decodes a stored configuration of the source and leaves out ended raises. It returns the zero
// LimitConfig for a nil item, and an error that names the source for an unreadable one.
func (s Scope) decodeSource(d *desk, item schema.Item) (LimitConfig, error) {
	if item == nil {
		return LimitConfig{}, nil
	}
	stored, err := schema.DecodeConfig(item)
	if err != nil {
		if unknown := d.Layout.KindError(storedField(s.sourceOf()), err); errors.Is(unknown, fault.ErrVersion) {
			return LimitConfig{}, unknown
		}
		return LimitConfig{}, invalid(storedField(s.sourceOf()), "cannot be read: %v; set them again", err)
	}
	stored = stored.WithoutEnded(d.Clock.Now().Unix())
	return configOf(s.sourceOf(), &stored)
}

// Set replaces the list of a source, its limits and lifted names, ends its raises, and keeps the rest of the
// source. It refuses a list that would hide limits in force of less specific sources: Add keeps them, and
// SetConfig with LimitConfig.Only hides them. The limits are in force in this process at once, in others within
// their ConfigTTL. It fails with a *ValidationError before anything is written. Storing the stored limits again
// writes nothing. An entity or a plan needs no record.
func (l Limits) Set(ctx context.Context, at Scope, limits []dynalimit.Limit) error {
	stored, err := configLimits("limits", limits)
	if err != nil {
		return err
	}
	if err := l.d.checkCompatible(at.Resource, "limits", stored); err != nil {
		return err
	}
	if err := cmp.Or(at.validate("scope."), l.d.checkChange(ctx)); err != nil {
		return err
	}
	if err := l.d.prepareConfigs(ctx, lossCheck{keepsGroups: true}, ScopedConfig{Scope: at, Config: LimitConfig{Limits: limits}}); err != nil {
		return err
	}
	return l.editSource(ctx, "set limits", at, replaceLimitsEdit(stored))
}

// Delete removes a source's configuration, except for its block: a call about limits
// must not admit anybody. Removing a missing source is not an error. Limits.SetConfigs
// removes a block too, see ScopedConfig.Delete. Delete refuses to leave money limited
// nowhere: delete that with SetConfigs and LimitConfig.Only.
func (l Limits) Delete(ctx context.Context, at Scope) error {
	if err := l.d.refuseLosses(ctx, lossCheck{}, ScopedConfig{Scope: at, Delete: true}); err != nil {
		return err
	}
	return l.editSource(ctx, "delete limits", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		if old != nil && (old.Blocked || old.BlockedExcept) {
			return &schema.ConfigItem{Blocked: old.Blocked, BlockedExcept: old.BlockedExcept, ManagedBy: old.ManagedBy}, nil
		}
		return nil, nil
	})
}

// replaceLimitsEdit returns an edit that replaces a source's limits, lifted names and raises by limits that do
// not extend. It keeps the policy, groups, manager, blocks and admission.
func replaceLimitsEdit(stored []schema.ConfigLimit) edit {
	return func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		return withRestOf(old, schema.ConfigItem{Limits: stored}), nil
	}
}

// withRestOf returns next with the policy, groups, manager, blocks and admission of old, which may be nil. It
// does not keep old's limits, lifted names and raises.
func withRestOf(old *schema.ConfigItem, next schema.ConfigItem) *schema.ConfigItem {
	if old != nil {
		next.OnUnavailable, next.Groups, next.ManagedBy = old.OnUnavailable, old.Groups, old.ManagedBy
		next.Blocked, next.BlockedExcept, next.Admit = old.Blocked, old.BlockedExcept, old.Admit
	}
	return &next
}

// editSource applies an edit to a source's configuration, with its event, as editAndReturn does, and returns
// only the error.
func (l Limits) editSource(ctx context.Context, op string, at Scope, next edit) error {
	_, err := l.editAndReturn(ctx, op, at, next)
	return err
}

// editAndReturn applies an edit to a source's configuration and returns the stored result, nil if it is
// removed. It first converts limits of the older layout. It calls next again after a conflict, and writes
// nothing if nothing changes. Limiters of this process then read the configuration again.
func (l Limits) editAndReturn(ctx context.Context, op string, at Scope, next edit) (*schema.ConfigItem, error) {
	if err := at.validate("scope."); err != nil {
		return nil, err
	}
	if err := l.d.checkChange(ctx); err != nil {
		return nil, err
	}
	c := configChange{owner: at.asOwner(), edit: next}
	if err := l.d.takeOverBeforeChange(ctx, c.owner); err != nil {
		return nil, err
	}
	l.d.Told.Owners(c.owner)
	defer l.d.Told.Owners(c.owner)
	err := l.d.Table.Change(ctx, op, func() (table.Proposal, error) {
		item, err := l.d.Table.Get(ctx, op, l.d.Keys.Config(c.owner))
		if err != nil {
			return table.Proposal{}, err
		}
		return l.d.proposeConfig(&c, item)
	})
	if err != nil {
		return nil, l.d.Layout.KindError(storedField(at.sourceOf()), err)
	}
	l.d.removeZeroCounts(ctx, op, &c)
	return c.next, nil
}
