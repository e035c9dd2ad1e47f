package admin_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Money is one sum over the models of a group: it is refused where each model would have it by
// itself, unless that is said.
func TestMoneyBelongsToAGroup(t *testing.T) {
	db := ddbmem.New()
	defer db.Close()
	ctx := t.Context()
	r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "a"})
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(ctx))
	limits := admin.New(r).Limits
	_, err = limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.LimitConfig{Groups: []string{"all"}})
	require.NoError(t, err)
	money := dynalimit.DailyMoneyQuota("usd", 50_000_000, "America/Los_Angeles")
	each := money
	each.PerModel = true
	for _, at := range []admin.Scope{{Everyone: true}, {Entity: "key"}, {Entity: "key", Resource: "_default_"}, {Plan: "pro"}, {Everyone: true, Resource: "claude"}, {Entity: "key", Resource: "claude"}} {
		err := limits.Set(ctx, at, []dynalimit.Limit{money})
		var wrong *fault.ValidationError
		require.ErrorAs(t, err, &wrong, "%s", at)
		assert.Equal(t, "limits[usd].PerModel", wrong.Field)
		assert.ErrorContains(t, err, "set it on a group of models")
		_, err = limits.SetConfig(ctx, at, admin.LimitConfig{Limits: []dynalimit.Limit{money}})
		require.ErrorAs(t, err, &wrong, "%s", at)
		require.NoError(t, limits.Set(ctx, at, []dynalimit.Limit{each}), "%s", at)
	}
	_, err = admin.New(r).Entities.CreateMany(ctx, []admin.EntitySetup{{Entity: admin.Entity{ID: "new"}, Limits: map[string][]dynalimit.Limit{"": {money}}}})
	require.ErrorContains(t, err, "set it on a group of models")
	for _, at := range []admin.Scope{{Everyone: true, Resource: "all"}, {Entity: "key", Resource: "all"}, {Plan: "pro", Resource: "gpt-4"}} {
		require.NoError(t, limits.Set(ctx, at, []dynalimit.Limit{money}), "%s", at)
		stored, err := limits.GetConfig(ctx, at)
		require.NoError(t, err)
		assert.Equal(t, []dynalimit.Limit{money}, stored.Limits)
	}
	errs, err := limits.SetConfigs(ctx, []admin.ScopedConfig{
		{Scope: admin.Scope{Everyone: true, Resource: "mixed"}, Config: admin.LimitConfig{Limits: []dynalimit.Limit{money}}},
		{Scope: admin.Scope{Everyone: true, Resource: "mistral"}, Config: admin.LimitConfig{Groups: []string{"mixed"}}},
	})
	require.NoError(t, err)
	assert.Equal(t, []error{nil, nil}, errs)
}

// Whoever sets the first quota has clients that know none refuse the table.
func TestEverySetterOfAQuotaRaisesKindsMin(t *testing.T) {
	daily := []dynalimit.Limit{dynalimit.DailyQuota("usd", 50, "UTC")}
	for name, set := range map[string]func(a *admin.Admin) error{
		"Set": func(a *admin.Admin) error { return a.Limits.Set(t.Context(), admin.Scope{Everyone: true}, daily) },
		"SetConfig": func(a *admin.Admin) error {
			return second(a.Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: daily}))
		},
		"SetConfigs": func(a *admin.Admin) error {
			return second(a.Limits.SetConfigs(t.Context(), []admin.ScopedConfig{{Scope: admin.Scope{Everyone: true}, Config: admin.LimitConfig{Limits: daily}}}))
		},
		"CreateMany": func(a *admin.Admin) error {
			return second(a.Entities.CreateMany(t.Context(), []admin.EntitySetup{{Entity: admin.Entity{ID: "key"}, Limits: map[string][]dynalimit.Limit{"": daily}}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := ddbmem.New()
			defer db.Close()
			r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "a"})
			require.NoError(t, err)
			require.NoError(t, r.CreateTable(t.Context()))
			_, err = db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: new("limits"), Key: schema.VersionKey().Attributes(), UpdateExpression: new("REMOVE kinds_min")})
			require.NoError(t, err) // a table that an older version made
			require.NoError(t, set(admin.New(r)))
			for _, item := range scan(t, r) {
				if schema.KeyOf(item) == schema.VersionKey() {
					assert.Equal(t, schema.Number(2), item["kinds_min"])
				}
			}
		})
	}
}
