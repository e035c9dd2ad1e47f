package dynalimit_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// spender is a process whose models are in a group, with money on key and its team.
func spender(t *testing.T, e *engine, models ...string) *process {
	t.Helper()
	s := newProcess(t, e, nil)
	s.advanceTo("2099-01-23T19:00:00Z")
	s.family("key", "team")
	s.ofGroup(models...)
	s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), pacific), dynalimit.PerDay("rpm", 10_000))
	s.limits(admin.Scope{Entity: "team", Resource: group}, dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(500), pacific), dynalimit.MonthlyMoneyQuota("usd_month", dynalimit.Dollars(5000), pacific), dynalimit.PerDay("rpm", 10_000))
	return s.peer(nil)
}

// spent returns the counters by model of a bucket on the group, in whole tokens.
func (s *process) spent(entity string) map[string]int64 {
	s.t.Helper()
	counters, item := map[string]int64{}, s.itemOn(entity, group)
	for attr := range item {
		if counter, ok := strings.CutPrefix(attr, "v_"); ok && strings.Contains(attr, "#") {
			counters[counter] = numberOf(item, attr) / milli
		}
	}
	return counters
}

// spends acquires from another resource than the model of the other tests.
func (s *process) spends(of string, usd int64) *dynalimit.Lease {
	s.t.Helper()
	lease, err := s.limiter.Acquire(s.t.Context(), "key", of, dynalimit.Amounts{"usd": usd, "usd_month": usd, "rpm": 1})
	require.NoError(s.t, err)
	return lease
}

// A call of a group counts its money by model in the write that charges it: at the highest level apart, and of two
// limits only the one with the longest window. The bucket says what is money.
func TestMoneyIsCountedByModel(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := spender(t, e, model, otherModel)
		ctx := t.Context()
		first := s.spends(model, 1000)
		second := s.spends(otherModel, 300)
		require.NoError(t, first.Settle(ctx, dynalimit.Amounts{"usd": 400, "usd_month": 400, "rpm": 1}))
		require.NoError(t, second.Adjust(ctx, dynalimit.Amounts{"usd": 50, "usd_month": 50}))
		assert.Equal(t, map[string]int64{"usd^#" + model: 400, "usd^#" + otherModel: 350}, s.spent("key"))
		assert.Equal(t, map[string]int64{"usd_month#" + model: 400, "usd_month#" + otherModel: 350}, s.spent("team"))
		assert.Equal(t, map[string]string{"usd": "usd"}, schema.Units(s.itemOn("key", group)))
		assert.Equal(t, map[string]string{"usd": "usd", "usd_month": "usd"}, schema.Units(s.itemOn("team", group)))
		require.NoError(t, second.Rollback(ctx))
		assert.Equal(t, map[string]int64{"usd^#" + model: 400, "usd^#" + otherModel: 0}, s.spent("key"))
		_, err := s.limiter.Acquire(ctx, "key", group, dynalimit.Amounts{"usd": 7})
		require.NoError(t, err, "a group that is called itself has no model")
		assert.EqualValues(t, 407, s.storedOn("key", group, "usd").Consumed/milli)
		assert.Equal(t, map[string]int64{"usd^#" + model: 400, "usd^#" + otherModel: 0}, s.spent("key"))
	})
}

// A claim that opens a window removes the counters of the window before, but for that of its own call. What comes back
// of the window before comes off a counter that begins anew.
func TestWindowBeginsWithoutModels(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := spender(t, e, model, otherModel)
		late := s.spends(otherModel, 300)
		s.spends(model, 1000)
		s.advanceTo("2099-01-24T19:00:00Z")
		s.spends(model, 20)
		assert.Equal(t, map[string]int64{"usd^#" + model: 1020}, s.spent("key"), "only differences count")
		assert.Equal(t, map[string]int64{"usd_month#" + model: 1020, "usd_month#" + otherModel: 300}, s.spent("team"), "of a month")
		require.NoError(t, late.Settle(t.Context(), dynalimit.Amounts{"usd": 100, "usd_month": 100, "rpm": 1}))
		assert.Equal(t, map[string]int64{"usd^#" + model: 1020, "usd^#" + otherModel: -200}, s.spent("key"))
	})
}

// pad makes the item of an entity on the group about n bytes larger.
func (s *process) pad(entity string, n int) {
	s.t.Helper()
	update := "SET padding = :p"
	_, err := s.client().UpdateItem(s.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.repo.table, Key: s.repo.keys.Bucket(entity, group).Attributes(), UpdateExpression: &update,
		ExpressionAttributeValues: schema.Item{":p": schema.String(strings.Repeat("p", n))},
	})
	require.NoError(s.t, err)
}

