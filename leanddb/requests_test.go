package leanddb

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The generators draw all parameters, all types of values, and strings with everything that JSON
// escapes.
var (
	anyString = rapid.OneOf(rapid.String(), rapid.StringN(0, 12, -1), rapid.StringOfN(rapid.RuneFrom([]rune("\"\\\n\r\t\x00\x1f\x7f\u2028\u2029é😀\ufffd")), 0, 6, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
	anyBytes = rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) []byte {
		if len(b) == 7 {
			return nil
		}
		return b
	})
	anyStrings = rapid.SliceOfN(anyString, 0, 3)
)

// anyName draws names of members. They are valid: invalid ones become alike.
var anyName = rapid.Map(anyString, func(s string) string { return strings.ToValidUTF8(s, "?") })

func anyMap(deepest int) *rapid.Generator[map[string]types.AttributeValue] {
	return rapid.MapOfN(anyName, anyValue(deepest), 0, 4)
}

// anyValue draws a value that is nested at most so deep.
func anyValue(deepest int) *rapid.Generator[types.AttributeValue] {
	return rapid.Custom(func(t *rapid.T) types.AttributeValue {
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		if kind > 7 && deepest == 0 {
			kind = 0
		}
		switch kind {
		case 0:
			return &types.AttributeValueMemberS{Value: anyString.Draw(t, "S")}
		case 1:
			return &types.AttributeValueMemberN{Value: rapid.OneOf(anyString, rapid.StringMatching(`-?[0-9]{1,38}`)).Draw(t, "N")}
		case 2:
			return &types.AttributeValueMemberB{Value: anyBytes.Draw(t, "B")}
		case 3:
			return &types.AttributeValueMemberBOOL{Value: rapid.Bool().Draw(t, "BOOL")}
		case 4:
			return &types.AttributeValueMemberNULL{Value: rapid.Bool().Draw(t, "NULL")}
		case 5:
			return &types.AttributeValueMemberSS{Value: anyStrings.Draw(t, "SS")}
		case 6:
			return &types.AttributeValueMemberNS{Value: anyStrings.Draw(t, "NS")}
		case 7:
			return &types.AttributeValueMemberBS{Value: rapid.SliceOfN(anyBytes, 0, 3).Draw(t, "BS")}
		case 8:
			return &types.AttributeValueMemberM{Value: anyMap(deepest-1).Draw(t, "M")}
		}
		return &types.AttributeValueMemberL{Value: rapid.SliceOfN(anyValue(deepest-1), 0, 3).Draw(t, "L")}
	})
}

var anyUpdate = rapid.Custom(func(t *rapid.T) *dynamodb.UpdateItemInput {
	optional := func(name string) *string {
		if rapid.Bool().Draw(t, name+" given") {
			return aws.String(anyString.Draw(t, name))
		}
		return nil
	}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(rapid.StringMatching(`[a-z.\-]{3,12}`).Draw(t, "table")), Key: anyMap(2).Draw(t, "key"),
		UpdateExpression: optional("update"), ConditionExpression: optional("condition"),
		ReturnValues:                        types.ReturnValue(rapid.OneOf(rapid.Just(""), anyString).Draw(t, "return")),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailure(rapid.SampledFrom([]string{"", "ALL_OLD", "NONE"}).Draw(t, "on failure")),
	}
	if rapid.Bool().Draw(t, "names given") {
		in.ExpressionAttributeNames = rapid.MapOfN(anyName, anyString, 0, 4).Draw(t, "names")
	}
	if rapid.Bool().Draw(t, "values given") {
		in.ExpressionAttributeValues = anyMap(2).Draw(t, "values")
	}
	return in
})

