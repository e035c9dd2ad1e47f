package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// GetConfig returns what a level of configuration says; the zero LimitConfig, of Version
// 0, if nothing is stored. It is read consistently, not from the cache.
func (r *Repository) GetConfig(ctx context.Context, at Scope) (LimitConfig, error) {
	if err := r.usable(ctx); err != nil {
		return LimitConfig{}, err
	}
	if err := at.check("scope."); err != nil {
		return LimitConfig{}, err
	}
	if err := r.mayRead(ctx, at.owner()); err != nil {
		return LimitConfig{}, err
	}
	stored, err := r.admin.Config(ctx, "read limits", at.owner())
	if err != nil {
		return LimitConfig{}, r.malformedConfig(at, err)
	}
	return configOf(at.level(), stored)
}

// GetConfigs is GetConfig for many levels, which may stand in the list more than once: it
// returns them in the order of the list, with Version 0 where nothing is stored. 100 are
// read with each request, 800 at once: ten thousand take a fraction of a second. It fails
// for a level that cannot be read, which the error names, and returns nothing then.
func (r *Repository) GetConfigs(ctx context.Context, scopes []Scope) ([]ScopedConfig, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	owners := make([]schema.ConfigOwner, len(scopes))
	for i, at := range scopes {
		if err := at.check(fmt.Sprintf("scopes[%d].", i)); err != nil {
			return nil, err
		}
		owners[i] = at.owner()
	}
	if err := r.mayReadAll(ctx, owners); err != nil {
		return nil, err
	}
	read, err := r.admin.Configs(ctx, "read limits", owners)
	if err != nil {
		return nil, err
	}
	configs := make([]ScopedConfig, len(scopes))
	for i, at := range scopes {
		err := r.malformedConfig(at, read[i].Err)
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
func (r *Repository) SetConfig(ctx context.Context, at Scope, c LimitConfig) (LimitConfig, error) {
	if err := r.usable(ctx); err != nil {
		return LimitConfig{}, err
	}
	next, err := r.checkConfig(ScopedConfig{Scope: at, Config: c}, "")
	if err != nil {
		return LimitConfig{}, err
	}
	return r.putConfig(ctx, at, c, next)
}

// DeleteConfig removes what a level says, being blocked too, if what is stored has the
// version, or with AnyVersion. Removing what is not there is no error. It fails with a
// *ConfigConflictError if somebody changed the level meanwhile.
func (r *Repository) DeleteConfig(ctx context.Context, at Scope, version int64) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	if err := checkConfigVersion("version", version); err != nil {
		return err
	}
	_, err := r.putConfig(ctx, at, LimitConfig{Version: version}, nil)
	return err
}

// SetBlocked blocks a level, or lifts that: nothing else that it says is changed. A
// blocked level admits no call, whatever more specific levels say: Acquire fails with
// ErrBlocked. It is in force in this process at once, in others within their ConfigTTL.
func (r *Repository) SetBlocked(ctx context.Context, at Scope, blocked bool) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	return r.changeConfig(ctx, "set blocked", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
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
// charges too keep their limits. SetLimits ends it.
func (r *Repository) SetUnlimited(ctx context.Context, at Scope) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := at.check("scope."); err != nil {
		return err
	}
	return r.changeConfig(ctx, "set unlimited", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{Unlimited: true}
		if old != nil {
			next.OnUnavailable, next.Blocked, next.ManagedBy = old.OnUnavailable, old.Blocked, old.ManagedBy
		}
		return &next, nil
	})
}

