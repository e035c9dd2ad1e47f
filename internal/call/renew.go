package call

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// renewConfigs gives every level the configuration in force, and marks the call as unlimited if a level now is.
// With tolerant, a level keeps its configuration if the store does not answer; any other failed read changes
// nothing and returns its error. held is locked; it is released meanwhile.
func (c *Call) renewConfigs(ctx context.Context, tolerant bool, held sync.Locker) (err error) {
	type reading struct {
		cfg             *plan.Config
		unlimited, read bool
	}
	found := make([]reading, len(c.levels))
	runUnlocked(held, func() {
		for i := range c.levels {
			cfg, unlimited, failed := c.desk.Routes.configOf(ctx, &c.request, c.levels[i].placeOf(&c.request))
			if failed != nil && !(tolerant && isUnavailable(failed)) {
				err = failed
				return
			}
			found[i] = reading{cfg, unlimited, failed == nil}
		}
	})
	if err != nil {
		return err
	}
	for i, r := range found {
		if r.read {
			c.unlimited = c.unlimited || r.unlimited
			c.levels[i].setConfig(r.cfg, r.unlimited)
			c.slots = c.slots || c.levels[i].cfg.Slots
		}
	}
	c.renewed = slices.ContainsFunc(c.levels, func(lv level) bool { return lv.cfg != lv.counts })
	return nil
}

// setConfig gives a level a newly read configuration; cfg is nil if nothing limits it. Then a bucket of a group
// or a parent, and one that is unlimited, gets a configuration without limits; any other keeps its own.
func (lv *level) setConfig(cfg *plan.Config, unlimited bool) {
	switch {
	case cfg != nil:
		lv.cfg = cfg
	case lv.cfg.OfGroup() || lv.cfg.Parent || unlimited: // nothing further is taken from it
		lv.cfg = &plan.Config{Group: lv.cfg.OfGroup(), Parent: lv.cfg.Parent}
	}
}

// recogniseLimits applies the configuration in force to the levels if they lack a limit of the target: the
// limit may be new, or back. It keeps the known configuration if the read fails.
func (c *Call) recogniseLimits(ctx context.Context, target []plan.Signed, held sync.Locker) {
	lacks := func(t plan.Signed) bool {
		went := func(lv level) bool {
			return lv.hasUsed(t.Name) && !lv.cfg.Charges(t.Name) && lv.usedOf(t.Name) < t.Amount
		}
		return t.Amount > 0 && (!c.unlimited && !c.levels.has(t.Name) || slices.ContainsFunc(c.levels, went))
	}
	if len(c.levels) == 0 || !slices.ContainsFunc(target, lacks) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.desk.Timeout)
	defer cancel()
	_ = c.renewConfigs(ctx, true, held) // the known configuration will do
}

// runUnlocked runs do with held released, and locks it again.
func runUnlocked(held sync.Locker, do func()) {
	held.Unlock()
	defer held.Lock()
	do()
}
