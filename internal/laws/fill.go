package laws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// fillBucket requests a reset, a top-up or a grant of tokens of a random bucket, as an administrator, and
// waits. Sometimes it sends the request twice at once under one id, which must count once. It records an error
// that must not occur.
func (w *worker) fillBucket() {
	m := w.h.randomMember(w.r)
	repo := w.h.operator
	if w.r.IntN(2) == 0 {
		repo = m.repo
	}
	entity := w.h.entities[w.r.IntN(len(w.h.entities))]
	ask := w.newFilling(repo, entity, fmt.Sprintf("operation-%d", w.r.Uint64()))
	ctx := w.h.ctx
	if w.r.IntN(2) == 0 {
		ctx = Quietly(ctx)
	}
	var group sync.WaitGroup
	for range 1 + w.r.IntN(5)/4 {
		group.Go(func() {
			err := ask(ctx)
			var wrong *dynalimit.ValidationError // the bucket does not have the limit
			if err != nil && !errors.As(err, &wrong) && !m.dead.Load() && (!w.h.mode.faults || !errors.Is(err, dynalimit.ErrUnavailable)) {
				w.h.recordError(fmt.Errorf("fill %s: %w", entity, err))
			}
		})
	}
	group.Wait()
}

// newFilling draws a reset, a top-up or, for a quota, a grant of an entity's bucket. It sends nothing, but
// returns the function that requests it under the id, so that a repeated call counts once.
func (w *worker) newFilling(repo *dynalimit.Repository, entity, id string) func(context.Context) error {
	amounts := w.h.randomAmounts(w.r, entity)
	if q := w.h.quotas; q != nil && amounts[q.name] > 0 && w.r.IntN(2) == 0 {
		return func(ctx context.Context) error {
			_, err := admin.New(repo).Buckets.GrantWindow(ctx, entity, resource, id, dynalimit.Amounts{q.name: amounts[q.name]})
			return err
		}
	}
	if w.r.IntN(2) == 0 {
		return func(ctx context.Context) error {
			_, err := admin.New(repo).Buckets.TopUp(ctx, entity, resource, id, amounts)
			return err
		}
	}
	var limits []string
	if w.r.IntN(2) == 0 {
		limits = amountNames(amounts)
	}
	return func(ctx context.Context) error {
		_, err := admin.New(repo).Buckets.Reset(ctx, entity, resource, id, limits...)
		return err
	}
}

// amountNames returns the names of the limits in amounts, sorted.
func amountNames(amounts dynalimit.Amounts) (names []string) {
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
