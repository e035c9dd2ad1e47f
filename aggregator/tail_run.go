package aggregator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
)

const (
	// lookEvery is how often leases are looked at where there are others.
	lookEvery = 2 * time.Second
	// listEvery is how often shards are listed; after one ended, sooner.
	listEvery, listSoon = 30 * time.Second, time.Second
)

// errRunning is that of a second Run at once.
var errRunning = errors.New("aggregator: this Tail runs already; make another one")

// Run follows the stream until ctx ends. Then it processes what it has gathered, stores how
// far it came and leaves its shards to others, for at most TailOptions.Drain, and some more
// where DynamoDB does not answer. It returns nil; an error if something was left, which is
// read again by whoever comes next, or if the Observer panicked, with the first of what it
// panicked with, which ends nothing. It fails at once with a *TableError if the table has no
// stream that tells of usage, with that of DynamoDB if it may not be read, and with a
// *ValidationError without a ctx. What fails later is tried again, and told to the observer.
func (t *Tail) Run(ctx context.Context) error {
	if err := called(ctx, t != nil && t.process != nil, "tail", "NewTail"); err != nil {
		return err
	}
	if !t.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer t.running.Store(false)
	err := t.follow(ctx)
	if panicked := t.observer.failure(); panicked != nil {
		return errors.Join(err, panicked)
	}
	return err
}

// follow is Run, once nobody else runs.
func (t *Tail) follow(ctx context.Context) error {
	arn, err := t.begin(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &run{
		Tail: t, arn: arn, work: work, readers: map[shards.ID]*reader{}, finished: map[shards.ID]bool{},
		idle: map[shards.ID]time.Time{}, ended: make(chan *reader), listPause: listSoon,
	}
	var member sync.WaitGroup
	member.Go(func() { r.attend(ctx) })
	for wait := time.Duration(0); r.wait(ctx, wait); {
		wait = r.step(ctx)
	}
	late := time.AfterFunc(t.options.Drain, cancel)
	defer late.Stop()
	err = r.drain()
	member.Wait()
	return err
}

// begin finds the stream. It fails for what does not pass by itself, and with the error of
// ctx once that has ended.
func (t *Tail) begin(ctx context.Context) (string, error) {
	for try := 0; ; try++ {
		arn, err := t.source(ctx)
		if err == nil {
			_, err = t.shardsOf(ctx, arn)
		}
		switch {
		case err == nil:
			return arn, nil
		case ctx.Err() == nil && (errors.Is(err, problem.ErrTable) || ddb.Classify(err, ctx).Setting):
			return "", err
		}
		if !pauses.Pause(ctx, try) {
			return "", ctx.Err()
		}
		t.observer.Retrying(TailRetry{Op: "find the stream", Try: try + 1, Err: err})
	}
}

// run is one Run of a Tail.
type run struct {
	*Tail
	arn string
	// work ends when Run has to be over, some time after its own context.
	work    context.Context
	readers map[shards.ID]*reader
	// ended gets each reader when it is done.
	ended chan *reader

	// seen is what the followers of the stream remembered at the last look.
	seen      schema.TailMemory
	listed    []shards.Shard
	listNext  time.Time
	listPause time.Duration
	// finished are shards that this run read to the end.
	finished map[shards.ID]bool
	// idle is since when shards have been without a reader.
	idle map[shards.ID]time.Time
	// tries counts the looks that failed in a row.
	tries int
}

// attend holds the lease that says that this Tail is there, until ctx ends.
func (r *run) attend(ctx context.Context) {
	key := r.keys.Member(r.me)
	for try := 0; ctx.Err() == nil; try++ {
		err := r.lease(key, "follower "+r.me).Do(r.work, 0, nil, func(held context.Context, _ int64) error {
			try = 0
			select {
			case <-ctx.Done():
			case <-held.Done():
			}
			return nil
		})
		if ctx.Err() != nil {
			break
		}
		r.observer.Retrying(TailRetry{Op: "hold the lease of a follower", Try: try + 1, Err: err})
		_ = pauses.Pause(ctx, try)
	}
	r.forget(r.work, key)
}

// step looks at what there is and does what is to be done. It returns when to look again.
func (r *run) step(ctx context.Context) time.Duration {
	due := !time.Now().Before(r.listNext)
	m, err := r.look(ctx, due)
	if err == nil && due {
		err = r.list(ctx, m)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.tries++
			r.observer.Retrying(TailRetry{Op: "look for shards", Try: r.tries, Err: err})
		}
		return pauses.Wait(r.tries)
	}
	r.tries = 0
	now := r.options.Now()
	sight := r.sight(m, now)
	plan := sight.Plan(now)
	for _, s := range sight.Ready {
		if slices.Contains(plan.Take, s.ID) {
			r.take(s, m)
		}
	}
	for _, id := range plan.Leave {
		r.readers[id].leave()
	}
	wait := min(r.options.Hold/3, time.Until(r.listNext))
	if len(sight.Members) > 1 || len(sight.Ready) > len(r.readers) {
		wait = min(wait, lookEvery)
	}
	if !plan.Next.IsZero() {
		wait = min(wait, plan.Next.Sub(now))
	}
	return max(wait, 10*time.Millisecond)
}