// The ledger of models: a counter moves by exactly what the calls of its model move the limit's counter by, if their take
// was counted, and not at all if it was not: whatever the room in the item was then and is now, by whichever process.
func TestLedgerOfModels(t *testing.T) {
	models := []string{"m-1", "m-2", "m-3", "m-4", "m-5", "m-6"}
	type open struct {
		lease   *dynalimit.Lease
		model   string
		held    int64
		counted bool
	}
	s := spender(t, memEngine(t), models...)
	processes, runs := []*process{s, s.peer(nil)}, 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		runs++
		entity := fmt.Sprintf("key-%d", runs)
		ledger, total, uncounted := map[string]int64{}, int64(0), 0
		var leases []*open
		move := func(l *open, by int64) {
			total += by
			l.held += by
			if l.counted {
				ledger[l.model] += by
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			kind := rapid.SampledFrom([]string{"take", "take", "adjust", "consume", "settle", "rollback", "pad", "unpad"}).Draw(rt, "kind")
			if len(leases) == 0 {
				kind = "take"
			}
			p := rapid.SampledFrom(processes).Draw(rt, "process")
			n := rapid.Int64Range(1, 1000).Draw(rt, "amount")
			of := dynalimit.Amounts{"usd": n}
			i := 0
			if len(leases) > 0 {
				i = rapid.IntRange(0, len(leases)-1).Draw(rt, "lease")
			}
			switch kind {
			case "take":
				l := &open{model: rapid.SampledFrom(models).Draw(rt, "model")}
				before := map[string]int64{}
				if total != 0 || len(ledger) > 0 || uncounted > 0 {
					before = s.spent(entity)
				}
				var err error
				l.lease, err = p.limiter.Acquire(ctx, entity, l.model, of)
				require.NoError(rt, err)
				if l.counted = s.spent(entity)["usd#"+l.model] == before["usd#"+l.model]+n; !l.counted {
					uncounted++
				}
				move(l, n)
				leases = append(leases, l)
			case "adjust":
				require.NoError(rt, leases[i].lease.Adjust(ctx, of))
				move(leases[i], n)
			case "consume":
				require.NoError(rt, leases[i].lease.Consume(ctx, of))
				move(leases[i], n)
			case "settle":
				require.NoError(rt, leases[i].lease.Settle(ctx, of))
				move(leases[i], n-leases[i].held)
				leases = append(leases[:i], leases[i+1:]...)
			case "rollback":
				require.NoError(rt, leases[i].lease.Rollback(ctx))
				move(leases[i], -leases[i].held)
				leases = append(leases[:i], leases[i+1:]...)
			case "pad":
				s.pad(entity, 700)
			case "unpad":
				s.pad(entity, 1)
			}
			shown := s.spent(entity)
			for model, want := range ledger {
				require.Equal(rt, want, shown["usd#"+model], "%s after %s", model, kind)
			}
			require.Len(rt, shown, len(ledger))
			require.Equal(rt, total, s.storedOn(entity, group, "usd").Consumed/milli)
		}
	})
}

// A take pays the same with more models than an item has room for, and with eight processes that race for the last
// place. The item stays below a write unit.
func TestManyModelsCostNothing(t *testing.T) {
	models := make([]string, 40)
	for i := range models {
		models[i] = fmt.Sprintf("gpt-%d-of-the-year", i)
	}
	s := spender(t, memEngine(t), models...)
	processes := make([]*process, 8)
	for i := range processes {
		processes[i] = s.peer(nil)
		_, err := processes[i].limiter.Acquire(t.Context(), "key", models[0], dynalimit.Amounts{"usd": 1})
		require.NoError(t, err)
	}
	for round, of := range models {
		var group sync.WaitGroup
		used := s.used(func() {
			for i, p := range processes {
				group.Go(func() {
					_, err := p.limiter.Acquire(context.Background(), "key", models[(round+i)%len(models)], dynalimit.Amounts{"usd": 1})
					assert.NoError(t, err)
				})
			}
			group.Wait()
		})
		assert.LessOrEqual(t, used.Operations["UpdateItem"].WriteUnits, float64(2*len(processes)), "at %s: key and team, a unit each", of)
	}
	shown := s.spent("key")
	assert.GreaterOrEqual(t, len(shown), 8)
	assert.LessOrEqual(t, len(shown), schema.MostModels+len(processes))
	sum := int64(0)
	for _, n := range shown {
		sum += n
	}
	assert.Less(t, sum, s.storedOn("key", group, "usd").Consumed/milli, "the rest is of others")
}

