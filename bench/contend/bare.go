package contend

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// trips is the number of round trips that bare measures, before and after a contest.
const trips = 50

// measureBare sends 50 UpdateItem requests one after another, without a limiter, and records their times in
// into. A limiter with one caller cannot be faster.
func measureBare(ctx context.Context, endpoint string, into latency.Histogram) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := program.NewClient(endpoint, &http.Client{Transport: transport})
	for range trips {
		began := time.Now()
		if _, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String(subject.Table), Key: schema.NewKeys("").Bucket("bare", subject.Resource).Attributes(),
			UpdateExpression: aws.String("ADD n :1"), ReturnValues: types.ReturnValueAllNew,
			ExpressionAttributeValues: map[string]types.AttributeValue{":1": &types.AttributeValueMemberN{Value: "1"}},
		}); err != nil {
			return err
		}
		into.Record(time.Since(began))
	}
	return nil
}