// look reads what there is of leases. Checkpoints, of which there are some for each shard that
// ended in the last days, are read with the list of shards, and where a lease is gone: then its
// shard is at its end.
func (r *run) look(ctx context.Context, whole bool) (schema.TailMemory, error) {
	m, err := r.leases(ctx)
	if err != nil {
		return m, err
	}
	for id := range r.seen.Leases {
		_, there := m.Leases[id]
		whole = whole || !there
	}
	if m.Checkpoints = r.seen.Checkpoints; whole {
		if m.Checkpoints, err = r.checkpoints(ctx); err != nil {
			return m, err
		}
	}
	r.seen = m
	return m, nil
}

// list lists the shards.
func (r *run) list(ctx context.Context, m schema.TailMemory) error {
	arn, err := r.source(ctx)
	if err != nil && ctx.Err() == nil { // what the last stream still has can be read
		r.observer.Retrying(TailRetry{Op: "find the stream", Try: 1, Err: err})
	} else if err == nil {
		r.arn = arn
	}
	listed, err := r.discover(ctx, r.arn, m)
	if err != nil {
		return err
	}
	r.listed, r.listNext = listed, time.Now().Add(r.listPause)
	r.listPause = min(2*r.listPause, listEvery)
	maps.DeleteFunc(r.finished, func(id shards.ID, _ bool) bool { return m.Checkpoints[id].Finished }) // known to all
	return nil
}

// known are the shards that are listed, and those that somebody began to read.
func (r *run) known(m schema.TailMemory) []shards.Shard {
	return shards.Known(r.listed, func(yield func(shards.ID) bool) {
		for _, begun := range []iter.Seq[shards.ID]{maps.Keys(m.Checkpoints), maps.Keys(m.Leases), maps.Keys(r.readers)} {
			for id := range begun {
				if !yield(id) {
					return
				}
			}
		}
	})
}

// sight is what there is.
func (r *run) sight(m schema.TailMemory, now time.Time) *shards.Sight {
	s := &shards.Sight{
		Me: r.me, Leases: map[shards.ID]shards.Lease{}, Mine: map[shards.ID]bool{}, Idle: r.idle, Patience: r.options.Hold,
	}
	s.Ready = shards.Ready(r.known(m), func(id shards.ID) bool { return r.finished[id] || m.Checkpoints[id].Finished })
	for id, reader := range r.readers {
		s.Mine[id] = !reader.left()
	}
	for id, l := range m.Leases {
		s.Leases[id] = shards.Lease{Holder: l.Holder, Free: lock.FreeAt(l)}
	}
	for _, l := range m.Members {
		if free := lock.FreeAt(l); now.Before(free) {
			s.Members = append(s.Members, shards.Lease{Holder: l.Holder, Free: free})
		}
	}
	idle := map[shards.ID]time.Time{}
	for _, shard := range s.Ready {
		if r.readers[shard.ID] != nil || now.Before(s.Leases[shard.ID].Free) {
			continue
		}
		if idle[shard.ID] = r.idle[shard.ID]; idle[shard.ID].IsZero() {
			idle[shard.ID] = now
		}
	}
	r.idle, s.Idle = idle, idle
	return s
}

// take begins to read a shard.
func (r *run) take(s shards.Shard, m schema.TailMemory) {
	reader := newReader(r.work, r.Tail, r.arn, s.ID, floor(s, m))
	r.readers[s.ID] = reader
	go func() {
		reader.run(r.work)
		r.ended <- reader
	}()
}

// floor is the last sequence number before those of a shard: its parent's, or, for one
// without a parent, that of the streams before. It is "" where that is not known.
func floor(s shards.Shard, m schema.TailMemory) string {
	if s.Parent != "" {
		return m.Checkpoints[shards.ID{Stream: s.Stream, Shard: s.Parent}].Seq
	}
	last := ""
	for id, c := range m.Checkpoints {
		if id.Stream < s.Stream {
			last = max(last, c.Seq)
		}
	}
	return last
}

// wait waits for so long, or until a reader is done; false once ctx has ended.
func (r *run) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return ctx.Err() == nil
		case reader := <-r.ended:
			if r.done(reader); reader.finished {
				return ctx.Err() == nil
			}
			timer.Reset(min(d, listSoon))
		}
	}
}

// done notes that a reader is done.
func (r *run) done(reader *reader) {
	delete(r.readers, reader.id)
	if reader.finished {
		r.finished[reader.id] = true
		r.listNext, r.listPause = time.Time{}, listSoon // its children
	}
}

// drain has all shards left, and waits for it.
func (r *run) drain() error {
	for _, reader := range r.readers {
		reader.leave()
	}
	var left []string
	var why error
	for len(r.readers) > 0 {
		reader := <-r.ended
		r.done(reader)
		if reader.unprocessed != nil {
			left, why = append(left, reader.id.Shard), reader.unprocessed
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("aggregator: what was read of the shards %q could not be processed in time, and is to be read again: %w", left, why)
}
