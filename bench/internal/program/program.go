// Package program is the common part of the benchmarks. They use it to report, to open virtual time, to run
// themselves again as other processes, and to talk to a store in one.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing" //nolint:depguard // benchmarks report by it, and virtual time needs a *testing.T; nothing of this ships
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/awsclient"
)

// Values are the results of a run, by unit.
type Values map[string]float64

// Report reports each value as a metric of a benchmark, under its unit, and hides the time (ns/op).
func Report(b *testing.B, values Values) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	for unit, v := range values {
		b.ReportMetric(v, unit)
	}
}

// Ms returns a duration in milliseconds.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Ratio returns n ÷ of, or 0 for of = 0.
func Ratio[N int64 | float64](n, of N) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// RunVirtual runs f once in a synctest bubble, where time passes as soon as all goroutines wait, and returns
// f's error. It clears the flag test.skip, and fails if the bubble's test fails or is skipped.
func RunVirtual(f func(ctx context.Context) error) (err error) {
	ran := false
	test := testing.InternalTest{Name: "virtual", F: func(t *testing.T) {
		if ran { // -test.count is meant for benchmarks
			return
		}
		ran = true
		synctest.Test(t, func(t *testing.T) { err = f(t.Context()) })
	}}
	if err := flag.Set("test.skip", ""); err != nil { // it names tests of the caller's
		return err
	}
	if !testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{test}) {
		return errors.Join(err, errors.New("the run in virtual time failed"))
	}
	if !ran {
		return errors.New("the run in virtual time was skipped")
	}
	return err
}

// Pause waits for d, or until ctx ends. It returns false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Serve serves HTTP on a free loopback port until end is called. It returns the URL.
func Serve(ctx context.Context, h http.Handler) (endpoint string, end func() error, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server, served := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until end
	}()
	return "http://" + l.Addr().String(), func() error {
		err := server.Close()
		<-served
		return err
	}, nil
}

// NewClient returns a client of the store at an endpoint, which checks no credentials. A nil transport stands
// for the usual one of package awsclient.
func NewClient(endpoint string, transport aws.HTTPClient) *dynamodb.Client {
	return awsclient.FromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: transport,
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""),
	})
}

// role marks a process as a child.
const role = "DYNALIMIT_BENCH_PROCESS"

// RunChild runs do if this process is a child that StartChild started, and reports whether it is one. Orders
// and answers are JSON values. The orders end when the child has to stop. An error of do ends the process with
// 1.
func RunChild(do func(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error) bool {
	if os.Getenv(role) == "" {
		return false
	}
	if err := do(context.Background(), json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Child is another process of this program that does Work. Its error output goes to this process's.
type Child struct {
	*exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	answers *json.Decoder
}

// StartChild starts this program once more as a child process and sends it its first order. The child ends with
// ctx. The caller must Stop it.
func StartChild(ctx context.Context, order any) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), role+"=1")
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}
	return c, c.SendOrder(order)
}

// SendOrder sends an order.
func (c *Child) SendOrder(order any) error { return c.orders.Encode(order) }

// ReadAnswer waits for the child's next answer and decodes it into answer. It fails if the child ends.
func (c *Child) ReadAnswer(answer any) error {
	if err := c.answers.Decode(answer); err != nil {
		return fmt.Errorf("a process ended early: %w", err)
	}
	return nil
}

// Stop ends the orders of the child and waits for its exit, after the current order. c may be nil.
func (c *Child) Stop() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.in.Close(), c.Wait())
}
