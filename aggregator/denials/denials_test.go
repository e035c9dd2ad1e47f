package denials

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// table is a table of limits, a recorder of its denials, and what it logs.
type table struct {
	*testing.T
	db       *ddbmem.DB
	repo     *dynalimit.Repository
	recorder *Recorder
	log      *bytes.Buffer
}

// withTable runs a test in virtual time, which begins at midnight.
func withTable(t *testing.T, opts Options, test func(t *table)) {
	t.Helper()
	synctest.Test(t, func(inner *testing.T) {
		t := &table{T: inner, db: ddbmem.New(ddbmem.WithLog()), log: &bytes.Buffer{}}
		t.Cleanup(t.db.Close)
		var err error
		t.repo, err = dynalimit.NewRepository(t.db.Client(), "limits", &dynalimit.RepositoryOptions{Namespace: opts.Namespace, Principal: "ann"})
		require.NoError(t, err)
		whole, err := dynalimit.NewRepository(t.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
		require.NoError(t, err)
		require.NoError(t, whole.CreateTable(t.Context()))
		opts.Logger = slog.New(slog.NewTextHandler(t.log, nil))
		t.recorder, err = New(t.db.Client(), "limits", &opts)
		require.NoError(t, err)
		test(t)
		_ = t.recorder.Close(t.Context())
	})
}

// deny denies n acquires by limits of an entity's gpt-4.
func (t *table) deny(n int, entity string, limits ...string) {
	e := dynalimit.AcquireEnd{EntityID: entity, Resource: "gpt-4", Err: denialOf(entity, limits...)}
	for range n {
		t.recorder.AcquireEnd(t.Context(), e)
	}
}

func denialOf(entity string, limits ...string) error {
	e := &dynalimit.LimitExceededError{EntityID: entity, Resource: "gpt-4", Statuses: []dynalimit.LimitStatus{
		{EntityID: entity, Resource: "gpt-4", Limit: dynalimit.PerMinute("fits", 1)},
	}}
	for _, name := range limits {
		e.Statuses = append(e.Statuses, dynalimit.LimitStatus{EntityID: entity, Resource: "gpt-4", Limit: dynalimit.PerMinute(name, 1), Exceeded: true})
	}
	return e
}

// stored are the counts in the table, by partition key, resource, hour and limit.
func (t *table) stored() map[string]int64 {
	t.Helper()
	out, err := t.db.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(t, err)
	counts := map[string]int64{}
	for _, item := range out.Items {
		if _, ok := schema.DeniedOf(schema.KeyOf(item)); !ok {
			continue
		}
		d, err := schema.DecodeDenied(item)
		require.NoError(t, err)
		for limit, n := range d.Limits {
			counts[fmt.Sprintf("%s %s %s %s", schema.Text(item, "PK"), d.Resource, d.Hour.Format("02T15"), limit)] = n
		}
	}
	return counts
}

// sum is that of the counts in the table.
func (t *table) sum() (sum int64) {
	t.Helper()
	for _, n := range t.stored() {
		sum += n
	}
	return sum
}

func (t *table) fail(f ddbmem.Fault) {
	t.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return f })
}

// elapse lets virtual time pass, and everything that it sets off.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var (
	busy    = ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
	refused = ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
)

