package dynalimit

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// resolvedConfig is what the stored configuration says about an entity on a
// resource. It is never changed once built.
type resolvedConfig struct {
	// limits is sorted by name, with every default filled in.
	limits []Limit
	// level is where the limits came from; "" when no level has any.
	level ConfigLevel
	// permanent means that the limits are the entity's own, so that its bucket has no
	// ttl.
	permanent bool
	// cascade and parentID are those of the entity's record.
	cascade  bool
	parentID string
	// onUnavailable is the system's policy, "" for none.
	onUnavailable UnavailablePolicy
	// readAt and tick were taken before the read: the corrected time in
	// milliseconds and the repository's tick.
	readAt, tick int64
	// compiled is what the limits make of a bucket, nil without limits.
	compiled *plan.Config
	// fallback is what the limits of a limiter make of it, for an entity
	// without any.
	fallback atomic.Pointer[compiledFallback]
}

// configItems are the items a configuration is resolved from; nil for one that
// does not exist.
type configItems struct {
	meta, entity, entityDefault, resource, system schema.Item
}

// resolveConfig applies the levels of configuration: the first level that has limits
// wins, and lists are not merged. What to do when the store does not answer always comes
// from the system level. It fails with a *ValidationError if the winning item cannot be
// understood, because then it is not known what it limits.
func resolveConfig(items configItems) (*resolvedConfig, error) {
	record := schema.DecodeEntity(items.meta)
	cfg := &resolvedConfig{parentID: record.ParentID, cascade: record.Cascade, onUnavailable: storedPolicy(items.system)}
	for _, candidate := range []struct {
		level     ConfigLevel
		item      schema.Item
		permanent bool
	}{
		{LevelEntity, items.entity, true},
		{LevelEntityDefault, items.entityDefault, true},
		{LevelResource, items.resource, false},
		{LevelSystem, items.system, false},
	} {
		if !schema.HasLimits(candidate.item) {
			continue
		}
		limits, err := storedLimits(candidate.level, candidate.item)
		if err != nil {
			return nil, err
		}
		cfg.limits, cfg.level, cfg.permanent = limits, candidate.level, candidate.permanent
		break
	}
	return cfg, nil
}

// charged is the parent whose bucket the entity's calls charge too; "" for none.
func (c *resolvedConfig) charged() string {
	if !c.cascade {
		return ""
	}
	return c.parentID
}

// storedPolicy is the policy in a system item; "" if there is none, or an unknown one.
func storedPolicy(system schema.Item) UnavailablePolicy {
	if p := UnavailablePolicy(schema.DecodePolicy(system)); p == Block || p == Allow || p == Local {
		return p
	}
	return ""
}

// storedLimits reads the limits of a configuration item and checks them.
func storedLimits(level ConfigLevel, item schema.Item) ([]Limit, error) {
	field := "stored limits of level " + string(level)
	config, err := schema.DecodeConfig(item)
	if err != nil {
		return nil, invalid(field, "cannot be read: %v; set them again", err)
	}
	if len(config.Limits) == 0 {
		return nil, nil
	}
	limits := make([]Limit, len(config.Limits))
	for i, l := range config.Limits {
		if l.PeriodSeconds > int64(maxPeriod/time.Second) {
			return nil, invalid(field, "hold a period of %d s for %q; at most %v is allowed", l.PeriodSeconds, l.Name, maxPeriod)
		}
		limits[i] = Limit{
			Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, RefillAmount: l.Amount,
			RefillPeriod: time.Duration(l.PeriodSeconds) * time.Second,
		}
	}
	return normalizeLimits(field, limits)
}

// fingerprintLimits identifies a list of limits and its ttl policy in 8 bytes.
// It is the same in every process and for every order of the list, and differs
// when any parameter does.
func fingerprintLimits(limits []Limit, permanent bool) string {
	byName := func(a, b Limit) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(limits, byName) {
		limits = slices.SortedFunc(slices.Values(limits), byName)
	}
	buf := make([]byte, 0, 512)
	if permanent {
		buf = append(buf, 1)
	} else {
		buf = append(buf, 0)
	}
	for _, l := range limits {
		l = l.withDefaults()
		buf = binary.AppendUvarint(buf, uint64(len(l.Name))) // a length before each name: no two lists encode alike
		buf = append(buf, l.Name...)
		for _, n := range []int64{l.Capacity, l.Burst, l.RefillAmount, int64(l.RefillPeriod)} {
			buf = binary.BigEndian.AppendUint64(buf, uint64(n))
		}
	}
	sum := sha256.Sum256(buf)
	return string(sum[:8])
}