// Settings that change the request, but not who sends it.
var settings = map[string]func(*dynamodb.Options){
	"plain": func(*dynamodb.Options) {},
	"temporary credentials": func(o *dynamodb.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("AKIATEST", "a secret", "a token/of+base64==")
	},
	"endpoint with port":         func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("http://127.0.0.1:8000") },
	"endpoint with default port": func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("https://ddb.example:443") },
	"endpoint with path":         func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("https://ddb.example/a/b") },
	"account": func(o *dynamodb.Options) {
		o.AccountIDEndpointMode = aws.AccountIDEndpointModePreferred
		o.Credentials = credentials.StaticCredentialsProvider{Value: aws.Credentials{AccessKeyID: "AKIATEST", SecretAccessKey: "s", AccountID: "123456789012"}}
	},
	"account required": func(o *dynamodb.Options) {
		o.AccountIDEndpointMode = aws.AccountIDEndpointModeRequired
		o.Credentials = credentials.StaticCredentialsProvider{Value: aws.Credentials{AccessKeyID: "AKIATEST", SecretAccessKey: "s", AccountID: "123456789012"}}
	},
	"FIPS and dual stack": func(o *dynamodb.Options) {
		o.EndpointOptions.UseFIPSEndpoint, o.EndpointOptions.UseDualStackEndpoint = aws.FIPSEndpointStateEnabled, aws.DualStackEndpointStateEnabled
	},
	"app":        func(o *dynamodb.Options) { o.AppID = "my-app" },
	"no retries": func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} },
	"endless retries": func(o *dynamodb.Options) {
		o.Retryer = countingRetryer{Retryer: aws.NopRetryer{}}
	},
	"uncorrected clock": func(o *dynamodb.Options) { o.DisableClockSkewCorrection = true },
}

// countingRetryer has no limit of tries.
type countingRetryer struct{ aws.Retryer }

// MaxAttempts implements aws.Retryer.
func (countingRetryer) MaxAttempts() int { return 0 }

// GetAttemptToken implements aws.RetryerV2.
func (c countingRetryer) GetAttemptToken(ctx) (func(error) error, error) {
	return c.GetInitialToken(), nil
}

func testRequest(t *rapid.T) {
	name := rapid.SampledFrom(sortedKeys(settings)).Draw(t, "setting")
	options := newOptions(nil)
	settings[name](&options)
	lean, leanSent := newLean(t, options)
	sdk := &script{}
	options.HTTPClient = sdk
	in := anyUpdate.Draw(t, "request")
	_, err := dynamodb.New(options).UpdateItem(background, in)
	require.NoError(t, err)
	_, err = lean.UpdateItem(background, in)
	require.NoError(t, err)
	requireSameRequest(t, options.Credentials, sdk.last(), leanSent.last())
}

// requireSameRequest compares a request of this package with the SDK's, and its signature with that
// of the SDK's signer.
func requireSameRequest(t require.TestingT, c aws.CredentialsProvider, want, got sentRequest) {
	require.True(t, want.bySDK)
	require.False(t, got.bySDK)
	requireSameJSON(t, want.body, got.body)
	require.Equal(t, want.Method, got.Method)
	require.Equal(t, want.URL, got.URL)
	require.Equal(t, want.Host, got.Host)
	require.Equal(t, want.ContentLength, got.ContentLength)
	require.Equal(t, want.GetBody == nil, got.GetBody == nil)

	a, b := want.Header.Clone(), got.Header.Clone()
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, b.Get(invocationField))
	at, err := time.Parse(dateFormat, b.Get(dateField))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Hour)
	for _, h := range []http.Header{a, b} {
		h.Del(invocationField)
		h.Del(dateField)
		scope, _, _ := strings.Cut(h.Get(authorizationField), ", Signature=")
		h.Set(authorizationField, strings.Replace(scope, at.Format("20060102"), "", 1))
	}
	require.Equal(t, a, b)

	again := got.Clone(background)
	again.Header.Del(authorizationField)
	again.Header.Del(dateField)
	again.Header.Del(tokenField)
	keys, err := c.Retrieve(background)
	require.NoError(t, err)
	sum := sha256.Sum256(got.body)
	require.NoError(t, v4.NewSigner().SignHTTP(background, keys, again, hex.EncodeToString(sum[:]), "dynamodb", "eu-west-1", at))
	require.Equal(t, again.Header, got.Header)
}

func TestRequestsAreTheSDKs(t *testing.T) { rapid.Check(t, testRequest) }

func FuzzRequests(f *testing.F) { f.Fuzz(rapid.MakeFuzz(testRequest)) }
