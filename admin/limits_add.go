package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Add sets limits of a source by name, and hides none: other limits of the source stay. A source
// without a list gets one that extends less specific sources (LimitConfig.Extends). A source with
// a list that replaces keeps replacing. The system's list cannot extend: there Add makes or
// changes it. It fails with a *ValidationError before anything is written, also for an
// unlimited source.
func (l Limits) Add(ctx context.Context, at Scope, limits []dynalimit.Limit) error {
	if _, err := configLimits("limits", limits); err != nil {
		return err
	}
	return l.changeList(ctx, at, nil, func(c LimitConfig) (LimitConfig, error) {
		if c.Unlimited {
			return c, withFix(invalid("scope", "%s is unlimited, where no limit applies; replace that first", at), fault.SetConfigs)
		}
		if len(c.Limits) == 0 { // one that lifts extends already
			c.Extends = at.normalized() != Scope{Everyone: true}
		}
		for _, limit := range limits {
			c = c.withoutNames(limit.Name)
		}
		c.Limits = append(c.Limits, limits...)
		if n := len(c.Limits); n > schema.MaxLimits {
			return c, invalid("limits", "make %d with those of %s; a bucket holds at most %d", n, at, schema.MaxLimits)
		}
		return c, nil
	})
}

// Remove takes names off a source's list: limits, and lifted limits. Less specific sources'
// limits of these names apply again if the source extends. The last name takes the list with it. A
// missing name is not an error. Remove refuses to take money out of force: see
// LimitConfig.Only.
func (l Limits) Remove(ctx context.Context, at Scope, names []string) error {
	for _, name := range names {
		if reason := schema.LimitRule.Check(name); reason != "" {
			return invalid("names", "has %q: %s", name, reason)
		}
	}
	return l.changeList(ctx, at, names, func(c LimitConfig) (LimitConfig, error) {
		c = c.withoutNames(names...)
		c.Extends = c.Extends && len(c.Limits)+len(c.Lifted) > 0
		return c, nil
	})
}

// Lift takes limits of less specific sources away by name at a source that extends, or that has no
// list: calls may name them and are charged nothing for them. Limits of the source of these names go
// too. It refuses a source with a list that replaces, the system, and names of money: see
// LimitConfig.Only.
func (l Limits) Lift(ctx context.Context, at Scope, names []string) error {
	return l.changeList(ctx, at, nil, func(c LimitConfig) (LimitConfig, error) {
		switch {
		case c.Unlimited:
			return c, withFix(invalid("scope", "%s is unlimited, where no limit applies; replace that first", at), fault.SetConfigs)
		case !c.Extends && len(c.Limits) > 0:
			return c, withFix(invalid("scope", "%s has a list that replaces less specific ones, so that there is nothing to lift; replace the list", at), fault.SetConfigs)
		}
		c = c.withoutNames(names...)
		c.Extends, c.Lifted = true, append(c.Lifted, names...)
		return c, nil
	})
}

// Losses are the limits in force that changes would take out of force: those of less specific sources that a
// list hides, those that no source has any more, and money of groups that a resource leaves, and of parents
// that calls would no longer charge. entities are the intended records of entities that get another plan or
// parent; it may be nil. It compares the table with the table after all changes, and changes nothing. It
// leaves out limits in shadow, and limits without money that the source itself drops by a new list. A default
// is compared on each resource that has a list for everyone or for a plan, as the index shows them; more than
// 1,000 are refused.
func (l Limits) Losses(ctx context.Context, changes []ScopedConfig, entities []Entity) ([]Loss, error) {
	for i, e := range entities {
		if err := e.Validate(); err != nil {
			return nil, withinField(fmt.Sprintf("entities[%d].", i), err)
		}
	}
	if twice, ok := repeatedScope(changes); ok {
		return nil, invalid("changes", "change %s twice; give each source once", twice)
	}
	if err := l.d.Usable(ctx); err != nil {
		return nil, err
	}
	c, err := l.d.compareSources(changes, false)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(entities))
	for i, e := range entities {
		ids[i] = e.ID
	}
	if err := c.readRecords(ctx, ids...); err != nil {
		return nil, err
	}
	records := make([]recordChange, len(entities))
	for i, e := range entities {
		records[i] = recordChange{c.records[e.ID].was, recordOf(e)}
	}
	return c.findLosses(ctx, records)
}

// changeList stores the configuration that next returns for the source's present one, or removes the source if
// the result is empty. It reads again and retries after a conflict, without a bound. Of the limits in removed,
// only money needs LimitConfig.Only.
func (l Limits) changeList(ctx context.Context, at Scope, removed []string, next func(LimitConfig) (LimitConfig, error)) error {
	if err := l.d.checkChange(ctx); err != nil {
		return err
	}
	for {
		c, err := l.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		if c, err = next(c); err != nil {
			return err
		}
		if c.hasSettings() {
			_, err = l.setConfig(ctx, at, c, removed)
		} else {
			err = removeSource(ctx, l, at, c.Version)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// removeSource removes a source with its block if its stored version is the given one; otherwise it returns a
// *ConflictError[ScopedConfig]. It refuses to take money out of force.
func removeSource(ctx context.Context, l Limits, at Scope, version int64) error {
	errs, err := l.SetConfigs(ctx, []ScopedConfig{{Scope: at, Config: LimitConfig{Version: version}, Delete: true}})
	return cmp.Or(err, errors.Join(errs...))
}

// withoutNames returns a copy without the limits and lifted limits of the given names.
func (c LimitConfig) withoutNames(names ...string) LimitConfig {
	c.Limits = slices.DeleteFunc(slices.Clone(c.Limits), func(l dynalimit.Limit) bool { return slices.Contains(names, l.Name) })
	c.Lifted = slices.DeleteFunc(slices.Clone(c.Lifted), func(name string) bool { return slices.Contains(names, name) })
	return c
}
