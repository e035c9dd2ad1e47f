package dynalimit_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// group is the group of all models.
const group = "all"

// otherModel is another model of the group.
const otherModel = "gpt-5"

// ofGroup says that the models are in the group.
func (s *process) ofGroup(models ...string) {
	s.t.Helper()
	for _, m := range models {
		_, err := s.repo.SetConfig(s.t.Context(), admin.Scope{Everyone: true, Resource: m}, admin.LimitConfig{Groups: []string{group}, Version: admin.AnyVersion})
		require.NoError(s.t, err)
	}
}

// limits sets limits of a scope.
func (s *process) limits(at admin.Scope, limits ...dynalimit.Limit) {
	s.t.Helper()
	require.NoError(s.t, s.repo.SetLimits(s.t.Context(), at, limits))
}

// grouped is a process whose models are in the group: key cascades to team, both with 100
// requests a day on each model and 150 over all.
func grouped(t *testing.T, e *engine, opts *dynalimit.Options) *process {
	t.Helper()
	s := newProcess(t, e, opts)
	s.family("key", "team")
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 100))
	s.ofGroup(model, otherModel)
	s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 150))
	return s
}

// A call charges the buckets of its resource's groups, of its entity and of the parents; what
// is used of one resource is not there for another. A correction reaches all of them.
func TestGroupIsChargedWithItsResources(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := grouped(t, e, nil)
		ctx := t.Context()
		levels := func(on, all int64) {
			t.Helper()
			for _, entity := range []string{"key", "team"} {
				assert.Equal(t, on, s.levelOn(entity, model, "rpm"), entity)
				assert.Equal(t, all, s.levelOn(entity, group, "rpm"), entity)
			}
		}
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 60})
		levels(40, 90)
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"rpm": -10}))
		levels(50, 100)
		require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 20}))
		levels(30, 80)
		var names []string
		for _, st := range lease.Statuses() {
			names = append(names, st.EntityID+" "+st.Resource)
			assert.EqualValues(t, 70, st.Requested)
		}
		assert.Equal(t, []string{"key gpt-4", "key all", "team gpt-4", "team all"}, names, "the entity first, its resource before the groups")

		_, err := s.limiter.Acquire(ctx, "key", otherModel, dynalimit.Amounts{"rpm": 90})
		exceeded := s.denied(err)
		assert.Equal(t, group, exceeded.Primary().Resource, "80 are left over all models")
		assert.EqualValues(t, 80, exceeded.Primary().Remaining)
		levels(30, 80)
		assert.Equal(t, otherModel, exceeded.Resource)
		_, err = s.limiter.Acquire(ctx, "key", otherModel, dynalimit.Amounts{"rpm": 80})
		require.NoError(t, err)

		require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"rpm": 5}))
		levels(95, 65)
		again := s.acquire("key", dynalimit.Amounts{"rpm": 65})
		s.deny("key", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, again.Rollback(ctx))
		levels(95, 65)
	})
}

// Only records made for the group count, each over the less specific ones: the usual sources
// would cap the sum of all models at the limits of one. The groups are read whichever source of
// the resource won.
func TestOnlyRecordsOfTheGroupLimitIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 7)}})
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "key", Plan: "pro"}))
		s.ofGroup(model)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 10))
		s.limits(admin.Scope{Plan: "pro"}, dynalimit.PerDay("rpm", 11))
		s.limits(admin.Scope{Entity: "key"}, dynalimit.PerDay("rpm", 12))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 1})
		require.Len(t, lease.Statuses(), 1, "nothing limits the group")
		for i, at := range []struct {
			scope  admin.Scope
			source sources.Source
		}{
			{admin.Scope{Everyone: true, Resource: group}, sources.Resource},
			{admin.Scope{Plan: "pro", Resource: group}, sources.Plan},
			{admin.Scope{Entity: "key", Resource: group}, sources.Entity},
		} {
			s.limits(at.scope, dynalimit.PerDay("rpm", int64(20+i)))
			statuses := s.acquire("key", dynalimit.Amounts{"rpm": 1}, dynalimit.WithLimits(dynalimit.PerDay("tpm", 5))).Statuses()
			require.Len(t, statuses, 2)
			assert.Equal(t, sources.EntityDefault, statuses[0].Source)
			assert.Equal(t, at.source, statuses[1].Source)
			assert.EqualValues(t, 20+i, statuses[1].Limit.Capacity)
		}
		require.NoError(t, s.repo.admin().Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "key", Resource: group}))
		require.Len(t, s.acquire("key", dynalimit.Amounts{"rpm": 1}).Statuses(), 1, "the group is unlimited for this one")
		resolved, err := s.repo.ResolveLimits(t.Context(), "key", model)
		require.NoError(t, err)
		require.Len(t, resolved.Groups, 1)
		assert.True(t, resolved.Groups[0].Unlimited)
		assert.Equal(t, sources.Entity, resolved.Groups[0].Source)
		assert.Equal(t, []dynalimit.HiddenLimit{{Name: "rpm", Source: sources.Plan}}, resolved.Groups[0].Hidden)

		_, err = s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: group}, admin.LimitConfig{Groups: []string{"everything"}, Version: admin.AnyVersion})
		require.NoError(t, err)
		s.limits(admin.Scope{Everyone: true, Resource: "everything"}, dynalimit.PerDay("rpm", 1))
		require.Len(t, s.acquire("key", dynalimit.Amounts{"rpm": 1}).Statuses(), 1, "groups of groups are not charged")
	})
}

