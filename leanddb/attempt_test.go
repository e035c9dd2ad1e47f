package leanddb

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSDKSendsUnknownRequests lists everything that makes the SDK send a request.
func TestSDKSendsUnknownRequests(t *testing.T) {
	perCall := map[string]func(*dynamodb.Options){
		"middleware": func(o *dynamodb.Options) {
			o.APIOptions = append(o.APIOptions, func(*middleware.Stack) error { return nil })
		},
		"log":             func(o *dynamodb.Options) { o.ClientLogMode = aws.LogRetries },
		"signer":          func(o *dynamodb.Options) { o.HTTPSignerV4 = otherSigner{v4.NewSigner()} },
		"compression":     func(o *dynamodb.Options) { o.EnableAcceptEncodingGzip = true },
		"old endpoint":    dynamodb.WithEndpointResolver(dynamodb.EndpointResolverFromURL("http://a.example")), //nolint:staticcheck // users may have it still
		"endpoint":        func(o *dynamodb.Options) { o.EndpointResolverV2 = otherResolver{o.EndpointResolverV2} },
		"discovery":       func(o *dynamodb.Options) { o.EndpointDiscovery.EnableEndpointDiscovery = aws.EndpointDiscoveryEnabled },
		"authentication":  func(o *dynamodb.Options) { o.AuthSchemeResolver = otherAuth{o.AuthSchemeResolver} },
		"preference":      func(o *dynamodb.Options) { o.AuthSchemePreference = []string{"sigv4"} },
		"protocol":        func(o *dynamodb.Options) { o.Protocol = otherProtocol{o.Protocol} },
		"interceptor":     func(o *dynamodb.Options) { o.Interceptors.AddBeforeSigning(noInterceptor{}) },
		"adaptive retry":  func(o *dynamodb.Options) { o.Retryer = adaptive },
		"endpoint logger": func(o *dynamodb.Options) { o.EndpointOptions.Logger = noLogger{} },
	}
	ofOneCall := map[string]func(*dynamodb.Options){
		"region":      func(o *dynamodb.Options) { o.Region = "us-east-1" },
		"app":         func(o *dynamodb.Options) { o.AppID = "other" },
		"base":        func(o *dynamodb.Options) { o.BaseEndpoint = aws.String("http://a.example") },
		"mode":        func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModeDisabled },
		"FIPS":        func(o *dynamodb.Options) { o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled },
		"credentials": func(o *dynamodb.Options) { o.Credentials = keys },
		"tries":       func(o *dynamodb.Options) { o.RetryMaxAttempts = 7 },
		"clock":       func(o *dynamodb.Options) { o.DisableClockSkewCorrection = true },
		"schemes":     func(o *dynamodb.Options) { o.AuthSchemes = append(o.AuthSchemes, o.AuthSchemes[0]) },
	}
	for name, set := range perCall {
		t.Run("client/"+name, func(t *testing.T) {
			s := &script{}
			c := New(dynamodb.New(newOptions(s), set))
			for range 3 {
				_, _ = c.UpdateItem(t.Context(), plainUpdate()) // the old endpoint's resolver makes no signature of some options
			}
			for _, r := range s.sent {
				assert.True(t, r.bySDK)
			}
			assert.NotEmpty(t, s.sent)
		})
		ofOneCall[name] = set
	}
	for name, set := range ofOneCall {
		t.Run("call/"+name, func(t *testing.T) {
			c, s := newLean(t, newOptions(nil))
			_, err := c.UpdateItem(t.Context(), plainUpdate(), set)
			require.NoError(t, err)
			assert.True(t, s.last().bySDK)
			_, err = c.UpdateItem(t.Context(), plainUpdate())
			require.NoError(t, err)
			assert.False(t, s.last().bySDK, "the next call is lean again")
		})
	}
	for name, change := range map[string]func(*dynamodb.UpdateItemInput){
		"no table": func(in *dynamodb.UpdateItemInput) { in.TableName = nil },
		"no key":   func(in *dynamodb.UpdateItemInput) { in.Key = nil },
		"ARN": func(in *dynamodb.UpdateItemInput) {
			in.TableName = aws.String("arn:aws:dynamodb:eu-west-1:123456789012:table/limits")
		},
		"capacity": func(in *dynamodb.UpdateItemInput) { in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal },
		"metrics": func(in *dynamodb.UpdateItemInput) {
			in.ReturnItemCollectionMetrics = types.ReturnItemCollectionMetricsSize
		},
		"legacy updates":    func(in *dynamodb.UpdateItemInput) { in.AttributeUpdates = map[string]types.AttributeValueUpdate{} },
		"legacy conditions": func(in *dynamodb.UpdateItemInput) { in.Expected = map[string]types.ExpectedAttributeValue{} },
		"legacy operator":   func(in *dynamodb.UpdateItemInput) { in.ConditionalOperator = types.ConditionalOperatorAnd },
		"nil value":         func(in *dynamodb.UpdateItemInput) { in.Key["SK"] = nil },
		"nil in a list": func(in *dynamodb.UpdateItemInput) {
			in.Key["SK"] = &types.AttributeValueMemberL{Value: make([]types.AttributeValue, 1)}
		},
	} {
		t.Run("request/"+name, func(t *testing.T) {
			c, s := newLean(t, newOptions(nil))
			in := plainUpdate()
			change(in)
			_, err := c.UpdateItem(t.Context(), in)
			if in.TableName == nil || in.Key == nil {
				require.ErrorContains(t, err, "validation")
				return
			}
			require.NoError(t, err)
			assert.True(t, s.last().bySDK)
		})
	}
	t.Run("nil", func(t *testing.T) {
		c, _ := newLean(t, newOptions(nil))
		_, err := c.UpdateItem(t.Context(), nil)
		require.ErrorContains(t, err, "validation")
	})
}

