package outage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// failures are the ways in which the store is taken away.
var failures = []string{"hang", "reset", "5xx", "refused", "writes", "credentials"}

// serve is the main function of the store's process. It reports its address and serves until the
// parent ends.
func serve(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	db := ddbmem.New()
	defer db.Close()
	endpoint, end, err := program.Serve(ctx, db)
	if err != nil {
		return err
	}
	err = answers.Encode(endpoint)
	for order := ""; err == nil && orders.Decode(&order) == nil; { // until the parent ends
	}
	return errors.Join(err, end())
}

// wire is the connection to the store: an HTTP client and a source of credentials that fail on command.
type wire struct {
	client   *http.Client
	store    *program.Child
	endpoint string // of the store
	way      string
	down     atomic.Bool
	// resets is the address of a listener that resets connections, refuses one without a listener.
	resets, refuses string
	listener        net.Listener
}

// newWire starts a store in a process of its own, and the connection to it. way is the kind of its
// later failure.
func newWire(ctx context.Context, way string) (_ *wire, err error) {
	var listen net.ListenConfig
	gone, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{way: way, refuses: gone.Addr().String()}
	if err := gone.Close(); err != nil {
		return nil, err
	}
	if w.listener, err = listen.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	w.resets = w.listener.Addr().String()
	go func() {
		for {
			c, err := w.listener.Accept()
			if err != nil {
				return
			}
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // closing then resets
			}
			_ = c.Close()
		}
	}()
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 256}}
	if w.store, err = program.StartChild(ctx, "serve"); err == nil {
		err = w.store.ReadAnswer(&w.endpoint)
	}
	if err != nil {
		w.close()
	}
	return w, err
}

// dial returns a client of the store over the wire. In the outage "credentials" its credentials
// cannot be refreshed.
func (w *wire) dial() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &w.endpoint, HTTPClient: w,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			if w.way == "credentials" && w.down.Load() {
				return aws.Credentials{}, errors.New("failed to refresh cached credentials: the service does not answer")
			}
			return aws.Credentials{AccessKeyID: "outage", SecretAccessKey: "outage"}, nil
		}),
	})
}

// fail begins the outage if down is true, else ends it. The outage "hang" stops and resumes the store's
// process.
func (w *wire) fail(down bool) error {
	w.down.Store(down)
	if w.way != "hang" {
		return nil
	}
	if down {
		return w.store.Process.Signal(syscall.SIGSTOP)
	}
	return w.store.Process.Signal(syscall.SIGCONT)
}

// Do sends a request to the store. In an outage w.way decides: an answer 500, a refused or reset connection, or
// a reset of writes alone. For "hang" and "credentials" it sends the request, because the store or the
// credentials fail.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	if !w.down.Load() {
		return w.client.Do(r)
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	writes := operation == "UpdateItem" || operation == "PutItem" || operation == "TransactWriteItems"
	switch {
	case w.way == "5xx":
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Request: r, ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
			Body:   io.NopCloser(strings.NewReader(`{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}`)),
		}, nil
	case w.way == "refused":
		return w.client.Do(redirectTo(r, w.refuses))
	case w.way == "reset", w.way == "writes" && writes:
		return w.client.Do(redirectTo(r, w.resets))
	}
	return w.client.Do(r)
}

// redirectTo returns a copy of a request that goes to another host.
func redirectTo(r *http.Request, host string) *http.Request {
	r = r.Clone(r.Context())
	r.URL.Host = host
	return r
}

// close ends the connections and kills the store's process, even a stopped one.
func (w *wire) close() {
	_ = w.listener.Close()
	w.client.CloseIdleConnections()
	if w.store != nil {
		_ = w.store.Process.Kill()
		_ = w.store.Stop()
	}
}