// TestDenialsOfTheLimiter: each limit that denied counts once, at the entity whose bucket it
// is; grants, looks and blocks count nowhere, nor does a wait that is granted in the end.
func TestDenialsOfTheLimiter(t *testing.T) {
	for _, namespace := range []string{"", "eu"} {
		withTable(t, Options{Namespace: namespace}, func(t *table) {
			ctx := t.Context()
			if namespace != "" {
				whole, err := dynalimit.NewRepository(t.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
				require.NoError(t, err)
				require.NoError(t, whole.RegisterNamespace(ctx, namespace))
			}
			require.NoError(t, t.repo.CreateEntity(ctx, dynalimit.Entity{ID: "key", ParentID: "team", Cascade: true}))
			require.NoError(t, t.repo.SetEntityLimits(ctx, "key", "", []dynalimit.Limit{dynalimit.PerMinute("rpm", 10), dynalimit.PerMinute("tpm", 100)}))
			require.NoError(t, t.repo.SetEntityLimits(ctx, "team", "", []dynalimit.Limit{dynalimit.PerMinute("rpm", 4)}))
			require.NoError(t, t.repo.SetBlocked(ctx, dynalimit.Scope{Entity: "barred"}, true))
			limiter, err := dynalimit.New(t.repo, &dynalimit.Options{Observer: t.recorder})
			require.NoError(t, err)
			try := func(entity string, amounts dynalimit.Amounts, want error) {
				t.Helper()
				_, err := limiter.Acquire(ctx, entity, "gpt-4", amounts)
				require.ErrorIs(t, err, want)
			}
			try("key", dynalimit.Amounts{"rpm": 4, "tpm": 90}, nil)
			try("key", dynalimit.Amounts{"rpm": 3}, dynalimit.ErrLimitExceeded)            // the team's
			try("key", dynalimit.Amounts{"rpm": 8, "tpm": 50}, dynalimit.ErrLimitExceeded) // both of the key's
			try("key", dynalimit.Amounts{"rpm": 1, "tpm": 101}, dynalimit.ErrExceedsBurst) // the key's
			try("barred", dynalimit.Amounts{"rpm": 1}, dynalimit.ErrBlocked)
			_, err = limiter.Check(ctx, "key", "gpt-4", dynalimit.Amounts{"rpm": 10})
			require.NoError(t, err)
			_, err = limiter.Wait(ctx, "key", "gpt-4", dynalimit.Amounts{"rpm": 1})
			require.NoError(t, err)
			require.NoError(t, limiter.Close(ctx))
			require.NoError(t, t.recorder.Close(ctx))

			prefix := schema.NewKeys(namespace).Prefix() + "ENTITY#"
			got := t.stored()
			assert.EqualValues(t, 1, got[prefix+"key gpt-4 01T00 rpm"])
			assert.EqualValues(t, 2, got[prefix+"key gpt-4 01T00 tpm"])
			assert.Positive(t, got[prefix+"team gpt-4 01T00 rpm"])
			assert.Len(t, got, 3)
			stats := t.recorder.Stats()
			assert.Equal(t, Stats{Counted: t.sum(), Written: t.sum()}, stats)

			listed, err := t.db.Client().Query(ctx, &dynamodb.QueryInput{
				TableName: aws.String("limits"), IndexName: aws.String(schema.IndexResource), KeyConditionExpression: aws.String("GSI2PK = :h"),
				ExpressionAttributeValues: schema.Item{":h": schema.String(schema.NewKeys(namespace).DeniedHour(time.Now().Truncate(time.Hour)))},
			})
			require.NoError(t, err)
			require.Len(t, listed.Items, 2)
			assert.Equal(t, "key#gpt-4", schema.Text(listed.Items[0], schema.GSI2SK))
			d, ok := schema.DeniedOf(schema.KeyOf(listed.Items[1]))
			assert.True(t, ok, "an index says whose it is")
			assert.Equal(t, "team", d.Entity)
		})
	}
}

// TestOneWriteAnItemAndInterval: however many denials; each counts in the hour that it was in.
func TestOneWriteAnItemAndInterval(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		elapse(30 * time.Second)
		before := t.db.Meter()
		t.deny(1000, "key-1", "rpm", "ttl")
		t.deny(1, "key-2", "rpm")
		elapse(59 * time.Second)
		assert.Zero(t, t.db.Meter().Sub(before).Requests(), "not before the interval is over")
		elapse(17 * time.Second)
		cost := t.db.Meter().Sub(before)
		assert.EqualValues(t, 2, cost.Requests())
		assert.InDelta(t, 4, cost.WriteUnits(), 0, "two items are made, and listed")

		before = t.db.Meter()
		for range 600 {
			t.deny(10, "key-1", "rpm")
			elapse(time.Second)
		}
		elapse(2 * time.Minute)
		cost = t.db.Meter().Sub(before)
		assert.LessOrEqual(t, cost.Requests(), int64(10))
		assert.InDelta(t, float64(cost.Requests()), cost.WriteUnits(), 0, "a unit a write: what lists the item does not change")
		assert.Equal(t, map[string]int64{"ENTITY#key-1 gpt-4 01T00 rpm": 7000, "ENTITY#key-1 gpt-4 01T00 ttl": 1000, "ENTITY#key-2 gpt-4 01T00 rpm": 1}, t.stored())

		before = t.db.Meter()
		elapse(45 * time.Minute)
		assert.Zero(t, t.db.Meter().Sub(before).Requests(), "without denials nothing is sent")
		t.deny(1, "key-1", "rpm")
		elapse(time.Hour)
		assert.EqualValues(t, 7001, t.stored()["ENTITY#key-1 gpt-4 01T00 rpm"], "written in the next hour")
		assert.Empty(t, t.log.String())
	})
}

