package admin

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/fault"
)

// prepare refuses limits that would not be what they seem, before the first of them is stored,
// and has clients that do not know their kinds refuse the table.
func (l Limits) prepare(ctx context.Context, configs ...ScopedConfig) error {
	if err := l.checkMoney(ctx, configs); err != nil {
		return err
	}
	return l.raiseKinds(ctx, configs...)
}

// checkMoney refuses money on a default, and on a resource that is neither a group nor in one,
// unless it says PerModel: each model would have it by itself.
func (l Limits) checkMoney(ctx context.Context, configs []ScopedConfig) error {
	groups := sync.OnceValues(func() (map[string]bool, error) { return l.grouped(ctx, configs) })
	for _, c := range configs {
		for _, limit := range c.Config.Limits {
			if limit.Unit == "" || limit.PerModel {
				continue
			}
			const advice = "if that is not meant, set it on a group of models"
			if c.Scope.normal().Resource == "" {
				return fixable(invalid("limits["+limit.Name+"].PerModel", "on a default (%s) each model would have the money of %q by itself; %s", c.Scope, limit.Name, advice), fault.GroupModels)
			}
			known, err := groups()
			if err != nil {
				return err
			}
			if !known[c.Scope.Resource] {
				return fixable(invalid("limits["+limit.Name+"].PerModel", "%q is in no group and is none, so that it alone would have the money of %q; %s", c.Scope.Resource, limit.Name, advice), fault.GroupModels)
			}
		}
	}
	return nil
}

// grouped are the resources that are groups or in one, with what is to be stored.
func (l Limits) grouped(ctx context.Context, changes []ScopedConfig) (map[string]bool, error) {
	known := map[string]bool{}
	note := func(c ScopedConfig) {
		if len(c.Config.Groups) > 0 {
			known[c.Scope.Resource] = true
		}
		for _, group := range c.Config.Groups {
			known[group] = true
		}
	}
	var scopes []Scope
	for resource, err := range l.Resources(ctx) {
		if err != nil {
			return nil, fmt.Errorf("look for groups of models: %w", err)
		}
		scopes = append(scopes, Scope{Everyone: true, Resource: resource})
	}
	stored, err := l.GetConfigs(ctx, scopes)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Concat(stored, changes) {
		note(c)
	}
	return known, nil
}
