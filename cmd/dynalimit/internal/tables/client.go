// Package tables creates the tables of limits and budgets with settings for production, checks
// them, and deletes them.
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

// Client sends the requests; *dynamodb.Client implements it.
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

// IsUnknown reports whether an error means that the engine does not know the operation. Engines for development
// implement only a part of DynamoDB.
func IsUnknown(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode() == "UnknownOperationException" ||
		api.ErrorCode() == "ValidationException" && strings.Contains(api.ErrorMessage(), "does not support")
}

// isMissing reports whether an error means that the table does not exist.
func isMissing(err error) bool {
	_, resource := errors.AsType[*types.ResourceNotFoundException](err)
	_, table := errors.AsType[*types.TableNotFoundException](err)
	return resource || table
}

// IsDenied reports whether an error means that a permission is missing.
func IsDenied(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.HasPrefix(api.ErrorCode(), "AccessDenied")
}
