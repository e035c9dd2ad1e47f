package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// UnaryClientInterceptor limits the unary calls of a client before they are sent, for
// grpc.WithChainUnaryInterceptor. One lease covers all attempts that gRPC makes of a call, and ends with it. A
// denied call returns a *Denial, or the error of Options.OnDenied, and is not retried.
func (i *Interceptors) UnaryClientInterceptor(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	a, err := i.admitCall(ctx, &Call{Method: method, Request: request}, dropTrailer)
	if err != nil {
		return err
	}
	return a.runCall(func(ctx context.Context) error { return invoker(ctx, method, request, reply, conn, opts...) })
}

// StreamClientInterceptor limits the streams of a client before they are opened, each by one lease, for
// grpc.WithChainStreamInterceptor. The lease ends at the end of the stream, at its failure, or with its
// context; an unread stream keeps it until then. A denied stream returns nil and a *Denial, or the error of
// Options.OnDenied.
func (i *Interceptors) StreamClientInterceptor(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	a, err := i.admitCall(ctx, &Call{Method: method}, dropTrailer)
	if err != nil {
		return nil, err
	}
	stream, err := streamer(a.ctx, desc, conn, method, opts...)
	if a.lease == nil {
		return stream, err
	}
	if err != nil {
		a.endLease(true, err)
		return nil, err
	}
	var once sync.Once
	end := func(err error) { once.Do(func() { a.endLease(true, err) }) }
	stop := context.AfterFunc(ctx, func() { end(ctx.Err()) })
	return &clientStream{stream, !desc.ServerStreams, func(err error) { stop(); end(err) }}, nil
}

// clientStream is a stream that ends its lease.
type clientStream struct {
	grpc.ClientStream
	single bool // one message is the whole answer
	end    func(error)
}

// SendMsg sends a message, and ends the lease if that fails, except for io.EOF: then RecvMsg gets the reason
// and ends it.
func (s *clientStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		s.end(err)
	}
	return err
}

// RecvMsg receives a message. It ends the lease as successful at io.EOF, and after the only message of a method
// without a stream of answers. It ends the lease as failed at any other error.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF):
		s.end(nil)
	case err != nil || s.single:
		s.end(err)
	}
	return err
}

// dropTrailer ignores a trailer, because a client sends none.
func dropTrailer(metadata.MD) {}
