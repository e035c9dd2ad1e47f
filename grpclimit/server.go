package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// UnaryServerInterceptor limits the unary calls of a server: give it to grpc.ChainUnaryInterceptor. It runs the
// handler with the lease in its context, and ends the lease. A denied call gets an error, and a trailer
// grpc-retry-pushback-ms for the retries of clients.
func (i *Interceptors) UnaryServerInterceptor(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	call := &Call{Method: info.FullMethod, Request: request}
	// Without a server around it, as in a test, the trailer is dropped.
	err = i.serveCall(ctx, call, func(t metadata.MD) { _ = grpc.SetTrailer(ctx, t) }, func(ctx context.Context) error {
		reply, err = handler(ctx, request)
		return err
	})
	return reply, err
}

// StreamServerInterceptor limits the streams of a server, each by one lease from its beginning to its end, for
// grpc.ChainStreamInterceptor. The handler finds the lease in the stream's context. A denied stream gets an
// error, and the trailer of UnaryServerInterceptor.
func (i *Interceptors) StreamServerInterceptor(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	call := &Call{Method: info.FullMethod, Unknown: service == nil}
	return i.serveCall(stream.Context(), call, stream.SetTrailer, func(ctx context.Context) error {
		return handler(service, serverStream{stream, ctx})
	})
}

// serveCall acquires the amounts of a call, runs the handler with the lease in its context, and ends the lease.
// It returns the denial's or the handler's error, and passes a denial's trailer to setTrailer.
func (i *Interceptors) serveCall(ctx context.Context, call *Call, setTrailer func(metadata.MD), handler func(context.Context) error) error {
	a, err := i.admitCall(ctx, call, setTrailer)
	if err != nil {
		return err
	}
	return a.runCall(handler)
}

// serverStream is a stream with the lease in its context.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context with the lease, for the handler.
func (s serverStream) Context() context.Context { return s.ctx }
