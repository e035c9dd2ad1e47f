package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Validate returns the *ValidationError with which Limits.SetConfigs would refuse the change,
// for any stored configuration; nil if it can be made. It sends no request, and ignores
// RepositoryOptions.Compatible.
func (c ScopedConfig) Validate() error {
	_, err := c.newItem("")
	return err
}

// newItem validates the change and returns the configuration to store, or nil for a removal. A *ValidationError
// has prefix before its field.
func (c ScopedConfig) newItem(prefix string) (*schema.ConfigItem, error) {
	if err := c.Scope.validate(prefix + "scope."); err != nil {
		return nil, err
	}
	if c.Delete {
		if c.Config.hasSettings() || c.Config.ManagedBy != "" {
			return nil, invalid(prefix+"delete", "is set together with a configuration; leave one of them out")
		}
		return nil, checkConfigVersion(prefix+"config.version", c.Config.Version)
	}
	if len(c.Config.Groups) > 0 {
		if at := c.Scope.normalized(); !at.Everyone || at.Resource == "" {
			return nil, invalid(prefix+"config.groups", "are of %s; give them to a resource, for everyone", at)
		}
		if reason := schema.CheckGroups(c.Scope.Resource, c.Config.Groups); reason != "" {
			return nil, invalid(prefix+"config.groups", "%s", reason)
		}
	}
	if c.Config.Extends && c.Scope.sourceOf() == sources.System {
		return nil, invalid(prefix+"config.extends", "is set at the system, the least specific source; leave it out")
	}
	if c.Config.Admit && c.Scope.sourceOf() == sources.System {
		return nil, invalid(prefix+"config.admit", "is set at the system, the least specific source; leave it out")
	}
	next, err := c.Config.asStored(prefix + "config.")
	return &next, err
}

// checkConfigVersion returns a *ValidationError for a version below AnyVersion, which no stored source can
// have.
func checkConfigVersion(field string, version int64) error {
	if version < AnyVersion {
		return invalid(field, "is %d; give the version that you read, 0 if nothing is stored, or AnyVersion", version)
	}
	return nil
}

// hasSettings reports whether the configuration has a limit, a lifted name, Unlimited, a block, an admission, a
// policy, groups or a raise. Manager, version, Extends and Counted alone do not count.
func (c LimitConfig) hasSettings() bool {
	return len(c.Limits) > 0 || len(c.Lifted) > 0 || c.Unlimited || c.Blocked || c.BlockedExcept || c.Admit || c.OnUnavailable != "" || len(c.Groups) > 0 || len(c.Raises) > 0
}

// asStored validates the configuration, except for its groups, and returns it as a schema.ConfigItem with
// sorted lists. It refuses one without settings. A *ValidationError has prefix before its field.
func (c LimitConfig) asStored(prefix string) (schema.ConfigItem, error) {
	item := schema.ConfigItem{
		Unlimited: c.Unlimited, Counted: c.Counted, Blocked: c.Blocked, BlockedExcept: c.BlockedExcept, Admit: c.Admit,
		OnUnavailable: string(c.OnUnavailable), ManagedBy: c.ManagedBy, Version: c.Version,
	}
	item.Raises = storedRaises(c.Raises)
	if len(c.Groups) > 0 {
		item.Groups = slices.Sorted(slices.Values(c.Groups))
	}
	if p := c.OnUnavailable; p != "" && p != knownPolicy(string(p)) {
		return item, invalid(prefix+"onUnavailable", "is %q; give dynalimit.Refuse, dynalimit.Allow or dynalimit.Local", p)
	}
	if reason := schema.CheckManager(c.ManagedBy); reason != "" {
		return item, invalid(prefix+"managedBy", "%s", reason)
	}
	if err := checkConfigVersion(prefix+"version", c.Version); err != nil {
		return item, err
	}
	if !c.hasSettings() {
		return item, withFix(invalid(prefix+"limits", "are empty, and the source sets nothing else; give at least one limit, or remove the source"), fault.DeleteLimits)
	}
	if err := cmp.Or(c.checkMarks(prefix), c.checkLifted(prefix)); err != nil {
		return item, err
	}
	item.Extends, item.Lifted = c.Extends, slices.Sorted(slices.Values(c.Lifted))
	if len(c.Limits) == 0 && !c.Extends {
		return item, nil
	}
	if c.Unlimited {
		return item, invalid(prefix+"unlimited", "is set together with limits; leave one of them out")
	}
	if len(c.Limits) == 0 {
		return item, nil
	}
	var err error
	item.Limits, err = configLimits(prefix+"limits", c.Limits)
	return item, err
}

