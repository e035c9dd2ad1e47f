// Command quickstart shows rate-limited LLM calls: settled at their usage, denied with
// an exact wait, charged to a project too, exact among processes, and served while DynamoDB
// does not answer.
//
//	go run ./examples/quickstart
//
// It needs nothing but Go: DynamoDB runs in this process (package ddbmem). With -endpoint it
// runs on another engine, and leaves out the last scene:
//
//	go run ./examples/quickstart -endpoint http://127.0.0.1:8000
//
// Read tour.go: each scene is code as in a service.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// main runs the tour until its end or an interrupt. It exits with 1 after an error.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run parses args and plays the tour on -endpoint, or on an engine in this process. It prints
// scenes to out and help to usage.
func run(ctx context.Context, args []string, out, usage io.Writer) error {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(usage)
	endpoint := flags.String("endpoint", "", "the `URL` of a DynamoDB engine (default: DynamoDB in this process)")
	table := flags.String("table", "limits", "the table to use there, made if it is missing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; -h lists the flags", flags.Arg(0))
	}
	t := &tour{out: out, table: *table}
	if *endpoint == "" {
		t.db = ddbmem.New()
		defer t.db.Close()
		t.client = t.db.Client()
	} else { // in production awsclient.New(ctx, nil): the same type
		t.client = dynamodb.New(dynamodb.Options{
			BaseEndpoint: endpoint, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		})
	}
	return t.play(ctx)
}

// play makes the table and its limits, shows all scenes, and removes the limits and entities that it made. It
// shows the outage only on an engine in this process.
func (t *tour) play(ctx context.Context) (err error) {
	// A Repository is one table; a RateLimiter charges its buckets. One of each per process is
	// enough: both are safe for concurrent use.
	repo, err := dynalimit.NewRepository(t.client, t.table, options)
	if err != nil {
		return err
	}
	if err := repo.CreateTable(ctx); err != nil {
		return err
	}
	if t.limiter, err = dynalimit.New(repo, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.leave(ctx, repo)) }()
	if err := prepare(ctx, repo); err != nil {
		return err
	}
	scenes := []func(context.Context) error{t.settled, t.denied, t.parent, t.race}
	if t.db != nil { // only an engine of ours can be made to fail
		scenes = append(scenes, t.outage)
	}
	for _, scene := range scenes {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}
