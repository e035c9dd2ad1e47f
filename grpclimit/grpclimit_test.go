package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/grpclimit"
)

// told is what a caller is told by a status.
type told struct {
	code     codes.Code
	message  string
	quota    bool // there is a QuotaFailure
	violated []string
	wait     time.Duration
}

func read(t testing.TB, err error) (got told) {
	t.Helper()
	s, ok := status.FromError(err)
	require.True(t, ok, err)
	got.code, got.message = s.Code(), s.Message()
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			got.wait = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			got.quota = true
			for _, v := range d.GetViolations() {
				assert.EqualValues(t, 2, v.GetQuotaValue())
				assert.Empty(t, v.GetSubject(), "who it is, the caller knows")
				got.violated = append(got.violated, v.GetQuotaId()+" "+v.GetDescription())
			}
		default:
			t.Errorf("a detail of type %T", d)
		}
	}
	return got
}

// sides are the four interceptors, each with a call through it.
var sides = map[string]struct {
	client bool
	call   func(context.Context, *grpc.ClientConn) (metadata.MD, error)
}{
	"unary server": {false, call}, "stream server": {false, stream}, "unary client": {true, call}, "stream client": {true, stream},
}

// around is a client with the interceptors on its own side, or on the server's.
func around(t testing.TB, s *service, client bool, i *grpclimit.Interceptors) *grpc.ClientConn {
	t.Helper()
	if client {
		return serve(t, s, nil, limiting(i)...)
	}
	return serve(t, s, limited(i))
}

// TestOutcomes: what each end of an acquire is told by, at all four places.
func TestOutcomes(t *testing.T) {
	for name, test := range map[string]struct {
		before   func(testing.TB, *dynalimittest.Limiter, *grpclimit.Options)
		want     told
		pushback string
	}{
		"served": {},
		"exceeded": {
			before: func(_ testing.TB, l *dynalimittest.Limiter, _ *grpclimit.Options) {
				l.Exhaust("ana", "grpc")
				l.Advance(time.Millisecond)
			},
			want:     told{codes.ResourceExhausted, "rpm: 1 asked, 0 left", true, []string{"rpm rpm: 1 asked, 0 left"}, 29_999 * time.Millisecond},
			pushback: "29999",
		},
		"never fits": {
			before: func(_ testing.TB, _ *dynalimittest.Limiter, o *grpclimit.Options) {
				o.Amounts = func(context.Context, *grpclimit.Call) dynalimit.Amounts { return dynalimit.Amounts{"rpm": 3} }
			},
			want:     told{codes.ResourceExhausted, "rpm: 3 asked, at most 2 can ever be", true, []string{"rpm rpm: 3 asked, at most 2 can ever be"}, 0},
			pushback: "-1",
		},
		"longer than 32 bits of milliseconds": {
			before: func(t testing.TB, l *dynalimittest.Limiter, _ *grpclimit.Options) {
				require.NoError(t, admin.New(l.Repo).Limits.Set(t.Context(), admin.Scope{Entity: "ana"}, []dynalimit.Limit{dynalimit.MonthlyQuota("rpm", 2, "")}))
				require.NoError(t, l.Do(t.Context(), "ana", "grpc", dynalimit.Amounts{"rpm": 2}, func(ctx context.Context, lease *dynalimit.Lease) error {
					return lease.Settle(ctx, nil)
				}))
			},
			want:     told{codes.ResourceExhausted, "rpm: 1 asked, 0 left", true, []string{"rpm rpm: 1 asked, 0 left"}, 31 * 24 * time.Hour},
			pushback: "-1",
		},
		"blocked": {
			before: func(t testing.TB, l *dynalimittest.Limiter, _ *grpclimit.Options) {
				require.NoError(t, admin.New(l.Repo).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "ana"}, true))
			},
			want:     told{code: codes.PermissionDenied, message: "an administrator has blocked this"},
			pushback: "-1",
		},
		"paused": {
			before: func(t testing.TB, l *dynalimittest.Limiter, _ *grpclimit.Options) {
				require.NoError(t, l.Pause(t.Context(), "ana", "grpc", 10*time.Second, "secret"))
			},
			want:     told{code: codes.Unavailable, message: "this is paused", wait: 11 * time.Second}, // with a margin
			pushback: "11000",
		},
		"without a record": {
			before: func(t testing.TB, l *dynalimittest.Limiter, _ *grpclimit.Options) {
				refusing, err := dynalimit.New(l.Repo, &dynalimit.Options{Unrecorded: dynalimit.RefuseUnrecorded})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, refusing.Close(context.WithoutCancel(t.Context()))) })
				l.RateLimiter = refusing
			},
			want:     told{code: codes.Unauthenticated, message: "the caller is not known"},
			pushback: "-1",
		},
		"a parent without a record": {
			before: func(_ testing.TB, _ *dynalimittest.Limiter, o *grpclimit.Options) {
				key := o.Key
				o.Key, o.Identify = nil, func(ctx context.Context, call *grpclimit.Call) grpclimit.Caller {
					return grpclimit.Caller{Key: key(ctx, call), Parent: "secret"}
				}
			},
			want:     told{code: codes.PermissionDenied, message: "the caller's parent cannot be charged"},
			pushback: "-1",
		},
		"store silent, block": {
			before:   func(_ testing.TB, l *dynalimittest.Limiter, _ *grpclimit.Options) { silence(l) },
			want:     told{code: codes.Unavailable, message: "limits cannot be checked now", wait: time.Second},
			pushback: "1000",
		},
		"store silent, allow": {
			before: func(t testing.TB, l *dynalimittest.Limiter, o *grpclimit.Options) {
				silence(l)
				o.Acquire = []dynalimit.AcquireOption{dynalimit.WithOnUnavailable(dynalimit.Allow)}
			},
		},
		"a bad resource": {
			before: func(_ testing.TB, _ *dynalimittest.Limiter, o *grpclimit.Options) {
				o.Resource = func(context.Context, *grpclimit.Call) string { return "#secret" }
			},
			want:     told{code: codes.Internal, message: "limits cannot be checked"},
			pushback: "-1",
		},
	} {
		for place, side := range sides {
			t.Run(name+", "+place, func(t *testing.T) {
				l := dynalimittest.New(t, two()...)
				var log bytes.Buffer
				o := byUser()
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				if test.before != nil {
					test.before(t, l, o)
				}
				trailer, err := side.call(as(t.Context(), "ana"), around(t, &service{}, side.client, interceptors(t, l, o)))
				assert.Equal(t, test.want, read(t, err))
				if !side.client {
					assert.Equal(t, test.pushback, strings.Join(trailer["grpc-retry-pushback-ms"], ","))
				}
				l.DB.SetFaults(nil)
				assert.Equal(t, test.want.code == codes.Internal, strings.Contains(log.String(), "could not be limited"), log.String())
			})
		}
	}
}

