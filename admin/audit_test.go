package admin_test

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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
)

// trail are the events of a query.
func trail(t *testing.T, r *dynalimit.Repository, q audit.Query) []audit.Event {
	t.Helper()
	events, err := collect(admin.New(r).AuditEvents(t.Context(), q))
	require.NoError(t, err)
	return events
}

// Each change of configuration tells who made it and what differs.
func TestEventsTellWhatChanged(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: noon}).As("ann@example.com")
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "key-1", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		require.NoError(t, admin.New(r.WithReason("more traffic").As("ben")).Limits.Set(t.Context(), admin.Scope{Entity: "key-1", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 20)}))
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "key-1", Resource: "gpt-4"}))
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "key-1", Resource: "gpt-4"}), "nothing is there: no event")
		events := trail(t, r, audit.Query{Target: "key-1"})
		require.Len(t, events, 3)
		const ten = `[{"name":"rpm","capacity":10,"burst":10,"refill_amount":10,"refill_period_seconds":60}]`
		for i, want := range []struct{ principal, action, before, after string }{
			{"ann@example.com", "limits_set", "", ten},
			{"ben", "limits_set", ten, strings.ReplaceAll(ten, "10", "20")},
			{"ann@example.com", "limits_deleted", strings.ReplaceAll(ten, "10", "20"), ""},
		} {
			assert.Equal(t, want.principal, events[i].Principal)
			assert.Equal(t, want.action, events[i].Action)
			assert.Equal(t, []string{"", "more traffic", ""}[i], events[i].Reason)
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
	r := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
	began := clock.now()
	for day := range int64(3) {
		for n := range int64(table.PageSize/2 + 10) {
			limits := []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000*day+n+1)}
			require.NoError(t, admin.New(r.As("ann")).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, limits))
			clock.advance(time.Second)
			require.NoError(t, admin.New(r.As("ben")).Limits.Set(t.Context(), admin.Scope{Everyone: true}, limits))
		}
		clock.advance(24 * time.Hour)
	}
	const each = 3 * (table.PageSize/2 + 10)
	assert.Len(t, trail(t, r, audit.Query{Target: audit.System}), each)
	assert.Len(t, trail(t, r, audit.Query{Target: audit.Resource("gpt-4"), Principal: "ben"}), 0)
	assert.Len(t, trail(t, r, audit.Query{Principal: "ann"}), each)
	all := trail(t, r, audit.Query{})
	require.Len(t, all, 2*each)
	for i := range all[1:] {
		require.Less(t, all[i].ID, all[i+1].ID)
	}
	assert.Len(t, trail(t, r, audit.Query{From: began, To: began}), 1)
	assert.Len(t, trail(t, r, audit.Query{From: began, To: began.Add(time.Second)}), 3, "both ends are included")
	assert.Len(t, trail(t, r, audit.Query{Target: audit.System, From: began, To: began.Add(time.Second)}), 1)
	first := 0
	for _, err := range admin.New(r).AuditEvents(t.Context(), audit.Query{}) {
		require.NoError(t, err)
		first++
		break
	}
	assert.Equal(t, 1, first)
	clock.advance(91 * 24 * time.Hour)
	assert.Empty(t, trail(t, r, audit.Query{}), "older than what is kept")
	_, err := collect(admin.New(r).AuditEvents(t.Context(), audit.Query{From: began, To: began.Add(-time.Second)}))
	require.ErrorContains(t, err, "query.To")
}

