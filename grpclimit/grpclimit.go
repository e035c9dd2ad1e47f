// Package grpclimit limits the calls of gRPC servers and clients: its interceptors take a lease
// for each call, and answer denied calls.
//
//	limit, err := grpclimit.New(limiter, &grpclimit.Options{
//		Key:      grpclimit.APIKey("authorization"), // hashed: the entity is not a secret
//		Known:    customers.Has,
//		Resource: grpclimit.Method,
//	})
//	…
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.UnaryServerInterceptor),
//		grpc.ChainStreamInterceptor(limit.StreamServerInterceptor),
//	)
//
// A call that does not fit ends with RESOURCE_EXHAUSTED, and a blocked one with PERMISSION_DENIED. A call of
// a caller without a record ends with UNAUTHENTICATED if dynalimit.Options.Unrecorded is RefuseUnrecorded. If
// the limits cannot be asked, it ends with UNAVAILABLE, see [Denial]. Clients learn nothing about other
// callers. An admitted call stays charged in every case, unless Options.Refund or the handler, by its
// [Lease], corrects it. A stream is one call.
//
// Only keys known to Options.Known have buckets of their own. All others share one, so that
// invented keys create no items.
package grpclimit

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// Interceptors are those of one New, for servers and clients. A nil or zero one refuses each call.
type Interceptors struct {
	limiter *dynalimit.RateLimiter
	o       Options
}

// New returns interceptors that limit calls by limiter. It fails with a *ValidationError for bad options, and
// the caller must close the limiter.
func New(limiter *dynalimit.RateLimiter, opts *Options) (*Interceptors, error) {
	if limiter == nil {
		return nil, invalid("limiter", "is nil; make one with dynalimit.New(repo, nil)")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Interceptors{limiter: limiter, o: o.withDefaults()}, nil
}

// Lease returns the lease of a call from its context. The handler, or an interceptor of a client, corrects it
// after the usage is known: Settle charges the usage, Rollback nothing. It is nil for a call without a limit. A
// lease without Settle or Rollback stays charged as it is. Of several interceptors it is the innermost one's.
func Lease(ctx context.Context) *dynalimit.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*dynalimit.Lease)
	return lease
}

type leaseKey struct{}

// Call is a call that is to be limited.
type Call struct {
	// Method is its full name, such as "/package.Service/Method".
	Method string
	// Request is the message of a unary call; nil of a stream.
	Request any
	// Unknown means that the server lacks the method: grpc.UnknownServiceHandler serves it, and
	// the client invented its name. It is false at a client.
	Unknown bool
}

// admitted is a call with its lease, which is nil for a call that is skipped.
type admitted struct {
	*Interceptors
	ctx   context.Context
	lease *dynalimit.Lease
}

// admitCall acquires the amounts of a call and returns it with its lease, also in its context. For a denial it
// passes the retry trailer to trailer and returns the error for the client. A skipped call has no lease; nil or
// zero interceptors refuse each call.
func (i *Interceptors) admitCall(ctx context.Context, call *Call, trailer func(metadata.MD)) (admitted, error) {
	if i == nil || i.limiter == nil {
		return admitted{}, &Denial{status: mistake, Err: invalid("interceptors", "are none; make them with New")}
	}
	if i.o.Skip != nil && i.o.Skip(ctx, call) {
		return admitted{ctx: ctx}, nil
	}
	by := i.identifyCaller(ctx, call)
	c := refusal.Caller{Entity: by.Key, Resource: i.o.Resource(ctx, call)}
	lease, err := i.limiter.Acquire(ctx, c.Entity, c.Resource, i.o.Amounts(ctx, call), refusal.CallerOptions(i.o.Acquire, by.Parent, by.Plan, i.o.Batch != nil && i.o.Batch(ctx, call))...)
	if err != nil {
		d := newDenial(ctx, c, err)
		trailer(d.pushbackTrailer())
		return admitted{}, i.denialError(ctx, call, d)
	}
	return admitted{i, context.WithValue(ctx, leaseKey{}, lease), lease}, nil
}

// denialError returns the error of a denied call: that of Options.OnDenied, or d itself if that is not set or
// returns nil. It logs a denial with the code INTERNAL.
func (i *Interceptors) denialError(ctx context.Context, call *Call, d *Denial) error {
	if d.status.Code() == codes.Internal {
		i.o.Logger.LogAttrs(ctx, slog.LevelError, "grpclimit: a call could not be limited", slog.String("method", call.Method), slog.Any("error", d.Err))
	}
	if i.o.OnDenied != nil {
		if err := i.o.OnDenied(ctx, call, d); err != nil {
			return err
		}
	}
	return d
}

// runCall runs next with the lease in its context, ends the lease, and returns next's error. After a panic the
// call stays charged, and the panic continues.
func (a admitted) runCall(next func(context.Context) error) (err error) {
	returned := false
	defer func() { a.endLease(returned, err) }()
	err = next(a.ctx)
	returned = true
	return err
}

// endLease ends the lease of a call that returned err: it rolls back if Options.Refund accepts err's code, and
// settles at the charge otherwise. A call that did not return is settled too. It does nothing for a skipped
// call, and logs a failure.
func (a admitted) endLease(returned bool, err error) {
	if a.lease == nil {
		return
	}
	if returned && a.o.Refund != nil && a.o.Refund(statusCode(err)) {
		err = a.lease.Rollback(a.ctx)
	} else {
		err = a.lease.Settle(a.ctx, nil)
	}
	if err != nil {
		a.o.Logger.LogAttrs(a.ctx, slog.LevelError, "grpclimit: the lease of a call could not be ended", slog.Any("error", err))
	}
}

// statusCode returns the code of a call's error as the server sends it; OK for nil. An error without a status
// has the code of a context's error, or Unknown.
func statusCode(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}
