package call

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
)

// refuse returns the error of a call that must fail while the table does not answer, by the last read
// configuration, however old. It is nil if the policy admits, if the call is unlimited, and in a limiter that
// prefetches. It does no I/O and allocates nothing that a refusal would throw away.
func (rs *routes) refuse(r *Request) error {
	if rs.namespace != nil {
		if inactive := rs.namespace.inactive(); inactive != nil {
			return inactive
		}
	}
	policy, unlimited := r.OnUnavailable, len(r.Limits) == 0
	for at, last := range rs.lastConfigs(r, r.placeAt(r.Entity, false)) {
		if last == nil {
			unlimited = false
			continue
		}
		cfg := rs.fallback.LimitsOf(last, at.parent)
		policy = cmp.Or(policy, r.policyAt(last, cfg))
		unlimited = unlimited && (last.Unlimited || (last.Group || at.parent) && cfg == nil || cfg != nil && cfg.OnlyCounts(amountsAt(cfg, r.Amounts)))
	}
	if cmp.Or(policy, rs.knownPolicy()).Admits() || unlimited || rs.lanes.Horizon != nil {
		return nil
	}
	return rs.table.away()
}

// lastConfigs yields the places that a call charges from an entity upwards, with their last read
// configurations, however old. The configuration is nil if it is not cached. Then its groups and parent are
// unknown and do not follow.
func (rs *routes) lastConfigs(r *Request, at place) iter.Seq2[place, *config.Resolved] {
	return func(yield func(place, *config.Resolved) bool) {
		for depth := 0; at.Entity != "" && depth < maxDepth; depth++ {
			own := rs.configs.Last(at.GivenKey)
			if !yield(at, own) || own == nil {
				return
			}
			for _, group := range at.groupPlaces(own) {
				if !yield(group, rs.configs.Last(group.GivenKey)) {
					return
				}
			}
			at = r.nextPlace(at, own)
		}
	}
}

// lastBlock returns the error of a block from an entity upwards, by the last read configurations,
// however old; nil without a block.
func (rs *routes) lastBlock(r *Request, from place) error {
	for at, last := range rs.lastConfigs(r, from) {
		if last == nil {
			continue
		}
		if block := r.blockOf(at.Key, last); block != "" {
			return newBlocked(at.Key, block, last)
		}
	}
	return nil
}

// blockFor returns the reason not to admit a waiting call, or a lease that asks for more: a source is blocked,
// or the namespace is inactive. block is nil without such a reason, and if the configuration cannot be read.
// oldest is the read time of the oldest configuration in Unix ms, and gone means that the call no longer
// charges the bucket of at.
func (rs *routes) blockFor(ctx context.Context, r *Request, at config.Key) (oldest int64, gone bool, block error) {
	oldest = math.MaxInt64
	if rs.namespace != nil {
		if err := rs.namespace.refused(); err != nil {
			return oldest, false, err
		}
	}
	charged := false
	from := r.placeAt(r.Entity, false)
	for depth := 0; from.Entity != "" && depth < maxDepth; depth++ {
		var own *config.Resolved
		for places := []place{from}; len(places) > 0; places = places[1:] {
			key := places[0].Key
			found, err := rs.configs.Get(ctx, places[0].GivenKey)
			if rs.namespace != nil && rs.namespace.inactive() != nil {
				return oldest, false, rs.namespace.inactive()
			}
			if err != nil {
				return oldest, false, rs.lastBlock(r, from) // the read of the limits returns err
			}
			resolved := found.Resolved
			oldest = min(oldest, resolved.ReadAt)
			if block := r.blockOf(key, resolved); block != "" {
				return oldest, false, newBlocked(key, block, resolved)
			}
			charged = charged || key == at
			if own == nil {
				own = resolved
				places = append(places, from.groupPlaces(own)...)
			}
		}
		from = r.nextPlace(from, own)
	}
	return oldest, !charged, nil
}

