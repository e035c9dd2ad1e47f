package infra

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestWritesOfServersChangeNoLimit: whatever who serves calls writes under its policy, into
// items that are there and such as are not, changes no limit, no block, no parent, no plan
// and no version, until an item with a ttl is gone.
func TestWritesOfServersChangeNoLimit(t *testing.T) {
	for namespace, prefix := range map[string]string{"": "", "eu": "eu/"} {
		inWorld(t, func(w world) {
			ctx := w.Context()
			root, _ := w.open(everything, namespace)
			require.NoError(w, admin.New(root).Entities.Create(ctx, admin.Entity{ID: "bare"}))
			require.NoError(w, admin.New(root).Limits.SetBlocked(ctx, admin.Scope{Entity: "barred"}, true))
			stated := func() string {
				root, _ := w.open(everything, namespace) // which remembers nothing
				var b strings.Builder
				for _, id := range []string{entity, parent, "bare", "barred", "nobody"} {
					resolved, err := root.ResolveLimits(ctx, id, model)
					fmt.Fprintf(&b, "%s: %+v %v\n", id, resolved, err)
					e, err := admin.New(root).Entities.Get(ctx, id)
					if errors.Is(err, admin.ErrNotFound) { // a record that says nothing is as good as none
						e, err = admin.Entity{ID: id}, nil
					}
					fmt.Fprintf(&b, "%+v %v\n", e, err)
					for _, resource := range []string{"", model} {
						c, err := admin.New(root).Limits.GetConfig(ctx, admin.Scope{Entity: id, Resource: resource})
						fmt.Fprintf(&b, "%+v %v\n", c, err)
					}
				}
				return b.String()
			}
			before := stated()
			text := roleOf(w.T, "Acquire", namespace)
			g := &guarded{next: w.db, policy: readPolicy(w.T, text), place: here}
			server := w.db.Client(g.through)
			written := 0
			for _, id := range []string{entity, parent, "bare", "barred", "nobody"} {
				for _, sk := range []string{"#META", "#CONFIG#" + schema.DefaultResource, "#CONFIG#" + model, "#CONFIG", "#VERSION"} {
					for _, value := range []types.AttributeValue{
						&types.AttributeValueMemberN{Value: "9000000000000"}, &types.AttributeValueMemberS{Value: "x"}, &types.AttributeValueMemberBOOL{Value: true},
					} {
						for _, name := range writable() {
							_, err := server.UpdateItem(ctx, &dynamodb.UpdateItemInput{
								TableName: new(tableName), UpdateExpression: new("SET #0 = :0"),
								Key:                       schema.Key{PK: prefix + "ENTITY#" + id, SK: sk}.Attributes(),
								ExpressionAttributeNames:  map[string]string{"#0": name},
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

// writable are names of what servers may write, besides keys.
func writable() []string {
	names := schema.BucketAttributes()[2:]
	for i := range names {
		names[i] = strings.Replace(names[i], "*", "rpm_cp", 1)
	}
	return names
}

// TestWritesOfServersChangeNoUsage: under the policy of what serves calls, records cannot be
// counted, and whatever is written into a snapshot says nothing else about usage.
func TestWritesOfServersChangeNoUsage(t *testing.T) {
	inWorld(t, func(w world) {
		ctx := w.Context()
		record := aggregator.Record{
			EventID: "1", Sequence: "1", Time: time.Now(), Keys: schema.Keys{}.Bucket(entity, model).Attributes(),
			New: schema.Item{"b_rpm_tc": schema.Number(5)},
		}
		root, err := aggregator.New(w.db.Client(), tableName, nil)
		require.NoError(w, err)
		result, err := root.Process(ctx, []aggregator.Record{record})
		require.NoError(w, err)
		require.Equal(w, aggregator.Result{Counted: 1}, result)
		key := schema.Keys{}.Usage(entity, model, record.Time.Truncate(time.Hour)).Attributes()
		stored := func() (schema.UsageSnapshot, schema.UsagePlace) {
			out, err := w.db.Client().GetItem(ctx, &dynamodb.GetItemInput{TableName: new(tableName), Key: key})
			require.NoError(w, err)
			u, err := schema.DecodeUsage(out.Item)
			require.NoError(w, err)
			place, _ := schema.ClosedPlace(out.Item)
			return u, place
		}
		before, place := stored()
		require.EqualValues(w, 5, before.Spans["rpm"].Net)

		text := roleOf(w.T, "Acquire", "")
		g := &guarded{next: w.db, policy: readPolicy(w.T, text), place: here}
		server := w.db.Client(g.through)
		denied, err := aggregator.New(server, tableName, nil)
		require.NoError(w, err)
		record.Sequence, record.Old, record.New = "2", record.New, schema.Item{"b_rpm_tc": schema.Number(9)}
		result, err = denied.Process(ctx, []aggregator.Record{record})
		require.NoError(w, err)
		require.Len(w, result.Failures, 1)
		require.ErrorContains(w, result.Failures[0].Err, "AccessDenied")
		for _, name := range writable() {
			for _, value := range []types.AttributeValue{schema.Number(9_000_000), schema.String("x")} {
				_, err := server.UpdateItem(ctx, &dynamodb.UpdateItemInput{
					TableName: new(tableName), Key: key, UpdateExpression: new("SET #0 = :0"),
					ExpressionAttributeNames: map[string]string{"#0": name}, ExpressionAttributeValues: schema.Item{":0": value},
				})
				if name != schema.GSI2PK && name != schema.GSI2SK { // text alone
					require.NoError(w, err, name)
				}
				got, at := stored()
				require.Equal(w, before, got, name)
				require.Equal(w, place, at, name)
			}
		}
	})
}
