package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// zaeTable makes the table "zae" with items of zae-limiter, and without any index.
func (s *shell) zaeTable(items ...schema.Item) {
	s.t.Helper()
	client := s.db.Client()
	var attributes []types.AttributeDefinition
	for _, name := range []string{schema.PK, schema.SK} {
		attributes = append(attributes, types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS})
	}
	_, err := client.CreateTable(s.t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("zae"), BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: attributes,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(schema.PK), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(schema.SK), KeyType: types.KeyTypeRange},
		},
	})
	require.NoError(s.t, err)
	for _, item := range items {
		_, err := client.PutItem(s.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("zae"), Item: item})
		require.NoError(s.t, err)
	}
}

// zaeItems are what a release of zae-limiter wrote.
func zaeItems(t *testing.T, release string) []schema.Item {
	t.Helper()
	data, err := os.ReadFile("../../internal/schema/testdata/zae-" + release + "-items.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	return items
}

// TestTablesOfZaeLimiterAreExported: of each layout, without an index and without a write, as a
// manifest that 'manifest apply' takes as it is.
func TestTablesOfZaeLimiterAreExported(t *testing.T) {
	for _, release := range []string{"0.5", "0.6", "0.7", "0.8.1", "0.17"} {
		t.Run(release, func(t *testing.T) {
			s := newTable(t)
			s.zaeTable(zaeItems(t, release)...)
			asked := map[string]bool{}
			s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Table == "zae" {
					asked[r.Operation] = true
				}
				return ddbmem.Fault{}
			})
			s.golden("zae-"+release+".txt", [][]string{
				{"manifest", "export", "--from-zae", "zae"},
				{"manifest", "export", "--from-zae", "zae", "--from-namespace", "tenant-b", "--name", "zae", "--json"},
			})
			assert.Subset(t, []string{"Scan", "DescribeTable"}, slices.Collect(maps.Keys(asked)))
			_, text, _ := s.run("manifest", "export", "--from-zae", "zae")
			name := filepath.Join(t.TempDir(), "limits.yaml")
			file(t, name, text)
			s.must("manifest", "apply", name, "--yes")
			assert.Contains(t, s.must("manifest", "plan", name, "--exit-code"), "Nothing to change: ")
		})
	}
}

// TestOtherTablesAreNoneOfZaeLimiter: a table of dynalimit, one that is not there, one of
// something else, a layout that is not known.
func TestOtherTablesAreNoneOfZaeLimiter(t *testing.T) {
	s := newTable(t)
	for _, test := range []struct{ table, want string }{
		{"limits", "is one of dynalimit: read it with 'dynalimit manifest export --table limits'"},
		{"nowhere", "is not there: name that of zae-limiter with --from-zae"},
		{"zae", "is not one of zae-limiter"},
	} {
		if test.table == "zae" {
			s.zaeTable()
		}
		code, stdout, stderr := s.run("manifest", "export", "--from-zae", test.table)
		assert.Equal(t, exitFailed, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, test.want)
	}
	later := schema.LaterVersionKey().Attributes()
	later["schema_version"] = schema.String("0.11.0")
	_, err := s.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("zae"), Item: later})
	require.NoError(t, err)
	_, _, stderr := s.run("manifest", "export", "--from-zae", "zae")
	assert.Contains(t, stderr, "has the layout 0.11.0 of zae-limiter")
}