func TestSDKSendsAllRequestsInLambda(t *testing.T) {
	t.Setenv(lambdaVariable, "")
	s := &script{}
	c := New(dynamodb.New(newOptions(s)))
	for range 2 {
		_, err := c.UpdateItem(t.Context(), plainUpdate())
		require.NoError(t, err)
		assert.True(t, s.last().bySDK)
	}
}

// A signature that cannot be computed from the visible parts of a request has parts that are not
// visible.
func TestSDKSendsWhatIsNotUnderstood(t *testing.T) {
	s := &script{}
	c := New(dynamodb.New(newOptions(s)))
	_, err := c.UpdateItem(t.Context(), plainUpdate())
	require.NoError(t, err)
	for name, change := range map[string]func(*http.Request){
		"signature": func(r *http.Request) { r.Header[authorizationField][0] += "0" },
		"scheme":    func(r *http.Request) { r.Header[authorizationField][0] = "Bearer x" },
		"field":     func(r *http.Request) { r.Header.Set("X-Other", "1") },
		"two":       func(r *http.Request) { r.Header.Add("Accept-Encoding", "identity") },
		"path":      func(r *http.Request) { r.URL.Path = "/a b" },
		"query":     func(r *http.Request) { r.URL.RawQuery = "a=b" },
		"target":    func(r *http.Request) { r.Header.Set("X-Amz-Target", "other") },
		"length":    func(r *http.Request) { r.ContentLength = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			r := s.sent[0].Clone(t.Context())
			sign, err := keys.Retrieve(t.Context())
			require.NoError(t, err)
			r.Body = io.NopCloser(bytes.NewReader(s.sent[0].body))
			require.False(t, learnTemplate(templateKey{}, r, &sign).refused)
			r.Body = io.NopCloser(bytes.NewReader(s.sent[0].body))
			change(r)
			assert.True(t, learnTemplate(templateKey{}, r, &sign).refused)
		})
	}
}

// New credentials sign the next request, and a new day makes a new key.
func TestSignaturesFollowCredentialsAndDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := newOptions(nil)
		secret := "a secret"
		options.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIATEST", SecretAccessKey: secret}, nil
		})
		c, s := newLean(t, options)
		for _, next := range []func(){func() {}, func() { secret = "another" }, func() { <-time.After(24 * time.Hour) }} {
			next()
			_, err := c.UpdateItem(t.Context(), plainUpdate())
			require.NoError(t, err)
			sdk := &script{}
			options.HTTPClient = sdk
			_, err = dynamodb.New(options).UpdateItem(t.Context(), plainUpdate())
			require.NoError(t, err)
			requireSameRequest(t, options.Credentials, sdk.last(), s.last())
		}
	})
}

