// Command aggregator is a function of AWS Lambda that adds the records of a table's stream
// to usage. On a schedule it closes hours and delivers alerts. If its environment names a bucket, it
// archives expired items instead. Its environment configures it, see config.go.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/archive"
	"github.com/dynalimit/dynalimit/aggregator/s3archive"
	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/lambda"
)

// version is stamped by scripts/release.sh.
var version = "devel"

// main starts the Lambda function. If its configuration is invalid, it logs the error and exits
// with 1.
func main() {
	handler, err := newFunction(context.Background(), os.Getenv, os.Stdout)
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the function cannot start", "version", version, "error", err)
		os.Exit(1)
	}
	awslambda.Start(handler)
}

// newFunction returns the Lambda handler for the environment: an archiver if a bucket is set, else the
// aggregator of usage. It writes its log and metrics to w. It fails for an invalid configuration, of AWS too.
func newFunction(ctx context.Context, getenv func(string) string, w io.Writer) (*lambda.Handler, error) {
	c, err := readConfig(getenv)
	if err != nil {
		return nil, err
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("the SDK's configuration: %w", err)
	}
	if c.archive.bucket != "" {
		return newArchiver(s3.NewFromConfig(loaded), c, w)
	}
	return newHandler(awsclient.FromConfig(loaded), c, secretOf(loaded, c.webhook.arn), w)
}

// newArchiver returns the Lambda handler that writes expired items of the stream into files of the S3 bucket.
// It writes its log and metrics to w, and has no schedule. It fails for invalid options of the archive.
func newArchiver(client s3archive.S3, c config, w io.Writer) (*lambda.Handler, error) {
	opts := &s3archive.Options{Prefix: c.archive.prefix, KMSKey: c.archive.key}
	if c.archive.key != "" {
		opts.Encryption = types.ServerSideEncryptionAwsKms
	}
	writer, err := s3archive.New(client, c.archive.bucket, opts)
	if err != nil {
		return nil, err
	}
	files, err := archive.New(writer, &archive.Options{Writers: c.writers})
	if err != nil {
		return nil, err
	}
	logger := newLogger(c, w).With("bucket", c.archive.bucket)
	logger.Info("the function starts", "prefix", c.archive.prefix, "tries", configuredText(c.tries == 0, strconv.Itoa(c.tries)))
	return lambda.NewHandler(files.Process, nil, &lambda.Options{Tries: c.tries, Logger: logger, Observe: lambda.ArchiveMetrics(w, c.table)})
}

// newLogger returns a JSON log to w with the configured level, the version and the table.
func newLogger(c config, w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: c.level})).With("version", version, "table", c.table)
}

// configuredText returns "default" if none is true, else the configured value, for the log.
func configuredText(none bool, configured string) string {
	if none {
		return "default"
	}
	return configured
}

// newHandler returns the Lambda handler that counts usage of the table c.table. On a schedule it closes its hours and
// delivers its alerts to the webhook of the environment, whose secret readSecret reads. It writes its log and metrics to
// w, side by side: w must be safe for concurrent use, as a file is. It fails for invalid options.
func newHandler(client *dynamodb.Client, c config, readSecret func(context.Context) (string, error), w io.Writer) (*lambda.Handler, error) {
	logger := newLogger(c, w)
	differs := func(stored aggregator.Retention) {
		logger.Warn("the table keeps hours of usage for another time than "+envRetention+" says, and the function obeys it; change it with 'dynalimit usage keep --hours'", "stored", stored.Hours.String(), "asked", c.retention.String())
	}
	processor, err := aggregator.New(client, c.table, &aggregator.Options{Retention: c.retention, RetentionDiffers: differs, Writers: c.writers})
	if err != nil {
		return nil, err
	}
	closer, err := aggregator.NewCloser(client, c.table, &aggregator.CloserOptions{Retention: aggregator.Retention{Hours: c.retention}, Writers: c.writers})
	if err != nil {
		return nil, err
	}
	logger.Info("the function starts", "retention", configuredText(c.retention == 0, c.retention.String()), "tries", configuredText(c.tries == 0, strconv.Itoa(c.tries)))
	opts := &lambda.Options{Tries: c.tries, Logger: logger, Observe: lambda.EmbeddedMetrics(w, c.table)}
	if c.webhook.isSet() {
		opts.Deliverer = &alerts{client: client, table: c.table, to: c.webhook, readSecret: readSecret, logger: logger}
	}
	return lambda.NewHandler(processor.Process, closer, opts)
}
