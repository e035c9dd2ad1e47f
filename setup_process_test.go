package dynalimit_test

import (
	"bytes"
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// model is the resource of these tests.
const model = "gpt-4"

// handClock is a clock that tests move by hand; nil is the bubble's own.
type handClock struct{ ms atomic.Int64 }

func newHandClock() *handClock {
	c := &handClock{}
	c.ms.Store(noon().UnixMilli())
	return c
}

func (c *handClock) now() time.Time {
	if c == nil {
		return time.Now()
	}
	return time.UnixMilli(c.ms.Load())
}

func (c *handClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// process is one that limits: a limiter with its own repository on a table.
type process struct {
	*engine
	t       *testing.T
	clock   *handClock
	repo    *repository
	limiter *rateLimiter
}

// newProcess is a process on a new table whose clock stands still.
func newProcess(t *testing.T, e *engine, opts *dynalimit.Options) *process {
	t.Helper()
	clock := newHandClock()
	repo := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
	return (&process{engine: e, t: t, clock: clock}).on(repo, opts)
}

// memProcess is a process on a new table of a new ddbmem with its clock.
func memProcess(t *testing.T, opts *dynalimit.Options) *process {
	t.Helper()
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now), ddbmem.WithLog())
	repo := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
	return (&process{engine: e, t: t, clock: clock}).on(repo, opts)
}

// liveProcess is a process on a new table whose clock is the bubble's.
func liveProcess(t *testing.T, e *engine, opts *dynalimit.Options) *process {
	t.Helper()
	return (&process{engine: e, t: t}).on(e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now}), opts)
}

// pair runs a test with two processes on one table of these limits, which neither has
// stored, each with an op slot of its own, in virtual time.
func pair(t *testing.T, limits []dynalimit.Limit, test func(t *testing.T, a, b *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		operator := liveProcess(t, memEngine(t), nil)
		require.NoError(t, operator.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits))
		test(t, operator.peer(nil).inSlot(0), operator.peer(nil).inSlot(1))
	})
}

// inFamily runs a test with a process whose entity key cascades to org, in virtual
// time, with limits that the test sets.
func inFamily(t *testing.T, test func(t *testing.T, s *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.family("key", "org")
		test(t, s)
	})
}

// on is a process on a table as repo opens it.
func (s *process) on(repo *repository, opts *dynalimit.Options) *process {
	s.t.Helper()
	limiter, err := openLimiter(repo, opts)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, limiter.Close(context.WithoutCancel(s.t.Context()))) })
	return &process{engine: s.engine, t: s.t, clock: s.clock, repo: repo, limiter: limiter}
}

// peer is another process on the same table and with the same clock, unless it
// brings one.
func (s *process) peer(opts *dynalimit.Options, clocks ...*handClock) *process {
	s.t.Helper()
	clock := s.clock
	if len(clocks) > 0 {
		clock = clocks[0]
	}
	p := *s
	p.clock = clock
	return p.on(s.open(s.t, s.repo.table, &dynalimit.RepositoryOptions{Now: clock.now}), opts)
}

// wired is another process whose requests pass through a transport of the test.
func (s *process) wired(opts *dynalimit.Options, transport aws.HTTPClient) *process {
	s.t.Helper()
	repo, err := openRepository(s.client(func(o *dynamodb.Options) { o.HTTPClient = transport }), s.repo.table, &dynalimit.RepositoryOptions{Now: s.clock.now, Principal: tester})
	require.NoError(s.t, err)
	return s.on(repo, opts)
}

// inSlot makes the process's writes go to one op slot.
func (s *process) inSlot(slot int) *process {
	s.limiter.lanes.IDs.Slot = slot
	return s
}

// acquire takes amounts that must fit.
func (s *process) acquire(entity string, a dynalimit.Amounts, opts ...dynalimit.AcquireOption) *dynalimit.Lease {
	s.t.Helper()
	lease, err := s.limiter.Acquire(s.t.Context(), entity, model, a, opts...)
	require.NoError(s.t, err)
	return lease
}

// recovers ends every fault and waits until the store answers and nothing is owed.
func (s *process) recovers() {
	s.t.Helper()
	s.db.SetFaults(nil)
	for range 60 {
		if h := s.limiter.Health(); !h.Open && h.SilentBuckets == 0 && h.WaitingBuckets == 0 {
			return
		}
		elapse(time.Second)
	}
	require.Fail(s.t, "the store does not recover", "%+v", s.limiter.Health())
}