// A limit that only the group has need not be one of the resource; a block of the group, at
// whichever source, blocks its resources, also those of who waits.
func TestGroupAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.family("key", "team")
		s.ofGroup(model)
		require.NoError(t, s.repo.admin().Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "free", Resource: group}))
		assert.Empty(t, s.acquire("free", dynalimit.Amounts{"usd": 1}).Statuses())
		team := admin.Scope{Entity: "team", Resource: group}
		s.limits(team, dynalimit.PerDay("usd", 50))
		s.acquire("key", dynalimit.Amounts{"usd": 30})
		assert.EqualValues(t, 20, s.levelOn("team", group, "usd"))
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"usd": 1, "rpm": 1})
		requireInvalid(t, err, "amounts[rpm]")

		waits := make(chan error, 1)
		go func() {
			_, err := s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"usd": 25})
			waits <- err
		}()
		synctest.Wait()
		require.NoError(t, s.repo.SetBlocked(t.Context(), team, true))
		_, err = s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"usd": 1})
		for _, err := range []error{err, <-waits} {
			var blocked *dynalimit.BlockedError
			require.ErrorAs(t, err, &blocked)
			assert.Equal(t, group, blocked.Resource)
			assert.Equal(t, "team", blocked.EntityID)
		}
		require.NoError(t, s.repo.SetBlocked(t.Context(), team, false))
		report, err := s.limiter.Check(t.Context(), "key", model, dynalimit.Amounts{"usd": 25})
		require.NoError(t, err)
		assert.False(t, report.Allowed)
		began := time.Now()
		_, err = s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"usd": 25})
		require.NoError(t, err)
		assert.Equal(t, report.RetryAfter, time.Since(began), "who waits stands in the line of the group's bucket")
	})
}

// Who waits for a group's bucket is before later calls on any of its resources.
func TestWaitersOfAGroupAreInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.ofGroup(model, otherModel)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 1000))
		s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerMinute("rpm", 60))
		s.acquire("key", dynalimit.Amounts{"rpm": 60, "tpm": 990})
		began, done := time.Now(), make(chan time.Duration, 1)
		go func() {
			_, err := s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"rpm": 30, "tpm": 500})
			assert.NoError(t, err)
			done <- time.Since(began)
		}()
		elapse(20 * time.Second)
		_, err := s.limiter.Acquire(t.Context(), "key", otherModel, dynalimit.Amounts{"rpm": 1})
		assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded, "20 are there, and promised")
		assert.Equal(t, 30*time.Second, <-done)
	})
}

// Membership and limits of a group are in force within a TTL, in other processes too, and the
// bucket follows a lowered limit.
func TestChangedGroupIsInForceWithinATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		at := admin.Scope{Everyone: true, Resource: group}
		s.limits(at, dynalimit.PerDay("rpm", 500))
		other := s.peer(nil)
		take := func(p *process, statuses int) {
			t.Helper()
			assert.Len(t, p.acquire("key", dynalimit.Amounts{"rpm": 1}).Statuses(), statuses)
		}
		ttl := func() { elapse(61 * time.Second) }
		take(s, 1)
		take(other, 1)
		s.ofGroup(model)
		take(s, 2)
		take(other, 1)
		ttl()
		take(other, 2)
		s.limits(at, dynalimit.PerDay("rpm", 100))
		take(s, 2)
		assert.Less(t, s.levelOn("key", group, "rpm"), int64(100))
		take(other, 2)
		assert.Less(t, s.levelOn("key", group, "rpm"), int64(100), "a process with the older limits does not bring them back")
		_, err := s.repo.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 900)}, Version: admin.AnyVersion})
		require.NoError(t, err)
		take(s, 1)
	})
}

