package llm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/llm"
)

const someOrg = "550e8400-e29b-41d4-a716-446655440000"

// noCredentials is a provider that fails.
type noCredentials struct{ err error }

func (p noCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, p.err
}

// Limiter and keeper agree on what is an outage, and on what must never admit a
// call: the same error gives the same answer.
func TestLimiterAndKeeperJudgeErrorsAlike(t *testing.T) {
	refuse := func(code string) func(*ddbmem.DB, *dynamodb.Options) {
		return func(db *ddbmem.DB, _ *dynamodb.Options) {
			db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Error: &ddbmem.Error{Code: code}} })
		}
	}
	suffer := func(f ddbmem.Fault) func(*ddbmem.DB, *dynamodb.Options) {
		return func(db *ddbmem.DB, _ *dynamodb.Options) {
			db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return f })
		}
	}
	credentials := func(err error) func(*ddbmem.DB, *dynamodb.Options) {
		return func(_ *ddbmem.DB, o *dynamodb.Options) { o.Credentials = noCredentials{err} }
	}
	network := func(err error) func(*ddbmem.DB, *dynamodb.Options) {
		return func(_ *ddbmem.DB, o *dynamodb.Options) { o.HTTPClient = unreachable{err} }
	}
	for name, test := range map[string]struct {
		spoil  func(*ddbmem.DB, *dynamodb.Options)
		admits bool
	}{
		"throttling":              {refuse("ThrottlingException"), true},
		"capacity":                {refuse("ProvisionedThroughputExceededException"), true},
		"request limit":           {refuse("RequestLimitExceeded"), true},
		"internal error":          {refuse("InternalServerError"), true},
		"unavailable":             {refuse("ServiceUnavailable"), true},
		"hang":                    {suffer(ddbmem.Fault{Before: time.Hour}), true},
		"reset":                   {suffer(ddbmem.Fault{Drop: true}), true},
		"refused connection":      {network(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		"no metadata service":     {credentials(errors.New("no EC2 IMDS role found")), true},
		"no permission":           {refuse("AccessDeniedException"), false},
		"expired credentials":     {refuse("ExpiredTokenException"), false},
		"unknown credentials":     {refuse("UnrecognizedClientException"), false},
		"missing table":           {refuse("ResourceNotFoundException"), false},
		"bad request":             {refuse("ValidationException"), false},
		"nothing configured":      {credentials(errors.New("static credentials are empty")), false},
		"unknown host from start": {network(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nowhere"}}), false},
		"no region":               {func(_ *ddbmem.DB, o *dynamodb.Options) { o.Region, o.BaseEndpoint = "", nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := ddbmem.New()
				defer db.Close()
				repo, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"})
				require.NoError(t, err)
				require.NoError(t, repo.CreateTable(t.Context()))
				base := db.Client().Options()
				change := func(o *dynamodb.Options) { *o = base; test.spoil(db, o) }
				broken := dynamodb.New(base, change)

				repo, err = dynalimit.NewRepository(broken, "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"})
				require.NoError(t, err)
				limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}, OnUnavailable: dynalimit.Allow})
				require.NoError(t, err)
				keeper, err := budget.New(broken, budget.Tables{}, nil)
				require.NoError(t, err)

				_, limiterErr := limiter.Acquire(t.Context(), "user-1", "gpt-4", dynalimit.Amounts{"rpm": 1})
				_, keeperErr := keeper.Recommend(t.Context(), someOrg, "chat")
				answered := name == "capacity" || name == "request limit" || name == "throttling" // no policy admits then
				assert.Equal(t, test.admits && !answered, limiterErr == nil, "the limiter: %v", limiterErr)
				assert.Equal(t, test.admits, errors.Is(keeperErr, dynalimit.ErrUnavailable), "the keeper: %v", keeperErr)
				assert.Equal(t, answered, errors.Is(limiterErr, dynalimit.ErrUnavailable))
				_, keeperErr = keeper.Submit(t.Context(), someOrg, "chat", budget.Usage{RequestID: someOrg, Label: "premium"})
				assert.Equal(t, test.admits, errors.Is(keeperErr, dynalimit.ErrUnavailable), "%v", keeperErr)

				require.NoError(t, keeper.Close(t.Context()))
				if err := limiter.Close(t.Context()); limiterErr == nil {
					require.ErrorIs(t, err, dynalimit.ErrUnconfirmed, "what it admitted is told to nobody")
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

func TestRetryAfterHoldsForEveryError(t *testing.T) {
	limit := func(d time.Duration) error { return &dynalimit.LimitExceededError{RetryAfter: d} }
	plain := errors.New("plain")
	for _, test := range []struct {
		name string
		err  error
		want time.Duration
		ok   bool
	}{
		{"limit", limit(time.Second), time.Second, true},
		{"limit that never fits", limit(dynalimit.Never), 0, false},
		{"denied call", &llm.DeniedError{RetryAfter: 2 * time.Second, Err: limit(time.Second)}, 2 * time.Second, true},
		{"call that never fits", &llm.DeniedError{RetryAfter: dynalimit.Never, Err: limit(dynalimit.Never)}, 0, false},
		{"limiter's store", &dynalimit.UnavailableError{Err: plain, RetryAfter: 3 * time.Second}, 3 * time.Second, true},
		{"limiter's store, unknown", &dynalimit.UnavailableError{Err: plain}, 0, false},
		{"keeper's store", &fault.UnavailableError{Err: plain, RetryAfter: 4 * time.Second}, 4 * time.Second, true},
		{"keeper's store, unknown", &fault.UnavailableError{Err: plain}, 0, false},
		{"unsettled", &llm.UnsettledError{
			Lease: &dynalimit.UnavailableError{Err: plain, RetryAfter: time.Second}, Budget: &fault.UnavailableError{Err: plain, RetryAfter: 2 * time.Second},
		}, 2 * time.Second, true},
		{"quota of nobody's", &budget.QuotaExceededError{RetryAt: time.Now()}, 0, false},
		{"validation", &llm.ValidationError{}, 0, false},
		{"plain", plain, 0, false},
		{"none", nil, 0, false},
	} {
		for how, err := range map[string]error{
			"as is": test.err, "wrapped": fmt.Errorf("call: %w", test.err), "joined": errors.Join(plain, test.err),
			"joined and wrapped": fmt.Errorf("%w (%w)", plain, fmt.Errorf("call: %w", test.err)),
		} {
			if test.err == nil && how != "as is" {
				continue
			}
			wait, ok := dynalimit.RetryAfter(err)
			assert.Equal(t, test.ok, ok, "%s, %s", test.name, how)
			assert.Equal(t, test.want, wait, "%s, %s", test.name, how)
		}
	}
	wait, ok := dynalimit.RetryAfter(errors.Join(limit(time.Second), &fault.UnavailableError{Err: plain, RetryAfter: time.Minute}))
	assert.True(t, ok)
	assert.Equal(t, time.Minute, wait, "both must be over")
}
