package grpclimit

import (
	"context"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// Denial is the reason that a call is not made or served, as a status. The status reveals neither
// other callers, nor parents, nor internal errors:
//
//   - RESOURCE_EXHAUSTED for a call that does not fit, with a QuotaFailure of the caller's own limits that
//     deny, without violations if only a parent's limit denies;
//   - PERMISSION_DENIED for a block, and for a parent of Options.Identify that has no record;
//   - UNAUTHENTICATED for a caller without a record (dynalimit.Options.Unrecorded);
//   - UNAVAILABLE for a pause and if the limits cannot be asked now, INTERNAL if they cannot be asked
//     because of a mistake;
//   - CANCELLED or DEADLINE_EXCEEDED if the call has ended meanwhile.
//
// If a wait helps, the status has a RetryInfo with the exact wait.
type Denial struct {
	// RetryAfter is the exact wait; 0 if it is not known or no wait helps.
	RetryAfter time.Duration
	// Err is the error of the acquire, for logs and metrics: it is not for clients.
	Err error

	status *status.Status
}

// Error returns the text of the status, without the error of the acquire.
func (d *Denial) Error() string { return d.status.String() }

// GRPCStatus returns the status for the client. Package status and servers call it.
func (d *Denial) GRPCStatus() *status.Status { return d.status }

// Unwrap returns Err, so that errors.As finds a *dynalimit.LimitExceededError.
func (d *Denial) Unwrap() error { return d.Err }

var mistake = status.New(codes.Internal, "limits cannot be checked")

// newDenial converts an error of Acquire into the Denial that the client c may see: status, RetryInfo with the
// wait, and c's own denying limits. If the limits cannot be asked because ctx has ended, the status is that of
// ctx, without a wait. An unknown error becomes INTERNAL without detail.
func newDenial(ctx context.Context, c refusal.Caller, err error) *Denial {
	r := c.Refuse(err)
	d := &Denial{RetryAfter: r.RetryAfter, Err: err}
	var details []protoadapt.MessageV1
	switch r.Kind {
	case refusal.Exceeded:
		d.status = status.New(codes.ResourceExhausted, r.Detail)
		details = append(details, quotaFailure(c, r.Violated))
	case refusal.Blocked, refusal.Forbidden:
		d.status = status.New(codes.PermissionDenied, r.Detail)
	case refusal.Unrecorded:
		d.status = status.New(codes.Unauthenticated, r.Detail)
	case refusal.Passing:
		if ended := ctx.Err(); ended != nil {
			d.status, d.RetryAfter = status.FromContextError(ended), 0
			return d
		}
		d.status = status.New(codes.Unavailable, r.Detail)
	default:
		d.status = mistake
	}
	if d.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	}
	if detailed, err := d.status.WithDetails(details...); err == nil { // names are of ASCII, so that they can be encoded
		d.status = detailed
	}
	return d
}

// quotaFailure returns the status detail with the caller's own violated limits, each with its burst in tokens.
// It has no violations if only a parent's limit denies.
func quotaFailure(c refusal.Caller, violated []*dynalimit.LimitStatus) *errdetails.QuotaFailure {
	q := &errdetails.QuotaFailure{}
	for _, s := range violated {
		q.Violations = append(q.Violations, &errdetails.QuotaFailure_Violation{QuotaId: c.PolicyName(s), QuotaValue: s.Limit.Burst, Description: c.DescribeLimit(s)})
	}
	return q
}

// pushbackTrailer returns the trailer grpc-retry-pushback-ms, which tells gRPC's retries the wait in
// milliseconds, rounded up. It is -1, no retry, if no wait helps or 32 bits cannot hold it.
func (d *Denial) pushbackTrailer() metadata.MD {
	ms := int64(-1)
	if wait := (d.RetryAfter + time.Millisecond - 1) / time.Millisecond; wait > 0 && wait <= math.MaxInt32 {
		ms = int64(wait)
	}
	return metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(ms, 10))
}
