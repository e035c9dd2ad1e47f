package admin_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A group that is set while a migration ends keeps old clients out.
func TestMigrationKeepsKindsMin(t *testing.T) {
	db := ddbmem.New()
	defer db.Close()
	open := func() *dynalimit.Repository {
		r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "a"})
		require.NoError(t, err)
		return r
	}
	require.NoError(t, open().CreateTable(t.Context()))
	// A table of which nobody has said that nothing old is left, and that no older client is.
	_, err := db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: new("limits"), Key: schema.VersionKey().Attributes(), UpdateExpression: new("REMOVE composite_only, kinds_min")})
	require.NoError(t, err)
	other, done := open(), false
	db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && !done && versionPut(r) {
			done = true
			_, err := admin.New(other).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.LimitConfig{Groups: []string{"all"}})
			assert.NoError(t, err)
		}
		return ddbmem.Fault{}
	})
	_, err = admin.New(open()).Migrate(t.Context(), false, nil)
	require.NoError(t, err)
	require.True(t, done)
	out, err := db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: new("limits"), Key: schema.VersionKey().Attributes()})
	require.NoError(t, err)
	assert.Equal(t, types.AttributeValue(&types.AttributeValueMemberN{Value: "1"}), out.Item["kinds_min"])
}

// The first group needs the version record, which would not tell older clients otherwise.
func TestFirstGroupNeedsTheVersionRecord(t *testing.T) {
	db := ddbmem.New()
	defer db.Close()
	r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "a"})
	require.NoError(t, err)
	_, err = db.Client().CreateTable(t.Context(), r.TableInput()) // as a template does
	require.NoError(t, err)
	set := func() error {
		_, err := admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.LimitConfig{Groups: []string{"all"}})
		return err
	}
	err = set()
	require.ErrorIs(t, err, fault.ErrTable)
	require.ErrorContains(t, err, "CreateTable")
	require.NoError(t, r.CreateTable(t.Context()))
	require.NoError(t, set())
	out, err := db.Client().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: new("limits"), Key: schema.VersionKey().Attributes()})
	require.NoError(t, err)
	record, _ := schema.DecodeVersion(out.Item)
	assert.NotEmpty(t, record.Schema, "%v", out.Item)
	assert.EqualValues(t, schema.KnownKinds, record.KindsMin, "nobody older uses an empty table")
}

func versionPut(r *ddbmem.Request) bool { return strings.Contains(string(r.Body), "composite_only") }
