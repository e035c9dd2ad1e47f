package ddb

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ErrForeign is the error of a success that does not come from DynamoDB, but from a proxy, a health check or
// another service. The outcome of the request is unknown.
var ErrForeign = errors.New("the server at the endpoint is not DynamoDB; check the endpoint")

// marks are headers of DynamoDB: each answer has at least one of them. They matter for answers that may be
// empty, such as those of transactions.
var marks = [...]string{"X-Amzn-Requestid", "X-Amz-Crc32"}

// isComplete reports whether a success has the parts that DynamoDB always sends in answer to such a request.
func isComplete(in, out any) bool {
	switch out := out.(type) {
	case *dynamodb.UpdateItemOutput:
		return in.(*dynamodb.UpdateItemInput).ReturnValues != types.ReturnValueAllNew || len(out.Attributes) > 0
	case *dynamodb.BatchGetItemOutput:
		return namesTables(in.(*dynamodb.BatchGetItemInput), out)
	case *dynamodb.BatchWriteItemOutput:
		return out.UnprocessedItems != nil
	case *dynamodb.QueryOutput:
		return out.Items != nil || in.(*dynamodb.QueryInput).Select == types.SelectCount
	case *dynamodb.ScanOutput:
		return out.Items != nil || in.(*dynamodb.ScanInput).Select == types.SelectCount
	case *dynamodb.DescribeTableOutput:
		return out.Table != nil
	case *dynamodb.CreateTableOutput:
		return out.TableDescription != nil
	case *dynamodb.DescribeTimeToLiveOutput:
		return out.TimeToLiveDescription != nil
	case *dynamodb.UpdateTimeToLiveOutput:
		return out.TimeToLiveSpecification != nil
	}
	return true // the answer may be empty
}

// namesTables reports whether the answer to a batch names every requested table, or leaves its keys for
// another try. A table requested by its ARN may have another name in the answer.
func namesTables(in *dynamodb.BatchGetItemInput, out *dynamodb.BatchGetItemOutput) bool {
	for table := range in.RequestItems {
		_, named := out.Responses[table]
		_, left := out.UnprocessedKeys[table]
		if !named && !left && (!strings.HasPrefix(table, arn) || len(out.Responses)+len(out.UnprocessedKeys) == 0) {
			return false
		}
	}
	return true
}
