package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/grpclimit"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var anas = httplimit.HashKey("ana's")

// TestAPIKey: what is no key has its tests in httplimit.
func TestAPIKey(t *testing.T) {
	for _, test := range []struct {
		name, want string
		received   metadata.MD
	}{
		{"authorization", anas, metadata.Pairs("authorization", "Bearer ana's")},
		{"X-Api-Key", anas, metadata.Pairs("x-api-key", "ana's")},
		{"x-api-key", "", metadata.Pairs("x-api-key", "ana's", "x-api-key", "another")},
		{"x-api-key", "", nil},
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("x-api-key", "of the client"))
		if test.received != nil {
			ctx = metadata.NewIncomingContext(ctx, test.received)
		}
		assert.Equal(t, test.want, grpclimit.APIKey(test.name)(ctx, nil), "%s %v", test.name, test.received)
	}
}

func TestAddress(t *testing.T) {
	find := grpclimit.Address(netip.MustParsePrefix("10.0.0.0/8"))
	local := grpclimit.Address(netip.MustParsePrefix("127.0.0.1/32"))
	socket := &net.UnixAddr{Name: "@", Net: "unix"}
	for _, test := range []struct {
		peer            net.Addr
		forwarded, want string
	}{
		{&net.TCPAddr{IP: net.ParseIP("203.0.113.7"), Port: 80}, "198.51.100.1", "ip:203.0.113.7"},
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 80}, "192.0.2.1, 198.51.100.1", "ip:198.51.100.1"},
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 80}, "[2001:db8::7]:51234", "ip:2001:db8::"},
		{socket, "198.51.100.1", "ip:127.0.0.1"},
		{nil, "", ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", test.forwarded))
		assert.Equal(t, test.want, find(peer.NewContext(ctx, &peer.Peer{Addr: test.peer}), nil))
	}
	assert.Empty(t, find(t.Context(), nil), "without a peer")
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", "198.51.100.1"))
	assert.Equal(t, "ip:198.51.100.1", local(peer.NewContext(ctx, &peer.Peer{Addr: socket}), nil), "a proxy on a Unix socket")
}

// FuzzMethod: whatever a method is called, a resource can be.
func FuzzMethod(f *testing.F) {
	for method, want := range map[string]string{
		"/grpc.testing.TestService/UnaryCall": "grpc.testing.TestService/UnaryCall",
		"/_hidden.Service/Call":               "xhidden.Service/Call",
		"no slash":                            "no_slash",
		"//x":                                 "xx",
		"":                                    "unrouted",
		"/a/" + strings.Repeat("b", 300):      "xbc8a37094f8dc3b9-" + strings.Repeat("b", 238),
	} {
		f.Add(method)
		assert.Equal(f, want, grpclimit.Method(f.Context(), &grpclimit.Call{Method: method}))
	}
	f.Fuzz(func(t *testing.T, method string) {
		got := grpclimit.Method(t.Context(), &grpclimit.Call{Method: method})
		assert.Empty(t, schema.ResourceRule.Check(got))
	})
}

