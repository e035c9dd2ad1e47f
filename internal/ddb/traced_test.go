package ddb

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// genuine is a success of DynamoDB.
func genuine(body string) wire {
	return func(r *http.Request) (*http.Response, error) {
		response, err := says(200, body)(r)
		response.Header.Set("X-Amzn-Requestid", "1")
		return response, err
	}
}

// holdRequests is a client that holds back each request until its time is over.
func holdRequests(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("holds", func(ctx context.Context, _ middleware.InitializeInput, _ middleware.InitializeHandler) (out middleware.InitializeOutput, _ middleware.Metadata, err error) {
			<-ctx.Done()
			return out, middleware.Metadata{}, ctx.Err()
		}), middleware.Before)
	})
}

// adaptively makes the SDK limit its own rate, as AWS_RETRY_MODE=adaptive does. refuse makes
// it refuse what is too fast, and not wait.
func adaptively(refuse bool) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Retryer = retry.NewAdaptiveMode(func(a *retry.AdaptiveModeOptions) { a.FailOnNoAttemptTokens = refuse })
	}
}

// What this process holds back says nothing about the table: it is throttled here, and
// opens nothing.
func TestRequestThatThisProcessHoldsBackIsThrottled(t *testing.T) {
	for name, change := range map[string]func(*dynamodb.Options){
		"adaptive mode that waits": adaptively(false), "adaptive mode that refuses": adaptively(true), "middleware": holdRequests,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBreaker(BreakerOptions{})
				c := Watch(clientOn(refuses(400, "ProvisionedThroughputExceededException"), change), b, NewClock(time.Now, false), time.Second)
				for range 20 {
					d := Classify(write(t.Context(), c), t.Context())
					assert.Equal(t, Throttled.String(), d.Verdict.String(), "%v", d.Err)
					assert.False(t, d.Silent)
				}
				assert.False(t, b.Open(), "%v", b.State().Cause)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				d := Classify(write(ctx, watched(hangs, holdRequests)), ctx)
				assert.Equal(t, Diagnosis{Verdict: Unsent}, without(d), "the caller's own deadline")
			})
		})
	}
}

// The last try decides what a request means that the SDK waited to send again.
func TestRequestThatWaitsForItsNextTryMeansWhatTheLastOneDid(t *testing.T) {
	for code, verdict := range map[string]Verdict{"ThrottlingException": Throttled, "InternalServerError": Unconfirmed} {
		synctest.Test(t, func(t *testing.T) {
			c := Watch(clientOn(refuses(500, code), func(o *dynamodb.Options) { o.Retryer = nil }), nil, NewClock(time.Now, false), 10*time.Millisecond)
			d := Classify(write(t.Context(), c), t.Context())
			assert.Equal(t, verdict.String(), d.Verdict.String(), code)
			assert.Equal(t, verdict == Unconfirmed, d.Silent, code)
			assert.ErrorContains(t, withDiagnosis(d), code)
		})
	}
}

// dated is a DynamoDB whose clock is ahead, and which refuses other signatures.
func dated(ahead time.Duration, tries *int) wire {
	return func(r *http.Request) (*http.Response, error) {
		*tries++
		now := time.Now().Add(ahead)
		answer := genuine(`{}`)
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil {
			return nil, err
		}
		if now.Sub(signed).Abs() > 5*time.Minute {
			answer = refuses(400, "InvalidSignatureException")
		}
		response, err := answer(r)
		response.Header.Set("Date", now.UTC().Format(http.TimeFormat))
		return response, err
	}
}

// A signature that was refused for its date is sent again with the date of the answer, also
// where the SDK retries nothing; one that was refused for another reason is not.
func TestSignatureOfAnotherDateIsSentAgain(t *testing.T) {
	for name, o := range map[string][]func(*dynamodb.Options){"without retries": {WithoutRetries}, "with the client's": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ahead, tries := 10*time.Minute, 0
				server := func(r *http.Request) (*http.Response, error) { return dated(ahead, &tries)(r) }
				c := watched(server, func(o *dynamodb.Options) { o.Retryer = nil })
				send := func() error {
					_, err := c.UpdateItem(t.Context(), aWrite, o...)
					return err
				}
				require.NoError(t, send())
				require.NoError(t, send())
				assert.Equal(t, 3, tries, "the second one begins with the right date")
				ahead = 0 // the clock is put right
				require.NoError(t, send())
				assert.Equal(t, 5, tries)
			})
			tries := 0
			c := watched(func(r *http.Request) (*http.Response, error) {
				tries++
				response, err := refuses(400, "InvalidSignatureException")(r)
				response.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
				return response, err
			}, func(o *dynamodb.Options) { o.Retryer = nil })
			_, err := c.UpdateItem(t.Context(), aWrite, o...)
			assert.True(t, Classify(err, t.Context()).Setting, "the secret is wrong")
			assert.Equal(t, 1, tries)
		})
	}
}

