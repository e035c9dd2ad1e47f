package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// resourcesOfBuckets scans the first most entries of the buckets' index and returns their resources in the
// namespace, unordered and without duplicates. They complete the list of resources with limits of their own. If
// the credentials may not scan the index, it returns nil.
func (g *globals) resourcesOfBuckets(ctx context.Context, client dynalimit.DynamoDB, most int) ([]string, error) {
	prefix := schema.NewKeys(g.Namespace).Resource("")
	found := map[string]bool{}
	in := &dynamodb.ScanInput{TableName: &g.Table, IndexName: aws.String(schema.IndexResource)}
	for left := most; left > 0; {
		in.Limit = aws.Int32(int32(min(left, 1000))) //nolint:gosec // small
		page, err := client.Scan(ctx, in)
		if tables.IsDenied(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if partition, ok := item[schema.GSI2PK].(*types.AttributeValueMemberS); ok {
				if name, is := strings.CutPrefix(partition.Value, prefix); is {
					found[name] = true
				}
			}
		}
		if in.ExclusiveStartKey, left = page.LastEvaluatedKey, left-int(page.ScannedCount); in.ExclusiveStartKey == nil {
			break
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}
