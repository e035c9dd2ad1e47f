package admin_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"os"
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
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

func requireInvalid(t *testing.T, err error, field string) *dynalimit.ValidationError {
	t.Helper()
	var invalid *dynalimit.ValidationError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, field, invalid.Field)
	assert.NotEmpty(t, invalid.Reason)
	assert.Contains(t, err.Error(), field)
	return invalid
}

// limitsAt are the limits that a source has.
func limitsAt(c admin.LimitConfig, err error) ([]dynalimit.Limit, error) { return c.Limits, err }

func second[T any](_ T, err error) error { return err }

// collect drains a sequence up to its first error.
func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// partition lists the keys of everything an entity owns.
func partition(t *testing.T, r *dynalimit.Repository, entity string) []schema.Key {
	t.Helper()
	keys, err := shared.Of(r).Table.Keys(t.Context(), table.Query{Op: "test", Hash: schema.PK, Value: shared.Of(r).Keys.Entity(entity), Prefix: "#"})
	require.NoError(t, err)
	return keys
}

func put(t *testing.T, r *dynalimit.Repository, items ...schema.Item) {
	t.Helper()
	for _, item := range items {
		_, err := shared.Of(r).Table.Client.(dynalimit.DynamoDB).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(r.Table()), Item: item})
		require.NoError(t, err)
	}
}

// uuid is an entity id of the usual length.
const uuid = "123e4567-e89b-42d3-a456-426614174000"

// What tests of other packages have too.
var (
	on, firstOf, cancelled = testworld.FaultOn, testworld.FaultOnFirst, testworld.CancelledError
	record, assertGolden   = testworld.NewRecorder, testworld.AssertGolden
)

// engine is a DynamoDB to test on.
type engine struct {
	// db gives faults, meter and writes; nil for an engine behind an endpoint.
	db *ddbmem.DB
	// client makes SDK clients of the engine.
	client testworld.NewClient
}

// testEngines runs test on ddbmem, and on the endpoint when one is given.
func testEngines(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Helper()
	testworld.RunOnEngines(t, func(t *testing.T, db *ddbmem.DB, client testworld.NewClient) { test(t, &engine{db, client}) })
}

// memEngine is an empty ddbmem; also for tests in a bubble of virtual time.
func memEngine(t *testing.T, opts ...ddbmem.Option) *engine {
	t.Helper()
	db := testworld.NewMem(t, opts...)
	return &engine{db, db.Client}
}

// deleteAfter removes a table from a shared engine when the test ends.
func (e *engine) deleteAfter(t *testing.T, table string) {
	testworld.DeleteAfter(t, e.db, e.client, table)
}

// repository is a repository on a new table of the engine.
func (e *engine) repository(t *testing.T, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	r := e.open(t, testworld.NewTableName(), opts)
	require.NoError(t, r.CreateTable(t.Context()))
	e.deleteAfter(t, r.Table())
	return r
}

// tester is who makes the changes of tests.
const tester = "tester"

// open is a repository on a table of the engine, which need not exist.
func (e *engine) open(t *testing.T, table string, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	r, err := dynalimit.NewRepository(e.client(), table, opts)
	require.NoError(t, err)
	return r.As(tester)
}

// namespaced is a repository on a table in a namespace, which is registered if it is not.
func (e *engine) namespaced(t *testing.T, table, name string, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	bare, bound := dynalimit.RepositoryOptions{}, dynalimit.RepositoryOptions{}
	if opts != nil {
		bare, bound = *opts, *opts
	}
	bare.Namespace, bound.Namespace = "", name
	if err := admin.New(e.open(t, table, &bare)).Namespaces.Register(t.Context(), name); !errors.Is(err, admin.ErrExists) {
		require.NoError(t, err)
	}
	return e.open(t, table, &bound)
}

// unprocessed leaves every key of the first n answers unprocessed.
func unprocessed(n int64) ddbmem.FaultFunc {
	var seen atomic.Int64
	return func(r *ddbmem.Request) ddbmem.Fault {
		if (r.Operation == "BatchGetItem" || r.Operation == "BatchWriteItem") && seen.Add(1) <= n {
			return ddbmem.Fault{Unprocessed: 100}
		}
		return ddbmem.Fault{}
	}
}

