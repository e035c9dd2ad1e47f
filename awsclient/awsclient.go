// Package awsclient makes the client of DynamoDB for a busy service, with which the
// benchmarks are measured. The SDK's own keeps 10 idle connections; a process with more
// requests in flight closes and opens connections all the time, each with a handshake.
//
//	client, err := awsclient.New(ctx, nil)
//	repo, err := dynalimit.NewRepository(client, "limits", nil)
//
// The package loads the SDK's configuration (module aws-sdk-go-v2/config). No other package of
// this module imports it, so only its importers depend on that module.
package awsclient

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/leanddb"
)

// IdleConnections is how many idle connections a client keeps.
const IdleConnections = 256

// Options locate DynamoDB. The zero value, and nil, take the settings of the environment and of the
// shared files of AWS.
type Options struct {
	// Region is the AWS region. Defaults to AWS_REGION, or the profile's.
	Region string
	// Profile is a profile of the shared files. Defaults to AWS_PROFILE.
	Profile string
	// Endpoint is the URL of another endpoint, such as http://localhost:8000. Defaults to that
	// of the region, or AWS_ENDPOINT_URL_DYNAMODB.
	Endpoint string
}

// New loads the AWS configuration and returns a client for it, with the connections of FromConfig. It sends
// DynamoDB nothing. It fails if the configuration cannot be read, or names no region.
func New(ctx context.Context, opts *Options) (*dynamodb.Client, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("awsclient: the AWS configuration cannot be read: %w", err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("awsclient: invalid options.Region: is empty, and the environment names none; set it, or AWS_REGION")
	}
	return FromConfig(cfg, func(d *dynamodb.Options) {
		if o.Endpoint != "" {
			d.BaseEndpoint = &o.Endpoint
		}
	}), nil
}

// NewLean loads the AWS configuration as New does, and returns a client of package leanddb, which takes less
// processor time. It fails as New does.
func NewLean(ctx context.Context, opts *Options) (*leanddb.Client, error) {
	client, err := New(ctx, opts)
	if err != nil {
		return nil, err
	}
	return leanddb.New(client), nil
}

var adaptive sync.Once

// FromConfig returns a client for a loaded configuration. It keeps
// IdleConnections idle connections, unless the configuration has an HTTP client of another
// kind than the SDK's. It does not follow the retry mode "adaptive": that mode holds requests
// back in this process, which looks to a limiter like a table that does not answer. The first such
// configuration of the process is logged with slog.Default.
func FromConfig(cfg aws.Config, options ...func(*dynamodb.Options)) *dynamodb.Client {
	switch c := cfg.HTTPClient.(type) {
	case nil:
		cfg.HTTPClient = withIdleConnections(awshttp.NewBuildableClient())
	case *awshttp.BuildableClient:
		cfg.HTTPClient = withIdleConnections(c)
	}
	if cfg.RetryMode == aws.RetryModeAdaptive {
		adaptive.Do(func() {
			slog.Default().Warn("awsclient: the retry mode is standard, although the configuration says adaptive: adaptive delays requests in this process, which looks like an outage; unset AWS_RETRY_MODE")
		})
		cfg.RetryMode, cfg.Retryer = aws.RetryModeStandard, nil
	}
	return dynamodb.NewFromConfig(cfg, options...)
}

// withIdleConnections returns a copy of the HTTP client that keeps at least IdleConnections idle connections,
// in all and to one host.
func withIdleConnections(c *awshttp.BuildableClient) *awshttp.BuildableClient {
	return c.WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = max(t.MaxIdleConns, IdleConnections), max(t.MaxIdleConnsPerHost, IdleConnections)
	})
}