// An event is found by the time that its id tells, also when the clock was set back over
// midnight: ids only grow.
func TestEventsAreFoundWhenTheClockIsSetBack(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	r := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
	clock.advance(12 * time.Hour)
	midnight := clock.now()
	require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
	clock.advance(-time.Second)
	require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, twoLimits))
	clock.advance(time.Hour)
	for _, q := range []audit.Query{{}, {Target: audit.System}, {Principal: tester}} {
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
	ann, err := dynalimit.NewRepository(e.client(), e.repository(t, nil).Table(), &dynalimit.RepositoryOptions{Now: ahead, Principal: "ann"})
	require.NoError(t, err)
	bob, err := dynalimit.NewRepository(e.client(), ann.Table(), &dynalimit.RepositoryOptions{Now: clock.now, Principal: "bob"})
	require.NoError(t, err)
	limits := func(n int64) []dynalimit.Limit { return []dynalimit.Limit{dynalimit.PerMinute("rpm", n)} }
	require.NoError(t, admin.New(ann).Entities.Create(t.Context(), admin.Entity{ID: "key-1"}))
	for i, r := range []*dynalimit.Repository{bob, ann, bob} {
		n := int64(i + 1)
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, limits(n)))
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "key-2", Resource: "gpt-4"}, limits(n)))
		record, err := admin.New(r).Entities.Get(t.Context(), "key-1")
		require.NoError(t, err)
		record.Name = fmt.Sprint("name ", n)
		_, err = admin.New(r).Entities.Update(t.Context(), record)
		require.NoError(t, err)
	}
	require.NoError(t, admin.New(bob).Entities.Delete(t.Context(), "key-1"))
	require.NoError(t, admin.New(bob).Limits.Delete(t.Context(), admin.Scope{Entity: "key-2", Resource: "gpt-4"}))
	for target, want := range map[string][]string{
		audit.System: {"bob", "ann", "bob"}, "key-1": {"ann", "bob", "ann", "bob", "bob"}, "key-2": {"bob", "ann", "bob", "bob"},
	} {
		var who []string
		after := map[string]string{}
		for _, event := range trail(t, bob, audit.Query{Target: target, To: clock.now().Add(time.Minute)}) {
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
		require.NoError(t, admin.New(s.repo.As(principal)).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", int64(len(principal)))}))
		q := audit.Query{Principal: principal, From: s.clock.now(), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
		used := s.used(func() { assert.Len(t, trail(t, s.repo, q), 1) })
		assert.Less(t, used.Requests(), int64(10))
	}
	assert.Len(t, trail(t, s.repo, audit.Query{From: s.clock.now(), To: s.clock.now().Add(1 << 60)}), 3)
	assert.Empty(t, trail(t, s.repo, audit.Query{From: s.clock.now().Add(25 * time.Hour), To: s.clock.now().Add(1 << 60)}))
}

// Each event shows the fields that differ, and no others.
func TestEventsShowTheFieldsThatDiffer(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	const rpm = `[{"burst":5,"capacity":5,"name":"rpm","refill_amount":5,"refill_period_seconds":60}]`
	set := []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}
	for _, at := range everyScope {
		for _, do := range []func() error{
			func() error { return admin.New(r).Limits.SetBlocked(t.Context(), at, true) },
			func() error { return admin.New(r).Limits.SetUnlimited(t.Context(), at) },
			func() error { return admin.New(r).Limits.Set(t.Context(), at, set) },
			func() error { return admin.New(r).Limits.SetBlocked(t.Context(), at, false) },
			func() error {
				return second(admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{OnUnavailable: dynalimit.Allow, Limits: set, Version: admin.AnyVersion}))
			},
			func() error { return deleteConfig(t.Context(), r, at, admin.AnyVersion) },
		} {
			require.NoError(t, do())
		}
		var got []string
		for _, e := range trail(t, r, audit.Query{Target: targetOf(at)}) {
			shown := e.Action
			for _, c := range e.Changes {
				shown += " " + c.Field + ":" + string(c.Before) + "->" + string(c.After)
			}
			if e.Resource == at.Owner().Resource {
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
	name := e.repository(t, nil).Table()
	eu, us := e.namespaced(t, name, "eu", nil), e.namespaced(t, name, "us", nil)
	require.NoError(t, admin.New(eu).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
	assert.Len(t, trail(t, eu, audit.Query{}), 1)
	assert.Empty(t, trail(t, us, audit.Query{}))
	assert.Empty(t, trail(t, us, audit.Query{Target: audit.System}))
}

// Who makes a change is known before anything is asked of the table.
func TestChangesNeedAPrincipal(t *testing.T) {
	e := memEngine(t, ddbmem.WithLog())
	r := e.repository(t, nil)
	for principal, part := range map[string]string{"": "Repository.As", "a\nb": "can be seen", strings.Repeat("x", 257): "257 characters"} {
		before := e.db.Meter()
		var v *dynalimit.ValidationError
		require.ErrorAs(t, admin.New(r.As(principal)).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit), &v)
		assert.Equal(t, "principal", v.Field)
		assert.Contains(t, v.Reason, part)
		assert.Zero(t, e.db.Meter().Sub(before).Requests())
	}
	_, err := dynalimit.NewRepository(e.client(), "limits", &dynalimit.RepositoryOptions{Principal: "a\x00"})
	require.ErrorContains(t, err, "options.Principal")
	open, err := dynalimit.NewRepository(e.client(), r.Table(), &dynalimit.RepositoryOptions{AllowAnonymous: true})
	require.NoError(t, err)
	require.NoError(t, admin.New(open).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
	events := trail(t, open, audit.Query{Target: audit.System})
	require.Len(t, events, 1)
	assert.Empty(t, events[0].Principal)
	var none *dynalimit.Repository
	require.Error(t, admin.New(none.As("x")).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
}

// Events expire after their retention, or never.
func TestEventsExpire(t *testing.T) {
	e := memEngine(t)
	for retention, want := range map[time.Duration]any{
		0: schema.Number(noon().Add(90 * 24 * time.Hour).Unix()), time.Hour: schema.Number(noon().Add(time.Hour).Unix()), -1: nil,
	} {
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: noon, AuditRetention: retention})
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
		events := trail(t, r, audit.Query{Target: audit.System})
		require.Len(t, events, 1)
		item, err := shared.Of(r).Table.Get(t.Context(), "test", schema.Key{PK: "AUDIT#$SYSTEM", SK: "#AUDIT#" + events[0].ID})
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
	underFaultsOfChanges(t, func(t *testing.T, e *engine, r *dynalimit.Repository) {
		for n := range int64(20) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%5)*500*time.Millisecond)
			_ = admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", n+1)})
			cancel()
		}
		e.db.SetFaults(nil)
		synctest.Wait()
		item, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.SystemConfig())
		require.NoError(t, err)
		events := trail(t, r, audit.Query{Target: audit.System})
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
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit), "it was made")
		e.db.SetFaults(on("TransactWriteItems", ddbmem.Fault{Drop: true}))
		err := admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, twoLimits)
		var u *dynalimit.UnavailableError
		require.ErrorAs(t, err, &u)
		assert.True(t, u.Unconfirmed, "it may be under way still")
		e.db.SetFaults(nil)
		limits, err := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Everyone: true}))
		require.NoError(t, err)
		assert.Equal(t, oneLimit, limits)
		assert.Len(t, trail(t, r, audit.Query{Target: audit.System}), 1)
	})
}