// TestCountsExpire: after the retention, from the end of their hour on.
func TestCountsExpire(t *testing.T) {
	for retention, want := range map[time.Duration]time.Duration{0: 90*24*time.Hour + time.Hour, time.Hour: 2 * time.Hour, -1: 0} {
		withTable(t, Options{Retention: retention}, func(t *table) {
			began := time.Now()
			elapse(59 * time.Minute)
			t.deny(1, "key-1", "rpm")
			require.NoError(t, t.recorder.Flush(t.Context()))
			out, err := t.db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: aws.String("limits"), Key: schema.Keys{}.Denied("key-1", "gpt-4", began).Attributes(),
			})
			require.NoError(t, err)
			if want == 0 {
				assert.Nil(t, out.Item["ttl"])
				return
			}
			assert.Equal(t, schema.Number(began.Add(want).Unix()), out.Item["ttl"])
		})
	}
}

// TestWritesThatFail: what was surely not added is kept, what may have been is not added
// again, and what DynamoDB refuses is lost and told.
func TestWritesThatFail(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		t.fail(busy)
		t.deny(3, "key-1", "rpm")
		elapse(2 * time.Minute)
		assert.Equal(t, Stats{Counted: 3, Waiting: 3}, t.recorder.Stats())
		assert.Contains(t, t.log.String(), "ThrottlingException")
		t.db.SetFaults(nil)
		elapse(2 * time.Minute)
		assert.Equal(t, Stats{Counted: 3, Written: 3}, t.recorder.Stats())

		t.fail(ddbmem.Fault{Lose: true})
		t.deny(5, "key-1", "rpm")
		require.Error(t, t.recorder.Flush(t.Context()))
		t.fail(ddbmem.Fault{Drop: true})
		t.deny(7, "key-1", "rpm")
		require.Error(t, t.recorder.Flush(t.Context()))
		t.db.SetFaults(nil)
		elapse(5 * time.Minute)
		assert.Equal(t, Stats{Counted: 15, Written: 3, Unconfirmed: 12}, t.recorder.Stats())
		assert.EqualValues(t, 8, t.sum())

		t.log.Reset()
		t.fail(refused)
		t.deny(2, "key-1", "rpm")
		elapse(2 * time.Minute)
		assert.Equal(t, Stats{Counted: 17, Written: 3, Unconfirmed: 12, Lost: 2}, t.recorder.Stats())
		assert.Contains(t, t.log.String(), "lost=2")
		assert.Contains(t, t.log.String(), "AccessDenied")
	})
}

// TestMemoryIsBounded: what does not fit is not counted, and that is told.
func TestMemoryIsBounded(t *testing.T) {
	withTable(t, Options{MaxCounters: 3}, func(t *table) {
		for i := range 5 {
			t.deny(2, fmt.Sprint("key-", i), "rpm")
		}
		t.deny(1, "key-0", "rpm")
		assert.Equal(t, Stats{Counted: 11, Waiting: 7, Lost: 4}, t.recorder.Stats())
		elapse(2 * time.Minute)
		assert.Equal(t, Stats{Counted: 11, Written: 7, Lost: 4}, t.recorder.Stats())
		assert.Contains(t, t.log.String(), "lost=4")
		t.deny(1, "key-4", "rpm")
		elapse(2 * time.Minute)
		assert.EqualValues(t, 8, t.sum(), "there is room again")

		t.fail(busy) // what comes back has no more room than what is new
		t.deny(1, "a", "rpm", "tpm", "rpd")
		t.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { t.deny(1, "b", "rpm", "tpm"); return busy })
		require.Error(t, t.recorder.Flush(t.Context()))
		assert.Len(t, t.recorder.tally.counts, 3)
	})
}

