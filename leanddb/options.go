package leanddb

import (
	"os"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/metrics"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// lambdaVariable is set in AWS Lambda. There the SDK adds the trace of the invocation to a request.
const lambdaVariable = "AWS_LAMBDA_FUNCTION_NAME"

// standard are the options of a client without settings.
var standard = dynamodb.New(dynamodb.Options{Credentials: aws.CredentialsProviderFunc(nil)}).Options()

// isPlain reports whether the SDK sends the requests of a client with these options in a form that this package
// knows. The options must have no code of the user except credentials, HTTP client and retryer. It is false in
// AWS Lambda.
func isPlain(o *dynamodb.Options) bool {
	if _, inLambda := os.LookupEnv(lambdaVariable); inLambda {
		return false
	}
	_, usual := o.HTTPSignerV4.(*v4.Signer)
	return usual && o.Credentials != nil &&
		o.EndpointResolver == nil && //nolint:staticcheck // users may have it still
		isSameType(o.EndpointResolverV2, standard.EndpointResolverV2) &&
		isSameType(o.AuthSchemeResolver, standard.AuthSchemeResolver) && isSameType(o.Protocol, standard.Protocol) &&
		len(o.AuthSchemes) == 1 && isSameType(o.AuthSchemes[0], standard.AuthSchemes[0]) &&
		isSameType(o.AuthSchemes[0].Signer(), standard.AuthSchemes[0].Signer()) &&
		len(o.AuthSchemePreference) == 0 && isUnobserved(o)
}

// isSameType reports whether a and b have the same dynamic type; two nil values have.
func isSameType(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// isUnobserved reports whether nothing of the user's observes or changes requests between the call and the HTTP
// client: no meter, tracer, log, interceptor or compression.
func isUnobserved(o *dynamodb.Options) bool {
	_, unmetered := o.MeterProvider.(metrics.NopMeterProvider)
	_, untraced := o.TracerProvider.(*tracing.NopTracerProvider)
	return unmetered && untraced && o.ClientLogMode == 0 && len(o.APIOptions) == 0 && hasNoInterceptors(&o.Interceptors) &&
		!o.EnableAcceptEncodingGzip && o.EndpointDiscovery.EnableEndpointDiscovery != aws.EndpointDiscoveryEnabled &&
		o.EndpointOptions.Logger == nil
}

// hasNoInterceptors reports whether the user has registered no interceptor.
func hasNoInterceptors(i *smithyhttp.InterceptorRegistry) bool {
	return len(i.BeforeExecution)+len(i.BeforeSerialization)+len(i.AfterSerialization)+len(i.BeforeRetryLoop)+
		len(i.BeforeAttempt)+len(i.BeforeSigning)+len(i.AfterSigning)+len(i.BeforeTransmit)+len(i.AfterTransmit)+
		len(i.BeforeDeserialization)+len(i.AfterDeserialization)+len(i.AfterAttempt)+len(i.AfterExecution) == 0
}

// followsBase reports whether the options of one call differ from the client's only where UpdateItem allows it.
// Those are the HTTP client, the retryer, the checks of answers, and unrelated settings. It is false for the
// adaptive retry mode.
func (c *Client) followsBase(o *dynamodb.Options) bool {
	b := &c.base
	if _, adaptive := o.Retryer.(*retry.AdaptiveMode); adaptive {
		return false
	}
	return isUnobserved(o) && o.Region == b.Region && o.AppID == b.AppID && o.BaseEndpoint == b.BaseEndpoint &&
		o.AccountIDEndpointMode == b.AccountIDEndpointMode && o.EndpointOptions == b.EndpointOptions &&
		o.EndpointResolver == nil && //nolint:staticcheck // users may have it still
		o.EndpointResolverV2 == b.EndpointResolverV2 &&
		o.Credentials == b.Credentials && o.HTTPSignerV4 == b.HTTPSignerV4 && o.Protocol == b.Protocol &&
		o.AuthSchemeResolver == b.AuthSchemeResolver && len(o.AuthSchemes) == 1 && o.AuthSchemes[0] == b.AuthSchemes[0] &&
		len(o.AuthSchemePreference) == 0 && o.RetryMaxAttempts == b.RetryMaxAttempts &&
		o.DisableClockSkewCorrection == b.DisableClockSkewCorrection
}

// provider is a provider of credentials that can be compared.
type provider struct{ aws.CredentialsProvider }

// ProviderSources returns the sources of the wrapped credentials, which the User-Agent names. It is nil if the
// wrapped provider does not name them.
func (p *provider) ProviderSources() []aws.CredentialSource {
	if named, ok := p.CredentialsProvider.(aws.CredentialProviderSource); ok {
		return named.ProviderSources()
	}
	return nil
}