// The SDK corrects a clock that is far off. This package signs with a small offset, and comes back
// when the offset is small.
func TestClockOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newLean(t, newOptions(nil))
		at := func(offset time.Duration) outcome {
			o := emptySuccess
			o.header = map[string]string{"Date": time.Now().Add(offset).UTC().Format(http.TimeFormat)}
			return o
		}
		update := func(offset time.Duration) sentRequest {
			s.outcomes = []outcome{at(offset)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.UpdateItem(ctx, plainUpdate())
			require.NoError(t, err)
			return s.last()
		}
		signed := func(r sentRequest) time.Duration {
			at, err := time.Parse(dateFormat, r.Header.Get(dateField))
			require.NoError(t, err)
			return time.Until(at)
		}
		assert.Zero(t, signed(update(30*time.Second)))
		r := update(time.Hour)
		assert.False(t, r.bySDK)
		assert.Equal(t, 30*time.Second, signed(r))
		assert.Equal(t, "attempt=1; max=3; ttl="+time.Now().Add(31*time.Second).Format(dateFormat), r.Header.Get(attemptField))
		assert.True(t, update(time.Hour).bySDK)
		r = update(-time.Second)
		assert.True(t, r.bySDK)
		assert.Equal(t, time.Hour, signed(r), "as the SDK saw in the answer before")
		r = update(0)
		assert.False(t, r.bySDK)
		assert.Equal(t, "attempt=1; max=3", r.Header.Get(attemptField))
		assert.Equal(t, -time.Second, signed(r))
	})
}

// The Options of the SDK are the SDK's.
type (
	otherSigner   struct{ dynamodb.HTTPSignerV4 }
	otherResolver struct{ dynamodb.EndpointResolverV2 }
	otherAuth     struct{ dynamodb.AuthSchemeResolver }
	otherProtocol struct{ smithyhttp.ClientProtocol }
	noInterceptor struct{}
	noLogger      struct{}
)

func (noInterceptor) BeforeSigning(context.Context, *smithyhttp.InterceptorContext) error { return nil }

func (noLogger) Logf(logging.Classification, string, ...any) {}

var adaptive = retry.NewAdaptiveMode()

// An HTTP client that reads a body after its answer does not see the bytes of the next request.
func TestLateReadsSeeTheirOwnRequest(t *testing.T) {
	c, s := newLean(t, newOptions(nil))
	var late io.Reader
	_, err := c.UpdateItem(t.Context(), plainUpdate(), func(o *dynamodb.Options) {
		o.HTTPClient = smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
			late = r.Body
			return s.Do(&http.Request{Body: http.NoBody})
		})
	})
	require.NoError(t, err)
	w := workspaces.Get().(*workspace)
	for i := range w.body[:cap(w.body)] {
		w.body[:cap(w.body)][i] = 'x'
	}
	body, err := io.ReadAll(late)
	require.NoError(t, err)
	assert.Contains(t, string(body), `"TableName":"limits"`)
}

func TestNewNamesAMissingClient(t *testing.T) {
	assert.PanicsWithValue(t, "leanddb: client is nil; pass the client of awsclient.New, or use awsclient.NewLean", func() { New(nil) })
}

// A call that the SDK goes on with does not share its attempt with a call that starts meanwhile.
func TestCallsDoNotShareAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newLean(t, newOptions(nil))
		failure := answerCases["server error"].outcome
		s.outcomes = []outcome{failure, emptySuccess, failure, emptySuccess}
		sent := 0
		_, err := c.UpdateItem(t.Context(), plainUpdate(), func(o *dynamodb.Options) {
			next := o.HTTPClient
			o.HTTPClient = smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
				if sent++; sent == 2 {
					_, err := c.UpdateItem(t.Context(), plainUpdate())
					require.NoError(t, err)
				}
				return next.Do(r)
			})
		})
		require.NoError(t, err)
		assert.Equal(t, 3, sent)
	})
}
