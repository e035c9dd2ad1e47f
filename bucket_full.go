package dynalimit

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// overfull refuses a configuration whose limits, beside those that left it and
// have not refilled yet, are more than a claim can carry: decided before anything
// is written.
func (v view) overfull(entity, resource string) error {
	if !v.adopt || v.image == nil || len(v.image.Set.Names)+len(v.cfg.limits) <= schema.MaxStored {
		return nil
	}
	var waiting []string
	longest := int64(0)
	for i, name := range v.image.Set.Names {
		l := &v.image.Limits[i]
		if l.Ghost || v.cfg.index(name) >= 0 {
			continue
		}
		if wait := v.image.State(i).Wait(v.now, l.Burst); wait > 0 {
			waiting, longest = append(waiting, name), max(longest, wait)
		}
	}
	if stored := len(waiting) + len(v.cfg.limits); stored > schema.MaxStored {
		return invalid("limits", "of entity %q on resource %q would be %d: %d configured, and %q, which are configured no more and go once they are full again; a bucket holds at most %d: keep some of those names, or wait, %v at most",
			entity, resource, stored, len(v.cfg.limits), waiting, schema.MaxStored, duration(longest).Round(time.Millisecond))
	}
	return nil
}