// A lease that only a group limited says so when nothing does any more, whatever it is asked.
func TestLeaseThatNothingLimitsAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.ofGroup(model)
		at := admin.Scope{Everyone: true, Resource: group}
		s.limits(at, dynalimit.PerDay("usd", 10))
		lease := s.acquire("key", dynalimit.Amounts{"usd": 8})
		ignores := s.acquire("key", dynalimit.Amounts{"usd": 1}, dynalimit.WithIgnoreUnknown())
		require.NoError(t, s.repo.DeleteLimits(t.Context(), at))
		requireInvalid(t, lease.Consume(t.Context(), dynalimit.Amounts{"usd": 1}), "amounts[usd]")
		requireInvalid(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1}), "amounts[rpm]")
		require.NoError(t, ignores.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.EqualValues(t, 9, s.levelOn("key", group, "usd"))
	})
}

// Groups are of a resource for everyone, at most eight of them, and are kept by what changes
// another aspect of the source. The first one raises what clients have to know.
func TestGroupsAreStored(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		ctx := t.Context()
		at := admin.Scope{Everyone: true, Resource: model}
		set := func(at admin.Scope, groups ...string) error {
			_, err := s.repo.SetConfig(ctx, at, admin.LimitConfig{Groups: groups, Version: admin.AnyVersion})
			return err
		}
		for name, bad := range map[string]error{
			"of an entity":  set(admin.Scope{Entity: "key", Resource: model}, group),
			"of the system": set(admin.Scope{Everyone: true}, group),
			"itself":        set(at, model),
			"twice":         set(at, group, group),
			"no name":       set(at, "a#b"),
			"too many":      set(at, "a", "b", "c", "d", "e", "f", "g", "h", "i"),
			"the default's": set(at, "_default_"),
		} {
			t.Log(name)
			requireInvalid(t, bad, "config.groups")
		}
		s.madeBefore()
		require.NoError(t, set(at, "openai", group))
		assert.Equal(t, schema.Number(1), s.storedItem(schema.VersionKey())["kinds_min"])
		s.limits(at, dynalimit.PerMinute("rpm", 5))
		require.NoError(t, s.repo.SetBlocked(ctx, at, true))
		require.NoError(t, s.repo.admin().Limits.SetUnlimited(ctx, at))
		c, err := s.repo.GetConfig(ctx, at)
		require.NoError(t, err)
		assert.Equal(t, []string{group, "openai"}, c.Groups)
		assert.True(t, c.Blocked && c.Unlimited)
	})
}

// Groups that cannot be read refuse the calls of their resource: it is not known what limits
// them. So does what is stored for one of them.
func TestMalformedGroupsAreRefused(t *testing.T) {
	for name, breakGroups := range map[string]func(*process){
		"the groups": func(s *process) { s.gains(s.repo.keys.ResourceConfig(model), "k_groups") },
		"a group":    func(s *process) { s.gains(s.repo.keys.ResourceConfig(group), "k_groups") },
		"nine groups": func(s *process) {
			item := s.repo.keys.ResourceConfig(model).Attributes()
			item["k_groups"] = &types.AttributeValueMemberSS{Value: strings.Split("abcdefghi", "")}
			put(t, s.repo, item)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, perMinute())
			s.ofGroup(model)
			breakGroups(s)
			_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
			requireInvalid(t, err, "stored limits of source resource")
			_, err = s.repo.ResolveLimits(t.Context(), "key", model)
			requireInvalid(t, err, "stored limits of source resource")
		})
	}
}