// checkMarks returns an error for invalid pairs of marks: two kinds of blocks, a block with Admit, or Counted
// without Unlimited.
func (c LimitConfig) checkMarks(prefix string) error {
	switch {
	case c.Admit && (c.Blocked || c.BlockedExcept):
		return invalid(prefix+"admit", "is set at a source that is blocked; leave one of them out")
	case c.Counted && !c.Unlimited:
		return invalid(prefix+"counted", "is set without unlimited; set that too, or leave it out")
	case c.Blocked && c.BlockedExcept:
		return invalid(prefix+"blockedExcept", "is set together with blocked, which no source lifts; leave one of them out")
	}
	return nil
}

// checkLifted returns an error for lifted names that are invalid, repeated, among the limits, or
// at a source that does not extend. A source that extends must have a limit or a lifted name.
func (c LimitConfig) checkLifted(prefix string) error {
	switch {
	case c.Extends && len(c.Limits)+len(c.Lifted) == 0:
		return invalid(prefix+"extends", "is set without limits; give the limits that extend the less specific ones, or leave it out")
	case len(c.Lifted) > 0 && !c.Extends:
		return invalid(prefix+"lifted", "is set at a source that replaces, where no limit of a less specific source applies; set extends, or leave it out")
	}
	for i, name := range c.Lifted {
		switch {
		case schema.LimitRule.Check(name) != "":
			return invalid(prefix+"lifted", "has %q: %s", name, schema.LimitRule.Check(name))
		case slices.Contains(c.Lifted[:i], name):
			return invalid(prefix+"lifted", "has %q twice", name)
		case slices.ContainsFunc(c.Limits, func(l dynalimit.Limit) bool { return l.Name == name }):
			return invalid(prefix+"lifted", "has %q, which limits have too; leave one of them out", name)
		}
	}
	return nil
}

// configLimits validates limits and returns them with defaults for the table, sorted by name. It refuses refill
// periods that are not whole seconds.
func configLimits(field string, limits []dynalimit.Limit) ([]schema.ConfigLimit, error) {
	given := make([]schema.ConfigLimit, len(limits))
	for i, l := range limits {
		given[i] = schema.ConfigLimit(l)
	}
	checked, at, reason := schema.CheckLimits(given)
	if reason != "" {
		return nil, invalid(field+at, "%s", reason)
	}
	for _, l := range checked {
		if l.RefillPeriod%time.Second != 0 {
			return nil, invalid(field+".RefillPeriod", "is %v for %q; stored limits refill in whole seconds (WithLimits takes milliseconds)", l.RefillPeriod, l.Name)
		}
	}
	return checked, nil
}

// compareScopes compares scopes for sorting: by entity, then plan, then resource. The system comes first.
func compareScopes(a, b Scope) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Resource, b.Resource))
}

// repeatedScope returns a scope that two changes of the list share; false if all differ.
func repeatedScope(list []ScopedConfig) (Scope, bool) {
	sorted := slices.Clone(list)
	for i := range sorted {
		sorted[i].Scope = sorted[i].Scope.normalized()
	}
	slices.SortFunc(sorted, func(a, b ScopedConfig) int { return compareScopes(a.Scope, b.Scope) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Scope == sorted[i-1].Scope {
			return sorted[i].Scope, true
		}
	}
	return Scope{}, false
}
