package lane

import (
	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The process's share under the policy Local: the amounts of each limit that this process admits on its
// own while the bucket does not answer, as a leaky queue.

// AdmitLocally takes amounts from the process's share of the limits, all or nothing; ok is false for a denial.
// It returns the balance of the share afterwards, or that of its denial; a batch call leaves the share's part
// of each reserve. room is false if the process has no room for the queues of another bucket.
func (b *Beside) AdmitLocally(asked []plan.Signed, cfg *plan.Config, share float64, batch bool, now int64) (r Result, ok, room bool) {
	slots, others := cfg.SplitSlots(asked)
	asks := b.known.localAsks(others, cfg, share, now)
	if batch {
		keepReserves(asks, cfg, share)
	}
	if len(slots) > 0 {
		free, fits := b.owner.SlotsOf(b.lane).admit(slots, cfg, share, batch, b.owner.IDs.base)
		if !fits {
			return localReading(append(asks, localSlots(slots, cfg, free)...), cfg, now), false, true
		}
	}
	if ok, room = b.owner.Queues.Admit(b.bucketName(), asks, now); !ok && len(slots) > 0 {
		b.owner.SlotsOf(b.lane).giveBack(slots)
	}
	return localReading(asks, cfg, now), ok, room
}

// keepReserves lowers the bursts of asks, in place, by the reserves of their limits, and the share's bursts by
// its part of these. Limits in shadow, and unknown ones, stay.
func keepReserves(asks []backlog.Ask, cfg *plan.Config, share float64) {
	for i := range asks {
		a := &asks[i]
		if at := cfg.Index(a.Name); at >= 0 && !cfg.InShadow(a.Name) {
			kept := bucket.Rate{Burst: a.Burst}.ReserveOf(cfg.Limits[at].Reserve)
			a.Burst, a.Share.Burst = a.Burst-kept, a.Share.Burst-int64(float64(kept)*share)
		}
	}
}

// localSlots returns asks that show the limits of slots that deny a call, for localReading. free is the number
// of the share's free slots, in thousandths.
func localSlots(asked []plan.Signed, cfg *plan.Config, free int64) (asks []backlog.Ask) {
	for _, a := range asked {
		rate := cfg.RateOf(a.Name)
		asks = append(asks, backlog.Ask{Name: a.Name, Amount: a.Amount, Burst: rate.Burst, Share: rate, Level: rate.Burst - free})
	}
	return asks
}

// ChangeLocally changes the process's share by the real use, without the bucket: amounts above 0 are taken,
// those below 0 given back. It never denies, and skips slots.
func (b *Beside) ChangeLocally(changes []plan.Signed, cfg *plan.Config, share float64, now int64) {
	_, changes = cfg.SplitSlots(changes)
	b.owner.Queues.Change(b.bucketName(), b.known.localAsks(changes, cfg, share, now), now)
}

// bucketName returns the entity and resource of the bucket, as the key of the queues of the process's shares.
func (b *Beside) bucketName() backlog.Bucket {
	return backlog.Bucket{Entity: b.site.Entity, Resource: b.site.Resource}
}

// localAsks returns the asks for the process's share of the limits that amounts name. Their rates and used
// amounts are those last known; a quota counts as refilled evenly.
func (s *sight) localAsks(amounts []plan.Signed, cfg *plan.Config, share float64, now int64) []backlog.Ask {
	asks := make([]backlog.Ask, len(amounts))
	for i, a := range amounts {
		rate := s.rate(a.Name, cfg).Smooth()
		asks[i] = backlog.Ask{
			Name: a.Name, Amount: a.Amount, Burst: rate.Burst, Share: backlog.Share(rate, share),
			Used: int64(float64(s.used(a.Name, now)) * share),
		}
	}
	return asks
}

// rate returns the last known rate of a limit: from the configuration, or from the bucket's image if
// the configuration does not have the limit. The rate of a limit in shadow never denies.
func (s *sight) rate(name string, cfg *plan.Config) bucket.Rate {
	if cfg.InShadow(name) {
		return plan.Unlimited
	}
	if cfg.Index(name) < 0 && s.known && s.image.HasLimit(name) {
		return s.image.Limits[s.image.Set.Index(name)].Rate
	}
	return cfg.RateOf(name)
}

// used returns the used amount of a limit at now, in millitokens, by the last image: its burst less its level
// with the refill. It is 0 if no image is known or the image lacks the limit.
func (s *sight) used(name string, now int64) int64 {
	if !s.known || !s.image.HasLimit(name) {
		return 0
	}
	state := s.image.State(s.image.Set.Index(name))
	return max(0, state.Burst-state.Level(now))
}

// localReading returns a result that shows the process's share as a bucket, for statuses; it is marked
// Degraded. An amount above the share's burst fits an empty share, so the burst is shown as that amount. One
// above the limit's own burst never fits.
func localReading(asks []backlog.Ask, cfg *plan.Config, now int64) Result {
	m := &schema.Image{HasRefilled: true, Refilled: now, Limits: make([]schema.Stored, 0, len(asks))}
	names := make([]string, len(asks))
	for i, a := range asks {
		names[i] = a.Name
		rate := a.Share
		if a.Amount <= a.Burst {
			rate.Burst = max(rate.Burst, a.Amount)
		}
		capacity := rate.Burst
		if j := cfg.Index(a.Name); j >= 0 {
			capacity = min(capacity, cfg.Limits[j].Capacity)
		}
		m.Limits = append(m.Limits, schema.Stored{
			Rate: rate, Capacity: capacity, Tokens: rate.Burst - a.Level,
		})
	}
	m.Set = schema.NamesAlone(names)
	return Result{Image: m, Config: cfg, Now: now, Degraded: true}
}