// tenant is a process of the namespace "eu" of the table that s limits on. Its clock is the
// bubble's, or that of s.
func (s *process) tenant(opts *dynalimit.Options) *process {
	s.t.Helper()
	return s.on(s.namespaced(s.t, s.repo.Table(), "eu", &dynalimit.RepositoryOptions{Now: s.clock.now}), opts)
}

// inactive is the error of a call that a namespace refuses.
func inactive(t *testing.T, err error) *fault.NamespaceError {
	t.Helper()
	var e *fault.NamespaceError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, fault.ErrNamespace)
	return e
}

// inNamespace runs a test, in virtual time, with the process that administers a table and
// one of a namespace of it.
func inNamespace(t *testing.T, opts *dynalimit.Options, test func(t *testing.T, operator, tenant *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		operator := liveProcess(t, memEngine(t, ddbmem.WithLog()), nil)
		tenant := operator.tenant(opts)
		elapse(time.Millisecond) // events of two processes have no order within one
		test(t, operator, tenant)
	})
}

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
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
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

// on is a process on a table as repo opens it.
func (s *process) on(repo *dynalimit.Repository, opts *dynalimit.Options) *process {
	s.t.Helper()
	limiter, err := dynalimit.New(repo, opts)
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
	return p.on(s.open(s.t, s.repo.Table(), &dynalimit.RepositoryOptions{Now: clock.now}), opts)
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
func (s *process) item(entity string) schema.Item {
	s.t.Helper()
	out, err := s.client().GetItem(s.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(s.repo.Table()), Key: shared.Of(s.repo).Keys.Bucket(entity, model).Attributes(), ConsistentRead: aws.Bool(true),
	})
	require.NoError(s.t, err)
	return out.Item
}

// image is the entity's bucket, decoded; it must exist.
func (s *process) image(entity string) *schema.Image {
	s.t.Helper()
	image, err := schema.NewLimitSets().DecodeBucket(s.item(entity), nil, 0)
	require.NoError(s.t, err)
	require.NotNil(s.t, image, "no bucket of %s", entity)
	return image
}

