package aggregator

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// DynamoDB is the client of a Processor: it writes snapshots, and reads the records of namespaces.
// *dynamodb.Client implements it.
type DynamoDB interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// ReaderClient is the client of a Reader, which never writes. *dynamodb.Client implements it.
type ReaderClient interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// Storage is the client of a Closer. *dynamodb.Client implements it.
type Storage interface {
	DynamoDB
	ReaderClient
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// TailDynamoDB is the client of a Tail: it finds the stream, and keeps the checkpoints and the lease.
// *dynamodb.Client implements it.
type TailDynamoDB interface {
	DynamoDB
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// StreamsAPI is the client with which a Tail reads a stream. *dynamodbstreams.Client implements it.
type StreamsAPI interface {
	// DescribeStream lists the stream's shards.
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	// GetShardIterator says where to begin to read a shard.
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	// GetRecords reads records of a shard.
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// unused has the methods of a client that this package does not call, two levels deep, so that
// the methods of the user's client beside it win.
type unused struct{ ddb.API }

// The clients of users, with the methods that they need not have.
type (
	closerClient struct {
		Storage
		unused
	}
	readerClient struct {
		ReaderClient
		unused
	}
	tailClient struct {
		TailDynamoDB
		unused
	}
)
