package ddbmem

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// endpoint is never dialled: requests go to DB.Do.
const endpoint = "http://ddbmem.invalid"

// clientConfig returns an SDK configuration that sends all requests to db, unsigned, with region us-east-1.
func (db *DB) clientConfig() aws.Config {
	return aws.Config{
		Region:      "us-east-1",
		Credentials: aws.AnonymousCredentials{},
		HTTPClient:  db,
	}
}

// Client returns a real SDK client whose requests stay in the process. It retries as the SDK does by default
// unless optFns say otherwise. Requests are not signed.
func (db *DB) Client(optFns ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.NewFromConfig(db.clientConfig(), append([]func(*dynamodb.Options){
		func(o *dynamodb.Options) { o.BaseEndpoint = aws.String(endpoint) },
	}, optFns...)...)
}

// StreamsClient returns a real SDK client for DynamoDB Streams. Its requests stay in the process, like those of
// Client.
func (db *DB) StreamsClient(optFns ...func(*dynamodbstreams.Options)) *dynamodbstreams.Client {
	return dynamodbstreams.NewFromConfig(db.clientConfig(), append([]func(*dynamodbstreams.Options){
		func(o *dynamodbstreams.Options) { o.BaseEndpoint = aws.String(endpoint) },
	}, optFns...)...)
}