// underFaultsOfChanges runs a test on a table whose transactions go wrong, each time in
// another way, until the test ends the faults.
func underFaultsOfChanges(t *testing.T, test func(t *testing.T, e *engine, r *dynalimit.Repository)) {
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
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: noon}).As("ann@example.com")
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		events := table.Query{Op: "read", Hash: schema.PK, Value: shared.Of(r).Events.Partition(audit.System), Whole: true}
		for event, err := range shared.Of(r).Table.Items(t.Context(), events) {
			require.NoError(t, err)
			maps.Copy(event, shared.Of(r).Keys.Bucket("key-1", "gpt-4").Attributes())
			_, err = e.client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(r.Table()), Item: event})
			require.NoError(t, err)
		}
		found := trail(t, r, audit.Query{})
		require.Len(t, found, 1)
		assert.Equal(t, audit.System, found[0].Target)
	})
}

// A change that is answered late was made, and is not told as perhaps made.
func TestChangeThatIsAnsweredLateWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		sent := 0
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation != "TransactWriteItems" {
				return ddbmem.Fault{}
			}
			sent++
			return ddbmem.Fault{After: 5 * time.Second}
		})
		a := admin.New(r)
		require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
		require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "late"}))
		assert.Equal(t, 2, sent)
	})
}
