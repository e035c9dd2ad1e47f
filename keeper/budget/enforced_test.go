package budget

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// olderRegime is how an older version kept when what was in force.
func olderRegime(from int64) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: store.Item{
		"from_ms": store.Int(from), "timezone": store.String("America/New_York"), "quota_scope": store.String("APP"), "enforcement": store.String("SOFT"),
	}}
}

// setAttributes changes an item as an older version would, with an event.
func setAttributes(t *testing.T, w *world, key store.Key, item store.Item) {
	t.Helper()
	for name, value := range item {
		event := store.Key{PK: "AUDIT#OLDER", SK: "#AUDIT#" + store.NewID()}.Attributes()
		event["action"], event["principal"] = store.String("put"), store.String("older")
		_, err := w.client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Update: &types.Update{
				TableName: &w.tables.Control, Key: key.Attributes(), UpdateExpression: aws.String("SET #a = :v"),
				ExpressionAttributeNames: map[string]string{"#a": name}, ExpressionAttributeValues: store.Item{":v": value},
			}},
			{Put: &types.Put{TableName: &w.tables.Control, Item: event}},
		}})
		require.NoError(t, err)
	}
}

// TestAnOrganisationThatOlderVersionsEnforcedIsRefused loudly, never taken for another, keeps
// no other from being swept and listed, and can be deleted.
func TestAnOrganisationThatOlderVersionsEnforcedIsRefused(t *testing.T) {
	for name, older := range map[string]store.Item{
		"hard":     {"enforcement": store.String("HARD")},
		"limits":   {"limits": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: store.Item{"period": store.String("month"), "micros": store.Int(5)}}}}},
		"a change": {"calendar": &types.AttributeValueMemberL{Value: []types.AttributeValue{olderRegime(0), olderRegime(1_769_000_000_000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				ctx := t.Context()
				other := fixtureOrg()
				other.ID = otherOrg
				for _, o := range []Org{fixtureOrg(), other} {
					w.org(o)
					_, err := w.a.Submit(ctx, o.ID, appA, call(1))
					require.NoError(t, err)
				}
				setAttributes(t, w, orgKey(orgO), older)
				w.a.tenants.evictAll()
				for what, try := range map[string]func() error{
					"Recommend": func() error { _, err := w.a.Recommend(ctx, orgO, appA); return err },
					"Submit":    func() error { _, err := w.a.Submit(ctx, orgO, appA, call(2)); return err },
					"PutOrg":    func() error { _, err := w.a.Setup().PutOrg(ctx, fixtureOrg()); return err },
					"PutApp":    func() error { _, err := w.a.Setup().PutApp(ctx, orgO, App{ID: appB}); return err },
					"GetOrg":    func() error { _, err := w.a.Setup().GetOrg(ctx, orgO); return err },
					"Totals":    func() error { _, err := w.a.Totals(ctx, orgO, "", ""); return err },
				} {
					err := try()
					requireCode(t, err, fault.InvalidConfig)
					require.ErrorContains(t, err, orgO, what)
					require.ErrorContains(t, err, "DeleteOrg", what)
				}
				report, err := w.a.Sweep(ctx)
				requireCode(t, err, fault.InvalidConfig)
				assert.Equal(t, 1, report.Orgs, "the other is")
				var ids []string
				var last error
				for o, err := range w.a.Setup().Orgs(ctx) {
					ids, last = append(ids, o.ID), err
				}
				assert.Equal(t, []string{otherOrg, orgO}, ids, "it comes last")
				requireCode(t, last, fault.InvalidConfig)

				require.NoError(t, w.a.Setup().DeleteOrg(ctx, orgO, nil))
				_, err = w.a.Setup().PutOrg(ctx, fixtureOrg())
				require.NoError(t, err, "what is left of it is not of that kind")
				_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
				require.NoError(t, err)
				assert.Equal(t, int64(16_500), w.total(appA, "premium", "").CostMicros)
			})
		})
	}
}

// TestWhatStayedOfAnEnforcedOrganisation is refused, too: its days may be of another zone.
func TestWhatStayedOfAnEnforcedOrganisation(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	require.NoError(t, w.a.Setup().DeleteOrg(t.Context(), orgO, nil))
	setAttributes(t, w, orgKey(orgO), store.Item{"enforcement": store.String("HARD")})
	_, err := w.a.Setup().PutOrg(t.Context(), fixtureOrg())
	require.ErrorContains(t, err, "put another")
}

// TestAnAppThatOlderVersionsLimitedIsRefused until it is put again, and leaves nothing of it.
func TestAnAppThatOlderVersionsLimitedIsRefused(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	ctx := t.Context()
	_, err := w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
	require.NoError(t, err)
	limits := store.Item{"limits": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: store.Item{}}}}}
	setAttributes(t, w, appKey(orgO, appA), limits)
	for _, k := range []*Keeper{w.a, w.b} {
		k.tenants.evictAll()
		_, err = k.Submit(ctx, orgO, appA, call(1))
		requireCode(t, err, fault.InvalidConfig)
		require.ErrorContains(t, err, appA)
		_, err = k.Submit(ctx, orgO, appB, call(1))
		require.NoError(t, err, "the others go on")
	}
	_, err = w.a.Setup().PutApp(ctx, orgO, App{ID: appA})
	require.NoError(t, err)
	w.submit(w.a, call(2))
}
