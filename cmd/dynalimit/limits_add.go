package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// addCmd sets limits of a source by name, without hiding others.
type addCmd[L source] struct {
	At     L        `embed:""`
	Limits []string `arg:"" name:"limit" sep:"none" help:"Limits, as 'set' takes them; without a period or window they keep those of the limit in force. NAME=unlimited removes the limit of a less specific source."`
	Only   bool     `help:"Money that is taken away is meant to go."`
	raising
	changes
}

// Validate refuses flags that contradict --until and, with --until, malformed or repeated limits.
func (c addCmd[L]) Validate() error { return c.validateRaise(c.Limits, c.Only, c.DryRun) }

// Run adds limits to the source, or replaces its limits of the same names, and prints the differences. A source
// without limits then extends less specific ones. With --until it raises capacities until then instead; a dry
// run stores nothing.
func (c addCmd[L]) Run(ctx context.Context, g *globals, out *term.Output) error {
	at := c.At.scope()
	if c.Until != nil {
		return c.raiseLimits(ctx, g, out, at, c.Limits)
	}
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		found, err := limitsInForce(ctx, repo, at)
		if err != nil {
			return err
		}
		return changeSource(ctx, g, out, at, c.changes, func(config admin.LimitConfig) (admin.LimitConfig, error) {
			config.Only = c.Only
			return addLimits(config, at, c.Limits, found)
		})
	})
}

// addLimits returns config, of the source at, with the limits of texts added or replaced; a source without
// limits then extends others. Omitted parts come from found, the limits in force; NAME=unlimited lifts one.
// Unlimited sources and repeated names are errors.
func addLimits(config admin.LimitConfig, at admin.Scope, texts []string, found inForce) (admin.LimitConfig, error) {
	if config.Unlimited {
		return config, fmt.Errorf("%s is unlimited, where no limit applies: replace that with 'set' or 'delete' first", at)
	}
	if len(config.Limits)+len(config.Lifted) == 0 {
		config.Extends = at != admin.Scope{Everyone: true}
	}
	named := map[string]bool{}
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		if named[name] {
			return config, badInput("%s is given twice: give each limit once", name)
		}
		named[name] = true
		config.Limits = slices.DeleteFunc(slices.Clone(config.Limits), func(l dynalimit.Limit) bool { return l.Name == name })
		config.Lifted = slices.DeleteFunc(slices.Clone(config.Lifted), func(lifted string) bool { return lifted == name })
		switch {
		case value == "unlimited" && !config.Extends:
			return config, fmt.Errorf("%s has a list that replaces less specific ones, so that there is nothing to take away: leave %s out of it", at, name)
		case value == "unlimited" && found.limits[name].Name == "":
			return config, fmt.Errorf("%s is no limit in force for %s: there is nothing to take away", name, at)
		case value == "unlimited":
			config.Lifted = append(config.Lifted, name)
			continue
		case found.limits[name].Name == "" && found.groups[name] != "":
			return config, fmt.Errorf("%s is a limit of the group %s, which would still hold: name the group with --resource %s", name, found.groups[name], found.groups[name])
		}
		limit, err := notation.ParseChanged(text, found.limits[name])
		if err != nil {
			return config, err
		}
		config.Limits = append(config.Limits, limit)
	}
	slices.SortFunc(config.Limits, func(a, b dynalimit.Limit) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(config.Lifted)
	return config, nil
}

// inForce is the limits in force at a source by name, and the groups of its resource with other
// limits.
type inForce struct {
	limits map[string]dynalimit.Limit
	groups map[string]string
}

// limitsInForce reads the limits that apply at a source by name, from it and less specific ones, without
// raises. It stops at the first list that does not extend others. It also reads the names of limits on groups
// of the resource.
func limitsInForce(ctx context.Context, repo *dynalimit.Repository, at admin.Scope) (f inForce, err error) {
	f = inForce{limits: map[string]dynalimit.Limit{}, groups: map[string]string{}}
	scopes, err := withLessSpecific(ctx, repo, at)
	if err != nil {
		return f, err
	}
	configs, err := admin.New(repo).Limits.GetConfigs(ctx, scopes)
	if err == nil {
		f.groups, err = groupLimits(ctx, repo, at, scopes)
	}
	for _, c := range configs {
		for _, l := range c.Config.Limits {
			if f.limits[l.Name].Name == "" {
				f.limits[l.Name] = l
			}
		}
		if list := len(c.Config.Limits)+len(c.Config.Lifted) > 0; list && !c.Config.Extends || c.Config.Unlimited {
			break
		}
	}
	return f, err
}