// A role that may not write v_* charges, settles and gives back all the same. A process tries it again after ten
// minutes, and says so once.
func TestRoleWithoutModelsCounts(t *testing.T) {
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		virtual(t, &dynalimit.Options{ChargeMode: mode}, func(t *testing.T, s *process) { roleWithoutModels(t, s) })
	}
}

func roleWithoutModels(t *testing.T, s *process) {
	t.Helper()
	take := func(of string, n int64) *dynalimit.Lease {
		lease, err := s.limiter.Acquire(t.Context(), "key", of, dynalimit.Amounts{"usd": n})
		require.NoError(t, err)
		return lease
	}
	s.family("key", "team")
	s.ofGroup(model, otherModel)
	s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), ""))
	ctx, denied := t.Context(), atomic.Int64{}
	mayWrite := take(model, 5)
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if bytes.Contains(r.Body, []byte(`"v_usd`)) {
			denied.Add(1)
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
		}
		return ddbmem.Fault{}
	})
	require.NoError(t, mayWrite.Settle(ctx, dynalimit.Amounts{"usd": 4}))
	first := denied.Load()
	require.Positive(t, first)
	lease := take(otherModel, 100)
	require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"usd": 30}))
	assert.Equal(t, first, denied.Load(), "left out for ten minutes")
	assert.EqualValues(t, 34, s.storedOn("key", group, "usd").Consumed/milli)
	assert.EqualValues(t, 34, s.storedOn("team", group, "usd").Consumed/milli)
	elapse(11 * time.Minute)
	take(otherModel, 1)
	assert.Greater(t, denied.Load(), first, "tried again")
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
	})
	_, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"usd": 1})
	require.ErrorContains(t, err, "AccessDenied")
}

// What a settlement gives back while the bucket does not answer comes off the model once it answers. Usage that the
// outage policy admitted is of no model.
func TestGiveBackOfAnOutageComesOffItsModel(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.ofGroup(model, otherModel)
		usd := dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), "")
		config := admin.LimitConfig{Limits: []dynalimit.Limit{usd}, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion}
		_, err := s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: group}, config)
		require.NoError(t, err)
		s = s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow})
		take := func(of string, n int64) *dynalimit.Lease {
			lease, err := s.limiter.Acquire(t.Context(), "key", of, dynalimit.Amounts{"usd": n})
			require.NoError(t, err)
			return lease
		}
		lease, other := take(model, 100), take(otherModel, 7)
		s.down(ddbmem.Fault{Before: time.Hour})
		for !s.limiter.Health().Open {
			_, _ = s.limiter.Acquire(t.Context(), "stranger", otherModel, dynalimit.Amounts{"usd": 1})
		}
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"usd": 30}))
		require.NoError(t, other.Settle(t.Context(), dynalimit.Amounts{"usd": 9}))
		take(otherModel, 1000)
		s.recovers()
		assert.EqualValues(t, 30+9+1000, s.storedOn("key", group, "usd").Consumed/milli)
		assert.Equal(t, map[string]int64{"usd#" + model: 30, "usd#" + otherModel: 7}, s.spent("key"))
	})
}

// A bucket has the unit of its limits as the configuration says, whichever write comes next.
func TestUnitFollowsTheConfiguration(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		s.ofGroup(model)
		for _, step := range []struct {
			limit dynalimit.Limit
			units map[string]string
		}{
			{dynalimit.DailyQuota("usd", 5000, ""), nil},
			{dynalimit.DailyMoneyQuota("usd", 5000, ""), map[string]string{"usd": "usd"}},
			{dynalimit.DailyMoneyQuota("usd", 9000, ""), map[string]string{"usd": "usd"}},
			{dynalimit.DailyQuota("usd", 9000, ""), nil},
			{dynalimit.MonthlyMoneyQuota("usd", 9000, ""), map[string]string{"usd": "usd"}},
		} {
			_, err := s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: group},
				admin.LimitConfig{Limits: []dynalimit.Limit{step.limit}, Only: true, Version: admin.AnyVersion})
			require.NoError(t, err)
			p := s.peer(nil)
			_, err = p.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"usd": 1})
			require.NoError(t, err)
			assert.Equal(t, step.units, schema.Units(s.itemOn("key", group)), "%v", step.limit)
		}
	})
}
