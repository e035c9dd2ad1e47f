package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func storedModels(t *testing.T, k *Keeper) map[string]StoredModel {
	t.Helper()
	found := map[string]StoredModel{}
	for m, err := range k.Prices().Models(t.Context()) {
		require.NoError(t, err)
		found[m.Model] = m
	}
	return found
}
