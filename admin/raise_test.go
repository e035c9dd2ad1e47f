package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// TestRaiseRefusesWhatItWouldNotRaise: limits that are not in force at the scope, quotas, capacities
// that are no raise, and ends that are none. Nothing is written.
func TestRaiseRefusesWhatItWouldNotRaise(t *testing.T) {
	s := memProcess(t, nil)
	ctx, a := t.Context(), admin.New(s.repo)
	everyone, gpt, acme := admin.Scope{Everyone: true}, admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.Scope{Entity: "acme"}
	set := func(at admin.Scope, c admin.LimitConfig) {
		t.Helper()
		c.Version, c.Only = admin.AnyVersion, true
		require.NoError(t, second(a.Limits.SetConfig(ctx, at, c)))
	}
	set(everyone, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.DailyQuota("rpd", 100, "UTC"), {Name: "huge", Capacity: 1, RefillAmount: 1_000_000_000_000, RefillPeriod: time.Minute}}})
	set(gpt, admin.LimitConfig{Extends: true, Limits: limitNamed("tpm"), Groups: []string{"all"}})
	set(admin.Scope{Everyone: true, Resource: "all"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("img", 5)}})
	set(admin.Scope{Entity: "free"}, admin.LimitConfig{Unlimited: true})
	before, later := scan(t, s.repo), s.clock.now().Add(time.Hour)
	on := func(at admin.Scope, resource string) admin.Scope {
		at.Resource = resource
		return at
	}
	for name, test := range map[string]struct {
		at       admin.Scope
		limit    string
		capacity int64
		until    time.Time
		field    string
		reason   string
	}{
		"a mistyped name":          {acme, "rmp", 600, later, "name", "rmp is no limit in force for entity acme"},
		"an unlimited entity":      {admin.Scope{Entity: "free"}, "rpm", 600, later, "name", "no limit in force"},
		"a quota":                  {acme, "rpd", 600, later, "name", "Buckets.GrantWindow"},
		"a limit of the model":     {acme, "tpm", 600, later, "at.resource", "set it to gpt-4"},
		"a limit of a group":       {on(acme, "gpt-4"), "img", 600, later, "at.resource", "set it to all"},
		"a limit of a group alone": {acme, "img", 600, later, "at.resource", "set it to all"},
		"a default at a group":     {on(acme, "all"), "rpm", 600, later, "name", "no limit in force"},
		"no more than the limit":   {acme, "rpm", 100, later, "capacity", "rpm is 100 for entity acme already"},
		"a refill beyond bounds":   {acme, "huge", 2, later, "capacity", "above 10^12"},
		"an end that has passed":   {acme, "rpm", 600, s.clock.now(), "until", "give a later time"},
		"an end too far ahead":     {acme, "rpm", 600, s.clock.now().Add(90*24*time.Hour + time.Second), "until", "at most 90 days"},
		"nobody":                   {admin.Scope{}, "rpm", 600, later, "scope.entity", "name an entity"},
	} {
		t.Run(name, func(t *testing.T) {
			err := a.Limits.Raise(ctx, test.at, test.limit, test.capacity, test.until)
			assert.Contains(t, requireInvalid(t, err, test.field).Error(), test.reason)
			assert.Equal(t, before, scan(t, s.repo))
		})
	}
	c, err := a.Limits.GetConfig(ctx, acme)
	require.NoError(t, err)
	c.Raises = []admin.Raise{{Name: "rpm", Capacity: 600, PeriodSeconds: 60, Until: later}}
	requireInvalid(t, second(a.Limits.SetConfig(ctx, acme, c)), "config.raises")

	_, err = s.client().UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: new(s.repo.Table()), Key: schema.VersionKey().Attributes(), UpdateExpression: new("REMOVE kinds_min")})
	require.NoError(t, err)
	var wrong *fault.TableError
	require.ErrorAs(t, a.Limits.Raise(ctx, acme, "rpm", 600, later), &wrong, "older versions would refuse the source")
	assert.Equal(t, fault.Upgrade, wrong.Fix)
}

