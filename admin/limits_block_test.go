package admin_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestBlocksAndExceptionsAreSet: a source has one of the three marks, a block always brakes, and no
// other change of the source loses it.
func TestBlocksAndExceptionsAreSet(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits, acme := t.Context(), admin.New(s.repo).Limits, admin.Scope{Entity: "acme"}
	says := func() string {
		c, err := limits.GetConfig(ctx, acme)
		require.NoError(t, err)
		return fmt.Sprint(len(c.Limits), " ", c.Blocked, c.BlockedExcept, c.Admit)
	}
	for _, step := range []struct {
		do   func() error
		says string
	}{
		{func() error { return limits.SetAdmit(ctx, acme, true) }, "0 false false true"},
		{func() error { return limits.Set(ctx, acme, limitNamed("rpm")) }, "1 false false true"},
		{func() error { return limits.SetBlocked(ctx, acme, false) }, "1 false false true"},
		{func() error { return limits.SetBlockedExcept(ctx, acme) }, "1 false true false"},
		{func() error { return limits.Delete(ctx, acme) }, "0 false true false"},
		{func() error { return limits.SetBlocked(ctx, acme, true) }, "0 true false false"},
		{func() error { return limits.SetBlockedExcept(ctx, acme) }, "0 false true false"},
		{func() error { return limits.SetUnlimited(ctx, acme) }, "0 false true false"},
		{func() error { return limits.SetBlocked(ctx, acme, false) }, "0 false false false"},
		{func() error { return limits.SetAdmit(ctx, acme, true) }, "0 false false true"},
		{func() error { return limits.SetBlocked(ctx, acme, true) }, "0 true false false"},
		{func() error { return limits.SetAdmit(ctx, acme, false) }, "0 true false false"},
	} {
		require.NoError(t, step.do())
		assert.Equal(t, step.says, says())
	}
	before := scan(t, s.repo)
	require.ErrorContains(t, limits.SetAdmit(ctx, acme, true), "is blocked; end that block first")
	require.ErrorContains(t, limits.SetAdmit(ctx, admin.Scope{Everyone: true}, true), "config.admit: is set at the system")
	for reason, c := range map[string]admin.LimitConfig{
		"config.admit: is set at a source that is blocked":   {Admit: true, BlockedExcept: true},
		"config.admit: is set at a source that is blocked; ": {Admit: true, Blocked: true},
		"config.blockedExcept: is set together with blocked": {BlockedExcept: true, Blocked: true},
	} {
		c.Version = admin.AnyVersion
		_, err := limits.SetConfig(ctx, acme, c)
		assert.ErrorContains(t, err, reason)
	}
	compatible := memEngine(t).repository(t, &dynalimit.RepositoryOptions{Compatible: true})
	require.ErrorContains(t, admin.New(compatible).Limits.SetBlockedExcept(ctx, acme), "zae-limiter does not know")
	require.ErrorContains(t, admin.New(compatible).Limits.SetAdmit(ctx, acme, true), "zae-limiter does not know")
	require.NoError(t, admin.New(compatible).Limits.SetBlocked(ctx, acme, true))
	assert.Equal(t, before, scan(t, s.repo))
}

// TestUnreadableSourceIsBlockedAndLetIn: an emergency brake of a source that cannot be read is one, and
// ends.
func TestUnreadableSourceIsBlockedAndLetIn(t *testing.T) {
	s := memProcess(t, nil)
	acme := admin.Scope{Entity: "acme"}
	item := schema.ConfigItem{BlockedExcept: true}.Item(schema.NewKeys(""), schema.ConfigOwner{Entity: "acme"}, nil)
	item["l_rpm_cp"] = schema.String("many")
	put(t, s.repo, item)
	for _, blocked := range []bool{true, false} {
		require.NoError(t, admin.New(s.repo).Limits.SetBlocked(t.Context(), acme, blocked))
		got, err := s.client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: new(s.repo.Table()), Key: schema.NewKeys("").EntityConfig("acme", "").Attributes()})
		require.NoError(t, err)
		marks, err := schema.DecodeMarks(got.Item)
		require.NoError(t, err)
		assert.Equal(t, schema.Marks{Blocked: blocked}, marks)
	}
}