// SetConfigs makes many changes, each like SetConfig or DeleteConfig: as many as fit in
// each transaction, so that a thousand take seconds. Changes of one transaction are made
// together; those whose level was changed meanwhile are left out. It returns an error for
// each change, nil for one that was made, in their order, or a single error if the input
// is bad: then nothing was written. A call that failed can be repeated.
func (r *Repository) SetConfigs(ctx context.Context, changes []ScopedConfig) ([]error, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	edits := make([]admin.ConfigEdit, len(changes))
	for i, c := range changes {
		edit, err := r.editOf(c, fmt.Sprintf("changes[%d].", i))
		if err != nil {
			return nil, err
		}
		edits[i] = edit
	}
	if twice, ok := sameScope(changes); ok {
		return nil, invalid("changes", "change %s twice; give each level once", twice)
	}
	by, err := r.mayChange(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.takeOverAllBeforeChange(ctx, edits); err != nil {
		return nil, err
	}
	owners := make([]schema.ConfigOwner, len(edits))
	for i := range edits {
		owners[i] = edits[i].Owner
	}
	r.evictConfig(owners...)
	defer r.evictConfig(owners...)
	errs := r.admin.ChangeConfigs(ctx, by, "set limits", edits)
	for i, err := range errs {
		errs[i] = r.kindError(fmt.Sprintf("changes[%d]", i), err)
	}
	return errs, nil
}

// editOf is a checked change. Fields are named with a prefix.
func (r *Repository) editOf(c ScopedConfig, prefix string) (admin.ConfigEdit, error) {
	next, err := r.checkConfig(c, prefix)
	return admin.ConfigEdit{Owner: c.Scope.owner(), Edit: c.Config.replacing(c.Scope, next), Removes: next == nil}, err
}

// checkConfig refuses a change that cannot be made, and returns what it leaves stored.
func (r *Repository) checkConfig(c ScopedConfig, prefix string) (*schema.ConfigItem, error) {
	next, err := c.item(prefix)
	if err != nil || next == nil { // what other tools refuse can be removed
		return nil, err
	}
	return next, r.compatible(c.Scope.Resource, prefix+"config.limits", c.Config.Limits)
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
func (r *Repository) putConfig(ctx context.Context, at Scope, c LimitConfig, next *schema.ConfigItem) (LimitConfig, error) {
	stored, err := r.editConfig(ctx, "set limits", at, c.replacing(at, next))
	if err != nil {
		return LimitConfig{}, err
	}
	return configOf(at.level(), stored)
}

// malformedConfig is an error that says which level cannot be read.
func (r *Repository) malformedConfig(at Scope, err error) error {
	if reason, ok := admin.Malformed(err); ok {
		if unknown := r.kindError(storedField(at.level()), reason); errors.Is(unknown, ErrVersion) {
			return unknown
		}
		return invalid(storedField(at.level()), "cannot be read: %v; set them again", reason)
	}
	return err
}

// Scopes lists every level of configuration that says anything: the system, resources,
// plans, entities. Lists and indexes are read, which may lag behind a change by a moment.
// A level that zae-limiter wrote is listed as it lists it.
func (r *Repository) Scopes(ctx context.Context) iter.Seq2[Scope, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[Scope](err)
	}
	return func(yield func(Scope, error) bool) {
		for owner, err := range r.admin.Owners(ctx) {
			if !yield(scopeOf(owner), err) || err != nil {
				return
			}
		}
	}
}

// Plans lists the plans that have any configuration, by name. An index is read, which may
// lag behind a change by a moment.
func (r *Repository) Plans(ctx context.Context) iter.Seq2[string, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return func(yield func(string, error) bool) {
		last := ""
		for owner, err := range r.admin.PlanOwners(ctx) {
			if err == nil && owner.Plan == last {
				continue
			}
			if last = owner.Plan; !yield(owner.Plan, err) || err != nil {
				return
			}
		}
	}
}

// Resources lists the resources that have limits for every entity, by name.
func (r *Repository) Resources(ctx context.Context) iter.Seq2[string, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return r.admin.Resources(ctx)
}

// level is the level of configuration that the scope is of.
func (s Scope) level() ConfigLevel {
	switch {
	case s.Entity != "" && s.Resource != "":
		return LevelEntity
	case s.Entity != "":
		return LevelEntityDefault
	case s.Plan != "" && s.Resource != "":
		return LevelPlan
	case s.Plan != "":
		return LevelPlanDefault
	case s.Resource != "":
		return LevelResource
	}
	return LevelSystem
}

// normal spells a scope in its one way: _default_ is the name that "every resource" has in
// the table.
func (s Scope) normal() Scope {
	if s.Resource == schema.DefaultResource && (s.Entity != "" || s.Plan != "") {
		s.Resource = ""
	}
	return s
}

// owner is the scope as the table has it.
func (s Scope) owner() schema.ConfigOwner {
	return schema.ConfigOwner{Entity: s.Entity, Plan: s.Plan, Resource: s.Resource}.Normal()
}

func scopeOf(o schema.ConfigOwner) Scope {
	return Scope{Entity: o.Entity, Plan: o.Plan, Resource: o.Resource}.normal()
}

// configOf is what a stored configuration says, nil for none stored.
func configOf(level ConfigLevel, c *schema.ConfigItem) (LimitConfig, error) {
	if c == nil {
		return LimitConfig{}, nil
	}
	limits, err := limitsOf(level, c.Limits)
	return LimitConfig{
		Limits: limits, Unlimited: c.Unlimited, Blocked: c.Blocked, OnUnavailable: knownPolicy(c.OnUnavailable), ManagedBy: c.ManagedBy, Version: c.Version,
	}, err
}

// knownPolicy is a stored policy; "" for an unknown one.
func knownPolicy(text string) UnavailablePolicy {
	if p := UnavailablePolicy(text); p == Block || p == Allow || p == Local {
		return p
	}
	return ""
}

// compareScopes orders scopes by what they name: the system, resources, plans, entities.
func compareScopes(a, b Scope) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Resource, b.Resource))
}

// sameScope is a scope that stands twice in a list, false if none does.
func sameScope(list []ScopedConfig) (Scope, bool) {
	sorted := slices.Clone(list)
	for i := range sorted {
		sorted[i].Scope = sorted[i].Scope.normal()
	}
	slices.SortFunc(sorted, func(a, b ScopedConfig) int { return compareScopes(a.Scope, b.Scope) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Scope == sorted[i-1].Scope {
			return sorted[i].Scope, true
		}
	}
	return Scope{}, false
}