// TestClose: writes what is left, also without its context, as long as it may; afterwards
// nothing is counted.
func TestClose(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		throttled := 0
		t.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			if throttled++; throttled < 4 {
				return busy
			}
			return ddbmem.Fault{}
		})
		t.deny(3, "key-1", "rpm")
		require.NoError(t, t.recorder.Close(ended))
		assert.EqualValues(t, 3, t.sum())
		t.deny(1, "key-1", "rpm")
		require.NoError(t, t.recorder.Close(ended), "again")
		elapse(5 * time.Minute)
		assert.Equal(t, Stats{Counted: 4, Written: 3, Lost: 1}, t.recorder.Stats())
	})
	for name, fault := range map[string]ddbmem.Fault{"busy": busy, "silent": {Before: time.Hour}} {
		for _, ticking := range []bool{false, true} {
			withTable(t, Options{Timeout: 5 * time.Second}, func(t *table) {
				var sent atomic.Bool
				t.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { sent.Store(true); return fault })
				t.deny(3, "key-1", "rpm")
				for ticking && !sent.Load() {
					elapse(time.Second)
				}
				began := time.Now()
				require.Error(t, t.recorder.Close(t.Context()), name)
				assert.LessOrEqual(t, time.Since(began), 5*time.Second)
				stats := t.recorder.Stats()
				assert.EqualValues(t, 3, stats.Lost+stats.Unconfirmed)
				assert.Zero(t, stats.Waiting)
				assert.NotEmpty(t, t.log.String())
			})
		}
	}
}

// hearer counts what it is told.
type hearer struct {
	mu    sync.Mutex
	heard []string
}

func (h *hearer) hear(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, what)
}

func (h *hearer) AcquireStart(ctx context.Context, _ dynalimit.AcquireStart) context.Context {
	h.hear("AcquireStart")
	return context.WithValue(ctx, hearerKey{}, true)
}
func (h *hearer) AcquireEnd(context.Context, dynalimit.AcquireEnd) { h.hear("AcquireEnd") }
func (h *hearer) WriteStart(ctx context.Context, _ dynalimit.WriteStart) context.Context {
	h.hear("WriteStart")
	return ctx
}
func (h *hearer) WriteEnd(context.Context, dynalimit.WriteEnd)     { h.hear("WriteEnd") }
func (h *hearer) AvailabilityChanged(dynalimit.AvailabilityChange) { h.hear("AvailabilityChanged") }

func (h *hearer) PacingChanged(dynalimit.PacingChange) { h.hear("PacingChanged") }

type hearerKey struct{}

// TestNextHearsEverything: the recorder may stand before any observer.
func TestNextHearsEverything(t *testing.T) {
	next := &hearer{}
	withTable(t, Options{Next: next}, func(t *table) {
		var o dynalimit.Observer = t.recorder
		ctx := o.AcquireStart(t.Context(), dynalimit.AcquireStart{})
		assert.Equal(t, true, ctx.Value(hearerKey{}))
		o.AcquireEnd(ctx, dynalimit.AcquireEnd{Err: denialOf("key-1", "rpm")})
		o.WriteStart(ctx, dynalimit.WriteStart{})
		o.WriteEnd(ctx, dynalimit.WriteEnd{})
		o.AvailabilityChanged(dynalimit.AvailabilityChange{})
		o.PacingChanged(dynalimit.PacingChange{})
		assert.Equal(t, []string{"AcquireStart", "AcquireEnd", "WriteStart", "WriteEnd", "AvailabilityChanged", "PacingChanged"}, next.heard)
		assert.EqualValues(t, 1, t.recorder.Stats().Counted)
	})
}

// TestManyLimits: more of them than an expression holds are written in parts.
func TestManyLimits(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		for i := range 250 {
			t.deny(1, "key-1", fmt.Sprintf("a-limit-with-a-name-that-is-as-long-as-names-can-be-at-the-most-%d", i))
		}
		before := t.db.Meter()
		require.NoError(t, t.recorder.Flush(t.Context()))
		assert.EqualValues(t, 3, t.db.Meter().Sub(before).Requests())
		assert.EqualValues(t, 250, t.sum())
	})
}