// TestRaisesReplaceOnlyLesserOnes: the second raise of a limit at a source takes the place of the
// first if it is no less and ends no sooner, or if that is meant.
func TestRaisesReplaceOnlyLesserOnes(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits, acme := t.Context(), admin.New(s.repo).Limits, admin.Scope{Entity: "acme"}
	require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
	now := s.clock.now()
	stored := func() string {
		c, err := limits.GetConfig(ctx, acme)
		require.NoError(t, err)
		var texts []string
		for _, r := range c.Raises {
			texts = append(texts, strings.Replace(r.String(), now.Add(time.Hour).UTC().Format(time.RFC3339), "an hour", 1))
		}
		return strings.Join(texts, ", ")
	}
	require.NoError(t, limits.Raise(ctx, acme, "rpm", 200, now.Add(time.Hour)))
	for _, lesser := range []struct {
		capacity int64
		end      time.Duration
	}{{300, 30 * time.Minute}, {150, 2 * time.Hour}} {
		var conflict *admin.ConflictError[admin.Raise]
		err := limits.Raise(ctx, acme, "rpm", lesser.capacity, now.Add(lesser.end))
		require.ErrorAs(t, err, &conflict)
		require.ErrorIs(t, err, admin.ErrConflict)
		assert.EqualValues(t, 200, conflict.Stored.Capacity)
		assert.Contains(t, err.Error(), "rpm is raised to 200 until")
	}
	assert.Equal(t, "rpm is raised to 200 until an hour", stored())
	require.NoError(t, limits.Raise(ctx, acme, "rpm", 250, now.Add(time.Hour)))
	assert.Equal(t, "rpm is raised to 250 until an hour", stored())
	require.NoError(t, limits.ReplaceRaise(ctx, acme, "rpm", 150, now.Add(time.Hour)))
	assert.Equal(t, "rpm is raised to 150 until an hour", stored())
	require.NoError(t, limits.Lower(ctx, acme, "rpm"))
	require.NoError(t, limits.Lower(ctx, acme, "rpm"), "it is lowered already")
	assert.Empty(t, stored())
	var actions []string
	for _, e := range trail(t, s.repo, audit.Query{Target: "acme"}) {
		actions = append(actions, e.Action+" "+e.Changes[0].Field)
	}
	assert.Equal(t, []string{"limit_raised raises", "limit_raised raises", "limit_raised raises", "limit_lowered raises"}, actions)
}

// TestRaisesStayUntilTheListOfTheirSourceChanges: a raise alone is a source that says something until
// it is over; changes of other things keep it, and a new list or a delete ends it. The change after
// its end removes it.
func TestRaisesStayUntilTheListOfTheirSourceChanges(t *testing.T) {
	type change func(ctx context.Context, l admin.Limits, at admin.Scope) error
	block := func(blocked bool) change {
		return func(ctx context.Context, l admin.Limits, at admin.Scope) error { return l.SetBlocked(ctx, at, blocked) }
	}
	both := func(a, b change) change {
		return func(ctx context.Context, l admin.Limits, at admin.Scope) error {
			if err := a(ctx, l, at); err != nil {
				return err
			}
			return b(ctx, l, at)
		}
	}
	add := func(name string) change {
		return func(ctx context.Context, l admin.Limits, at admin.Scope) error {
			return l.Add(ctx, at, limitNamed(name))
		}
	}
	remove := func(ctx context.Context, l admin.Limits, at admin.Scope) error {
		return l.Remove(ctx, at, []string{"img"})
	}
	for name, test := range map[string]struct {
		do    change
		stays bool
	}{
		"a block":                 {block(true), true},
		"a block that is lifted":  {both(block(true), block(false)), true},
		"a limit of another name": {add("img"), true},
		"a limit that goes again": {both(add("img"), remove), true},
		"a new list": {func(ctx context.Context, l admin.Limits, at admin.Scope) error {
			return l.Set(ctx, at, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)})
		}, false},
		"unlimited": {func(ctx context.Context, l admin.Limits, at admin.Scope) error { return l.SetUnlimited(ctx, at) }, false},
		"a delete":  {func(ctx context.Context, l admin.Limits, at admin.Scope) error { return l.Delete(ctx, at) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, nil)
			ctx, limits, acme := t.Context(), admin.New(s.repo).Limits, admin.Scope{Entity: "acme"}
			require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
			require.NoError(t, limits.Raise(ctx, acme, "rpm", 200, s.clock.now().Add(time.Hour)))
			require.NoError(t, test.do(ctx, limits, acme))
			c, err := limits.GetConfig(ctx, acme)
			require.NoError(t, err)
			assert.Equal(t, test.stays, len(c.Raises) == 1)
			resolved, err := s.repo.ResolveLimits(ctx, "acme", "gpt-4")
			require.NoError(t, err)
			assert.Equal(t, test.stays, len(resolved.Raised) == 1)

			s.clock.advance(time.Hour)
			c, err = limits.GetConfig(ctx, acme)
			require.NoError(t, err)
			assert.Empty(t, c.Raises)
			require.NoError(t, limits.SetBlocked(ctx, acme, true))
			require.NoError(t, limits.SetBlocked(ctx, acme, false))
			for _, key := range partition(t, s.repo, "acme") {
				item, err := shared.Of(s.repo).Table.Get(ctx, "test", key)
				require.NoError(t, err)
				assert.NotContains(t, item, "k_rpm_rn")
			}
		})
	}
}