// keepSystemPolicy stores the system's policy of a read, for calls that cannot read it. It ignores the
// configuration of a group, which does not show it.
func (rs *routes) keepSystemPolicy(resolved *config.Resolved) {
	if resolved.Group { // it does not say
		return
	}
	rs.systemPolicy.Store(&resolved.SystemPolicy)
}

// knownPolicy returns the policy for calls without one: the system's as last read, or the limiter's if that is
// empty or was never read.
func (rs *routes) knownPolicy() Policy {
	if p := rs.systemPolicy.Load(); p != nil && *p != "" {
		return Policy(*p)
	}
	return rs.onUnavailable
}

// decideUnconfigured decides a call whose configuration could not be read; nil admits it. Allow admits it
// without limits. Local adds a level of the limiter's own limits, if it has any, without parents and groups;
// else err is returned.
func (rs *routes) decideUnconfigured(r *Request, c *charged, err error) error {
	c.levels, c.unlimited, c.whole = nil, false, false
	switch {
	case !leftToPolicy(err):
		err = withRetryAfter(err, 0)
	case c.policy == Allow:
		return nil
	case c.policy == Local && rs.fallback != nil:
		cfg := rs.fallback.AsReadAt(rs.nowMS(), rs.clock.Tick())
		if len(r.Limits) > 0 {
			cfg = config.Override(cfg, r.Limits, rs.nowMS(), rs.clock.Tick())
		}
		c.addLevel(rs.lanes.Of(r.Entity, r.Resource), cfg, r.Amounts)
		return rs.checkNames(r, c)
	}
	return err
}

// readError returns the error of a call after the read of its configuration: that of silentRead or of
// the namespace, nil if neither fails.
func (rs *routes) readError(ctx context.Context, err error, key config.GivenKey, p *patience) error {
	if err != nil {
		err = rs.silentRead(err, key, p)
	}
	if rs.namespace != nil {
		err = rs.namespace.refusedBy(ctx, err)
	}
	return err
}

// silentRead returns an *UnavailableError of a silence if err is errOutOfTime and nothing was answered since
// the call began; any other err stays. If the call joined a read in flight, it must be silent since the start
// of that read too. A throttled read may just wait for its retry.
func (rs *routes) silentRead(err error, key config.GivenKey, p *patience) error {
	if !errors.Is(err, errOutOfTime) {
		return err
	}
	since := p.began
	if read := rs.configs.ReadSince(key); !read.IsZero() && read.Before(since) {
		since = read
	}
	if rs.table.AnsweredSince(since) {
		return err
	}
	return &fault.UnavailableError{Op: ReadConfig, Err: Silence{errOutOfTime}, RetryAfter: rs.table.RetryAfter()}
}

// readBeside returns the route by a configuration past its TTL, and starts to read that again. ok is false if no
// take may be sent on it. The bucket must exist under that configuration, and no other process may have used
// it: a stale image would be refused.
func (rs *routes) readBeside(ctx context.Context, to place, old *config.Resolved, p *patience) (found route, ok bool) {
	if p == nil || !p.ahead || old.Blocked != "" || to.given || rs.lookups.refuse || rs.table.Open() || rs.namespace != nil && !rs.namespace.isFresh() {
		return route{}, false
	}
	f := &refresh{old: old, done: make(chan struct{})}
	found = route{place: to, lane: rs.lanes.Of(to.Entity, to.Resource), resolved: old, cfg: rs.fallback.LimitsOf(old, to.parent), refresh: f}
	if found.cfg == nil || !found.lane.Memory.IsOwn(found.cfg) {
		return route{}, false
	}
	p.startClock(ctx)
	begun := *p
	go func() {
		defer close(f.done)
		f.found, f.err = rs.configs.Load(ctx, config.Ask{GivenKey: to.GivenKey, Last: old, Beside: true}, begun.bound())
		f.err = rs.readError(ctx, unavailableIfLate(f.err), to.GivenKey, &begun)
	}()
	return found, true
}
