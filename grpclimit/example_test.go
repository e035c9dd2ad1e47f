package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/grpclimit"
	"github.com/dynalimit/dynalimit/httplimit"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// exampleLimiter is on ddbmem, with a clock that stands still.
func exampleLimiter(limits ...dynalimit.Limit) (limiter *dynalimit.RateLimiter, closeAll func()) {
	db := ddbmem.New()
	repo := must(dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{
		Now: func() time.Time { return time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC) },
	}))
	if err := repo.CreateTable(context.Background()); err != nil {
		panic(err)
	}
	limiter = must(dynalimit.New(repo, &dynalimit.Options{Limits: limits}))
	return limiter, func() {
		_ = limiter.Close(context.Background())
		db.Close()
	}
}

// serveHealth serves in memory, and returns options for a client.
func serveHealth(server *grpc.Server) []grpc.DialOption {
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }()
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	}
}

// customers are the hashes of the keys that were given out.
type customers map[string]bool

func (c customers) Has(key string) bool { return c[key] }

// Each customer may make two calls a minute of each method. Whoever has no key of a customer shares
// two with all others who have none.
func ExampleNew() {
	limiter, closeAll := exampleLimiter(dynalimit.PerMinute("rpm", 2))
	defer closeAll()
	customers := customers{httplimit.HashKey("ana's secret"): true}

	limit := must(grpclimit.New(limiter, &grpclimit.Options{
		Key:      grpclimit.APIKey("authorization"),
		Known:    customers.Has,
		Resource: grpclimit.Method,
	}))
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.UnaryServerInterceptor),
		grpc.ChainStreamInterceptor(limit.StreamServerInterceptor),
	)

	conn := must(grpc.NewClient("passthrough:///memory", serveHealth(server)...))
	defer conn.Close()
	defer server.Stop()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer ana's secret")
	for range 3 {
		var trailer metadata.MD
		_, err := healthgrpc.NewHealthClient(conn).Check(ctx, &healthgrpc.HealthCheckRequest{}, grpc.Trailer(&trailer))
		if err == nil {
			fmt.Println("served")
			continue
		}
		s := status.Convert(err)
		fmt.Println(s.Code(), s.Message(), strings.Join(trailer["grpc-retry-pushback-ms"], ""))
		for _, detail := range s.Details() {
			switch d := detail.(type) {
			case *errdetails.QuotaFailure:
				fmt.Println("limit", d.Violations[0].QuotaId, "of", d.Violations[0].QuotaValue)
			case *errdetails.RetryInfo:
				fmt.Println("again in", d.RetryDelay.AsDuration())
			}
		}
	}
	// Output:
	// served
	// served
	// ResourceExhausted rpm: 1 asked, 0 left 30000
	// limit rpm of 2
	// again in 30s
}

// A client keeps to what it may send, before it sends it. What was not served costs nothing.
func ExampleInterceptors_UnaryClientInterceptor() {
	limiter, closeAll := exampleLimiter(dynalimit.PerMinute("rpm", 2))
	defer closeAll()
	server := grpc.NewServer()
	memory := serveHealth(server)
	defer server.Stop()

	limit := must(grpclimit.New(limiter, &grpclimit.Options{
		Strangers: "billing", // this client, in all of its processes
		Resource:  grpclimit.Method,
		Refund:    func(c codes.Code) bool { return c == codes.Unavailable || c == codes.ResourceExhausted },
	}))
	conn := must(grpc.NewClient("passthrough:///memory", append(memory,
		grpc.WithChainUnaryInterceptor(limit.UnaryClientInterceptor),
		grpc.WithChainStreamInterceptor(limit.StreamClientInterceptor),
	)...))
	defer conn.Close()
	for range 3 {
		_, err := healthgrpc.NewHealthClient(conn).Check(context.Background(), &healthgrpc.HealthCheckRequest{})
		var exceeded *dynalimit.LimitExceededError
		if errors.As(err, &exceeded) {
			fmt.Println("not sent, again in", exceeded.RetryAfter)
			continue
		}
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// not sent, again in 30s
}
