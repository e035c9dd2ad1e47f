package aggregator

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// readSeries returns the usage of a checked query, resource after resource. An error is the last element.
func (s *usageSource) readSeries(ctx context.Context, checked ask) iter.Seq2[Usage, error] {
	return untilEnded(ctx, func(yield func(Usage, error) bool) {
		a := checked // of this time that the list is read
		err := s.checkKept(ctx, &a)
		if err == nil && a.Kind != schema.UsageOfEntity {
			err = s.sumLive(ctx, &a)
		}
		more := err == nil
		if more {
			err = forEach(s.listResources(ctx, a), func(resource string) bool {
				more = s.readResource(ctx, a, resource, yield)
				return more
			})
		}
		if err != nil {
			yield(Usage{}, err)
		}
	})
}

// readResource yields the windows of one resource, or an error. It returns false if the caller stopped, or
// after that error.
func (s *usageSource) readResource(ctx context.Context, a ask, resource string, yield func(Usage, error) bool) bool {
	a.Resource = resource
	for u, err := range s.sumWindows(a, s.readPieces(ctx, a)) {
		if !yield(u, err) || err != nil {
			return false
		}
	}
	return true
}
