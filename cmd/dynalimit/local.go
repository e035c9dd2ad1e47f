package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// shutdownTime bounds pending requests after Ctrl-C.
const shutdownTime = 5 * time.Second

// localCmd serves ddbmem over HTTP.
type localCmd struct {
	Host string `help:"Loopback address to listen on." default:"127.0.0.1"`
	Port int    `help:"Port to listen on; 0 takes a free one." default:"8000"`
}

// Validate refuses an invalid port and a host that other machines can reach, because the engine
// checks no credentials.
func (c localCmd) Validate() error {
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("--port %d is not a port: use 1 to 65535, or 0 for a free one", c.Port)
	}
	if c.Host == "localhost" {
		return nil
	}
	if addr, err := netip.ParseAddr(c.Host); err != nil || !addr.IsLoopback() {
		return fmt.Errorf("--host %s is not a loopback address: local checks no credentials, "+
			"so it serves this machine only; use 127.0.0.1, ::1 or localhost", c.Host)
	}
	return nil
}

// Run serves an in-memory DynamoDB over HTTP until ctx ends, and prints how to connect to it. Then it waits for
// pending requests up to shutdownTime, and drops the tables.
func (c localCmd) Run(ctx context.Context, out *term.Output) error {
	listener, err := c.openListener(ctx)
	if err != nil {
		return err
	}
	db := ddbmem.New(ddbmem.WithExpiry())
	defer db.Close()
	server := &http.Server{Handler: db, ReadHeaderTimeout: 10 * time.Second}

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	printBanner(out, "http://"+listener.Addr().String())

	select {
	case err := <-served:
		return fmt.Errorf("the server ended: %w; start it again", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		_ = server.Close() // cuts off the remaining requests
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the server ended badly: %w; its tables are gone, start it again", err)
	}
	fmt.Fprintf(out, "\n%s\n", out.Dim(fmt.Sprintf("Stopped after %d requests; the tables are gone.", db.Meter().Requests())))
	return nil
}

// openListener returns a TCP listener on --host and --port, which the caller closes. Its errors advise another
// address or port.
func (c localCmd) openListener(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d on %s is in use: "+
			"stop what listens there, or choose another port with --port (0 takes a free one)", c.Port, c.Host)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("port %d needs privileges: choose one above 1023 with --port", c.Port)
	case err != nil:
		return nil, fmt.Errorf("cannot listen: %w; try another --host or --port", err)
	}
	return listener, nil
}

// printBanner prints how to connect an SDK, a Go program or the AWS CLI to the engine at url.
func printBanner(out *term.Output, url string) {
	fmt.Fprintf(out, "%s %s\n", out.Bold("DynamoDB in memory:"), out.Cyan(url))
	fmt.Fprintln(out, out.Dim("Any region, any credentials, this machine only. Ctrl-C stops it and drops its tables."))

	fmt.Fprintf(out, `
%s
  export AWS_ENDPOINT_URL_DYNAMODB=%s
  export AWS_ENDPOINT_URL_DYNAMODB_STREAMS=%s
  export AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local
`, out.Bold("Any SDK or program, by its environment"), url, url)

	fmt.Fprintf(out, `
%s
  client := dynamodb.New(dynamodb.Options{
      BaseEndpoint: aws.String("%s"),
      Region:       "us-east-1",
      Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
  })
`, out.Bold("Go"), url)

	fmt.Fprintf(out, "\n%s\n  aws dynamodb list-tables --endpoint-url %s\n",
		out.Bold("AWS CLI, with the environment above"), url)
}
