package dynalimit

import "context"

// What was never made right is said, not left to a nil dereference.

// usable refuses calls of a limiter that New did not make, and without a
// context.
func (l *RateLimiter) usable(ctx context.Context) error {
	if l == nil || l.repo == nil {
		return invalid("limiter", "was not made by New; make one with dynalimit.New(repo, nil)")
	}
	return given(ctx)
}

// usable refuses calls of a lease that no acquire returned, and without a
// context.
func (lease *Lease) usable(ctx context.Context) error {
	if lease == nil || lease.limiter == nil {
		return invalid("lease", "is none; look at the error of the Acquire that returned it before using it")
	}
	return given(ctx)
}

func given(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx", "is nil; pass context.Background() or the request's context")
	}
	return nil
}

// unknown says that a limit is none of a request's levels, what they have, and
// which list hides the others: lists are not merged.
func (r *request) unknown(name string, levels []level) error {
	if len(levels) == 0 {
		return invalid("amounts["+name+"]", "is not a limit of entity %q on resource %q, which have none", r.entity, r.resource)
	}
	cfg, names := levels[0].cfg, limitNames(levels)
	from := ConfigLevel(cfg.Limits[0].Level)
	for i := range cfg.Limits { // an override names only its own
		if level := ConfigLevel(cfg.Limits[i].Level); level != LevelOverride {
			from = level
		}
	}
	hides := map[ConfigLevel]string{
		LevelEntity:        "the entity's own list for this resource (level entity) hides its default list and those of the resource and the system: add the limit to it with Repository.SetEntityLimits",
		LevelEntityDefault: "the entity's default list (level entity_default) hides those of the resource and the system: add the limit to it with Repository.SetEntityLimits",
		LevelResource:      "the resource's list (level resource) hides the system's: add the limit to it with Repository.SetResourceLimits",
		LevelSystem:        "they are the system's: add the limit with Repository.SetSystemLimits",
		LevelOptions:       "they are Options.Limits: add the limit there",
		LevelOverride:      "they are those of WithLimits: add the limit there",
	}[from]
	return invalid("amounts["+name+"]", "is not a limit of entity %q on resource %q; the limits are %q; %s", r.entity, r.resource, names, hides)
}
