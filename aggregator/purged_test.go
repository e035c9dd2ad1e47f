package aggregator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// Records of a namespace that was purged add nothing to it, neither those of the purge's own
// deletions nor, to an aggregator that is behind, those of what was consumed before.
func TestUsageOfAPurgedNamespaceDoesNotComeBack(t *testing.T) {
	for name, behind := range map[string]bool{"behind": true, "up to date": false} {
		t.Run(name, func(t *testing.T) {
			ctx, now := t.Context(), time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
			clock := func() time.Time { return now }
			db := ddbmem.New(ddbmem.WithClock(clock))
			defer db.Close()
			open := func(ns string) *dynalimit.Repository {
				r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Now: clock, Namespace: ns, Principal: "ann"})
				require.NoError(t, err)
				return r
			}
			whole := open("")
			require.NoError(t, whole.CreateTable(ctx))
			require.NoError(t, admin.New(whole).Namespaces.Register(ctx, "eu"))
			limiter, err := dynalimit.New(open("eu"), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 10_000)}})
			require.NoError(t, err)
			_, err = limiter.Acquire(ctx, "jane.doe@example.com", "gpt-4", dynalimit.Amounts{"tpm": 3_000})
			require.NoError(t, err)
			processor, err := aggregator.New(db.Client(), "limits", nil)
			require.NoError(t, err)
			seen := 0
			if !behind {
				records := readStream(ctx, db)
				seen = len(records)
				result, err := processor.Process(ctx, records)
				require.NoError(t, err)
				require.Equal(t, 1, result.Counted)
			}
			require.NoError(t, admin.New(whole).Namespaces.Delete(ctx, "eu"))
			now = now.Add(time.Hour)
			require.NoError(t, admin.New(whole).Namespaces.Purge(ctx, "eu", nil))

			records := readStream(ctx, db)[seen:]
			result, err := processor.Process(ctx, records)
			require.NoError(t, err)
			assert.Equal(t, aggregator.Result{Ignored: len(records)}, result)
			out, err := db.Client().Scan(ctx, &dynamodb.ScanInput{TableName: aws.String("limits"), ConsistentRead: aws.Bool(true)})
			require.NoError(t, err)
			for _, item := range out.Items {
				pk, sk := item["PK"].(*types.AttributeValueMemberS).Value, item["SK"].(*types.AttributeValueMemberS).Value
				assert.False(t, strings.HasPrefix(pk, "eu/") && sk != "#NAMESPACE", "%s %s is left", pk, sk)
			}
		})
	}
}

// Whether a namespace is purged has to be known: while the table does not tell, its records
// are failures that are given again.
func TestRecordsWaitUntilTheirNamespaceIsKnown(t *testing.T) {
	db := ddbmem.New()
	defer db.Close()
	r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	processor, err := aggregator.New(db.Client(), "limits", nil)
	require.NoError(t, err)
	db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "GetItem" {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	key := map[string]types.AttributeValue{"PK": text("eu/ENTITY#u"), "SK": text("#BUCKET#gpt-4")}
	bucket := map[string]types.AttributeValue{"b_tpm_tc": &types.AttributeValueMemberN{Value: "5"}}
	result, err := processor.Process(t.Context(), []aggregator.Record{{Sequence: "1", Time: time.Unix(1e9, 0), Keys: key, New: bucket}})
	require.NoError(t, err)
	require.Len(t, result.Failures, 1)
	assert.False(t, result.Failures[0].Unreadable)
	assert.ErrorContains(t, result.Failures[0].Err, "AccessDenied")
}