// silence makes the store silent.
func silence(l *dynalimittest.Limiter) {
	l.DB.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
}

// TestParentsAreNotShown: a caller sees its own limits, and nothing of those that others use too.
func TestParentsAreNotShown(t *testing.T) {
	l := dynalimittest.New(t, dynalimit.PerMinute("rpm", 60))
	a := admin.New(l.Repo)
	require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Entity: "shop"}, two()))
	require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "ana", ParentID: "shop", Cascade: true}))
	o := byUser()
	asked := one
	o.Amounts = func(context.Context, *grpclimit.Call) dynalimit.Amounts { return asked }
	conn := serve(t, &service{}, limited(interceptors(t, l, o)))
	l.Exhaust("shop", "grpc")
	_, err := call(as(t.Context(), "ana"), conn)
	assert.Equal(t, told{codes.ResourceExhausted, "a limit that others share is used up", true, nil, 30 * time.Second}, read(t, err))
	asked = dynalimit.Amounts{"rpm": 3}
	_, err = call(as(t.Context(), "ana"), conn)
	assert.Equal(t, told{codes.ResourceExhausted, "this is more than a limit that others share ever allows", true, nil, 0}, read(t, err))
}

// TestDenialUnwraps: the caller of a client finds the whole error, which no server's client gets.
func TestDenialUnwraps(t *testing.T) {
	for place, side := range sides {
		l := dynalimittest.New(t, two()...)
		l.Exhaust("ana", "grpc")
		_, err := side.call(as(t.Context(), "ana"), around(t, &service{}, side.client, interceptors(t, l, byUser())))
		var exceeded *dynalimit.LimitExceededError
		require.Equal(t, side.client, errors.As(err, &exceeded), place)
		if side.client {
			assert.Equal(t, "ana", exceeded.EntityID)
			assert.EqualError(t, err, "rpc error: code = ResourceExhausted desc = rpm: 1 asked, 0 left")
		}
	}
}

// TestLeavers: a call whose context has ended says so, and holds nothing.
func TestLeavers(t *testing.T) {
	l := dynalimittest.New(t, two()...)
	i := interceptors(t, l, byUser())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for ctx, want := range map[context.Context]codes.Code{cancelled: codes.Canceled, late: codes.DeadlineExceeded} {
		err := i.UnaryClientInterceptor(as(ctx, "ana"), "/a.B/C", nil, nil, nil, nil)
		assert.Equal(t, told{code: want, message: ctx.Err().Error()}, read(t, err))
	}
	l.AssertTaken("ana", "grpc", nil)
}