// TestRetries: gRPC's own retries come back exactly when the trailer says, and not at all when no
// wait helps. Their own backoff would have given up after milliseconds.
func TestRetries(t *testing.T) {
	const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]
	}}]}`
	for name, test := range map[string]struct {
		asked int64
		code  codes.Code
		after time.Duration
	}{
		"two tokens": {2, codes.OK, time.Minute},
		"never":      {3, codes.ResourceExhausted, 0},
	} {
		for place, ask := range map[string]func(context.Context, *grpc.ClientConn) (metadata.MD, error){"unary": call, "stream": stream} {
			t.Run(name+", "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := dynalimittest.New(t, two()...)
					l.Exhaust("ana", "grpc")
					o := byUser()
					o.Amounts = func(context.Context, *grpclimit.Call) dynalimit.Amounts { return dynalimit.Amounts{"rpm": test.asked} }
					conn := serve(t, &service{}, limited(interceptors(t, l, o)), grpc.WithDefaultServiceConfig(retries))
					began := time.Now()
					_, err := ask(as(t.Context(), "ana"), conn)
					assert.Equal(t, test.code, status.Code(err), err)
					assert.Equal(t, test.after, time.Since(began))
				})
			})
		}
	}
}

// TestClientStreamsEnd: whichever way a stream of a client ends, its lease ends with it.
func TestClientStreamsEnd(t *testing.T) {
	open := func(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.BidiStreamingClient[request, response] {
		t.Helper()
		s, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(ctx)
		require.NoError(t, err)
		require.NoError(t, s.Send(&request{}))
		_, err = s.Recv()
		require.NoError(t, err)
		return s
	}
	for name, test := range map[string]struct {
		end  func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, cancel func())
		code codes.Code
	}{
		"read to its end": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			s := open(ctx, t, conn)
			require.NoError(t, s.CloseSend())
			_, err := s.Recv()
			require.NoError(t, ended(err))
		}, codes.OK},
		"answered": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			s, err := testgrpc.NewTestServiceClient(conn).StreamingInputCall(ctx)
			require.NoError(t, err)
			_, err = s.CloseAndRecv()
			require.NoError(t, err)
		}, codes.OK},
		"fails": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			s, err := testgrpc.NewTestServiceClient(conn).StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{})
			require.NoError(t, err)
			_, err = s.Recv()
			require.Equal(t, codes.Unimplemented, status.Code(err))
		}, codes.Unimplemented},
		"never read, cancelled": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, cancel func()) {
			open(ctx, t, conn)
			cancel()
		}, codes.Canceled},
		"connection closed": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			s := open(ctx, t, conn)
			require.NoError(t, conn.Close())
			_, err := s.Recv()
			require.Equal(t, codes.Canceled, status.Code(err))
		}, codes.Canceled},
		"a message that cannot be sent": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			s := open(ctx, t, conn)
			require.Equal(t, codes.Internal, status.Code(s.SendMsg("no message")))
		}, codes.Internal},
		"opened twice by an interceptor inside": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			s := open(metadata.AppendToOutgoingContext(ctx, "twice", "yes"), t, conn)
			require.NoError(t, s.CloseSend())
			_, err := s.Recv()
			require.NoError(t, ended(err))
		}, codes.OK},
		"not opened": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			require.NoError(t, conn.Close())
			_, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(ctx)
			require.Equal(t, codes.Canceled, status.Code(err))
		}, codes.Canceled},
		"refused by an interceptor inside": {func(ctx context.Context, t *testing.T, conn *grpc.ClientConn, _ func()) {
			_, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(metadata.AppendToOutgoingContext(ctx, "refuse", "me"))
			require.Equal(t, codes.Aborted, status.Code(err))
		}, codes.Aborted},
	} {
		t.Run(name, func(t *testing.T) {
			l := dynalimittest.New(t, two()...)
			o := byUser()
			ends := make(chan codes.Code, 2)
			o.Refund = func(c codes.Code) bool { ends <- c; return false }
			var lease *dynalimit.Lease
			inside := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				lease = grpclimit.Lease(ctx)
				md, _ := metadata.FromOutgoingContext(ctx)
				switch {
				case md["refuse"] != nil:
					return nil, status.Error(codes.Aborted, "refused")
				case md["twice"] != nil:
					first, leave := context.WithCancel(ctx)
					s, err := streamer(first, desc, conn, method, opts...)
					require.NoError(t, err)
					leave()
					require.Equal(t, codes.Canceled, status.Code(s.RecvMsg(&response{})))
				}
				return streamer(ctx, desc, conn, method, opts...)
			}
			conn := serve(t, &service{}, nil, append(limiting(interceptors(t, l, o)), grpc.WithChainStreamInterceptor(inside))...)
			ctx, cancel := context.WithCancel(as(t.Context(), "ana"))
			defer cancel()
			test.end(ctx, t, conn, cancel)
			assert.Equal(t, test.code, <-ends)
			conn.Close()
			assert.Empty(t, ends, "it ends once")
			require.NoError(t, lease.Settle(t.Context(), nil)) // waits for the end
			assert.ErrorIs(t, lease.Adjust(t.Context(), one), dynalimit.ErrLeaseEnded)
			l.AssertTaken("ana", "grpc", one)
		})
	}
}

// TestStreamsAreOneCall: however many messages there are.
func TestStreamsAreOneCall(t *testing.T) {
	for place, side := range sides {
		l := dynalimittest.New(t, two()...)
		conn := around(t, &service{}, side.client, interceptors(t, l, byUser()))
		s, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(as(t.Context(), "ana"))
		require.NoError(t, err)
		for range 10 {
			require.NoError(t, s.Send(&request{}))
			_, err = s.Recv()
			require.NoError(t, err)
		}
		require.NoError(t, s.CloseSend())
		_, err = s.Recv()
		require.NoError(t, ended(err), place)
		l.AssertTaken("ana", "grpc", one)
	}
}

// TestMadeUpKeys: 10,000 keys that nobody gave out make one item, and take nothing from who is
// known.
func TestMadeUpKeys(t *testing.T) {
	l := dynalimittest.New(t, dynalimit.PerMinute("rpm", 100))
	i := interceptors(t, l, &grpclimit.Options{
		Key:       grpclimit.APIKey("authorization"),
		Known:     func(key string) bool { return key == anas },
		Strangers: "guests",
	})
	ask := func(secret string) error {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+secret))
		_, err := i.UnaryServerInterceptor(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
		return err
	}
	seen := map[codes.Code]int{}
	for n := range 10_000 {
		err := ask(fmt.Sprintf("made-up-%d", n))
		seen[status.Code(err)]++
		assert.NotContains(t, fmt.Sprint(status.Convert(err).Proto()), "guests")
	}
	assert.Equal(t, map[codes.Code]int{codes.OK: 100, codes.ResourceExhausted: 9_900}, seen)
	require.NoError(t, ask("ana's"))
	assert.Equal(t, map[string]int{"ENTITY#guests": 1, "ENTITY#" + anas: 1}, buckets(t, l))
}

// TestMadeUpMethods: of a server that takes all that come, those that it does not have make one
// item.
func TestMadeUpMethods(t *testing.T) {
	l := dynalimittest.New(t, dynalimit.PerMinute("rpm", 1_000))
	i := interceptors(t, l, &grpclimit.Options{Resource: grpclimit.Method})
	anything := func(any, grpc.ServerStream) error { return status.Error(codes.NotFound, "none") }
	conn := serve(t, &service{}, append(limited(i), grpc.UnknownServiceHandler(anything)))
	for n := range 50 {
		err := conn.Invoke(t.Context(), fmt.Sprintf("/made.up/Method%d", n), &testgrpc.Empty{}, &testgrpc.Empty{})
		require.Equal(t, codes.NotFound, status.Code(err))
	}
	_, err := call(t.Context(), conn)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"ENTITY#strangers": 2}, buckets(t, l))
	l.AssertTaken("strangers", "unrouted", dynalimit.Amounts{"rpm": 50})
	l.AssertTaken("strangers", "grpc.testing.TestService/UnaryCall", one)
}
