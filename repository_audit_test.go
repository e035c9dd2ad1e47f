package dynalimit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// trail are the events of a query.
func trail(t *testing.T, r *Repository, q AuditQuery) []AuditEvent {
	t.Helper()
	events, err := collect(r.AuditEvents(t.Context(), q))
	require.NoError(t, err)
	return events
}

// Each change of configuration tells who made it and what differs.
func TestEventsTellWhatChanged(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &RepositoryOptions{Now: noon}).As("ann@example.com")
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "key-1", Resource: "gpt-4"}, []Limit{PerMinute("rpm", 10)}))
		require.NoError(t, r.As("ben").SetLimits(t.Context(), Scope{Entity: "key-1", Resource: "gpt-4"}, []Limit{PerMinute("rpm", 20)}))
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "key-1", Resource: "gpt-4"}))
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "key-1", Resource: "gpt-4"}), "nothing is there: no event")
		events := trail(t, r, AuditQuery{Target: "key-1"})
		require.Len(t, events, 3)
		const ten = `[{"name":"rpm","capacity":10,"burst":10,"refill_amount":10,"refill_period_seconds":60}]`
		for i, want := range []struct{ principal, action, before, after string }{
			{"ann@example.com", "limits_set", "", ten},
			{"ben", "limits_set", ten, strings.ReplaceAll(ten, "10", "20")},
			{"ann@example.com", "limits_deleted", strings.ReplaceAll(ten, "10", "20"), ""},
		} {
			assert.Equal(t, want.principal, events[i].Principal)
			assert.Equal(t, want.action, events[i].Action)
			assert.Equal(t, "gpt-4", events[i].Resource)
			assert.Equal(t, noon(), events[i].Time)
			require.Len(t, events[i].Changes, 1)
			assert.Equal(t, "limits", events[i].Changes[0].Field)
			assertSameJSON(t, want.before, events[i].Changes[0].Before)
			assertSameJSON(t, want.after, events[i].Changes[0].After)
		}
	})
}

func assertSameJSON(t *testing.T, want string, got json.RawMessage) {
	t.Helper()
	if want == "" {
		assert.Nil(t, got)
		return
	}
	assert.JSONEq(t, want, string(got))
}

// Events are found by target, principal and time, over days and pages.
func TestEventsAreFound(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	r := e.repository(t, &RepositoryOptions{Now: clock.now})
	began := clock.now()
	for day := range int64(3) {
		for n := range int64(table.PageSize/2 + 10) {
			limits := []Limit{PerMinute("rpm", 1000*day+n+1)}
			require.NoError(t, r.As("ann").SetLimits(t.Context(), Scope{Resource: "gpt-4"}, limits))
			clock.advance(time.Second)
			require.NoError(t, r.As("ben").SetLimits(t.Context(), Scope{}, limits))
		}
		clock.advance(24 * time.Hour)
	}
	const each = 3 * (table.PageSize/2 + 10)
	assert.Len(t, trail(t, r, AuditQuery{Target: AuditSystem}), each)
	assert.Len(t, trail(t, r, AuditQuery{Target: AuditResource("gpt-4"), Principal: "ben"}), 0)
	assert.Len(t, trail(t, r, AuditQuery{Principal: "ann"}), each)
	all := trail(t, r, AuditQuery{})
	require.Len(t, all, 2*each)
	for i := range all[1:] {
		require.Less(t, all[i].ID, all[i+1].ID)
	}
	assert.Len(t, trail(t, r, AuditQuery{From: began, To: began}), 1)
	assert.Len(t, trail(t, r, AuditQuery{From: began, To: began.Add(time.Second)}), 3, "both ends are included")
	assert.Len(t, trail(t, r, AuditQuery{Target: AuditSystem, From: began, To: began.Add(time.Second)}), 1)
	first := 0
	for _, err := range r.AuditEvents(t.Context(), AuditQuery{}) {
		require.NoError(t, err)
		first++
		break
	}
	assert.Equal(t, 1, first)
	clock.advance(91 * 24 * time.Hour)
	assert.Empty(t, trail(t, r, AuditQuery{}), "older than what is kept")
	_, err := collect(r.AuditEvents(t.Context(), AuditQuery{From: began, To: began.Add(-time.Second)}))
	require.ErrorContains(t, err, "query.To")
}