// groupLimits returns a map from the names of limits on groups of models to the group. It reads the groups of
// at's resource, or all groups if at has no resource, and on them the sources of the owners of scopes.
func groupLimits(ctx context.Context, repo *dynalimit.Repository, at admin.Scope, scopes []admin.Scope) (map[string]string, error) {
	limits, models := admin.New(repo).Limits, []admin.Scope{{Everyone: true, Resource: at.Resource}}
	if at.Resource == "" {
		models = nil
		for resource, err := range limits.Resources(ctx) {
			if err != nil {
				return nil, err
			}
			models = append(models, admin.Scope{Everyone: true, Resource: resource})
		}
	}
	configs, err := limits.GetConfigs(ctx, models)
	if err != nil {
		return nil, err
	}
	var made []admin.Scope
	for _, c := range configs {
		for _, group := range c.Config.Groups {
			for _, of := range scopes {
				of.Resource, of.Everyone = group, of.Entity+of.Plan == ""
				made = append(made, of)
			}
		}
	}
	if configs, err = limits.GetConfigs(ctx, made); err != nil {
		return nil, err
	}
	groups := map[string]string{}
	for _, c := range configs {
		for _, l := range c.Config.Limits {
			groups[l.Name] = c.Scope.Resource
		}
	}
	return groups, nil
}

// withLessSpecific returns the scope at, then the less specific ones of its entity, its plan and everybody, the
// most specific first. It reads the plan of an entity from its record. Scopes without a configuration are
// included.
func withLessSpecific(ctx context.Context, repo *dynalimit.Repository, at admin.Scope) ([]admin.Scope, error) {
	scopes, plan := []admin.Scope{at}, at.Plan
	if at.Entity != "" {
		records, err := admin.New(repo).Entities.GetMany(ctx, []string{at.Entity})
		if err != nil {
			return nil, err
		}
		plan = records[0].Plan
	}
	for _, less := range []admin.Scope{{Entity: at.Entity}, {Plan: plan, Resource: at.Resource}, {Plan: plan}, {Everyone: at.Resource != "", Resource: at.Resource}, {Everyone: true}} {
		if (less.Everyone || less.Entity+less.Plan != "") && !slices.Contains(scopes, less) {
			scopes = append(scopes, less)
		}
	}
	return scopes, nil
}

// removeCmd removes limits from a source by name.
type removeCmd[L source] struct {
	At    L        `embed:""`
	Names []string `arg:"" name:"limit" help:"Names of limits of the source. Less specific sources' limits of these names apply again if the source extends."`
	Only  bool     `help:"Limits in force that go are meant to go."`
	changes
}

// Run removes the named limits and lifted names from the source, and prints the differences. A source without
// any left no longer extends others. It fails if the source has none of the names, and a dry run stores
// nothing.
func (c removeCmd[L]) Run(ctx context.Context, g *globals, out *term.Output) error {
	return changeSource(ctx, g, out, c.At.scope(), c.changes, func(config admin.LimitConfig) (admin.LimitConfig, error) {
		before := len(config.Limits) + len(config.Lifted)
		config.Limits = slices.DeleteFunc(slices.Clone(config.Limits), func(l dynalimit.Limit) bool { return slices.Contains(c.Names, l.Name) })
		config.Lifted = slices.DeleteFunc(slices.Clone(config.Lifted), func(name string) bool { return slices.Contains(c.Names, name) })
		if len(config.Limits)+len(config.Lifted) == before {
			return config, errors.New("the source has no limit of these names: 'show' lists those that it has")
		}
		config.Extends, config.Only = config.Extends && len(config.Limits)+len(config.Lifted) > 0, c.Only
		return config, nil
	})
}

// lowerCmd ends raises of a source.
type lowerCmd[L source] struct {
	At    L        `embed:""`
	Names []string `arg:"" name:"limit" help:"Names of limits that the source raises."`
	changes
}

// Run ends the source's raises of the named limits before their time and prints the differences. If a named
// limit is not raised, it fails and changes none. A dry run stores nothing.
func (c lowerCmd[L]) Run(ctx context.Context, g *globals, out *term.Output) error {
	return changeSource(ctx, g, out, c.At.scope(), c.changes, func(config admin.LimitConfig) (admin.LimitConfig, error) {
		for _, name := range c.Names {
			before := len(config.Raises)
			config.Raises = slices.DeleteFunc(slices.Clone(config.Raises), func(r admin.Raise) bool { return r.Name == name })
			if len(config.Raises) == before {
				return config, fmt.Errorf("the source does not raise %s: 'show' lists its raises", name)
			}
		}
		return config, nil
	})
}
