package grpclimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/grpclimit"
)

// TestSlotEndsWithTheCall: a call holds its slot while its handler runs, and gives it back however it ends.
func TestSlotEndsWithTheCall(t *testing.T) {
	slot := dynalimit.Amounts{"inflight": 1}
	l := dynalimittest.New(t, dynalimit.Concurrent("inflight", 1, time.Minute))
	o := byUser()
	o.Amounts = func(context.Context, *grpclimit.Call) dynalimit.Amounts { return slot }
	i := interceptors(t, l, o)
	inside := func(ctx context.Context) {
		_, err := l.Acquire(ctx, "ana", "grpc", slot)
		assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
	}
	conn := around(t, &service{
		unary: func(ctx context.Context) error { inside(ctx); return nil },
		duplex: func(s grpc.BidiStreamingServer[request, response]) error {
			inside(s.Context())
			if err := s.Send(&response{}); err != nil {
				return err
			}
			<-s.Context().Done() // the client goes
			return s.Context().Err()
		},
	}, false, i)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("user", "ana"))
	for name, run := range map[string]func(t *testing.T){
		"unary": func(t *testing.T) {
			_, err := call(as(t.Context(), "ana"), conn)
			require.NoError(t, err)
		},
		"a client that goes": func(t *testing.T) {
			ctx, cancel := context.WithCancel(as(t.Context(), "ana"))
			defer cancel()
			s, err := testgrpc.NewTestServiceClient(conn).FullDuplexCall(ctx)
			require.NoError(t, err)
			_, err = s.Recv()
			require.NoError(t, err)
		},
		"a panic": func(t *testing.T) {
			assert.Panics(t, func() {
				_, _ = i.UnaryServerInterceptor(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { inside(ctx); panic("boom") })
			})
		},
		"a panic of a stream": func(t *testing.T) {
			assert.Panics(t, func() {
				_ = i.StreamServerInterceptor(nil, silent{ctx: ctx}, &grpc.StreamServerInfo{}, func(any, grpc.ServerStream) error { inside(ctx); panic("boom") })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t)
			lease, err := l.Wait(t.Context(), "ana", "grpc", slot) // until the handler has ended
			require.NoError(t, err)
			require.NoError(t, lease.Rollback(t.Context()))
		})
	}
}
