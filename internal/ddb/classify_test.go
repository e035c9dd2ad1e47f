package ddb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wire answers the SDK's requests as a network would.
type wire func(*http.Request) (*http.Response, error)

func (w wire) Do(r *http.Request) (*http.Response, error) { return w(r) }

// provider gives credentials, or none.
type provider func(context.Context) (aws.Credentials, error)

func (p provider) Retrieve(ctx context.Context) (aws.Credentials, error) { return p(ctx) }

func signed(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
}

func clientOn(w wire, change ...func(*dynamodb.Options)) *dynamodb.Client {
	o := dynamodb.Options{Region: "eu-west-1", Credentials: provider(signed), HTTPClient: w, Retryer: aws.NopRetryer{}}
	for _, c := range change {
		c(&o)
	}
	return dynamodb.New(o)
}

func watched(w wire, change ...func(*dynamodb.Options)) *Client {
	return Watch(clientOn(w, change...), nil, NewClock(time.Now, false), time.Second)
}

var someKey = Item{"PK": &types.AttributeValueMemberS{Value: "a"}, "SK": &types.AttributeValueMemberS{Value: "b"}}

var aWrite = &dynamodb.UpdateItemInput{TableName: aws.String("limits"), Key: someKey}

func write(ctx context.Context, c *Client) error {
	_, err := c.UpdateItem(ctx, aWrite)
	return err
}

