package login

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// scan lists the keys of a table's items.
func scan(t testing.TB, db *ddbmem.DB, table string) []string {
	t.Helper()
	out, err := db.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
	require.NoError(t, err)
	keys := make([]string, 0, len(out.Items))
	for _, item := range out.Items {
		pk, _ := item["PK"].(*types.AttributeValueMemberS)
		require.NotNil(t, pk)
		keys = append(keys, pk.Value)
	}
	return keys
}
