package leanddb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"
)

// sentRequest is a request that reached the HTTP client.
type sentRequest struct {
	*http.Request
	body []byte
	// bySDK is set if the SDK sent it. The SDK's context shows it.
	bySDK bool
}

// outcome is what the HTTP client returns for a request.
type outcome struct {
	status int
	header map[string]string
	body   string
	// cut ends the body with an unexpected EOF; err is returned in place of an answer.
	cut bool
	err error
}

// script is an HTTP client that returns one outcome after the other, and the last one for ever.
type script struct {
	outcomes []outcome
	// mu guards sent. Endpoint discovery sends from a goroutine of its own; it is not recorded.
	mu   sync.Mutex
	sent []sentRequest
}

// emptySuccess is the answer to an UpdateItem that returns no values.
var emptySuccess = outcome{status: http.StatusOK, body: "{}"}

// Do implements aws.HTTPClient.
func (s *script) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeEndpoints") {
		return nil, errors.New("no discovery")
	}
	s.sent = append(s.sent, sentRequest{r, body, middleware.GetOperationName(r.Context()) != ""})
	next := emptySuccess
	if len(s.outcomes) > 0 {
		next = s.outcomes[0]
	}
	if len(s.outcomes) > 1 {
		s.outcomes = s.outcomes[1:]
	}
	if next.err != nil {
		return nil, next.err
	}
	answer := &http.Response{StatusCode: next.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(len(next.body)), Request: r}
	answer.Header.Set("X-Amzn-Requestid", "REQUEST1")
	for k, v := range next.header {
		answer.Header.Set(k, v)
	}
	content := io.Reader(bytes.NewReader([]byte(next.body)))
	if next.cut {
		content = io.MultiReader(content, &failingReader{io.ErrUnexpectedEOF})
	}
	answer.Body = io.NopCloser(content)
	return answer, nil
}

// last returns the last request.
func (s *script) last() sentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[len(s.sent)-1]
}

var keys = credentials.NewStaticCredentialsProvider("AKIATEST", "a secret", "")

// newOptions are the options of a client that sends to h and retries at once.
func newOptions(h aws.HTTPClient) dynamodb.Options {
	return dynamodb.Options{
		Region: "eu-west-1", Credentials: keys, HTTPClient: h,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	}
}

// newLean returns a client over a script that has learned its template already.
func newLean(t require.TestingT, options dynamodb.Options, fns ...func(*dynamodb.Options)) (*Client, *script) {
	s := &script{}
	options.HTTPClient = s
	c := New(dynamodb.New(options))
	_, err := c.UpdateItem(background, plainUpdate(), fns...)
	require.NoError(t, err)
	s.sent = nil
	return c, s
}

// plainUpdate returns a request that this package sends.
func plainUpdate() *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ENTITY#a"}},
		UpdateExpression: aws.String("ADD #0 :0"), ConditionExpression: aws.String("attribute_exists(PK)"), ReturnValues: types.ReturnValueAllNew,
	}
}

// requireSameJSON compares two bodies. Members of maps may be in another order; nothing else may
// differ, not even in length.
func requireSameJSON(t require.TestingT, want, got []byte) {
	decode := func(b []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		require.NoError(t, d.Decode(&v))
		return v
	}
	require.Equal(t, decode(want), decode(got))
	sorted := func(b []byte) []byte {
		b = bytes.Clone(b)
		slices.Sort(b)
		return b
	}
	require.Equal(t, string(sorted(want)), string(sorted(got)))
}

func BenchmarkUpdateItem(b *testing.B) {
	fns := []func(*dynamodb.Options){func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }}
	answer := outcome{status: http.StatusOK, body: `{"Attributes":{"PK":{"S":"ENTITY#a"},"SK":{"S":"#BUCKET#m"},"rf":{"N":"1764482400000"},"b_rpm_tk":{"N":"1000"},"b_rpm_tc":{"N":"1000"},"cv":{"B":"AAECAw=="}}}`}
	c, s := newLean(b, newOptions(nil), fns...)
	s.outcomes = []outcome{answer}
	in := plainUpdate()
	for name, client := range map[string]interface {
		UpdateItem(ctx, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	}{"lean": c, "SDK": c.Client} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.sent = s.sent[:0]
				if _, err := client.UpdateItem(background, in, fns...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type ctx = context.Context

var background = context.Background()

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func httptestRequest() *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", http.NoBody)
}
