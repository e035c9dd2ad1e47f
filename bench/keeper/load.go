package keeper

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

// load has clients ask by a schedule: what is due is asked as soon as a client is free,
// and how long it took counts from when it was due.
type load struct {
	clients []client
	targets []target
	// pause is how to wait for what is due.
	pause func(time.Duration)
	// half of the schedule that is asked.
	half time.Duration
}

// tally is what came of the requests of one kind.
type tally struct {
	due, done, failed, unsent int
	took                      latency.Histogram
	early                     time.Duration // the longest of the schedule's first half
	firstError                string
}

func (t *tally) add(o *tally) {
	t.due, t.done, t.failed, t.unsent = t.due+o.due, t.done+o.done, t.failed+o.failed, t.unsent+o.unsent
	t.took.Add(o.took)
	t.early = max(t.early, o.early)
	if t.firstError == "" {
		t.firstError = o.firstError
	}
}

// outcome is what came of a run.
type outcome struct {
	byKind [kinds]*tally
	// late is how far behind its schedule the load itself was.
	late    latency.Histogram
	elapsed time.Duration
}

func newOutcome() *outcome {
	return &outcome{byKind: newTallies(), late: latency.New()}
}

func newTallies() (all [kinds]*tally) {
	for k := range all {
		all[k] = &tally{took: latency.New()}
	}
	return all
}

// patience is how long after its end a run asks what was due.
const patience = 5 * time.Second

// run asks until the schedule ends, and returns when all is answered.
func (l *load) run(ctx context.Context, id uint32, s *schedule) *outcome {
	start := time.Now()
	l.half = s.until / 2
	due := make(chan arrival, len(l.clients))
	parts := make([][kinds]*tally, len(l.clients))
	var group sync.WaitGroup
	for i, c := range l.clients {
		parts[i] = newTallies()
		group.Go(func() {
			for a := range due {
				l.ask(ctx, c, id, a, start, parts[i][a.kind])
			}
		})
	}
	sum := newOutcome()
	l.dispatch(ctx, s, start, due, sum)
	close(due)
	group.Wait()
	sum.elapsed = time.Since(start)
	for _, p := range parts {
		for k := range kinds {
			sum.byKind[k].add(p[k])
		}
	}
	return sum
}

// dispatch hands out what is due. What nobody is free for waits here, and counts from when
// it was due all the same.
func (l *load) dispatch(ctx context.Context, s *schedule, start time.Time, due chan<- arrival, sum *outcome) {
	over := start.Add(s.until + patience)
	for {
		a, ok := s.next()
		if !ok {
			return
		}
		sum.byKind[a.kind].due++
		early := time.Until(start.Add(a.due))
		if early > 0 {
			l.pause(early)
			sum.late.Record(time.Since(start.Add(a.due)))
		}
		if ctx.Err() != nil || time.Now().After(over) {
			sum.byKind[a.kind].unsent++
			continue
		}
		due <- a
	}
}

func (l *load) ask(ctx context.Context, c client, id uint32, a arrival, start time.Time, t *tally) {
	q := questionOf(id, a, l.targets[a.number%len(l.targets)], time.Now())
	status, body, err := c.ask(ctx, q)
	if err == nil && status >= http.StatusMultipleChoices {
		err = refusal(status, body)
	}
	if err != nil {
		t.failed++
		if t.firstError == "" {
			t.firstError = err.Error()
		}
		return
	}
	t.done++
	took := time.Since(start.Add(a.due))
	t.took.Record(took)
	if a.due < l.half {
		t.early = max(t.early, took)
	}
}

// logIn gets the targets their tokens, which are good for all processes.
func (l *load) logIn(ctx context.Context) error {
	for i, t := range l.targets {
		status, body, err := l.clients[0].ask(ctx, loginOf(t))
		if err == nil && status != http.StatusOK {
			err = refusal(status, body)
		}
		if err != nil {
			return err
		}
		var granted struct {
			Token string `json:"access_token"`
		}
		if err := json.Unmarshal(body, &granted); err != nil {
			return err
		}
		l.targets[i].token = granted.Token
	}
	return nil
}

func (l *load) close() {
	for _, c := range l.clients {
		c.close()
	}
}

// idle waits by the runtime's timers, which virtual time moves.
func idle(d time.Duration) { <-time.After(d) }