// An event is found by the time that its id tells, also when the clock was set back over
// midnight: ids only grow.
func TestEventsAreFoundWhenTheClockIsSetBack(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	r := e.repository(t, &RepositoryOptions{Now: clock.now})
	clock.advance(12 * time.Hour)
	midnight := clock.now()
	require.NoError(t, r.SetLimits(t.Context(), Scope{}, oneLimit))
	clock.advance(-time.Second)
	require.NoError(t, r.SetLimits(t.Context(), Scope{}, twoLimits))
	clock.advance(time.Hour)
	for _, q := range []AuditQuery{{}, {Target: AuditSystem}, {Principal: tester}} {
		q.From, q.To = midnight, midnight.Add(time.Minute)
		events := trail(t, r, q)
		require.Len(t, events, 2, q)
		assert.Equal(t, midnight, events[1].Time.In(midnight.Location()))
		q.From, q.To = midnight.Add(-time.Minute), midnight.Add(-time.Millisecond)
		assert.Empty(t, trail(t, r, q))
	}
}

// The events of an item are in the order of its changes, though the clocks of those who make
// them differ.
func TestEventsOfTwoClocksFollowTheChanges(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	ahead := func() time.Time { return clock.now().Add(900 * time.Millisecond) }
	ann, err := NewRepository(e.client(), e.repository(t, nil).table, &RepositoryOptions{Now: ahead, Principal: "ann"})
	require.NoError(t, err)
	bob, err := NewRepository(e.client(), ann.table, &RepositoryOptions{Now: clock.now, Principal: "bob"})
	require.NoError(t, err)
	limits := func(n int64) []Limit { return []Limit{PerMinute("rpm", n)} }
	require.NoError(t, ann.CreateEntity(t.Context(), Entity{ID: "key-1"}))
	for i, r := range []*Repository{bob, ann, bob} {
		n := int64(i + 1)
		require.NoError(t, r.SetLimits(t.Context(), Scope{}, limits(n)))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "key-2", Resource: "gpt-4"}, limits(n)))
		record, err := r.GetEntity(t.Context(), "key-1")
		require.NoError(t, err)
		record.Name = fmt.Sprint("name ", n)
		_, err = r.UpdateEntity(t.Context(), record)
		require.NoError(t, err)
	}
	require.NoError(t, bob.DeleteEntity(t.Context(), "key-1"))
	require.NoError(t, bob.DeleteLimits(t.Context(), Scope{Entity: "key-2", Resource: "gpt-4"}))
	for target, want := range map[string][]string{
		AuditSystem: {"bob", "ann", "bob"}, "key-1": {"ann", "bob", "ann", "bob", "bob"}, "key-2": {"bob", "ann", "bob", "bob"},
	} {
		var who []string
		after := map[string]string{}
		for _, event := range trail(t, bob, AuditQuery{Target: target, To: clock.now().Add(time.Minute)}) {
			who = append(who, event.Principal)
			for _, c := range event.Changes {
				assert.Equal(t, after[c.Field], string(c.Before), "%s: each begins where the one before it ended", target)
				after[c.Field] = string(c.After)
			}
		}
		assert.Equal(t, want, who, target)
	}
}

