package ddb

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// leastTableName and mostTableName bound the length of a table's name.
	leastTableName, mostTableName = 3, 255
	// arn is the start of a table's ARN, which is as good as its name.
	arn = "arn:"
)

// CheckTable returns a text about the error in the name of a table, or "". A text that begins as an ARN always
// passes.
func CheckTable(name string) string {
	if strings.HasPrefix(name, arn) {
		return ""
	}
	if len(name) < leastTableName || len(name) > mostTableName {
		return fmt.Sprintf("has %d characters; give the name of a DynamoDB table, %d to %d, or its ARN", len(name), leastTableName, mostTableName)
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", r) {
			return fmt.Sprintf("%q contains %q; a table's name is letters, digits and _ . -", name, r)
		}
	}
	return ""
}

// tableOf returns the table of a request, any one of a batch and the first of a transaction, "" if the type
// is unknown.
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

// tableOfPart returns the table of one part of a transaction: an update, put, delete or condition check; "" for
// an empty part.
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
