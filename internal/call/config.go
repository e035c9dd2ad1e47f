package call

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// configs is the cache of configurations. A read without an answer in time fails with an *UnavailableError.
type configs struct{ *config.Cache }

// Get returns the configuration of a key from the cache if it is fresh, else it waits for a read, as long as
// ctx lasts. It fails with an *UnavailableError if the read ends without an answer in time.
func (c configs) Get(ctx context.Context, key config.GivenKey) (config.Found, error) {
	if cfg := c.Fresh(key); cfg != nil {
		return config.Found{Resolved: cfg}, nil
	}
	found, err := c.Load(ctx, config.Ask{GivenKey: key}, time.Time{})
	return found, unavailableIfLate(err)
}

// Reread reads the configuration of a key again, after the call of Reread has begun, and caches it. Without an
// answer in time it fails with an *UnavailableError.
func (c configs) Reread(ctx context.Context, key config.GivenKey) (*config.Resolved, error) {
	found, err := c.Cache.Reread(ctx, key)
	if err != nil {
		err = unavailableIfLate(err)
	}
	return found, err
}

// unavailableIfLate returns an *UnavailableError for the error of a read without an answer in time. Any other
// error, and nil, stays.
func unavailableIfLate(err error) error {
	if errors.Is(err, config.ErrOutOfTime) {
		return &fault.UnavailableError{Op: ReadConfig, Err: err}
	}
	return err
}

// laneConfigs are the configurations of a limiter's buckets as its lanes see them.
type laneConfigs struct {
	configs configs
	// fallback are the limiter's own limits; nil if it has no limits.
	fallback *config.Fallback
}

// Reread implements lane.Configs: it reads a bucket's configuration again. It returns nil if nothing limits the
// bucket, and a *lane.Failure with the reason Misconfigured if the stored configuration is invalid.
func (c laneConfigs) Reread(ctx context.Context, entity, resource string, group bool) (*plan.Config, error) {
	resolved, err := c.configs.Reread(ctx, config.GivenKey{Key: config.Key{Entity: entity, Resource: resource, Group: group}})
	switch {
	case isRefusal(err):
		return nil, &lane.Failure{Reason: lane.Misconfigured, Err: err}
	case err != nil:
		return nil, err
	}
	return c.fallback.LimitsOf(resolved, false), nil
}

// Forget implements lane.Configs: the next use of the bucket's configuration reads it again.
func (c laneConfigs) Forget(entity, resource string, group bool) {
	c.configs.Drop(config.Key{Entity: entity, Resource: resource, Group: group})
}

// Namespace is the state of a namespace's record, as last read with a configuration. It is nil for a
// repository without a namespace.
type Namespace struct {
	// Now is the clock for the age of configurations, TTL the time for which one is fresh.
	Now  func() time.Time
	TTL  time.Duration
	seen atomic.Pointer[NamespaceSeen]
}

// NamespaceSeen is one reading of the record.
type NamespaceSeen struct {
	// At and Tick were taken before the read.
	At   time.Time
	Tick int64
	// Inactive is the reason why the namespace may not be used; nil if it may.
	Inactive *fault.NamespaceError
}

// Record stores a reading of the namespace's record, unless one with a later Tick is stored.
func (n *Namespace) Record(seen *NamespaceSeen) {
	for {
		last := n.seen.Load()
		if last != nil && last.Tick > seen.Tick || n.seen.CompareAndSwap(last, seen) {
			return
		}
	}
}

// refused returns the error of a call in a namespace that was inactive at a reading within the TTL of the
// configuration; nil otherwise.
func (n *Namespace) refused() error {
	seen := n.seen.Load()
	if seen == nil || seen.Inactive == nil { // the usual case
		return nil
	}
	if age := n.Now().Sub(seen.At); age < 0 || age >= n.TTL {
		return nil
	}
	return seen.Inactive
}

// isFresh reports whether the namespace was active at its last reading, and that was within the TTL of the
// configuration.
func (n *Namespace) isFresh() bool {
	seen := n.seen.Load()
	if seen == nil || seen.Inactive != nil {
		return false
	}
	age := n.Now().Sub(seen.At)
	return age >= 0 && age < n.TTL
}

// refusedBy returns the error of a call after its configuration was read, or could not be. The error of an
// inactive namespace takes the place of a nil err or of a failure of the store. Any other err stays, and any
// err once ctx has ended.
func (n *Namespace) refusedBy(ctx context.Context, err error) error {
	if inactive := n.inactive(); inactive != nil && ctx.Err() == nil && (err == nil || isUnavailable(err)) {
		return inactive
	}
	return err
}

// inactive returns the error of the namespace as last read, however long ago. It is nil if the
// namespace was active, or was never read.
func (n *Namespace) inactive() *fault.NamespaceError {
	if seen := n.seen.Load(); seen != nil {
		return seen.Inactive
	}
	return nil
}