// The tries of a request are as many as its client makes, whatever the retryer of ours adds.
func TestTriesAreThoseOfTheClient(t *testing.T) {
	for most, o := range map[int]func(*dynamodb.Options){
		1: WithoutRetries,
		3: func(*dynamodb.Options) {},
		5: func(o *dynamodb.Options) { o.Retryer = retry.AddWithMaxAttempts(retry.NewStandard(), 5) },
	} {
		for name, answer := range map[string]wire{"failure": refuses(500, "InternalServerError"), "cut answer": cuts(200, `{"Attributes":{}}`)} {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := Watch(clientOn(func(r *http.Request) (*http.Response, error) {
					tries++
					return answer(r)
				}, func(o *dynamodb.Options) { o.Retryer = nil }), nil, NewClock(time.Now, false), time.Minute)
				_, err := c.UpdateItem(t.Context(), aWrite, o)
				assert.Equal(t, Unconfirmed.String(), Classify(err, t.Context()).Verdict.String())
				assert.Equal(t, most, tries, name)
			})
		}
	}
}

// requests are one of each operation, with the answer that DynamoDB gives at least.
var requests = map[string]struct {
	ask   func(context.Context, *Client) error
	least string
}{
	"GetItem": {asking((*Client).GetItem, &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: someKey}), `{}`},
	"PutItem": {asking((*Client).PutItem, &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: someKey}), `{}`},
	"UpdateItem": {asking((*Client).UpdateItem, &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: someKey, ReturnValues: types.ReturnValueAllNew,
	}), `{"Attributes":{"PK":{"S":"a"}}}`},
	"UpdateItem without values": {asking((*Client).UpdateItem, aWrite), `{}`},
	"DeleteItem":                {asking((*Client).DeleteItem, &dynamodb.DeleteItemInput{TableName: aws.String("limits"), Key: someKey}), `{}`},
	"Query":                     {asking((*Client).Query, &dynamodb.QueryInput{TableName: aws.String("limits")}), `{"Items":[],"Count":0,"ScannedCount":0}`},
	"Query of a count":          {asking((*Client).Query, &dynamodb.QueryInput{TableName: aws.String("limits"), Select: types.SelectCount}), `{"Count":0}`},
	"Scan":                      {asking((*Client).Scan, &dynamodb.ScanInput{TableName: aws.String("limits")}), `{"Items":[]}`},
	"BatchGetItem": {asking((*Client).BatchGetItem, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{"limits": {Keys: []Item{someKey}}},
	}), `{"Responses":{"limits":[]},"UnprocessedKeys":{}}`},
	"BatchGetItem of nothing yet": {asking((*Client).BatchGetItem, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{"limits": {Keys: []Item{someKey}}},
	}), `{"Responses":{},"UnprocessedKeys":{"limits":{"Keys":[{"PK":{"S":"a"}}]}}}`},
	"BatchGetItem by ARN": {asking((*Client).BatchGetItem, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{"arn:aws:dynamodb:eu-west-1:1:table/limits": {Keys: []Item{someKey}}},
	}), `{"Responses":{"limits":[]}}`},
	"BatchWriteItem": {asking((*Client).BatchWriteItem, &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{"limits": {{DeleteRequest: &types.DeleteRequest{Key: someKey}}}},
	}), `{"UnprocessedItems":{}}`},
	"TransactWriteItems": {asking((*Client).TransactWriteItems, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{}}), `{}`},
	"CreateTable": {asking((*Client).CreateTable, &dynamodb.CreateTableInput{
		TableName: aws.String("limits"), KeySchema: []types.KeySchemaElement{}, AttributeDefinitions: []types.AttributeDefinition{},
	}), `{"TableDescription":{}}`},
	"DescribeTable": {asking((*Client).DescribeTable, &dynamodb.DescribeTableInput{TableName: aws.String("limits")}), `{"Table":{}}`},
	"UpdateTimeToLive": {asking((*Client).UpdateTimeToLive, &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String("limits"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
	}), `{"TimeToLiveSpecification":{}}`},
	"DescribeTimeToLive": {asking((*Client).DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("limits")}), `{"TimeToLiveDescription":{}}`},
}

func asking[In, Out any](ask func(*Client, context.Context, In, ...func(*dynamodb.Options)) (Out, error), in In) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		_, err := ask(c, ctx, in)
		return err
	}
}

// Whatever answers "200 OK" in the place of DynamoDB has done nothing: what it says is in
// doubt, for every operation, and no sign of life.
func TestSuccessThatIsNotDynamoDBsIsUnconfirmed(t *testing.T) {
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, request.ask(t.Context(), watched(genuine(request.least))))
			foreign := []wire{says(200, request.least), says(200, ""), says(200, `{"status":"ok"}`), says(200, "{}")}
			if request.least != "{}" && request.least != `{"Count":0}` {
				foreign = append(foreign, genuine("{}"), genuine(""))
			}
			for i, answer := range foreign {
				b := NewBreaker(BreakerOptions{})
				d := Classify(request.ask(t.Context(), Watch(clientOn(answer), b, NewClock(time.Now, false), time.Second)), t.Context())
				assert.Equal(t, Diagnosis{Verdict: Unconfirmed}, without(d), fmt.Sprint(i))
				assert.ErrorIs(t, d.Err, ErrForeign)
				assert.False(t, b.State().EverAnswered)
			}
		})
	}
}
