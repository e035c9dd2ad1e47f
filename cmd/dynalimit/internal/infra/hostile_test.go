package infra

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestWritesOfServersChangeNoLimit: whatever who serves calls writes under its policy, into
// items that are there and such as are not, changes no limit, no block, no parent, no plan
// and no version, until an item with a ttl is gone.
func TestWritesOfServersChangeNoLimit(t *testing.T) {
	for namespace, prefix := range map[string]string{"": "", "eu": "eu/"} {
		inWorld(t, func(w world) {
			ctx := w.Context()
			admin, _ := w.open(everything, namespace)
			require.NoError(w, admin.CreateEntity(ctx, dynalimit.Entity{ID: "bare"}))
			require.NoError(w, admin.SetBlocked(ctx, dynalimit.Scope{Entity: "barred"}, true))
			stated := func() string {
				admin, _ := w.open(everything, namespace) // which remembers nothing
				var b strings.Builder
				for _, id := range []string{entity, parent, "bare", "barred", "nobody"} {
					resolved, err := admin.ResolveLimits(ctx, id, model)
					fmt.Fprintf(&b, "%s: %+v %v\n", id, resolved, err)
					e, err := admin.GetEntity(ctx, id)
					if errors.Is(err, dynalimit.ErrNotFound) { // a record that says nothing is as good as none
						e, err = dynalimit.Entity{ID: id}, nil
					}
					fmt.Fprintf(&b, "%+v %v\n", e, err)
					for _, resource := range []string{"", model} {
						c, err := admin.GetConfig(ctx, dynalimit.Scope{Entity: id, Resource: resource})
						fmt.Fprintf(&b, "%+v %v\n", c, err)
					}
				}
				return b.String()
			}
			before := stated()
			_, text := roleOf(w.T, "Acquire", namespace)
			g := &guarded{next: w.db, policy: readPolicy(w.T, text), place: here}
			server := w.db.Client(g.through)
			written := 0
			for _, id := range []string{entity, parent, "bare", "barred", "nobody"} {
				for _, sk := range []string{"#META", "#CONFIG#" + schema.DefaultResource, "#CONFIG#" + model, "#CONFIG", "#VERSION"} {
					for _, value := range []types.AttributeValue{
						&types.AttributeValueMemberN{Value: "9000000000000"}, &types.AttributeValueMemberS{Value: "x"}, &types.AttributeValueMemberBOOL{Value: true},
					} {
						for _, name := range schema.BucketAttributes()[2:] {
							_, err := server.UpdateItem(ctx, &dynamodb.UpdateItemInput{
								TableName: new(tableName), UpdateExpression: new("SET #0 = :0"),
								Key:                       schema.Key{PK: prefix + "ENTITY#" + id, SK: sk}.Attributes(),
								ExpressionAttributeNames:  map[string]string{"#0": strings.Replace(name, "*", "rpm_cp", 1)},
								ExpressionAttributeValues: schema.Item{":0": value},
							})
							if err == nil { // a key of an index is text alone
								written++
							}
						}
						require.Equal(w, before, stated(), "%s %s %T", id, sk, value)
					}
				}
			}
			assert.Greater(w, written, 500)
		})
	}
}
