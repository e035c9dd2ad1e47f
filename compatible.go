package dynalimit

import "github.com/dynalimit/dynalimit/internal/schema"

// compatible refuses what zae-limiter refuses, on a repository that is to stay
// readable for it: some resources, and bursts below the capacity.
func (r *Repository) compatible(resource, field string, limits []Limit) error {
	if !r.readable {
		return nil
	}
	if resource != "" && resource != schema.DefaultResource {
		if reason := schema.CheckCompatibleResource(resource); reason != "" {
			return invalid("resource", "%s (RepositoryOptions.Compatible is set: zae-limiter refuses others)", reason)
		}
	}
	for _, l := range limits {
		if l = l.withDefaults(); l.Burst < l.Capacity {
			return invalid(field, "has a burst of %d for %q, below its capacity of %d; raise the burst or lower the capacity (RepositoryOptions.Compatible is set: zae-limiter refuses such limits)",
				l.Burst, l.Name, l.Capacity)
		}
	}
	return nil
}
