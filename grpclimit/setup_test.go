package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/grpclimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// two is two calls a minute.
func two() []dynalimit.Limit { return []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)} }

// one is what a call takes.
var one = dynalimit.Amounts{"rpm": 1}

// byUser charges the entity that the metadata name, whoever it is.
func byUser() *grpclimit.Options {
	return &grpclimit.Options{
		Key: func(ctx context.Context, _ *grpclimit.Call) string {
			md, ok := metadata.FromIncomingContext(ctx)
			if !ok {
				md, _ = metadata.FromOutgoingContext(ctx) // a client's
			}
			return strings.Join(md.Get("user"), ",")
		},
		Known: func(key string) bool { return !strings.HasPrefix(key, "unknown") },
	}
}

// interceptors are those of some options.
func interceptors(t testing.TB, l *dynalimittest.Limiter, o *grpclimit.Options) *grpclimit.Interceptors {
	t.Helper()
	i, err := grpclimit.New(l.RateLimiter, o)
	require.NoError(t, err)
	return i
}

type (
	request  = testgrpc.StreamingOutputCallRequest
	response = testgrpc.StreamingOutputCallResponse
)

// service answers what it is told to; nil is success.
type service struct {
	testgrpc.UnimplementedTestServiceServer
	unary  func(context.Context) error
	duplex func(grpc.BidiStreamingServer[request, response]) error
}

func (s *service) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &testgrpc.SimpleResponse{Username: "ok"}, nil
}

// FullDuplexCall answers each message unless it is told otherwise.
func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[request, response]) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return ended(err)
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// StreamingInputCall answers the end of the messages.
func (s *service) StreamingInputCall(stream testgrpc.TestService_StreamingInputCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			if err = ended(err); err != nil {
				return err
			}
			return stream.SendAndClose(&testgrpc.StreamingInputCallResponse{})
		}
	}
}

// ended is an error without the end of a stream.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// serve serves over a connection in memory, and returns a client of it.
func serve(t testing.TB, s *service, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	srv := grpc.NewServer(server...)
	testgrpc.RegisterTestServiceServer(srv, s)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; !errors.Is(err, grpc.ErrServerStopped) { // before it has begun
			assert.NoError(t, err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///memory", append(client,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	)...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// limited are the options of a server with interceptors.
func limited(i *grpclimit.Interceptors) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(i.UnaryServerInterceptor), grpc.ChainStreamInterceptor(i.StreamServerInterceptor)}
}

// limiting are the options of a client with interceptors.
func limiting(i *grpclimit.Interceptors) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(i.UnaryClientInterceptor), grpc.WithChainStreamInterceptor(i.StreamClientInterceptor)}
}

// as is a context with a user in its metadata.
func as(ctx context.Context, user string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "user", user)
}

// call makes a unary call, and returns its trailer.
func call(ctx context.Context, conn *grpc.ClientConn) (trailer metadata.MD, err error) {
	_, err = testgrpc.NewTestServiceClient(conn).UnaryCall(ctx, &testgrpc.SimpleRequest{}, grpc.Trailer(&trailer))
	return trailer, err
}

// stream makes a stream, sends nothing, and reads it to its end.
func stream(ctx context.Context, conn *grpc.ClientConn) (trailer metadata.MD, err error) {
	s, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	_, err = s.Recv()
	return s.Trailer(), ended(err)
}

// buckets counts the items of buckets by their partition key.
func buckets(t testing.TB, l *dynalimittest.Limiter) map[string]int {
	t.Helper()
	out, err := l.DB.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(t, err)
	found := map[string]int{}
	for _, item := range out.Items {
		if strings.HasPrefix(text(item["SK"]), "#BUCKET#") {
			found[text(item["PK"])]++
		}
	}
	return found
}

func text(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	return s.Value
}