// deny asks for amounts that must not fit.
func (s *process) deny(entity string, a dynalimit.Amounts, opts ...dynalimit.AcquireOption) *dynalimit.LimitExceededError {
	s.t.Helper()
	_, err := s.limiter.Acquire(s.t.Context(), entity, model, a, opts...)
	return s.denied(err)
}

func (s *process) denied(err error) *dynalimit.LimitExceededError {
	s.t.Helper()
	var exceeded *dynalimit.LimitExceededError
	require.ErrorAs(s.t, err, &exceeded)
	require.ErrorIs(s.t, err, dynalimit.ErrLimitExceeded)
	return exceeded
}

// item is the entity's bucket as stored, nil for none.
func (s *process) item(entity string) schema.Item { return s.itemOn(entity, model) }

func (s *process) itemOn(entity, resource string) schema.Item {
	s.t.Helper()
	out, err := s.client().GetItem(s.t.Context(), &dynamodb.GetItemInput{
		TableName: &s.repo.table, Key: s.repo.keys.Bucket(entity, resource).Attributes(), ConsistentRead: aws.Bool(true),
	})
	require.NoError(s.t, err)
	return out.Item
}

// image is the entity's bucket, decoded; it must exist.
func (s *process) image(entity string) *schema.Image { return s.imageOn(entity, model) }

func (s *process) imageOn(entity, resource string) *schema.Image {
	s.t.Helper()
	image, err := schema.NewLimitSets().DecodeBucket(s.itemOn(entity, resource), nil, 0)
	require.NoError(s.t, err)
	require.NotNil(s.t, image, "no bucket of %s on %s", entity, resource)
	return image
}

// stored is one limit of the entity's bucket.
func (s *process) stored(entity, limit string) schema.Stored { return s.storedOn(entity, model, limit) }

func (s *process) storedOn(entity, resource, limit string) schema.Stored {
	s.t.Helper()
	image := s.imageOn(entity, resource)
	i := image.Set.Index(limit)
	require.GreaterOrEqual(s.t, i, 0, "no limit %s in the bucket of %s on %s", limit, entity, resource)
	return image.Limits[i]
}

// level is what a limit of the entity is worth now, in whole tokens, read afresh.
func (s *process) level(entity, limit string) int64 { return s.levelOn(entity, model, limit) }

func (s *process) levelOn(entity, resource, limit string) int64 {
	s.t.Helper()
	image := s.imageOn(entity, resource)
	i := image.Set.Index(limit)
	require.GreaterOrEqual(s.t, i, 0, "no limit %s in the bucket of %s on %s", limit, entity, resource)
	return int64(math.Floor(float64(image.State(i).Level(s.clock.now().UnixMilli())) / milli))
}

// delete removes the entity's bucket, as the time to live would.
func (s *process) delete(entity string) {
	s.t.Helper()
	_, err := s.client().DeleteItem(s.t.Context(), &dynamodb.DeleteItemInput{
		TableName: &s.repo.table, Key: s.repo.keys.Bucket(entity, model).Attributes(),
	})
	require.NoError(s.t, err)
}

// family stores records so that each entity cascades to the next.
func (s *process) family(ids ...string) {
	s.t.Helper()
	for i := len(ids) - 1; i >= 0; i-- {
		e := admin.Entity{ID: ids[i]}
		if i+1 < len(ids) {
			e.ParentID, e.Cascade = ids[i+1], true
		}
		require.NoError(s.t, s.repo.CreateEntity(s.t.Context(), e))
	}
}

// used is what the requests of do cost.
func (s *process) used(do func()) ddbmem.Meter {
	before := s.db.Meter()
	do()
	return s.db.Meter().Sub(before)
}

// perMinute are 100 requests and 10,000 tokens a minute.
func perMinute() *dynalimit.Options {
	return &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000), dynalimit.PerMinute("rpm", 100)}}
}

func perDay(n int64) *dynalimit.Options {
	return &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("tpm", n)}}
}

// together are the options of limiters that charge a cascade in a transaction.
func together() *dynalimit.Options {
	opts := perMinute()
	opts.ChargeMode = dynalimit.ChargeTransaction
	return opts
}

func userOf(i int) string { return "user-" + string(rune('a'+i)) }

type otherProcess struct{}

// virtual runs a test on ddbmem in virtual time, so that pauses cost nothing.
func virtual(t *testing.T, opts *dynalimit.Options, test func(t *testing.T, s *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memProcess(t, opts)) })
}

