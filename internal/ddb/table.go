package ddb

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableOf is the table that a request is about: the first, if there are several.
//
//nolint:cyclop // a flat switch: one case per request
func tableOf(in any) string {
	switch in := in.(type) {
	case *dynamodb.GetItemInput:
		return aws.ToString(in.TableName)
	case *dynamodb.PutItemInput:
		return aws.ToString(in.TableName)
	case *dynamodb.UpdateItemInput:
		return aws.ToString(in.TableName)
	case *dynamodb.DeleteItemInput:
		return aws.ToString(in.TableName)
	case *dynamodb.QueryInput:
		return aws.ToString(in.TableName)
	case *dynamodb.ScanInput:
		return aws.ToString(in.TableName)
	case *dynamodb.BatchGetItemInput:
		for table := range in.RequestItems {
			return table
		}
	case *dynamodb.BatchWriteItemInput:
		for table := range in.RequestItems {
			return table
		}
	case *dynamodb.TransactWriteItemsInput:
		for _, item := range in.TransactItems {
			return tableOfPart(item)
		}
	}
	return ""
}

func tableOfPart(item types.TransactWriteItem) string {
	switch {
	case item.Update != nil:
		return aws.ToString(item.Update.TableName)
	case item.Put != nil:
		return aws.ToString(item.Put.TableName)
	case item.Delete != nil:
		return aws.ToString(item.Delete.TableName)
	case item.ConditionCheck != nil:
		return aws.ToString(item.ConditionCheck.TableName)
	}
	return ""
}
