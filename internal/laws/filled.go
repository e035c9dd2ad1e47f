package laws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Buckets that an administrator fills: the queue of a reset limit is empty, that of one
// that is topped up is shorter by that much, and not below 0.

// fill resets a bucket or tops it up, now and then several times under one id: by an
// operator, or by the repository of a limiter.
func (h *history) fill(r *rand.Rand) {
	m := h.pick(r)
	repo := h.operator
	if r.IntN(2) == 0 {
		repo = m.repo
	}
	entity := h.entities[r.IntN(len(h.entities))]
	ask := h.filler(r, repo, entity, fmt.Sprintf("operation-%d", r.Uint64()))
	ctx := h.ctx
	if r.IntN(2) == 0 {
		ctx = quietly(ctx)
	}
	var group sync.WaitGroup
	for range 1 + r.IntN(5)/4 {
		group.Go(func() {
			err := ask(ctx)
			var wrong *dynalimit.ValidationError // the bucket does not have the limit
			if err != nil && !errors.As(err, &wrong) && !m.dead.Load() && (!h.mode.faults || !errors.Is(err, dynalimit.ErrUnavailable)) {
				h.unexpected(fmt.Errorf("fill %s: %w", entity, err))
			}
		})
	}
	group.Wait()
}

// filler asks for a reset or a top-up under an id.
func (h *history) filler(r *rand.Rand, repo *dynalimit.Repository, entity, id string) func(context.Context) error {
	amounts := h.amounts(r, entity)
	if r.IntN(2) == 0 {
		return func(ctx context.Context) error {
			_, err := admin.New(repo).Buckets.TopUp(ctx, entity, resource, amounts, &admin.TopUpOptions{ID: id})
			return err
		}
	}
	opts := &admin.ResetOptions{ID: id}
	if r.IntN(2) == 0 {
		opts.Limits = amountNames(amounts)
	}
	return func(ctx context.Context) error {
		_, err := admin.New(repo).Buckets.Reset(ctx, entity, resource, opts)
		return err
	}
}

func amountNames(amounts dynalimit.Amounts) (names []string) {
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// filling is what an administrator asked for.
type filling struct {
	id     string
	reset  bool
	Limits []string         `json:"limits"`
	Add    map[string]int64 `json:"add"`
}

// fillingOf is what the record of an operation says.
func fillingOf(item schema.Item) (*filling, error) {
	o, _ := schema.DecodeOperation(item)
	f := &filling{id: o.ID, reset: o.Action == "bucket_reset"}
	return f, json.Unmarshal([]byte(o.Arguments), f)
}

// filled replays what an administrator did to a bucket.
func (j *judge) filled(w *ddbmem.Write, f *filling, before, after *schema.Image) {
	j.tally["filled"]++
	if j.fillings[f.id] {
		j.fail(w, "L5: operation %s was done twice", f.id)
	}
	j.fillings[f.id] = true
	if before == nil {
		j.fail(w, "L7: an administrator made a bucket")
		return
	}
	if before.Refilled != after.Refilled || before.TTL != after.TTL || before.Set != after.Set || string(before.Of()) != string(after.Of()) {
		j.fail(w, "L10: an administrator changed more than tokens: %v, then %v", w.Old, w.New)
		return
	}
	for i, name := range after.Set.Names {
		j.filledLimit(w, f, name, &before.Limits[i], &after.Limits[i], after.State(i))
	}
}

func (j *judge) filledLimit(w *ddbmem.Write, f *filling, name string, was, is *schema.Stored, s bucket.State) {
	at, t := w.Time.UnixMilli(), j.buckets[bucketEntity(w.New)][name]
	if was.Consumed != is.Consumed || was.Rate != is.Rate {
		j.fail(w, "L4: an administrator moved the counter or the rate of %s", name)
	}
	gained := j.gained(w, f, name, was, is, t.queue)
	t.queue = max(0, t.queue-gained)
	t.ahead.returns(gained, at, j.rules.horizon)
	if forgone := s.Burst - t.queue - s.Level(at); j.rules.exact && (forgone < 0 || forgone > t.forgone) {
		j.fail(w, "L2: %s is worth %d, not %d, after an administrator filled it", name, s.Level(at), s.Burst-t.queue)
	}
	t.forgone = min(t.forgone, max(0, s.Burst-t.queue-s.Level(at)))
}

// gained is by how much an administrator shortened the queue of a limit.
func (j *judge) gained(w *ddbmem.Write, f *filling, name string, was, is *schema.Stored, queue int64) int64 {
	gained := is.Tokens - was.Tokens
	asked := f.Limits == nil || slices.Contains(f.Limits, name)
	switch {
	case f.reset && asked:
		if is.Tokens != is.Burst {
			j.fail(w, "L2: %s was reset to %d of %d", name, is.Tokens, is.Burst)
		}
		return queue
	case gained != 0 && (!asked || gained != f.Add[name]):
		j.fail(w, "L4: %s gained %d of %d", name, gained, f.Add[name])
	}
	return gained
}
