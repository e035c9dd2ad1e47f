// Package crowd lets processes wait for one bucket that is always short. Some share slots of calls in flight while
// processes are killed and answers get lost. Others have jobs with a deadline, or workers that give most tokens back.
//
//	go test -run '^$' -bench Crowd/slots ./crowd          # by name: slots, deadlines, workers
//
// The processes are real ones, which ask ddbmem in this one over HTTP on loopback.
package crowd

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// settings describe a crowd.
type settings struct {
	Processes int
	Callers   int           // of each process
	For       time.Duration // the calls begin within it
	Amount    int64         // that a call waits for
	Uses      int64         // that it has used at its end
	Holds     time.Duration // of a call
	Random    bool          // Holds is the mean of an exponential distribution
	Patience  time.Duration // of a call that waits; 0 for no deadline

	limit dynalimit.Limit
	taken int64 // at the start
	// killed processes are replaced, one each killEvery, and all are killed in the end. A part of the answers is lost.
	killEvery time.Duration
	lost      float64
}

// outcome is the result of a crowd.
type outcome struct {
	values program.Values
	// failed is the first failure of a call.
	failed string
}

// process is a child and its calls.
type process struct {
	*program.Child
	events []event
	died   time.Time
	ended  chan struct{}
}

// crowd are the processes of a run.
type crowd struct {
	settings
	endpoint string
	all      []*process
}

// startProcess starts a process, which calls until the given instant, adds it to c.all, and gathers its events
// until it ends.
func (c *crowd) startProcess(ctx context.Context, until time.Time) error {
	child, err := program.StartChild(ctx, task{c.settings, c.endpoint, until})
	if err != nil {
		return errors.Join(err, child.Stop())
	}
	p := &process{Child: child, ended: make(chan struct{})}
	c.all = append(c.all, p)
	go func() {
		defer close(p.ended)
		for {
			var e event
			if p.ReadAnswer(&e) != nil {
				return
			}
			p.events = append(p.events, e)
		}
	}()
	return nil
}

// killChild ends a process at once, with its open calls, and waits until all its events are read. It records
// the time of death. It does nothing if the process is dead.
func (p *process) killChild() {
	if !p.died.IsZero() {
		return
	}
	p.died = time.Now()
	_ = p.Process.Kill()
	<-p.ended
	_ = p.Stop()
}

// runCrowd runs a crowd on one bucket and returns the sums of its calls. With killEvery it kills and replaces a random
// process each time, and kills all in the end. It then adds back-s, the seconds until one process gets all slots.
func runCrowd(ctx context.Context, s settings) (_ *outcome, err error) {
	db := ddbmem.New()
	defer db.Close()
	endpoint, end, err := program.Serve(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := subject.CreateBuckets(ctx, db.Client(), s.limit, 1, s.taken); err != nil {
		return nil, err
	}
	db.SetFaults(newFaults(s))
	c, until := &crowd{settings: s, endpoint: endpoint}, time.Now().Add(s.For)
	defer func() {
		for _, p := range c.all {
			p.killChild()
		}
	}()
	for range s.Processes {
		if err := c.startProcess(ctx, until); err != nil {
			return nil, err
		}
	}
	if s.killEvery == 0 {
		for _, p := range c.all {
			<-p.ended
		}
		return c.sumCalls(), nil
	}
	for time.Now().Before(until) && program.Pause(ctx, s.killEvery) {
		c.all[len(c.all)-s.Processes+rand.IntN(s.Processes)].killChild()
		if err := c.startProcess(ctx, until); err != nil {
			return nil, err
		}
	}
	for _, p := range c.all {
		p.killChild()
	}
	died := time.Now()
	db.SetFaults(nil)
	if err := takeAll(ctx, db, s.limit.Capacity); err != nil {
		return nil, err
	}
	o := c.sumCalls()
	o.values["back-s"] = time.Since(died).Seconds()
	return o, nil
}

// newFaults returns a fault function that delays every request by 5 ms. It loses the answers to a share s.lost
// of the UpdateItem requests, at random.
func newFaults(s settings) func(*ddbmem.Request) ddbmem.Fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	return func(r *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		defer mu.Unlock()
		return ddbmem.Fault{Before: 5 * time.Millisecond, Lose: r.Operation == "UpdateItem" && random.Float64() < s.lost}
	}
}

// takeAll waits until a limiter of its own has acquired all slots, one after the other, and closes it. It does
// not settle their leases.
func takeAll(ctx context.Context, db *ddbmem.DB, slots int64) error {
	limiter, _, err := subject.Open(db.Client(), nil)
	if err != nil {
		return err
	}
	for range slots {
		if _, err = limiter.Wait(ctx, subject.Entity(0), subject.Resource, subject.One); err != nil {
			break
		}
	}
	return errors.Join(err, limiter.Close(ctx))
}

// renewedBefore is the least time for which a killed process surely has its slots: half a hold, less 5 s for late
// writes.
const renewedBefore = 25 * time.Second

// sumCalls sums the granted and failed calls, and finds the largest number of slots in use at once. It also
// compares the grants of the most and the least served process. The open calls of a killed process count as in
// use for renewedBefore more.
func (c *crowd) sumCalls() *outcome {
	o := &outcome{values: program.Values{"failed": 0}}
	type change struct {
		at    time.Time
		slots int
	}
	var changes []change
	var sums []float64
	for _, p := range c.all {
		open, granted := map[int]bool{}, 0.
		for _, e := range p.events {
			switch e.Kind {
			case began:
				open[e.Caller] = true
				granted++
				changes = append(changes, change{e.At, 1})
			case ended:
				delete(open, e.Caller)
				changes = append(changes, change{e.At, -1})
			case failed:
				o.values["failed"]++
				o.failed = cmp.Or(o.failed, e.Error)
			}
		}
		if !p.died.IsZero() {
			for range open {
				changes = append(changes, change{p.died.Add(renewedBefore), -1})
			}
		}
		o.values["granted"] += granted
		sums = append(sums, granted)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.slots, b.slots)) })
	used, most := 0, 0
	for _, x := range changes {
		used += x.slots
		most = max(most, used)
	}
	o.values["processes"], o.values["most/least"] = float64(len(c.all)), program.Ratio(slices.Max(sums), slices.Min(sums))
	o.values["most-at-once"] = float64(most)
	return o
}
