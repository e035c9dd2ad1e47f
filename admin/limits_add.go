package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Add sets limits of a level by name, and hides none: other limits of the level stay, and a level
// without a list is made one that extends less specific levels (LimitConfig.Extends). A level with
// a list that replaces goes on replacing. The system's list cannot extend: there Add makes or
// changes it. It fails with a *ValidationError before anything is written, also for a level that is
// unlimited.
func (l Limits) Add(ctx context.Context, at Scope, limits []dynalimit.Limit) error {
	stored, err := configLimits("limits", limits)
	if err != nil {
		return err
	}
	if err := cmp.Or(at.check("scope."), l.d.mayChange(ctx)); err != nil {
		return err
	}
	extends := at.normal() != Scope{Everyone: true}
	if err := l.prepareAdd(ctx, at, limits, extends); err != nil {
		return err
	}
	return l.change(ctx, "add limits", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{}
		if old != nil {
			next = *old
		}
		if next.Unlimited {
			return nil, fixable(invalid("scope", "%s is unlimited, where no limit applies; replace that first", at), fault.SetConfigs)
		}
		if len(next.Limits)+len(next.Lifted) == 0 {
			next.Extends = extends
		}
		next.Limits = slices.Clone(next.Limits)
		for _, limit := range stored {
			next.Limits = slices.DeleteFunc(next.Limits, func(l schema.ConfigLimit) bool { return l.Name == limit.Name })
			next.Lifted = without(next.Lifted, limit.Name)
		}
		next.Limits = append(next.Limits, stored...)
		slices.SortFunc(next.Limits, func(a, b schema.ConfigLimit) int { return strings.Compare(a.Name, b.Name) })
		if n := len(next.Limits); n > schema.MaxLimits {
			return nil, invalid("limits", "make %d with those of %s; a bucket holds at most %d", n, at, schema.MaxLimits)
		}
		return &next, nil
	})
}

// prepareAdd refuses limits that cannot be added, and those that take money out of force: in shadow,
// or of no unit.
func (l Limits) prepareAdd(ctx context.Context, at Scope, limits []dynalimit.Limit, extends bool) error {
	after, err := l.GetConfig(ctx, at)
	if err != nil || after.Unlimited { // which is refused below
		return err
	}
	if len(after.Limits)+len(after.Lifted) == 0 {
		after.Extends = extends
	}
	for _, limit := range limits {
		after.Limits = slices.DeleteFunc(after.Limits, func(l dynalimit.Limit) bool { return l.Name == limit.Name })
		after.Lifted = without(after.Lifted, limit.Name)
	}
	given := LimitConfig{Limits: limits, Extends: after.Extends}
	after.Limits = append(after.Limits, limits...)
	if n := len(after.Limits); n > schema.MaxLimits {
		return invalid("limits", "make %d with those of %s; a bucket holds at most %d", n, at, schema.MaxLimits)
	}
	if _, err := l.checkConfig(ScopedConfig{Scope: at, Config: given}, ""); err != nil {
		return err
	}
	if err := l.d.refuseLosses(ctx, ScopedConfig{Scope: at, Config: after}); err != nil {
		return err
	}
	return l.d.prepareList(ctx, ScopedConfig{Scope: at, Config: given})
}

// Remove takes names off a level's list: limits, and limits that it lifts. Less specific levels'
// limits of these names apply again if the level extends. The last name takes the list with it. A
// name that is not there is no error. Money that would be limited nowhere any more is refused: see
// LimitConfig.Only.
func (l Limits) Remove(ctx context.Context, at Scope, names []string) error {
	for _, name := range names {
		if reason := schema.CheckLimitName(name); reason != "" {
			return invalid("names", "has %q: %s", name, reason)
		}
	}
	if err := l.d.mayChange(ctx); err != nil {
		return err
	}
	rest, err := l.GetConfig(ctx, at)
	if err != nil {
		return err
	}
	rest.Limits = slices.DeleteFunc(rest.Limits, func(l dynalimit.Limit) bool { return slices.Contains(names, l.Name) })
	rest.Lifted = without(rest.Lifted, names...)
	after := ScopedConfig{Scope: at, Config: rest}
	if len(rest.Limits)+len(rest.Lifted) == 0 {
		after.Config.Extends = false
		if after.Delete = !after.Config.says(); after.Delete {
			after.Config = LimitConfig{}
		}
	}
	if err := l.d.refuseLosses(ctx, after); err != nil {
		return err
	}
	return l.change(ctx, "remove limits", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		if old == nil {
			return nil, nil
		}
		next := *old
		next.Limits = slices.DeleteFunc(slices.Clone(next.Limits), func(l schema.ConfigLimit) bool { return slices.Contains(names, l.Name) })
		next.Lifted = without(next.Lifted, names...)
		next.Extends = next.Extends && len(next.Limits)+len(next.Lifted) > 0
		return next.OrNone(), nil
	})
}

// Lift takes limits of less specific levels away by name at a level that extends, or that has no
// list: calls may name them and are charged nothing for them. Limits of the level of these names go
// too. It refuses a level with a list that replaces, the system, and names of money: see
// LimitConfig.Only.
func (l Limits) Lift(ctx context.Context, at Scope, names []string) error {
	now, err := l.GetConfig(ctx, at)
	if err != nil {
		return err
	}
	if now.Unlimited {
		return fixable(invalid("scope", "%s is unlimited, where no limit applies; replace that first", at), fault.SetConfigs)
	}
	if !now.Extends && len(now.Limits) > 0 {
		return fixable(invalid("scope", "%s has a list that replaces less specific ones, so that there is nothing to lift; replace the list", at), fault.SetConfigs)
	}
	now.Extends = true
	now.Limits = slices.DeleteFunc(now.Limits, func(l dynalimit.Limit) bool { return slices.Contains(names, l.Name) })
	now.Lifted = append(without(now.Lifted, names...), names...)
	_, err = l.SetConfig(ctx, at, now)
	return err
}

// without is a list without some of its texts.
func without(list []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(gone, s) })
}