// A range that ends in the far future is not looked through day by day, and principals of
// any spelling are told apart.
func TestEventsUntilTheEndOfTime(t *testing.T) {
	s := memProcess(t, nil)
	for _, principal := range []string{strings.Repeat("é", 256), "a#b#c", "a#b"} {
		require.NoError(t, s.repo.As(principal).SetLimits(t.Context(), Scope{}, []Limit{PerMinute("rpm", int64(len(principal)))}))
		q := AuditQuery{Principal: principal, From: s.clock.now(), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
		used := s.used(func() { assert.Len(t, trail(t, s.repo, q), 1) })
		assert.Less(t, used.Requests(), int64(10))
	}
	assert.Len(t, trail(t, s.repo, AuditQuery{From: s.clock.now(), To: s.clock.now().Add(1 << 60)}), 3)
	assert.Empty(t, trail(t, s.repo, AuditQuery{From: s.clock.now().Add(25 * time.Hour), To: s.clock.now().Add(1 << 60)}))
}

// Each event shows the fields that differ, and no others.
func TestEventsShowTheFieldsThatDiffer(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	const rpm = `[{"burst":5,"capacity":5,"name":"rpm","refill_amount":5,"refill_period_seconds":60}]`
	set := []Limit{PerMinute("rpm", 5)}
	for _, at := range everyScope {
		for _, do := range []func() error{
			func() error { return r.SetBlocked(t.Context(), at, true) },
			func() error { return r.SetUnlimited(t.Context(), at) },
			func() error { return r.SetLimits(t.Context(), at, set) },
			func() error { return r.SetBlocked(t.Context(), at, false) },
			func() error {
				return second(r.SetConfig(t.Context(), at, LimitConfig{OnUnavailable: Allow, Limits: set, Version: AnyVersion}))
			},
			func() error { return r.DeleteConfig(t.Context(), at, AnyVersion) },
		} {
			require.NoError(t, do())
		}
		var got []string
		for _, e := range trail(t, r, AuditQuery{Target: targetOf(at)}) {
			shown := e.Action
			for _, c := range e.Changes {
				shown += " " + c.Field + ":" + string(c.Before) + "->" + string(c.After)
			}
			if e.Resource == at.owner().Resource {
				got = append(got, shown)
			}
		}
		assert.Equal(t, []string{
			"block_set blocked:->true",
			"limits_set unlimited:->true",
			"limits_set limits:->" + rpm + " unlimited:true->",
			"block_lifted blocked:true->",
			`limits_set on_unavailable:->"allow"`,
			"limits_deleted limits:" + rpm + `-> on_unavailable:"allow"->`,
		}, got, at)
	}
}

// A namespace sees its own events alone.
func TestEventsStayInTheirNamespace(t *testing.T) {
	e := memEngine(t)
	name := e.repository(t, nil).table
	eu, us := e.namespaced(t, name, "eu", nil), e.namespaced(t, name, "us", nil)
	require.NoError(t, eu.SetLimits(t.Context(), Scope{}, oneLimit))
	assert.Len(t, trail(t, eu, AuditQuery{}), 1)
	assert.Empty(t, trail(t, us, AuditQuery{}))
	assert.Empty(t, trail(t, us, AuditQuery{Target: AuditSystem}))
}

// Who makes a change is known before anything is asked of the table.
func TestChangesNeedAPrincipal(t *testing.T) {
	e := memEngine(t, ddbmem.WithLog())
	r := e.repository(t, nil)
	for principal, part := range map[string]string{"": "Repository.As", "a\nb": "can be seen", strings.Repeat("x", 257): "257 characters"} {
		before := e.db.Meter()
		var v *ValidationError
		require.ErrorAs(t, r.As(principal).SetLimits(t.Context(), Scope{}, oneLimit), &v)
		assert.Equal(t, "principal", v.Field)
		assert.Contains(t, v.Reason, part)
		assert.Zero(t, e.db.Meter().Sub(before).Requests())
	}
	_, err := NewRepository(e.client(), "limits", &RepositoryOptions{Principal: "a\x00"})
	require.ErrorContains(t, err, "options.Principal")
	open, err := NewRepository(e.client(), r.table, &RepositoryOptions{AllowAnonymous: true})
	require.NoError(t, err)
	require.NoError(t, open.SetLimits(t.Context(), Scope{}, oneLimit))
	events := trail(t, open, AuditQuery{Target: AuditSystem})
	require.Len(t, events, 1)
	assert.Empty(t, events[0].Principal)
	var none *Repository
	require.Error(t, none.As("x").SetLimits(t.Context(), Scope{}, oneLimit))
}

// Events expire after their retention, or never.
func TestEventsExpire(t *testing.T) {
	e := memEngine(t)
	for retention, want := range map[time.Duration]any{
		0: schema.Number(noon().Add(90 * 24 * time.Hour).Unix()), time.Hour: schema.Number(noon().Add(time.Hour).Unix()), -1: nil,
	} {
		r := e.repository(t, &RepositoryOptions{Now: noon, AuditRetention: retention})
		require.NoError(t, r.SetLimits(t.Context(), Scope{}, oneLimit))
		events := trail(t, r, AuditQuery{Target: AuditSystem})
		require.Len(t, events, 1)
		item, err := r.store.Get(t.Context(), "test", schema.Key{PK: "AUDIT#$SYSTEM", SK: "#AUDIT#" + events[0].ID})
		require.NoError(t, err)
		if want == nil {
			assert.NotContains(t, item, schema.TTL)
		} else {
			assert.Equal(t, want, item[schema.TTL])
		}
	}
}

// There is no change without its event and no event without its change, whatever becomes
// of the requests: each version of a configuration has one event, which says it.
func TestChangesAndEventsAreOne(t *testing.T) {
	underFaultsOfChanges(t, func(t *testing.T, e *engine, r *Repository) {
		for n := range int64(20) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%5)*500*time.Millisecond)
			_ = r.SetLimits(ctx, Scope{}, []Limit{PerMinute("rpm", n+1)})
			cancel()
		}
		e.db.SetFaults(nil)
		synctest.Wait()
		item, err := r.store.Get(t.Context(), "test", r.keys.SystemConfig())
		require.NoError(t, err)
		events := trail(t, r, AuditQuery{Target: AuditSystem})
		require.NotEmpty(t, events)
		assert.Len(t, events, int(schema.ConfigVersion(item)-events[0].Time.UnixMilli())+1, "the first version is when it was made")
		var last json.RawMessage
		for _, event := range events {
			require.Len(t, event.Changes, 1)
			assert.Equal(t, string(last), string(event.Changes[0].Before), "each begins where the one before it ended")
			last = event.Changes[0].After
		}
	})
}

