package infra

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestTheFirstGroupAndQuotaAreTheTablesAdministrators: setting one changes the version record,
// which is in no namespace. Who administers a namespace is told so, and sets more once there is
// one.
func TestTheFirstGroupAndQuotaAreTheTablesAdministrators(t *testing.T) {
	inWorld(t, func(w world) {
		whole, bound := roleOf(t, "Admin", ""), roleOf(t, "Admin", "eu")
		for _, config := range []admin.LimitConfig{{Groups: []string{"all"}}, {Limits: []dynalimit.Limit{dynalimit.DailyQuota("usd", 50, "")}, Only: true}} {
			set := func(policy, namespace, resource string) (*guarded, error) {
				r, g := w.open(policy, namespace)
				config.Version = admin.AnyVersion
				return g, only(admin.New(r).Limits.SetConfig(w.Context(), admin.Scope{Everyone: true, Resource: resource}, config))
			}
			_, err := w.db.Client().UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String(tableName), Key: schema.VersionKey().Attributes(), UpdateExpression: aws.String("REMOVE kinds_min"),
			}) // as an older version makes the table
			require.NoError(t, err)
			before := w.dump()
			_, err = set(bound, "eu", "a")
			require.ErrorContains(t, err, "set kinds_min in the version record (by an administrator of the whole table)")
			require.ErrorContains(t, err, "AccessDenied")
			assert.Equal(t, before, w.dump(), "nothing was changed")
			for _, one := range []struct{ policy, namespace, resource string }{{whole, "eu", "b"}, {bound, "eu", "c"}, {whole, "", "d"}} {
				g, err := set(one.policy, one.namespace, one.resource)
				require.NoError(t, err)
				g.permits(t)
			}
		}
	})
}
