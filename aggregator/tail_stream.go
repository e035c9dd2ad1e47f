package aggregator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/shards"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	noStream = "has no stream, which usage is counted from; enable one with the view NEW_AND_OLD_IMAGES " +
		"(aws dynamodb update-table --table-name %s --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES)"
	wrongView = "has a stream with the view %s, which usage cannot be counted from; " +
		"disable it, then enable it with the view NEW_AND_OLD_IMAGES"
)

// tableStream is the stream of a table.
type tableStream struct {
	api    StreamsAPI
	client *ddb.Client
	table  *table.Table
}

// findStream describes the table and returns the ARN of its stream. It returns a *fault.TableError if the table
// has no stream, or one with another view.
func (s tableStream) findStream(ctx context.Context) (string, error) {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table.Name})
	if err != nil {
		return "", s.table.Failure("describe the table", err)
	}
	spec := out.Table.StreamSpecification
	switch {
	case spec == nil || !aws.ToBool(spec.StreamEnabled) || out.Table.LatestStreamArn == nil:
		return "", &fault.TableError{Table: s.table.Name, Reason: fmt.Sprintf(noStream, s.table.Name)}
	case spec.StreamViewType != types.StreamViewTypeNewAndOldImages:
		return "", &fault.TableError{Table: s.table.Name, Reason: fmt.Sprintf(wrongView, spec.StreamViewType)}
	}
	return *out.Table.LatestStreamArn, nil
}

// labelOf returns the label of a stream, the end of its ARN.
func labelOf(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// arnOf returns the ARN of another stream of the same table, by its label.
func arnOf(sibling, label string) string {
	return strings.TrimSuffix(sibling, labelOf(sibling)) + label
}

// listAllShards returns the shards of the stream arn, after those of the earlier streams of begun shards. It
// leaves out an earlier stream that no longer exists.
func (s tableStream) listAllShards(ctx context.Context, arn string, begun iter.Seq[shards.ID]) ([]shards.Shard, error) {
	labels := map[string]bool{labelOf(arn): true}
	for id := range begun {
		labels[id.Stream] = true
	}
	var all []shards.Shard
	for _, label := range slices.Sorted(maps.Keys(labels)) { // they are times
		found, err := s.shardsOf(ctx, arnOf(arn, label))
		if err != nil && (label == labelOf(arn) || !isGone(err)) {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// shardsOf returns the shards of a stream, read page by page, with the ids of their parents.
func (s tableStream) shardsOf(ctx context.Context, arn string) ([]shards.Shard, error) {
	var all []shards.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}
	for {
		out, err := boundRequest(ctx, s.api.DescribeStream, in)
		if err == nil && out.StreamDescription == nil {
			err = ddb.ErrForeign
		}
		if err != nil {
			return nil, fmt.Errorf("aggregator: describe the stream %s: %w", arn, err)
		}
		for _, shard := range out.StreamDescription.Shards {
			id := shards.ID{Stream: labelOf(arn), Shard: aws.ToString(shard.ShardId)}
			all = append(all, shards.Shard{ID: id, Parent: aws.ToString(shard.ParentShardId)})
		}
		if out.StreamDescription.LastEvaluatedShardId == nil {
			return all, nil
		}
		in = &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, ExclusiveStartShardId: out.StreamDescription.LastEvaluatedShardId}
	}
}

// isGone reports whether an error says that a stream or a shard no longer exists.
func isGone(err error) bool {
	_, gone := errors.AsType[*streamtypes.ResourceNotFoundException](err)
	return gone
}

// isTrimmed reports whether an error says that the stream no longer has the requested records.
func isTrimmed(err error) bool {
	_, trimmed := errors.AsType[*streamtypes.TrimmedDataAccessException](err)
	return trimmed
}

// isExpired reports whether an error says that a shard iterator has expired.
func isExpired(err error) bool {
	_, expired := errors.AsType[*streamtypes.ExpiredIteratorException](err)
	return expired
}
