package budget

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStoredModelsAreAllThatIsStored, page by page, and nothing else of the table.
func TestStoredModelsAreAllThatIsStored(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.org(fixtureOrg())
	require.Empty(t, storedModels(t, w.a))
	info := ModelInfo{Tier: "micro", Family: "nova", Description: "small"}
	require.NoError(t, w.a.Prices().Put(ctx, "us."+microModel, Price{Model: "us." + microModel, Rates: Rates{Input: 1, Output: 2}}))
	require.NoError(t, w.a.Prices().PutInfo(ctx, microModel, info))
	require.NoError(t, w.a.Prices().PutInfo(ctx, "bare", info))
	require.NoError(t, w.a.Prices().Put(ctx, "gone", Price{Model: "gone", Rates: Rates{Input: 1, Output: 2}}))
	require.NoError(t, w.a.Prices().Put(ctx, "gone"))
	found := storedModels(t, w.b)
	name, _ := splitModel(microModel)
	prices, err := w.b.Prices().Get(ctx, microModel)
	require.NoError(t, err)
	require.Len(t, prices, 1)
	assert.Equal(t, map[string]StoredModel{
		name:   {Model: name, Info: info, Prices: prices},
		"bare": {Model: "bare", Info: info, Prices: []Price{}},
		"gone": {Model: "gone", Prices: []Price{}},
	}, found)
}

func storedModels(t *testing.T, k *Keeper) map[string]StoredModel {
	t.Helper()
	found := map[string]StoredModel{}
	for m, err := range k.Prices().Models(t.Context()) {
		require.NoError(t, err)
		found[m.Model] = m
	}
	return found
}