// TestSkip: what is skipped is neither charged nor has a lease.
func TestSkip(t *testing.T) {
	for place, side := range sides {
		l := dynalimittest.New(t, two()...)
		o := byUser()
		o.Skip = func(_ context.Context, c *grpclimit.Call) bool { return strings.HasSuffix(c.Method, "Call") }
		s := &service{unary: func(ctx context.Context) error {
			assert.Nil(t, grpclimit.Lease(ctx))
			return nil
		}}
		_, err := side.call(as(t.Context(), "ana"), around(t, s, side.client, interceptors(t, l, o)))
		require.NoError(t, err, place)
		assert.Empty(t, buckets(t, l), place)
	}
}

// TestOnDenied answers with an error of the application's own, but never with success.
func TestOnDenied(t *testing.T) {
	own := status.Error(codes.Aborted, "slow down")
	for place, side := range sides {
		l := dynalimittest.New(t, two()...)
		l.Exhaust("ana", "grpc")
		o := byUser()
		var answer error
		o.OnDenied = func(_ context.Context, c *grpclimit.Call, d *grpclimit.Denial) error {
			assert.ErrorIs(t, d, dynalimit.ErrLimitExceeded)
			assert.Equal(t, 30*time.Second, d.RetryAfter)
			assert.True(t, strings.HasPrefix(c.Method, "/grpc.testing.TestService/"))
			return answer
		}
		conn := around(t, &service{}, side.client, interceptors(t, l, o))
		for wanted, err := range map[codes.Code]error{codes.ResourceExhausted: nil, codes.Aborted: own} {
			answer = err
			_, got := side.call(as(t.Context(), "ana"), conn)
			assert.Equal(t, wanted, status.Code(got), place)
		}
	}
}

// TestHandlerSettles: the handler says what was used, or that nothing was.
func TestHandlerSettles(t *testing.T) {
	for user, test := range map[string]struct {
		end   func(*dynalimit.Lease, context.Context) error
		taken dynalimit.Amounts
	}{
		"ana": {func(l *dynalimit.Lease, ctx context.Context) error { return l.Settle(ctx, dynalimit.Amounts{"rpm": 2}) }, dynalimit.Amounts{"rpm": 2}},
		"ben": {(*dynalimit.Lease).Rollback, nil},
	} {
		l := dynalimittest.New(t, two()...)
		end := func(ctx context.Context) error { return test.end(grpclimit.Lease(ctx), ctx) }
		s := &service{unary: end, duplex: func(s grpc.BidiStreamingServer[request, response]) error { return end(s.Context()) }}
		conn := serve(t, s, limited(interceptors(t, l, byUser())))
		for _, ask := range []func(context.Context, *grpc.ClientConn) (metadata.MD, error){call, stream} {
			_, err := ask(as(t.Context(), user), conn)
			require.NoError(t, err)
			l.AssertTaken(user, "grpc", test.taken)
			l.Advance(2 * time.Minute)
			test.taken = dynalimit.Amounts{"rpm": 2 * test.taken["rpm"]}
		}
	}
}

// TestRefund: calls that end with some codes cost nothing, of a server by what it answers with, and
// of a client by what it is answered with.
func TestRefund(t *testing.T) {
	for place, side := range sides {
		for failure, taken := range map[error]dynalimit.Amounts{
			nil:                                   one,
			status.Error(codes.Unavailable, "no"): nil,
			status.Error(codes.InvalidArgument, "no"): one,
			errors.New("no status"):                   one, // UNKNOWN
			context.DeadlineExceeded:                  nil, // as the server sends it
		} {
			l := dynalimittest.New(t, two()...)
			o := byUser()
			o.Refund = func(c codes.Code) bool { return c == codes.Unavailable || c == codes.DeadlineExceeded }
			s := &service{unary: func(context.Context) error { return failure }, duplex: func(grpc.BidiStreamingServer[request, response]) error { return failure }}
			_, err := side.call(as(t.Context(), "ana"), around(t, s, side.client, interceptors(t, l, o)))
			assert.Equal(t, failure != nil, err != nil)
			l.AssertTaken("ana", "grpc", taken)
			if t.Failed() {
				t.Fatalf("%s: %v", place, failure)
			}
		}
	}
}

// TestRefundFails: what could not be given back is logged.
func TestRefundFails(t *testing.T) {
	l := dynalimittest.New(t, two()...)
	var log bytes.Buffer
	o := byUser()
	o.Refund, o.Logger = func(codes.Code) bool { return true }, slog.New(slog.NewTextHandler(&log, nil))
	conn := serve(t, &service{unary: func(context.Context) error { silence(l); return nil }}, limited(interceptors(t, l, o)))
	_, err := call(as(t.Context(), "ana"), conn)
	require.NoError(t, err)
	assert.Contains(t, log.String(), "could not be ended")
	l.DB.SetFaults(nil)
}

