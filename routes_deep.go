package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// ErrTooDeep is the error of a call whose entity has more than 8 levels of parents that count. It is
// returned if a level that would not be charged limits money, or if the call gives the parent
// (WithParent).
var ErrTooDeep = errors.New("dynalimit: too many levels of parents")

// tooDeep decides a new call whose chain of parents is longer than the charged levels; from is the
// first place above them. If a level from there on limits money, its hard stop would not hold: the call
// is refused. Otherwise the nearest levels are charged and the operator is told once, because one
// record far above would stop all traffic below. given means that the chain has the call's parent. Such
// a chain is never cut, because the caller would choose the uncharged levels.
func (rs *routes) tooDeep(ctx context.Context, r *request, from place, given bool, p *patience) error {
	if p == nil { // of a lease that is out
		return nil
	}
	if given {
		return fmt.Errorf("%w: a call charges the %d nearest levels, and %s is above those of %s; %s is %s, which may have %d levels above it",
			ErrTooDeep, maxDepth, from.Entity, r.entity, r.opts.given.field(), r.opts.given.parent, maxDepth-2)
	}
	at := from
	for depth := 0; at.Entity != ""; depth++ {
		if depth == maxDepth { // or a cycle
			return refuseTooDeep(r.entity, at.Entity, "is farther than anybody looks")
		}
		buckets, err := rs.buckets(ctx, r, at, nil, p)
		if err != nil {
			return err
		}
		for i := range buckets {
			if cfg := rs.fallback.LimitsOf(buckets[i].resolved, at.parent); cfg != nil && cfg.Money&^(cfg.Shadow|cfg.Uncharged) != 0 {
				return refuseTooDeep(r.entity, at.Entity, "limits money")
			}
		}
		at = r.nextPlace(at, buckets[0].resolved)
	}
	rs.deepOnce.Do(func() {
		rs.log.WarnContext(ctx, "an entity has too many levels of parents; those from the ancestor on are not charged",
			slog.String("entity", r.entity), slog.String("ancestor", from.Entity), slog.Int("levels", maxDepth))
	})
	return nil
}

func refuseTooDeep(entity, ancestor, why string) error {
	return fmt.Errorf("%w: a call charges the %d nearest levels, and %s, which is above those of %s, %s; give %s fewer parents, or detach one of them",
		ErrTooDeep, maxDepth, ancestor, entity, why, entity)
}
