// Package connect connects the commands: it finds the AWS configuration, DynamoDB or an engine
// instead, the table, and the principal of changes.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go/logging"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/awsclient"
)

// LocalEndpoint is the default address of `dynalimit local`.
const LocalEndpoint = "http://127.0.0.1:8000"

const (
	// requestTimeout bounds one request. A person waits longer than a call does, and sees the
	// reason.
	requestTimeout = 10 * time.Second
	// attempts is the number of tries of a request that CloudFormation throttles.
	attempts = 10
	// busyTimeout bounds one request to CloudFormation, with its tries.
	busyTimeout = 2 * time.Minute
)

// Options locates the table. The zero value means AWS, with the configuration of the
// environment.
type Options struct {
	// Endpoint is the URL of a DynamoDB engine. Defaults to AWS, or the endpoint of the
	// environment.
	Endpoint string
	// Local means LocalEndpoint.
	Local bool
	// Region is the AWS region. Defaults to that of the environment.
	Region string
	// Profile is the profile of the AWS configuration. Defaults to that of the environment.
	Profile string
	// Table is the name of the table.
	Table string
	// Namespace is the tenant of the table. Defaults to none.
	Namespace string
	// Principal is the author of changes. Defaults to the result of Identity.
	Principal string
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Timeout bounds one request with its tries. Defaults to 10 s, for CloudFormation to 2 min.
	Timeout time.Duration
}

// Check returns an error for --local beside --endpoint, and for an invalid URL.
func (o Options) Check() error {
	if o.Local && o.Endpoint != "" {
		return fmt.Errorf("--local stands for --endpoint %s: leave one of them out", LocalEndpoint)
	}
	_, err := o.engineURL()
	return err
}

// endpointURL returns the URL of the engine from the flags, or "" for AWS or an engine of the
// environment.
func (o Options) endpointURL() string {
	if o.Local {
		return LocalEndpoint
	}
	return o.Endpoint
}

// engineURL parses the URL of the engine from the flags. It returns nil for AWS or an engine of the
// environment, and an error for an invalid URL.
func (o Options) engineURL() (*url.URL, error) {
	text := o.endpointURL()
	if text == "" {
		return nil, nil //nolint:nilnil // nil means AWS
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--endpoint %q is not a URL: write it like %s", text, LocalEndpoint)
	}
	return u, nil
}

// OnThisMachine reports whether the flags name an engine on this machine, which needs no credentials. It is
// false for an invalid URL, and ignores the environment.
func (o Options) OnThisMachine() bool {
	u, err := o.engineURL()
	if u == nil || err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Port returns the port in the URL of an engine on this machine, from the flags. It is 0 if the URL has no
// port, and for AWS or another machine.
func (o Options) Port() int {
	u, err := o.engineURL()
	if u == nil || err != nil || !o.OnThisMachine() {
		return 0
	}
	port, _ := strconv.Atoi(u.Port()) // a URL has a numeric port
	return port
}

// Where names DynamoDB, with the URL of an engine, for notes such as "waiting for DynamoDB at http://…".
func (o Options) Where() string {
	if at := o.endpointURL(); at != "" {
		return "DynamoDB at " + at
	}
	return "DynamoDB"
}

// Config returns the AWS configuration of the flags and the environment, or an error for invalid flags or
// without a region. For an engine on this machine it fills in missing credentials and a missing region. It logs
// nothing.
func (o Options) Config(ctx context.Context) (aws.Config, error) {
	if err := o.Check(); err != nil {
		return aws.Config{}, err
	}
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})} // the command prints its errors
	if o.OnThisMachine() {
		load = append(load, config.WithDefaultRegion("us-east-1"))
		if os.Getenv("AWS_ACCESS_KEY_ID") == "" && o.Profile == "" {
			load = append(load, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
		}
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("the AWS configuration cannot be read: %w; correct it, name another with --profile, or use --endpoint", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("no AWS region is configured: give --region or set AWS_REGION, or use --local or --endpoint for an engine on this machine")
	}
	return cfg, nil
}

// Client returns a client of DynamoDB or the engine, as ClientOf does, or an error about the AWS configuration.
// It sends no request to the table.
func (o Options) Client(ctx context.Context) (*dynamodb.Client, error) {
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, err
	}
	return o.ClientOf(cfg), nil
}

// ClientOf returns a client of DynamoDB, or of the engine of the flags, with a configuration from Config. Each
// request with its tries is bounded by o.Timeout, or 10 s, unless its context has a deadline.
func (o Options) ClientOf(cfg aws.Config) *dynamodb.Client {
	return awsclient.FromConfig(cfg, func(d *dynamodb.Options) {
		if at := o.endpointURL(); at != "" {
			d.BaseEndpoint = aws.String(at)
		}
		d.APIOptions = append(d.APIOptions, requestMiddleware(cmp.Or(o.Timeout, requestTimeout)))
	})
}

// StreamsOf returns a client of DynamoDB Streams with a configuration from Config. If the
// environment names an engine for DynamoDB only, the engine also serves the streams.
func (o Options) StreamsOf(cfg aws.Config) *dynamodbstreams.Client {
	table := o.ClientOf(cfg).Options().BaseEndpoint
	return dynamodbstreams.NewFromConfig(cfg, func(d *dynamodbstreams.Options) {
		if at := o.endpointURL(); at != "" {
			d.BaseEndpoint = aws.String(at)
		} else if d.BaseEndpoint == nil && table != nil && !isAWSEndpoint(*table) {
			d.BaseEndpoint = table
		}
		d.APIOptions = append(d.APIOptions, requestMiddleware(cmp.Or(o.Timeout, requestTimeout)))
	})
}

// isAWSEndpoint reports whether a URL belongs to AWS, such as an endpoint of a VPC, which serves one service
// only. It is false for an invalid URL.
func isAWSEndpoint(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"} {
		if strings.HasSuffix(u.Hostname(), domain) {
			return true
		}
	}
	return false
}

// FormationOf returns a client of CloudFormation with a configuration from Config. It sends a throttled request
// up to 10 times, within o.Timeout or else 2 minutes.
func (o Options) FormationOf(cfg aws.Config) *cloudformation.Client {
	return cloudformation.NewFromConfig(cfg, func(c *cloudformation.Options) {
		c.Retryer = retry.AddWithMaxAttempts(retry.NewStandard(), attempts)
		c.APIOptions = append(c.APIOptions, requestMiddleware(cmp.Or(o.Timeout, busyTimeout)))
	})
}

// Repository opens the table for reading, with a new client. It sends no request, and does not ask for the
// author of changes.
func (o Options) Repository(ctx context.Context) (*dynalimit.Repository, error) {
	client, err := o.Client(ctx)
	if err != nil {
		return nil, err
	}
	return o.WithClient(client)
}

// ForChanges opens the table for changes. Their author is Principal or, if that is empty, the result of
// Identity. It fails if AWS does not name one.
func (o Options) ForChanges(ctx context.Context) (*dynalimit.Repository, error) {
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, err
	}
	if o.Principal, err = o.Identity(ctx, cfg); err != nil {
		return nil, err
	}
	return o.WithClient(o.ClientOf(cfg))
}

// WithClient opens the table of the options with a client that the caller made. It sends no request; it fails
// for invalid names.
func (o Options) WithClient(client dynalimit.DynamoDB) (*dynalimit.Repository, error) {
	return dynalimit.NewRepository(client, o.Table, &dynalimit.RepositoryOptions{
		Namespace: o.Namespace, Principal: o.Principal, Now: o.Now, RequestTimeout: cmp.Or(o.Timeout, requestTimeout),
	})
}
