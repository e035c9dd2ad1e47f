package keeper

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// reading is what a process used since it began; all but CPU is the store's alone.
type reading struct {
	CPU   time.Duration `json:"cpu_ns"`
	Meter ddbmem.Meter  `json:"meter"`
	// Transactions were sent, and Conflicts of them met another; counted with -busy alone.
	Transactions int64 `json:"transactions"`
	Conflicts    int64 `json:"conflicts"`
}

// fleet is a store, and the processes of a keeper on it.
type fleet struct {
	targets []target
	// dial makes a client of the process with a number.
	dial func(process int) client
	// read is what the store used, and the keepers together.
	read func() (store, keepers reading, err error)
	// size is how large the table of usage is.
	size func(ctx context.Context) (size, error)
	stop func(ctx context.Context) error
}

// inside makes a fleet of this process, whose clients call its handlers.
func inside(ctx context.Context, s settings) (_ *fleet, err error) {
	db := ddbmem.New()
	var ends []func(context.Context) error
	f, h := &fleet{}, newHot(s.Latency, s.Busy)
	f.stop = func(ctx context.Context) error {
		db.SetFaults(nil)
		var errs []error
		for _, end := range ends {
			errs = append(errs, end(ctx))
		}
		db.Close()
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop(ctx))
		}
	}()
	keys, err := credentials.NewKeySet(nil, time.Now())
	if err != nil {
		return nil, err
	}
	if f.targets, err = prepare(ctx, db.Client(), keys, s); err != nil {
		return nil, err
	}
	handlers := make([]http.Handler, s.Processes)
	for i := range handlers {
		n, err := openNode(db.Client(), keys, s)
		if err != nil {
			return nil, err
		}
		ends = append(ends, n.close)
		handlers[i] = n.server
		if i == 0 && s.Sweep > 0 {
			n.sweep(s.Sweep)
		}
	}
	db.SetFaults(h.fault)
	f.dial = func(process int) client { return caller{handlers[process%len(handlers)]} }
	f.read = func() (store, keepers reading, err error) { return h.read(db), reading{CPU: cpu()}, nil }
	f.size = func(ctx context.Context) (size, error) { return sizeOf(ctx, db.Client()) }
	return f, nil
}

// listen serves a handler on a loopback port.
func listen(ctx context.Context, h http.Handler) (address string, end func() error, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until end
	}()
	return l.Addr().String(), func() error {
		err := server.Close()
		<-served
		return err
	}, nil
}

// remote is a client of a store in another process.
func remote(endpoint string, transport http.RoundTripper) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: transport},
		Credentials: awscredentials.NewStaticCredentialsProvider("load", "load", ""),
	})
}

// size is how large a table is.
type size struct{ bytes, items int64 }

// sizeOf is how large the table of usage is.
func sizeOf(ctx context.Context, client *dynamodb.Client) (size, error) {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &tables.Usage})
	if err != nil {
		return size{}, err
	}
	if out.Table == nil || out.Table.TableSizeBytes == nil || out.Table.ItemCount == nil {
		return size{}, errors.New("the store does not say how large the table is")
	}
	return size{*out.Table.TableSizeBytes, *out.Table.ItemCount}, nil
}

// cpu is the time that this process has had of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
