// Package tables makes the tables of limits and budgets as they should be in production,
// says how they stand, and deletes them.
package tables

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// Client is what DynamoDB is asked; *dynamodb.Client is one.
type Client interface {
	budget.Client
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
	UpdateContinuousBackups(context.Context, *dynamodb.UpdateContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error)
	ListTagsOfResource(context.Context, *dynamodb.ListTagsOfResourceInput, ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error)
	TagResource(context.Context, *dynamodb.TagResourceInput, ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error)
	CreateBackup(context.Context, *dynamodb.CreateBackupInput, ...func(*dynamodb.Options)) (*dynamodb.CreateBackupOutput, error)
	DescribeBackup(context.Context, *dynamodb.DescribeBackupInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeBackupOutput, error)
	ListBackups(context.Context, *dynamodb.ListBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.ListBackupsOutput, error)
}

var _ Client = (*dynamodb.Client)(nil)

// Unknown reports whether an error says that the engine does not know the operation:
// engines for development know only a part of DynamoDB.
func Unknown(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode() == "UnknownOperationException" ||
		api.ErrorCode() == "ValidationException" && strings.Contains(api.ErrorMessage(), "does not support")
}

// missing reports whether an error says that the table is not there.
func missing(err error) bool {
	_, resource := errors.AsType[*types.ResourceNotFoundException](err)
	_, table := errors.AsType[*types.TableNotFoundException](err)
	return resource || table
}

// Denied reports whether an error says that a permission is missing.
func Denied(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "AccessDenied")
}