// A policy decides about the bucket of a group alone, while that does not answer: the others
// are asked, and the group's counter is told afterwards.
func TestSickBucketOfAGroup(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local} {
		t.Run(string(policy), func(t *testing.T) {
			virtual(t, &dynalimit.Options{OnUnavailable: policy}, func(t *testing.T, s *process) {
				s.ofGroup(model)
				s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 20))
				s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 15))
				s.acquire("key", dynalimit.Amounts{"rpm": 1})
				s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					return ddbmem.Fault{Drop: bytes.Contains(r.Body, []byte("#BUCKET#"+group)) && r.Operation != "BatchGetItem"}
				})
				first, _ := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
				if first != nil {
					require.NoError(t, first.Rollback(t.Context()))
				}
				elapse(2 * time.Second) // the table is found to answer, and the bucket is not
				left, admitted := s.level("key", "rpm"), int64(0)
				var last *dynalimit.Lease
				for range 30 {
					if lease, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1}); err == nil {
						admitted++
						last = lease
					}
				}
				want := map[dynalimit.UnavailablePolicy]int64{dynalimit.Refuse: 0, dynalimit.Allow: 19, dynalimit.Local: 14}[policy]
				assert.Equal(t, want, admitted, "as many as the buckets allow that answer, and the process's share of the group's")
				assert.Equal(t, left-want, s.level("key", "rpm"))
				if last != nil {
					assert.True(t, last.Degraded())
					require.NoError(t, last.Rollback(t.Context()))
					admitted--
				}
				s.recovers()
				assert.Equal(t, 1+admitted, s.storedOn("key", group, "rpm").Consumed/milli)
				assert.Equal(t, 1+admitted, s.stored("key", "rpm").Consumed/milli)
				assert.EqualValues(t, 14, s.levelOn("key", group, "rpm"), "what a policy admitted is not charged")
			})
		})
	}
}

// Who is unlimited is admitted while the table does not answer, whatever groups there are that
// nothing limits.
func TestUnlimitedInAGroupInAnOutage(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.ofGroup(model)
		s.children("team", "key") // of which nothing was made
		s.limits(admin.Scope{Entity: "limited"}, dynalimit.PerDay("rpm", 10))
		require.NoError(t, s.repo.admin().Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "key"}))
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("limited", dynalimit.Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		for range 3 {
			_, err := s.limiter.Acquire(t.Context(), "limited", model, dynalimit.Amounts{"rpm": 1})
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			s.acquire("key", dynalimit.Amounts{"rpm": 1})
		}
	})
}

// A lease keeps the limits that it knows of a group while its configuration cannot be read.
func TestConsumeKeepsGroupsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		operator := liveProcess(t, memEngine(t), nil)
		operator.ofGroup(model)
		operator.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		operator.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerDay("rpm", 100))
		repo := operator.open(t, operator.repo.table, &dynalimit.RepositoryOptions{Now: time.Now, MaxStale: time.Second})
		s := operator.on(repo, &dynalimit.Options{OnUnavailable: dynalimit.Local})
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 60})
		elapse(5 * time.Minute)
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Operation == "BatchGetItem"} })
		_ = s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60}))
		assert.EqualValues(t, 60, s.storedOn("key", group, "rpm").Consumed/milli)
	})
}

// Of each resource that a call charges, totals count its use once.
func TestResourcesOfACallCountApart(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "team")
		s.ofGroup(model)
		s.limits(admin.Scope{Entity: "team", Resource: group}, dynalimit.PerDay("rpm", 100), dynalimit.PerDay("usd", 100))
		s.limits(admin.Scope{Entity: "key", Resource: group}, dynalimit.PerDay("rpm", 100))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 5})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"usd": 7}))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1, "usd": 1}))
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 4}))
		for resource, passed := range map[string]int64{model: 4, group: 4} {
			assert.Equal(t, passed, s.storedOn("key", resource, "rpm").Passed/milli, resource)
			assert.Zero(t, s.storedOn("team", resource, "rpm").Passed, resource)
			assert.EqualValues(t, 4, s.storedOn("team", resource, "rpm").Consumed/milli, resource)
		}
		assert.EqualValues(t, 8, s.storedOn("team", group, "usd").Consumed/milli)
	})
}

// What a lease takes further is not denied by a group that nothing limits any more, and all of
// it is given back.
func TestLeaseOutlastsTheLimitsOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.ofGroup(model)
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		at := admin.Scope{Everyone: true, Resource: group}
		s.limits(at, dynalimit.PerDay("rpm", 10))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 8})
		require.NoError(t, s.repo.DeleteLimits(t.Context(), at))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 100}))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.EqualValues(t, 10, s.levelOn("key", group, "rpm"))
		assert.EqualValues(t, 1000, s.level("key", "rpm"))
	})
}
