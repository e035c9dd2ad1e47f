package lane

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// token is one token, and mostTokens the most that a call may ask for, in
// millitokens.
const (
	token      = 1000
	mostTokens = 1_000_000_000_000 * token
)

// oneToken is a token of rpm.
var oneToken = []plan.Signed{{Name: "rpm", Amount: token}}

// rpmOf is the configuration of a bucket of n tokens a minute.
func rpmOf(n int64) *plan.Config {
	return &plan.Config{
		Fingerprint: []byte{byte(n)},
		Limits:      []schema.Limit{{Name: "rpm", Capacity: n * token, Rate: bucket.Rate{Burst: n * token, Amount: n * token, Period: 60_000}}},
	}
}

// imageOf is a bucket of a configuration of one limit, with so many tokens now.
func imageOf(cfg *plan.Config, tokens, now int64) *schema.Image {
	return &schema.Image{
		Set: schema.NewLimitSets().Of(cfg.Names()), Fingerprint: cfg.Fingerprint, HasRefilled: true, Refilled: now,
		Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Tokens: tokens}},
	}
}

// answering is a table that answers until opened is closed. last is the instant of its last answer.
type answering struct {
	Table
	last   time.Time
	opened chan struct{}
}

var answers Table = answering{}

func (answering) Open() bool { return false }

func (a answering) Opened() <-chan struct{} { return a.opened }

func (a answering) LastAnswer() time.Time { return a.last }

func (answering) Closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// absent is a store without a bucket, which can be created once.
type absent struct {
	Store
	created *schema.Create
}

func (*absent) Read(context.Context, schema.Item, *schema.LimitSet, int) (*schema.Image, error) {
	return nil, nil
}

func (s *absent) Create(_ context.Context, c *schema.Create, _ *schema.LimitSet, _ int) Answer {
	s.created = c
	return Answer{Verdict: ddb.Landed, Seen: true, Image: imageOf(rpmOf(100), 0, c.Refilled)}
}

// resting is a lane of a bucket that has not been looked at, and is not there.
func resting(t *testing.T) *Lane {
	t.Helper()
	return restingOn(t, &absent{})
}

// restingOn is a lane of a bucket in a store that has not been looked at.
func restingOn(t *testing.T, store Store) *Lane {
	t.Helper()
	ticks := int64(0)
	all, err := New(Options{
		Turns: &Turns{}, Passes: NewPasses(100), Size: 10,
		Access: Access{
			Store: store, Keys: schema.NewKeys(""), Log: slog.New(slog.DiscardHandler), Table: answering{},
			NowMS: func() int64 { return time.Now().UnixMilli() }, SureMS: func() int64 { return time.Now().UnixMilli() }, Tick: func() int64 { ticks++; return ticks },
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		all.End()
		assert.NoError(t, all.Drain(context.Background()))
	})
	return all.Of("user-1", "gpt-4")
}

// turnOf is a turn of a lane whose write carries ops, decided from a view.
func turnOf(l *Lane, v plan.View, carried ...*Op) *turn {
	return &turn{owner: l.owner, lane: l, site: l.site(), extra: l.extra.Load(), decision: decision{view: v, move: move{carried: carried}}}
}

// enqueue queues an op in a lane. It returns true if the lane was at rest.
func enqueue(l *Lane, o *Op) bool {
	l.mu.Lock()
	defer l.unlockAndNotify()
	return l.enqueue(o)
}

// setState gives ops a state.
func setState(state int32, ops ...*Op) {
	for _, o := range ops {
		o.state.Store(state)
	}
}

// endOps ends ops of a lane with a result.
func endOps(l *Lane, r Result, ops ...*Op) { l.finishOps(&fates{ends: []ending{{ops, r}}}) }

// throttle is a throttled request of a lane: a read, or a write that took trip.
func throttle(l *Lane, read bool, trip time.Duration) {
	turnOf(l, plan.View{}).noteThrottling(read, trip, nil)
}
