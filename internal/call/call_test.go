package call

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compiled compiles a limit of n tokens in a period, with a burst of n.
func compiled(name string, n int64, period time.Duration, level sources.Source) *plan.Config {
	limit := schema.ConfigLimit{Name: name, Capacity: n, RefillPeriod: period}.WithDefaults()
	return config.Compile([]schema.ConfigLimit{limit}, level, false, 0, 1)
}

// The wait of a denial counts from when the last level had decided, however long
// before it the others did.
func TestDenialWaitsFromTheLastDecision(t *testing.T) {
	of := func(name string, now, used int64) level {
		cfg := compiled(name, 10, time.Second, sources.Entity)
		image := &schema.Image{
			HasRefilled: true, Refilled: now, Set: schema.NewLimitSets().Of([]string{name}),
			Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Capacity: 10 * milli, Tokens: 10*milli - used}},
		}
		l := &lane.Lane{Bucket: lane.Bucket{BucketKey: &lane.BucketKey{Entity: name, Resource: "gpt-4"}}}
		return level{lane: l, cfg: cfg, asked: []plan.Signed{{Name: name, Amount: 10 * milli}}, answered: true, last: Reading{lane: l, Reading: plan.Reading{Image: image, Config: cfg, Now: now}}}
	}
	charged := levelList{of("a", 1000, 5*milli), of("b", 1450, milli/2), of("c", 1200, milli)}
	denied := charged.denial(&Request{})
	assert.Equal(t, 50*time.Millisecond, denied.RetryAfter, "of which 450 ms of the longest are over")
	waits := []int64{denied.Balances[0].Wait, denied.Balances[1].Wait, denied.Balances[2].Wait}
	assert.Equal(t, []int64{50, 50, 1}, waits, "a level that denied waits for something")
}

// A take that fits the bucket but not beside those before it is denied, so its
// balance must say so: also on a bucket long full, whose refill since counts for
// nothing.
func TestBalanceLeavesToOthersFromTheLevel(t *testing.T) {
	cfg := compiled("calls", 10, time.Second, sources.Resource)
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"calls"}), Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Tokens: 10 * milli}}, HasRefilled: true}
	r := Reading{Reading: plan.Reading{Image: image, Config: cfg, Now: time.Hour.Milliseconds()}, precedence: plan.Precedence{Taken: plan.Rows{{Name: "calls", Amounts: bucket.Amounts{Take: 8 * milli}}}}}

	require.False(t, r.balance("calls", 2*milli, 0).Exceeded)
	b := r.balance("calls", 3*milli, 0)
	require.True(t, b.Exceeded)
	require.EqualValues(t, 2*milli, b.Level)
	require.EqualValues(t, 100, b.Wait)
}

// What is given back beside a take does not lift the bucket above its burst, for
// the balance as for the decision.
func TestBalanceOfABucketThatIsGivenBackTo(t *testing.T) {
	cfg := compiled("rpm", 100, time.Minute, sources.Resource)
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"rpm"}), Limits: []schema.Stored{{Rate: cfg.Limits[0].Rate, Tokens: 90 * milli}}, HasRefilled: true}
	carried := plan.Rows{{Name: "rpm", Amounts: bucket.Amounts{Back: 90 * milli, Take: 80 * milli}}}
	carried = plan.View{Image: image, Config: cfg}.Rows(carried, nil)
	require.False(t, carried.Fit([]plan.Signed{{Name: "rpm", Amount: 33 * milli}}, nil, false))
	shown := Reading{Reading: plan.Reading{Image: image, Config: cfg}, precedence: plan.Precedence{Taken: carried.Taken()}}
	b := shown.balance("rpm", 33*milli, 0)
	require.True(t, b.Exceeded)
	require.EqualValues(t, 20*milli, b.Level)
	require.EqualValues(t, 7800, b.Wait)
}

// emptyStore has no configuration.
type emptyStore struct{}

func (emptyStore) ReadSources(context.Context, []schema.Key, func() []schema.ConfigOwner) (map[schema.Key]schema.Item, error) {
	return nil, nil
}

func (emptyStore) ReadPlan(context.Context, []schema.Key) (map[schema.Key]schema.Item, error) {
	return nil, nil
}
func (emptyStore) Away() error { return nil }

// A waiter whose turn is due when its deadline has passed is not told to come
// back after no time at all.
func TestWaiterIsDueAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, keys, log := ddb.NewClock(time.Now, false), schema.NewKeys(""), slog.New(slog.DiscardHandler)
		cache := config.New(config.Options{Store: emptyStore{}, Now: clock.Source, Clock: clock, Keys: keys, Size: 1, TTL: time.Minute, Log: log})
		d, err := NewDesk(&DeskOptions{Configs: cache, Buckets: &store.Buckets{}, Keys: keys, RepoClock: clock, Size: 1, Log: log})
		require.NoError(t, err)
		cfg := compiled("rpm", 60, time.Minute, sources.Options)
		w := waiting{desk: d, request: &Request{Entity: "u", Resource: "m"}, at: Position{waiter: lane.NewWaiter(1, time.Now(), false), lane: d.Lanes.Of("u", "m")}}
		at := &w.at
		defer at.quit()
		at.line = lane.LineOf(at.lane, false)
		at.line.Join(at.waiter)
		at.line.RecordDenial(at.waiter, []plan.Signed{{Name: "rpm", Amount: milli}}, []string{"rpm"}, cfg)
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, err = w.awaitTurn(ctx, &Denied{})
		require.NotErrorAs(t, err, new(*Denied))
	})
}

// A Wait that has less time than the pause after contention ends at once.
func TestContentionOutlastsACallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began, busy := time.Now(), newContended("u", "m")
		require.Same(t, busy, (&waiting{}).waitOut(ctx, busy.RetryAfter, busy))
		require.Zero(t, time.Since(began))
	})
}