// TestPanicSettles: a panic leaves the call charged, and goes on.
func TestPanicSettles(t *testing.T) {
	l := dynalimittest.New(t, dynalimit.PerMinute("rpm", 10))
	o := byUser()
	o.Refund = func(codes.Code) bool { return true }
	i := interceptors(t, l, o)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("user", "ana"))
	var leases []*dynalimit.Lease
	boom := func(ctx context.Context) {
		leases = append(leases, grpclimit.Lease(ctx))
		panic("boom")
	}
	for _, run := range []func(){
		func() {
			_, _ = i.UnaryServerInterceptor(ctx, nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) { boom(ctx); return nil, nil })
		},
		func() {
			_ = i.StreamServerInterceptor(nil, silent{ctx: ctx}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error { boom(s.Context()); return nil })
		},
		func() {
			_ = i.UnaryClientInterceptor(ctx, "", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				boom(ctx)
				return nil
			})
		},
	} {
		assert.PanicsWithValue(t, "boom", run)
	}
	l.AssertTaken("ana", "grpc", dynalimit.Amounts{"rpm": 3})
	for _, lease := range leases {
		assert.ErrorIs(t, lease.Adjust(ctx, one), dynalimit.ErrLeaseEnded)
	}
}

// silent is a stream of a server that has a context alone.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }

// TestMisuse: wrong options are refused at once, by name; interceptors that nobody made refuse
// calls, and a denial that nobody made says nothing.
func TestMisuse(t *testing.T) {
	l := dynalimittest.New(t, two()...)
	for field, o := range map[string]*grpclimit.Options{
		"options.Known":     {Key: byUser().Key},
		"options.Key":       {Known: byUser().Known},
		"options.Strangers": {Strangers: "a#b"},
		"options.Identify":  {Key: byUser().Key, Known: byUser().Known, Identify: func(context.Context, *grpclimit.Call) grpclimit.Caller { return grpclimit.Caller{} }},
	} {
		_, err := grpclimit.New(l.RateLimiter, o)
		var bad *dynalimit.ValidationError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, field, bad.Field)
		assert.Contains(t, err.Error(), "grpclimit: invalid")
	}
	_, err := grpclimit.New(nil, nil)
	assert.ErrorContains(t, err, "invalid limiter")

	for _, none := range []*grpclimit.Interceptors{nil, {}} {
		for place, side := range sides {
			_, err := side.call(t.Context(), around(t, &service{}, side.client, none))
			assert.Equal(t, told{code: codes.Internal, message: "limits cannot be checked"}, read(t, err), place)
		}
	}
	assert.Nil(t, grpclimit.Lease(t.Context()))
	var d grpclimit.Denial
	assert.Equal(t, "rpc error: code = OK desc = ", d.Error())
	assert.Equal(t, codes.Unknown, status.Code(&d))
}

// TestCallersWithoutARecord: what their credentials name is charged, and a stranger's is not.
func TestCallersWithoutARecord(t *testing.T) {
	l := dynalimittest.New(t, dynalimit.PerMinute("rpm", 60))
	a := admin.New(l.Repo)
	require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "shop"}))
	require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Entity: "shop"}, two()))
	require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Plan: "free"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}))
	o := byUser()
	key := o.Key
	o.Key, o.Identify = nil, func(ctx context.Context, call *grpclimit.Call) grpclimit.Caller {
		return grpclimit.Caller{Key: key(ctx, call), Parent: "shop", Plan: "free"}
	}
	conn := around(t, &service{}, false, interceptors(t, l, o))
	for _, c := range []struct {
		user string
		want codes.Code
	}{{"ana", codes.OK}, {"ana", codes.ResourceExhausted}, {"ben", codes.OK}, {"cat", codes.ResourceExhausted}, {"unknown", codes.OK}, {"unknown", codes.OK}} {
		_, err := call(as(t.Context(), c.user), conn)
		assert.Equal(t, c.want, status.Code(err), c.user)
	}
}

// A batch call leaves the reserve of a limit to the others.
func TestBatchCallsLeaveTheReserve(t *testing.T) {
	l := dynalimittest.New(t, dynalimit.PerMinute("rpm", 5))
	o, batch := byUser(), true
	o.Batch = func(context.Context, *grpclimit.Call) bool { return batch }
	conn := around(t, &service{}, false, interceptors(t, l, o))
	answer := func() codes.Code {
		_, err := call(as(t.Context(), "ana"), conn)
		return status.Code(err)
	}
	for range 4 {
		assert.Equal(t, codes.OK, answer())
	}
	assert.Equal(t, codes.ResourceExhausted, answer())
	batch = false
	assert.Equal(t, codes.OK, answer())
}