// says is an answer of an HTTP server.
func says(status int, body string) wire {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
			Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// cuts is an answer whose connection breaks in the middle of the body.
func cuts(status int, body string) wire {
	return func(r *http.Request) (*http.Response, error) {
		response, err := says(status, body)(r)
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:len(body)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return response, err
	}
}

// throttled is an answer of DynamoDB that says what had too little capacity.
const throttled = `{"__type":"com.amazon.coral.availability#ThrottlingException","throttlingReasons":[{"reason":"TableWriteMaxOnDemandThroughputExceeded","resource":"arn:aws:dynamodb:us-east-1:1:table/limits"}],"message":"Throughput exceeds the maximum OnDemandThroughput configured on table or index"}`

// refuses is an error answer of DynamoDB.
func refuses(status int, code string) wire {
	return says(status, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"not authorized to perform: dynamodb:UpdateItem on resource"}`, code))
}

// breaks fails to reach the server as net/http reports it.
func breaks(err error) wire {
	return func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: err}
	}
}

func dialled(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

func credentialsFail(err error) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Credentials = aws.NewCredentialsCache(provider(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, err }))
	}
}

// sts is an error that another service answered credentials with.
func sts(err error) error {
	return &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: err}
}

func api(code string) error { return &smithy.GenericAPIError{Code: code, Message: "said the service"} }

const (
	silent   = 1 << iota // Diagnosis.Silent
	answered             // Diagnosis.Answered
	setting              // Diagnosis.Setting
)

// errorKinds is every way in which a request is known to fail, through the
// SDK's own layers.
var errorKinds = map[string]struct {
	wire    wire
	change  []func(*dynamodb.Options)
	verdict Verdict
	flags   int
}{
	"conflict":                {refuses(400, "TransactionConflictException"), nil, Conflicted, answered},
	"earlier try under way":   {refuses(400, "TransactionInProgressException"), nil, Unconfirmed, answered},
	"token of another":        {refuses(400, "IdempotentParameterMismatchException"), nil, TokenMismatch, answered},
	"capacity":                {refuses(400, "ProvisionedThroughputExceededException"), nil, Throttled, answered},
	"throttling":              {refuses(400, "ThrottlingException"), nil, Throttled, answered},
	"throttled table":         {refuses(400, "RequestLimitExceeded"), nil, Throttled, answered},
	"throttled with a 503":    {refuses(503, "ThrottlingException"), nil, Throttled, answered},
	"validation":              {refuses(400, "ValidationException"), nil, Failed, answered},
	"collection too large":    {refuses(400, "ItemCollectionSizeLimitExceededException"), nil, Failed, answered},
	"internal error":          {refuses(500, "InternalServerError"), nil, Unconfirmed, silent},
	"unavailable":             {refuses(503, "ServiceUnavailable"), nil, Unconfirmed, silent},
	"unknown 5xx":             {refuses(500, "SomethingNewException"), nil, Unconfirmed, silent},
	"bad gateway":             {says(502, "<html>bad gateway"), nil, Unconfirmed, silent},
	"no permission":           {refuses(400, "AccessDeniedException"), nil, Failed, answered | setting},
	"expired credentials":     {refuses(400, "ExpiredTokenException"), nil, Failed, answered | setting},
	"unknown credentials":     {refuses(400, "UnrecognizedClientException"), nil, Failed, answered | setting},
	"wrong secret":            {refuses(400, "InvalidSignatureException"), nil, Failed, answered | setting},
	"no credentials sent":     {refuses(400, "MissingAuthenticationTokenException"), nil, Failed, answered | setting},
	"missing table":           {refuses(400, "ResourceNotFoundException"), nil, Failed, answered | setting},
	"another service":         {refuses(400, "UnknownOperationException"), nil, Failed, answered | setting},
	"another server":          {says(404, "404 page not found"), nil, Failed, answered | setting},
	"another server's page":   {says(200, "<html>"), nil, Unconfirmed, 0},
	"nothing of DynamoDB's":   {says(200, "{}"), nil, Unconfirmed, 0},
	"empty page":              {says(200, ""), nil, Unconfirmed, 0},
	"load shed by a proxy":    {says(429, "slow down"), nil, Throttled, answered},
	"timeout of a proxy":      {says(408, "<html>Request Timeout"), nil, Throttled, answered},
	"refused connection":      {breaks(dialled(syscall.ECONNREFUSED)), nil, Unsent, silent},
	"unreachable network":     {breaks(dialled(syscall.ENETUNREACH)), nil, Unsent, silent},
	"reset":                   {breaks(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), nil, Unconfirmed, silent},
	"closed":                  {breaks(io.EOF), nil, Unconfirmed, silent},
	"any other send error":    {breaks(errors.New("http2: stream closed")), nil, Unconfirmed, silent},
	"cut answer":              {cuts(200, `{"Attributes":{}}`), nil, Unconfirmed, silent},
	"half of an answer":       {says(200, `{`), nil, Unconfirmed, silent},
	"cut refusal":             {cuts(400, throttled), nil, Unconfirmed, silent}, // its status does not say what it refuses
	"cut failure":             {cuts(500, throttled), nil, Unconfirmed, silent},
	"host not found":          {breaks(dialled(&net.DNSError{Err: "no such host", Name: "dynamodb.eu-nowhere-7.amazonaws.com"})), nil, Failed, setting},
	"certificate of another":  {breaks(&tls.CertificateVerificationError{Err: errors.New("x509: unknown authority")}), nil, Failed, setting},
	"no region":               {says(200, "{}"), []func(*dynamodb.Options){func(o *dynamodb.Options) { o.Region = "" }}, Failed, setting},
	"endpoint is no URL":      {says(200, "{}"), []func(*dynamodb.Options){func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("::::") }}, Failed, setting},
	"no metadata service":     {says(200, "{}"), []func(*dynamodb.Options){credentialsFail(errors.New("no EC2 IMDS role found, operation error ec2imds: GetMetadata, request canceled"))}, Unsent, silent},
	"no STS":                  {says(200, "{}"), []func(*dynamodb.Options){credentialsFail(sts(dialled(syscall.ECONNREFUSED)))}, Unsent, silent},
	"throttled by STS":        {says(200, "{}"), []func(*dynamodb.Options){credentialsFail(sts(api("Throttling")))}, Unsent, silent},
	"role refused by STS":     {says(200, "{}"), []func(*dynamodb.Options){credentialsFail(sts(api("AccessDenied")))}, Failed, setting},
	"nothing configured":      {says(200, "{}"), []func(*dynamodb.Options){credentialsFail(errors.New("static credentials are empty"))}, Failed, setting},
	"provider of the user's":  {says(200, "{}"), []func(*dynamodb.Options){credentialsFail(errors.New("vault is sealed"))}, Unsent, silent},
	"condition without image": {refuses(400, "ConditionalCheckFailedException"), nil, Refused, answered},
}

// without is the diagnosis apart from its error.
func without(d Diagnosis) Diagnosis {
	d.Err = nil
	return d
}

func flagsOf(d Diagnosis) (flags int) {
	for flag, set := range map[int]bool{silent: d.Silent, answered: d.Answered, setting: d.Setting} {
		if set {
			flags |= flag
		}
	}
	return flags
}

func TestEveryKindOfError(t *testing.T) {
	for name, kind := range errorKinds {
		t.Run(name, func(t *testing.T) {
			err := write(t.Context(), watched(kind.wire, kind.change...))
			require.Error(t, err)
			d := Classify(err, t.Context())
			assert.Equal(t, kind.verdict.String(), d.Verdict.String(), "%v", errors.Unwrap(err))
			assert.Equal(t, kind.flags, flagsOf(d), "silent, answered, setting of %v", errors.Unwrap(err))
			assert.False(t, d.Setting && d.Verdict.Unavailable(), "a wrong setting never fails open")
			if d.Setting {
				assert.NotEmpty(t, Explain(err), "says what to correct")
			}
			assert.Less(t, len(err.Error()), 250, "short: %v", err)
			d = Classify(fmt.Errorf("acquire: %w", errors.Join(errors.New("first"), err)), t.Context())
			assert.Equal(t, kind.verdict, d.Verdict, "wrapped")
		})
	}
}

func TestWhatABatchLeavesUndoneIsThrottled(t *testing.T) {
	d := Classify(fmt.Errorf("3 of 9 keys: %w", ErrUnprocessed), t.Context())
	assert.Equal(t, Diagnosis{Verdict: Throttled, Answered: true}, without(d))
}

func TestTextOfAnErrorKeepsWhatDynamoDBSays(t *testing.T) {
	for name, test := range map[string]struct {
		wire wire
		text string
	}{
		"the action that is missing": {
			refuses(400, "AccessDeniedException"),
			"the role may not perform dynamodb:UpdateItem; allow it, see docs/permissions.md (AccessDeniedException)",
		},
		"the key of the table": {
			says(400, `{"__type":"x#AccessDeniedException","message":"KMS key access denied error: KMS key arn:aws:kms:1:key/2 is disabled"}`),
			"KMS key access denied error: KMS key arn:aws:kms:1:key/2 is disabled (AccessDeniedException)",
		},
		"what has too little capacity": {
			says(400, throttled),
			"ThrottlingException: Throughput exceeds the maximum OnDemandThroughput configured on table or index" +
				" (TableWriteMaxOnDemandThroughputExceeded of arn:aws:dynamodb:us-east-1:1:table/limits)",
		},
		"the proxy that sheds load": {says(429, "slow down"), "a proxy before DynamoDB refuses the request (HTTP 429)"},
		"an answer that broke off":  {cuts(400, throttled), "the answer broke off"},
		"another server":            {says(200, "{}"), ErrForeign.Error()},
		"another server's page":     {says(200, "<html>"), ErrForeign.Error()},
	} {
		assert.EqualError(t, write(t.Context(), watched(test.wire)), test.text, name)
	}
}

func TestRefusedConditionBringsTheItem(t *testing.T) {
	d := Classify(&types.ConditionalCheckFailedException{Item: someKey}, t.Context())
	assert.Equal(t, Refused, d.Verdict)
	assert.Equal(t, someKey, d.Item)
}

func TestReasonsOfACancelledTransaction(t *testing.T) {
	for _, test := range []struct {
		codes   []string
		verdict Verdict
		items   []int
	}{
		{nil, Conflicted, nil},
		{[]string{"None", "TransactionConflict"}, Conflicted, nil},
		{[]string{"TransactionConflict", "ThrottlingError"}, Throttled, nil},
		{[]string{"ProvisionedThroughputExceeded", "TransactionConflict"}, Throttled, nil},
		{[]string{"TransactionConflict", "ConditionalCheckFailed"}, Refused, []int{1}},
		{[]string{"ConditionalCheckFailed", "ThrottlingError", "ConditionalCheckFailed"}, Refused, []int{0, 2}},
		{[]string{"ValidationError", "ConditionalCheckFailed"}, Refused, []int{1}},
		{[]string{"ValidationError", "TransactionConflict"}, Failed, nil},
		{[]string{"ThrottlingError", "ItemCollectionSizeLimitExceeded"}, Failed, nil},
		{[]string{"ItemCollectionSizeLimitExceeded", "ThrottlingError"}, Failed, nil},
		{[]string{"SomethingNew"}, Failed, nil},
	} {
		canceled := &types.TransactionCanceledException{}
		for _, code := range test.codes {
			canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: aws.String(code), Item: someKey})
		}
		d := Classify(fmt.Errorf("wrapped: %w", canceled), t.Context())
		assert.Equal(t, test.verdict.String(), d.Verdict.String(), "%v", test.codes)
		assert.True(t, d.Answered && !d.Silent && !d.Setting, "%v", test.codes)
		assert.Len(t, d.Items, len(test.items), "%v", test.codes)
		for _, i := range test.items {
			assert.Equal(t, someKey, d.Items[i], "%v", test.codes)
		}
	}
}

// hangs answers nothing until its request ends.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: r.Context().Err()}
}

func TestOwnTimeoutIsSilenceAndACallersIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watched(hangs)
		err := write(t.Context(), c)
		assert.Equal(t, Diagnosis{Verdict: Unconfirmed, Silent: true, expired: true}, without(Classify(err, t.Context())))

		for _, deadline := range []time.Duration{5 * time.Millisecond, time.Second - 1} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			err = write(ctx, c)
			assert.Equal(t, Diagnosis{Verdict: Unconfirmed}, without(Classify(err, ctx)), "%v", deadline)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		assert.Equal(t, Diagnosis{Verdict: Unconfirmed}, without(Classify(write(ctx, c), ctx)))

		ctx, cancel = context.WithCancel(t.Context())
		err = write(ctx, c)
		cancel() // after the answer that never came
		assert.True(t, Classify(err, ctx).Silent)
	})
}

func TestCredentialsThatHangWereNeverUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watched(says(200, "{}"), func(o *dynamodb.Options) {
			o.Credentials = provider(func(ctx context.Context) (aws.Credentials, error) {
				<-ctx.Done()
				return aws.Credentials{}, ctx.Err()
			})
		})
		d := Classify(write(t.Context(), c), t.Context())
		assert.Equal(t, Unsent.String(), d.Verdict.String())
		assert.True(t, d.Silent)
		assert.ErrorContains(t, d.Err, "no credentials within the request timeout (1s)")

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		d = Classify(write(ctx, c), ctx)
		assert.Equal(t, Diagnosis{Verdict: Unsent}, without(d), "the caller's own deadline")
	})
}

// A request that the SDK tries again after an answer is not silent, whatever
// ends it.
func TestAnswerOfAnEarlierTryIsProofOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := watched(func(r *http.Request) (*http.Response, error) {
			if tries++; tries == 1 {
				return refuses(400, "ThrottlingException")(r)
			}
			return hangs(r)
		}, func(o *dynamodb.Options) { o.Retryer = nil })
		d := Classify(write(t.Context(), c), t.Context())
		assert.Equal(t, 2, tries)
		assert.True(t, d.Answered)
		assert.False(t, d.Silent)
		assert.Equal(t, Unconfirmed.String(), d.Verdict.String())
	})
}

func TestHostNotFoundIsAnOutageOnceTheTableAnswered(t *testing.T) {
	err := write(t.Context(), watched(breaks(dialled(&net.DNSError{Err: "no such host", Name: "x"}))))
	d := Classify(err, t.Context()).asProven()
	assert.Equal(t, Diagnosis{Verdict: Unsent, Silent: true}, without(d))
	wrong := Classify(write(t.Context(), watched(refuses(400, "AccessDeniedException"))), t.Context())
	assert.Equal(t, wrong, wrong.asProven())
}
