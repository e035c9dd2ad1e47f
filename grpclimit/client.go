package grpclimit

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// UnaryClientInterceptor limits the unary calls of a client before they are sent: give it to
// grpc.WithChainUnaryInterceptor. One lease is for all attempts that gRPC makes of a call; a denial
// is not retried.
func (i *Interceptors) UnaryClientInterceptor(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	a, err := i.admit(ctx, &Call{Method: method, Request: request}, noTrailer)
	if err != nil {
		return err
	}
	return a.run(func(ctx context.Context) error { return invoker(ctx, method, request, reply, conn, opts...) })
}

// StreamClientInterceptor limits the streams of a client before they are opened, each by one lease:
// give it to grpc.WithChainStreamInterceptor. The lease ends with the stream, whoever ends it: it
// was read to its end or failed, its context is done, or the connection was closed.
func (i *Interceptors) StreamClientInterceptor(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	a, err := i.admit(ctx, &Call{Method: method}, noTrailer)
	if err != nil {
		return nil, err
	}
	var once sync.Once
	end := func(err error) { once.Do(func() { a.end(true, err) }) }
	stream, err := streamer(a.ctx, desc, conn, method, append(slices.Clip(opts), grpc.OnFinish(end))...)
	if err != nil {
		end(err) // of an interceptor inside that has not called gRPC
	}
	return stream, err
}

func noTrailer(metadata.MD) {}