// When no answer comes to a change at all, its event tells whether it was made.
func TestChangeWithoutAnswerIsKnownByItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(on("TransactWriteItems", ddbmem.Fault{Lose: true}))
		require.NoError(t, r.SetLimits(t.Context(), Scope{}, oneLimit), "it was made")
		e.db.SetFaults(on("TransactWriteItems", ddbmem.Fault{Drop: true}))
		err := r.SetLimits(t.Context(), Scope{}, twoLimits)
		var u *UnavailableError
		require.ErrorAs(t, err, &u)
		assert.True(t, u.Unconfirmed, "it may be under way still")
		e.db.SetFaults(nil)
		limits, err := limitsAt(r.GetConfig(t.Context(), Scope{}))
		require.NoError(t, err)
		assert.Equal(t, oneLimit, limits)
		assert.Len(t, trail(t, r, AuditQuery{Target: AuditSystem}), 1)
	})
}

// underFaultsOfChanges runs a test on a table whose transactions go wrong, each time in
// another way, until the test ends the faults.
func underFaultsOfChanges(t *testing.T, test func(t *testing.T, e *engine, r *Repository)) {
	t.Helper()
	lost := ddbmem.Fault{Lose: true}
	for name, faults := range map[string][]ddbmem.Fault{
		"lost answers":  {lost, {}, lost},
		"conflicts":     {{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {}}}}, {}},
		"throttling":    {{Error: &ddbmem.Error{Code: "ThrottlingException"}}, {}},
		"slow":          {{After: 1500 * time.Millisecond}, {}},
		"never arrives": {{Before: 1500 * time.Millisecond}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				var writes atomic.Int64
				e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if q.Operation != "TransactWriteItems" {
						return ddbmem.Fault{}
					}
					return faults[int(writes.Add(1))%len(faults)]
				})
				test(t, e, r)
			})
		})
	}
}

// The index lists whatever names its partition: an item of somebody else who names one of
// the events is no event.
func TestForeignItemsAreNoEvents(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &RepositoryOptions{Now: noon}).As("ann@example.com")
		require.NoError(t, r.SetLimits(t.Context(), Scope{}, []Limit{PerMinute("rpm", 10)}))
		events := table.Query{Op: "read", Hash: schema.PK, Value: r.admin.Events.Partition(AuditSystem), Whole: true}
		for event, err := range r.store.Items(t.Context(), events) {
			require.NoError(t, err)
			maps.Copy(event, r.keys.Bucket("key-1", "gpt-4").Attributes())
			_, err = e.client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.table, Item: event})
			require.NoError(t, err)
		}
		found := trail(t, r, AuditQuery{})
		require.Len(t, found, 1)
		assert.Equal(t, AuditSystem, found[0].Target)
	})
}
