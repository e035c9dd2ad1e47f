package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// engine is the DynamoDB that the tour runs on.
type engine struct {
	client *dynamodb.Client
	table  string
	where  string     // for people
	db     *ddbmem.DB // nil for one that is not in this process
}

// connect makes a client: an ordinary *dynamodb.Client in every case, so that
// what follows does not know the difference.
func connect(ctx context.Context, table, endpoint string) (*engine, error) {
	if table == "" && endpoint == "" {
		db := ddbmem.New()
		return &engine{client: db.Client(), table: "limits", where: "on ddbmem, a DynamoDB in this process", db: db}, nil
	}
	if table == "" {
		table = "limits"
	}
	var options []func(*config.LoadOptions) error
	where := "on DynamoDB"
	if endpoint != "" {
		local, err := isLoopback(endpoint)
		if err != nil {
			return nil, err
		}
		if local && os.Getenv("AWS_ACCESS_KEY_ID") == "" { // engines on this machine take any
			options = append(options, config.WithRegion("us-east-1"),
				config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
		}
		where = "at " + endpoint
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("no AWS region is configured: set AWS_REGION")
	}
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	return &engine{client: client, table: table, where: fmt.Sprintf("on table %s %s", table, where)}, nil
}

func (e *engine) close() {
	if e.db != nil {
		e.db.Close()
	}
}

func isLoopback(endpoint string) (bool, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("-endpoint %q is not a URL: write it like http://127.0.0.1:8000", endpoint)
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(), nil
}