// TestManyProcesses: none takes away what another counted, whatever goes wrong, and no count
// is too high.
func TestManyProcesses(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		others := []*Recorder{t.recorder}
		for range 3 {
			r, err := New(t.db.Client(), "limits", &Options{Interval: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			others = append(others, r)
		}
		var n atomic.Int64
		t.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return []ddbmem.Fault{{}, busy, {After: time.Second}, {Lose: true}, {}, {Before: 3 * time.Second}}[n.Add(1)%6]
		})
		for i := range 200 {
			for _, r := range others {
				r.AcquireEnd(t.Context(), dynalimit.AcquireEnd{Err: denialOf(fmt.Sprint("key-", i%3), "rpm")})
			}
			elapse(time.Second)
		}
		t.db.SetFaults(nil)
		var all Stats
		for _, r := range others {
			require.NoError(t, r.Close(t.Context()))
			s := r.Stats()
			all.Counted += s.Counted
			all.Written += s.Written
			all.Lost += s.Lost
			all.Unconfirmed += s.Unconfirmed
		}
		assert.EqualValues(t, 800, all.Counted)
		assert.Zero(t, all.Lost)
		assert.Positive(t, all.Unconfirmed)
		assert.Equal(t, all.Counted, all.Written+all.Unconfirmed, "the lost answers' were all added here")
		assert.Equal(t, all.Counted, t.sum())
	})
}

func TestBadInput(t *testing.T) {
	db := ddbmem.New()
	defer db.Close()
	for name, test := range map[string]struct {
		client DynamoDB
		table  string
		opts   Options
		want   string
	}{
		"no client":         {nil, "limits", Options{}, "client"},
		"no table":          {db.Client(), "", Options{}, "table"},
		"a short interval":  {db.Client(), "limits", Options{Interval: time.Millisecond}, "Interval"},
		"no counters":       {db.Client(), "limits", Options{MaxCounters: -1}, "MaxCounters"},
		"a timeout":         {db.Client(), "limits", Options{Timeout: -1}, "Timeout"},
		"a wrong namespace": {db.Client(), "limits", Options{Namespace: "a/b"}, "Namespace"},
	} {
		_, err := New(test.client, test.table, &test.opts)
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, err, &invalid, name)
		assert.ErrorContains(t, err, test.want, name)
	}
}

// TestRequest: the whole of what is sent.
func TestRequest(t *testing.T) {
	withTable(t, Options{}, func(t *table) {
		t.deny(2, "key-1", "rpm")
		var body string
		t.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { body = r.Operation + " " + string(r.Body); return ddbmem.Fault{} })
		require.NoError(t, t.recorder.Flush(t.Context()))
		require.Contains(t, body, "UpdateItem")
		assert.NotContains(t, body, "ConditionExpression")
		assert.JSONEq(t, `{"TableName": "limits", "Key": {"PK": {"S": "ENTITY#key-1"}, "SK": {"S": "#DENIED#gpt-4#2000-01-01T00:00:00Z"}},
			"UpdateExpression": "SET #0 = :0, #1 = :1, #2 = :2, #3 = :3, #4 = :4 ADD #5 :5",
			"ExpressionAttributeNames": {"#0": "entity_id", "#1": "resource", "#2": "GSI2PK", "#3": "GSI2SK", "#4": "ttl", "#5": "x_rpm"},
			"ExpressionAttributeValues": {":0": {"S": "key-1"}, ":1": {"S": "gpt-4"}, ":2": {"S": "DENIED#2000-01-01T00:00:00Z"}, ":3": {"S": "key-1#gpt-4"}, ":4": {"N": "954464400"}, ":5": {"N": "2"}}}`,
			body[len("UpdateItem "):])
	})
}

// BenchmarkAcquireEnd is what the recorder adds to a call.
func BenchmarkAcquireEnd(b *testing.B) {
	db := ddbmem.New()
	defer db.Close()
	for name, err := range map[string]error{"granted": nil, "denied": denialOf("key-1", "rpm", "tpm")} {
		b.Run(name, func(b *testing.B) {
			r, newErr := New(db.Client(), "limits", &Options{Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(b, newErr)
			defer r.Close(b.Context())
			e := dynalimit.AcquireEnd{EntityID: "key-1", Resource: "gpt-4", Err: err}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					r.AcquireEnd(context.Background(), e)
				}
			})
		})
	}
}