// level is what a limit of the entity is worth now, in whole tokens, read afresh.
func (s *process) level(entity, limit string) int64 {
	s.t.Helper()
	image := s.image(entity)
	i := image.Set.Index(limit)
	require.GreaterOrEqual(s.t, i, 0, "no limit %s in the bucket of %s", limit, entity)
	return int64(math.Floor(float64(image.State(i).Level(s.clock.now().UnixMilli())) / milli))
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

type otherProcess struct{}

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

// elapse lets d of the bubble's time go by.
func elapse(d time.Duration) { <-time.After(d) }

// noon is where clocks that stand still begin. It is in the future, so that an engine that expires
// items by real time keeps the buckets.
func noon() time.Time { return time.Date(2099, 1, 2, 12, 0, 0, 0, time.UTC) }

func ids(entities []admin.Entity) []string {
	var out []string
	for _, e := range entities {
		out = append(out, e.ID)
	}
	return out
}

// legacyNoon is when the buckets of the fixtures were last refilled.
func legacyNoon() time.Time { return time.UnixMilli(1795254842000).UTC() }

// legacyClock is a clock that stands at that time.
func legacyClock() *handClock {
	c := &handClock{}
	c.ms.Store(legacyNoon().UnixMilli())
	return c
}

// legacyTable is a repository on a table with what a version of zae-limiter before 0.8
// wrote.
func legacyTable(t *testing.T, e *engine, version string, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	r := e.open(t, testworld.NewTableName(), opts)
	tableOnly(t, e, r)
	e.deleteAfter(t, r.Table())
	data, err := os.ReadFile("../internal/schema/testdata/zae-" + version + "-items.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	put(t, r, items...)
	return r
}

// legacyKeys are the keys of the table's items of the layout before composite items.
func legacyKeys(t *testing.T, r *dynalimit.Repository) []schema.Key {
	t.Helper()
	var keys []schema.Key
	for _, item := range scan(t, r) {
		if _, ok := schema.LegacyOf(schema.KeyOf(item)); ok {
			keys = append(keys, schema.KeyOf(item))
		}
	}
	return keys
}

// exhausted is a bucket of one limit of 100 a minute of which nothing is left, as
// zae-limiter 0.6 writes it at a time.
func exhausted(k schema.Keys, entity string, at time.Time) schema.Item {
	n := schema.Number
	return schema.Item{
		"PK": schema.String(k.Entity(entity)), "SK": schema.String("#BUCKET#" + model + "#rpm"),
		"entity_id": schema.String(entity), "resource": schema.String(model), "limit_name": schema.String("rpm"),
		"tokens_milli": n(0), "last_refill_ms": n(at.UnixMilli()), "capacity_milli": n(100_000), "burst_milli": n(100_000),
		"refill_amount_milli": n(100_000), "refill_period_ms": n(60_000), "total_consumed_milli": n(100_000),
		"GSI2PK": schema.String("RESOURCE#" + model), "GSI2SK": schema.String("BUCKET#" + entity + "#rpm"),
		"ttl": schema.Number(at.Unix() + 86400),
	}
}

// versioned puts a version record that says this.
func versioned(t *testing.T, r *dynalimit.Repository, attributes map[string]string) {
	t.Helper()
	item := schema.VersionKey().Attributes()
	for name, value := range attributes {
		item[name] = schema.String(value)
	}
	put(t, r, item)
}

// tableOnly makes the table as infrastructure code does: without a record.
func tableOnly(t *testing.T, e *engine, r *dynalimit.Repository) {
	t.Helper()
	_, err := e.client().CreateTable(t.Context(), r.TableInput())
	require.NoError(t, err)
}

// scan is every item of the table.
func scan(t *testing.T, r *dynalimit.Repository) []schema.Item {
	t.Helper()
	client, ok := shared.Of(r).Table.Client.(interface {
		Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	})
	require.True(t, ok)
	var items []schema.Item
	in := &dynamodb.ScanInput{TableName: aws.String(r.Table())}
	for {
		out, err := client.Scan(t.Context(), in)
		require.NoError(t, err)
		items = append(items, out.Items...)
		if out.LastEvaluatedKey == nil {
			return items
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// scene is a process whose whole requests are compared with golden files: its
// clock stands at noon, its op ids count from a fixed number.
type scene struct {
	*process
	wire *testworld.Recorder
}

func newScene(t *testing.T, opts *dynalimit.Options) *scene {
	t.Helper()
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	repo, err := dynalimit.NewRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: clock.now})
	require.NoError(t, err)
	require.NoError(t, shared.Of(repo).Layout.Check(t.Context()))
	wire.Take()
	s := (&process{engine: e, t: t, clock: clock}).on(repo, opts)
	return &scene{process: s, wire: wire}
}

// change stores the user's bucket with attributes changed; nil removes one.
func (s *scene) change(attributes schema.Item) {
	s.t.Helper()
	item := s.item("user-1")
	for name, value := range attributes {
		if value == nil {
			delete(item, name)
		} else {
			item[name] = value
		}
	}
	put(s.t, s.peer(nil).repo, item)
}

var rpm, tpm = dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 10_000)

const (
	// milli is the number of millitokens in a token.
	milli = 1000
	// maxTokens bounds every amount.
	maxTokens = 1_000_000_000_000
	// longestName bounds an entity's name.
	longestName = 1024
)

func isValidation(err error) bool {
	_, ok := errors.AsType[*dynalimit.ValidationError](err)
	return ok
}

// deleteConfig removes a source of a version, its block too.
func deleteConfig(ctx context.Context, r *dynalimit.Repository, at admin.Scope, version int64) error {
	errs, err := admin.New(r).Limits.SetConfigs(ctx, []admin.ScopedConfig{{Scope: at, Config: admin.LimitConfig{Version: version}, Delete: true}})
	if err != nil {
		return err
	}
	return errs[0]
}
