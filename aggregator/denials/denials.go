package denials

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	defaultInterval    = time.Minute
	leastInterval      = time.Second
	mostInterval       = 24 * time.Hour
	longestRetention   = 100 * 365 * 24 * time.Hour
	defaultRetention   = 90 * 24 * time.Hour
	defaultMaxCounters = 10_000
	defaultTimeout     = 10 * time.Second
)

// DynamoDB is what a Recorder adds counts with. *dynamodb.Client implements it. The role that
// serves calls may do it: see docs/permissions.md.
type DynamoDB interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Options configures a Recorder. The zero value gives the defaults that the fields name.
type Options struct {
	// Namespace is that of the limiter's repository. Defaults to none.
	Namespace string
	// Next is an observer that is told everything first. Defaults to none.
	Next dynalimit.Observer
	// Interval is the least time between two writes of an item by this process, at least a
	// second and at most a day; up to a quarter more, by chance, so that processes do not
	// write together. Defaults to a minute.
	Interval time.Duration
	// Retention is how long counts are kept after their hour, at most 100 years; a negative
	// one is for ever. Defaults to 90 days.
	Retention time.Duration
	// MaxCounters bounds the counters that are held in memory until the next write, one for
	// each limit of an entity and resource that denies: each takes about 0.3 kB. What does
	// not fit is not counted, which Stats and the log tell. Defaults to 10,000.
	MaxCounters int
	// Timeout bounds the writes of an interval together, and those of Close. Defaults to
	// 10 s.
	Timeout time.Duration
	// Logger is told of what was not counted. Defaults to slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if problem.IsNil(o.Next) {
		o.Next = dynalimit.NopObserver{}
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Retention == 0 {
		o.Retention = defaultRetention
	}
	if o.MaxCounters == 0 {
		o.MaxCounters = defaultMaxCounters
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (o Options) validate() error {
	if o.Namespace != "" {
		if wrong := schema.CheckNamespace(o.Namespace); wrong != "" {
			return invalid("options.Namespace", "%s", wrong)
		}
	}
	switch {
	case o.Interval != 0 && o.Interval < leastInterval || o.Interval > mostInterval:
		return invalid("options.Interval", "is %v; give %v to %v, or 0 for the default", o.Interval, leastInterval, mostInterval)
	case o.Retention > longestRetention:
		return invalid("options.Retention", "is %v; give at most %v, or a negative one for ever", o.Retention, longestRetention)
	case o.MaxCounters < 0:
		return invalid("options.MaxCounters", "is %d; give at least 1, or 0 for the default", o.MaxCounters)
	case o.Timeout < 0:
		return invalid("options.Timeout", "is %v; give a positive duration, or 0 for the default", o.Timeout)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &problem.ValidationError{Package: "denials", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Recorder counts the acquires that a limiter denies. Make one with New and set it as the
// limiter's Observer, in each process; close it after the limiter. It is safe for concurrent
// use, and several limiters of one namespace can share it.
//
// A denial of an Acquire, Wait or Do counts once for each limit that it exceeded, at the
// entity whose bucket denied: the one that the call names or a parent. It counts in the hour
// in which the call ended. An acquire that a block refuses, or that waits and is granted in
// the end, counts nowhere.
type Recorder struct {
	next   dynalimit.Observer // told first
	client DynamoDB
	table  string
	keys   schema.Keys
	opts   Options
	// turn is held by whoever writes.
	turn chan struct{}
	// life ends with Close, and what is under way then.
	life context.Context
	end  context.CancelFunc
	// ticks counts timers that run or will.
	ticks sync.WaitGroup

	mu     sync.Mutex
	tally  tally
	timer  *time.Timer // nil if nothing waits
	closed bool
	stats  Stats
	told   int64 // of stats.Lost, in the log
}

// New returns a Recorder that adds counts to a table: the limiter's. It sends nothing and
// starts no goroutine. It fails with a *ValidationError for bad input.
func New(client DynamoDB, table string, opts *Options) (*Recorder, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(client):
		return nil, invalid("client", "is nil; give a client of DynamoDB")
	case table == "":
		return nil, invalid("table", "is empty; give the name of the limiter's table")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	r := &Recorder{
		next: o.Next, client: client, table: table, keys: schema.NewKeys(o.Namespace), opts: o,
		turn: make(chan struct{}, 1), tally: newTally(o.MaxCounters),
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r, nil
}

// called refuses a call without a context, or of a Recorder that New did not make.
func (r *Recorder) called(ctx context.Context) error {
	if r == nil || r.client == nil {
		return invalid("recorder", "is nil or was not made; make one with New")
	}
	return problem.NoContext(ctx, "denials")
}

// count adds a denial to what is held in memory.
func (r *Recorder) count(denial *dynalimit.LimitExceededError, at time.Time) {
	hour := hourOf(at)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range denial.Statuses {
		s := &denial.Statuses[i]
		if !s.Exceeded {
			continue
		}
		r.stats.Counted++
		if r.closed || !r.tally.add(counter{s.EntityID, s.Resource, s.Limit.Name, hour}, 1) {
			r.stats.Lost++
		}
	}
	r.arm()
}

// arm sets the timer of the next writes, if there will be any.
func (r *Recorder) arm() {
	if r.timer != nil || r.closed || len(r.tally.counts) == 0 && r.stats.Lost == r.told {
		return
	}
	r.ticks.Add(1)
	r.timer = time.AfterFunc(r.opts.Interval+rand.N(r.opts.Interval/4), r.tick)
}

// tick writes what was counted in an interval.
func (r *Recorder) tick() {
	defer r.ticks.Done()
	ctx, cancel := context.WithTimeout(r.life, r.opts.Timeout)
	defer cancel()
	err := r.Flush(ctx)
	r.tell(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	r.arm()
}

// Stats says what became of denials since the Recorder was made: one for each limit that
// denied an acquire.
type Stats struct {
	// Counted is how many there were. The others add up to it.
	Counted int64
	// Written is how many were added to the table, and Waiting how many are still to be.
	Written, Waiting int64
	// Lost is how many will not be added: there was no room for their counters, DynamoDB
	// refused them, or the Recorder was closed.
	Lost int64
	// Unconfirmed is how many may have been added: no answer came, and they are not added
	// again.
	Unconfirmed int64
}

// Stats tells what became of denials so far.
func (r *Recorder) Stats() Stats {
	if r == nil {
		return Stats{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Waiting = s.Counted - s.Written - s.Lost - s.Unconfirmed
	return s
}

// tell logs what was not counted since it was told last, and why writes failed.
func (r *Recorder) tell(err error) {
	r.mu.Lock()
	lost := r.stats.Lost - r.told
	r.told = r.stats.Lost
	r.mu.Unlock()
	if lost == 0 && err == nil {
		return
	}
	attrs := []slog.Attr{slog.Int64("lost", lost)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	r.opts.Logger.LogAttrs(context.Background(), slog.LevelWarn, "dynalimit: counts of denials were not added to the table, or not yet", attrs...)
}
