package dynalimit

import (
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/levels"
)

// RaisedLimit is a limit that is raised until an instant (admin.Limits.Raise).
type RaisedLimit struct {
	// Name is the limit's.
	Name string `json:"name"`
	// Capacity is what it would be without the raise, in whole tokens.
	Capacity int64 `json:"capacity"`
	// Level is where the raise is stored.
	Level levels.Level `json:"level"`
	// Until is when the raise ends, by DynamoDB's clock.
	Until time.Time `json:"until"`
}

// raise puts raises in force over the limits, and says which they are.
func (r *ResolvedLimits) raise(v *config.Verdict, now int64) error {
	inForce, raised, _ := v.At(now)
	if len(raised) == 0 {
		return nil
	}
	for _, by := range raised {
		i := slices.IndexFunc(r.Limits, func(l Limit) bool { return l.Name == by.Name })
		r.Raised = append(r.Raised, RaisedLimit{Name: by.Name, Capacity: r.Limits[i].Capacity, Level: by.Level, Until: time.UnixMilli(by.EndsMS()).UTC()})
	}
	var err error
	r.Limits, _, err = limitsOf(inForce)
	return err
}

// withRaises returns the configuration from an instant on, in Unix ms: with the raises that have not
// ended then, followed by what the same items say after each end. c is without any.
func (c *resolvedConfig) withRaises(v *config.Verdict, from int64) (*resolvedConfig, error) {
	inForce, _, ends := v.At(from)
	if ends == 0 {
		return c, nil
	}
	limits, of, err := limitsOf(inForce)
	if err != nil {
		return nil, err
	}
	after, err := c.withRaises(v, ends)
	if err != nil {
		return nil, err
	}
	compiled := *c.compiled
	compiled.Limits = slices.Clone(c.compiled.Limits)
	for i, l := range limits {
		compiled.Limits[i] = toConfigured(l, of[i])
	}
	compiled.Fingerprint = []byte(fingerprintLimits(limits, c.permanent))
	compiled.ChangeOrigin(func(o *plan.Origin) { o.Phase = &plan.Phase{Until: ends, After: after.compiled} })
	after.compiled.ChangeOrigin(func(o *plan.Origin) {
		if o.Phase == nil {
			o.Phase = &plan.Phase{}
		}
		o.Phase.Since = ends
	})
	return &resolvedConfig{
		limits: limits, configKind: c.configKind, parentID: c.parentID, readAt: c.readAt, tick: c.tick, compiled: &compiled,
		seldom: &seldomConfig{after: after, given: c.givenPlan()},
	}, nil
}

// ended reports whether the first raise of the configuration to end has ended at a time, in Unix ms.
func (c *resolvedConfig) ended(now func() int64) bool {
	return c.afterRaise() != nil && now() >= c.compiled.From().Phase.Until
}

// current returns what the items of a configuration say now: without raises that have ended by the
// latest time that it may be.
func (c *configCache) current(cfg *resolvedConfig) *resolvedConfig {
	for cfg.ended(c.clock.LatestMS) {
		cfg = cfg.afterRaise()
	}
	return cfg
}

// useClock has raises end by a clock. It must be called before the cache is used.
//
// A configuration is read again once a raise of it has ended by Now, which stamps readings: before
// that another reading would be from before the end, and could be brought to no bucket.
func (c *configCache) useClock(clock *ddb.Clock) {
	c.clock = clock
	c.loading.Ended = func(cfg *resolvedConfig) bool { return cfg.ended(clock.NowMS) }
	c.given.resolved.Ended = c.loading.Ended
}