// bothModes runs a test with each way to charge a cascade, on every engine.
func bothModes(t *testing.T, test func(t *testing.T, s *process)) {
	t.Helper()
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		t.Run(string(mode), func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				opts := perMinute()
				opts.ChargeMode = mode
				test(t, newProcess(t, e, opts))
			})
		})
	}
}

// waitLimiter is a limiter on a bucket in process, for a synctest bubble.
func waitLimiter(t *testing.T, limits ...dynalimit.Limit) (*rateLimiter, *ddbmem.DB) {
	t.Helper()
	db := ddbmem.New()
	t.Cleanup(db.Close)
	repo, err := openRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: tester})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	l, err := openLimiter(repo, &dynalimit.Options{Limits: limits})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.WithoutCancel(t.Context()))) })
	return l, db
}

func drain(t *testing.T, l *rateLimiter, amounts dynalimit.Amounts) {
	t.Helper()
	_, err := l.Acquire(t.Context(), "u", "m", amounts)
	require.NoError(t, err)
}

// team is a limiter with limits for a project and for its key u.
func team(t *testing.T, project, key []dynalimit.Limit) (*rateLimiter, *ddbmem.DB) {
	t.Helper()
	l, db := waitLimiter(t)
	require.NoError(t, l.repo.SetLimits(t.Context(), admin.Scope{Entity: "project", Resource: "m"}, project))
	require.NoError(t, l.repo.SetLimits(t.Context(), admin.Scope{Entity: "u", Resource: "m"}, key))
	require.NoError(t, l.repo.CreateEntity(t.Context(), admin.Entity{ID: "project"}))
	require.NoError(t, l.repo.CreateEntity(t.Context(), admin.Entity{ID: "u", ParentID: "project", Cascade: true}))
	return l, db
}

// waitFor starts a Wait and reports when it was served.
func waitFor(t *testing.T, l *rateLimiter, entity string, a dynalimit.Amounts, opts ...dynalimit.AcquireOption) <-chan time.Time {
	served := make(chan time.Time, 1)
	go func() {
		_, err := l.Wait(t.Context(), entity, "m", a, opts...)
		assert.NoError(t, err)
		served <- time.Now()
	}()
	synctest.Wait()
	return served
}

// limiterOptions are the options the process's limiter was made with.
func (s *process) limiterOptions() *dynalimit.Options {
	return &dynalimit.Options{Limits: s.limiter.own}
}

// allowed counts how many of n calls for one token are admitted now.
func (s *process) allowed(n int, entity, limit string) (admitted int) {
	s.t.Helper()
	for range n {
		if _, err := s.limiter.Acquire(s.t.Context(), entity, model, dynalimit.Amounts{limit: 1}); err == nil {
			admitted++
		} else {
			_ = s.denied(err)
		}
	}
	return admitted
}

// consumed is what the users' buckets were charged of a limit, in whole tokens.
func (s *process) consumed(users int, limit string) (sum int64) {
	for i := range users {
		sum += s.stored(userOf(i), limit).Consumed / milli
	}
	return sum
}

// down lets every request suffer f.
func (s *process) down(f ddbmem.Fault) {
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return f })
}

// silenceOf gives a fault to every request of a bucket, and to no read of configuration.
func (s *process) silenceOf(entity string, fault ddbmem.Fault) ddbmem.FaultFunc {
	key := []byte(`"ENTITY#` + entity + `"`)
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation != "BatchGetItem" && bytes.Contains(r.Body, key) && bytes.Contains(r.Body, []byte("#BUCKET#")) {
			return fault
		}
		return ddbmem.Fault{}
	}
}

// silence makes the bucket of an entity silent, and nothing else.
func (s *process) silence(entity string) {
	s.db.SetFaults(s.silenceOf(entity, ddbmem.Fault{Before: time.Hour}))
}

// slowly makes every request of this process take so long to be executed and as
// long to be answered.
func (s *process) slowly(before, after time.Duration) {
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Context.Value(otherProcess{}) != nil {
			return ddbmem.Fault{}
		}
		return ddbmem.Fault{Before: before, After: after}
	})
}

// readsOthers reads the table all the time, until the function that it returns is called:
// it answers others.
func (s *process) readsOthers() (stop func()) {
	ended, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
				_, _ = s.repo.GetEntity(s.t.Context(), "another")
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// elapse lets d of the bubble's time go by.
func elapse(d time.Duration) { <-time.After(d) }

// noon is where clocks that stand still begin. It is in the future, so that an engine that expires
// items by real time keeps the buckets.
func noon() time.Time { return time.Date(2099, 1, 2, 12, 0, 0, 0, time.UTC) }
