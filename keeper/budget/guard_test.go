package budget_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	premium    = "anthropic.claude-3-5-sonnet-20241022-v2:0"
	standard   = "anthropic.claude-3-5-haiku-20241022-v1:0"
	callMicros = 16_500 // of guardUsage
)

var guardUsage = llm.Usage{Tokens: prices.Tokens{Input: 1_500, Output: 800}}

func guardRequest() llm.Request {
	return llm.Request{Entity: "user-1", Resource: "chat", Org: exampleOrg, App: "chat", Estimate: llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 4_000}}
}

// guarded is a limiter and a keeper under one guard, on one engine whose clock stands still.
type guarded struct {
	*testing.T
	db      *ddbmem.DB
	now     time.Time
	keeper  *budget.Keeper
	guard   *llm.Guard
	refused []llm.Refused
}

// inBubble runs a test with a guard in a bubble, where retries take no time.
func inBubble(t *testing.T, test func(w *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		w := &guarded{T: t, now: time.Date(2099, 1, 23, 12, 0, 0, 0, time.UTC)}
		clock := func() time.Time { return w.now }
		w.db = ddbmem.New(ddbmem.WithClock(clock))
		t.Cleanup(w.db.Close)
		repo, err := dynalimit.NewRepository(w.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: clock, Principal: "ops@example.com"})
		require.NoError(t, err)
		require.NoError(t, repo.CreateTable(t.Context()))
		limiter, err := dynalimit.New(repo, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10_000), dynalimit.PerMinute("tpm", 10_000_000)}})
		require.NoError(t, err)
		w.keeper, err = budget.New(w.db.Client(), budget.Tables{}, &budget.Options{Now: clock, Principal: "tests", AllowUnknownApps: true})
		require.NoError(t, err)
		require.NoError(t, w.keeper.Setup().CreateTables(t.Context()))
		w.org(1_000_000, 500_000)
		w.guard, err = llm.New(&llm.Options{Limiter: limiter, Keeper: w.keeper, Now: clock, OnRefused: func(r llm.Refused) { w.refused = append(w.refused, r) }})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, w.guard.Close(context.Background()))
			assert.NoError(t, w.keeper.Close(context.Background()))
		})
		test(w)
	})
}

// org gives the labels quotas in µ$.
func (w *guarded) org(premiumQuota, standardQuota int64) {
	_, err := w.keeper.Setup().PutOrg(w.Context(), budget.Org{
		ID: exampleOrg, Timezone: "UTC", Ordering: []string{"premium", "standard"},
		Quotas: map[string]int64{"premium": premiumQuota, "standard": standardQuota}, Models: map[string]string{"premium": premium, "standard": standard},
	})
	require.NoError(w, err)
}

// call makes a call of a request and settles it. It returns the label.
func (w *guarded) call(r llm.Request) string {
	w.Helper()
	c, err := w.guard.Start(w.Context(), r)
	require.NoError(w, err)
	require.NoError(w, c.Settle(w.Context(), guardUsage))
	return c.Label
}

// spent is what the keeper counts under a label.
func (w *guarded) spent(label string) budget.LabelTotals {
	w.Helper()
	require.NoError(w, w.guard.Close(w.Context()))
	totals, err := w.keeper.Totals(w.Context(), exampleOrg, "chat", "")
	require.NoError(w, err)
	for _, l := range totals.Labels {
		if l.Label == label {
			return l
		}
	}
	return budget.LabelTotals{}
}

// TestAGuardStepsDownWithItsKeeper when a quota is spent, and has the label that is forced.
func TestAGuardStepsDownWithItsKeeper(t *testing.T) {
	inBubble(t, func(w *guarded) {
		w.org(20_000, 500_000)
		r := guardRequest()
		r.Tags = map[string]string{"user": "u1"}
		for i, want := range []string{"premium", "premium", "standard"} { // the quota is soft: one call may pass it
			assert.Equal(t, want, w.call(r), "call %d", i)
			require.NoError(t, w.guard.Close(w.Context()))
		}
		tags, err := w.keeper.TagTotals(w.Context(), exampleOrg, "chat", "", "user")
		require.NoError(t, err)
		assert.Equal(t, []budget.TagTotal{{Value: "u1", CostMicros: 37_400, Requests: 3}}, tags)
		r.Label = "premium"
		_, err = w.guard.Start(w.Context(), r)
		require.ErrorIs(t, err, prices.ErrQuotaExceeded, "a label that is named is not replaced")
		wait, ok := dynalimit.RetryAfter(err)
		assert.True(t, ok)
		assert.Equal(t, 12*time.Hour, wait, "until the day ends")
		require.NoError(t, w.keeper.Setup().Override(w.Context(), exampleOrg, "chat", "premium", w.now.Add(time.Hour)))
		assert.Equal(t, "premium", w.call(r), "unless it is forced")
		r.Label = "gold"
		_, err = w.guard.Start(w.Context(), r)
		var unknown *fault.ValidationError
		require.ErrorAs(t, err, &unknown)
		assert.Equal(t, fault.InvalidModelLabel, unknown.Code)
	})
}

// TestANamedLabelWithoutRoomOrPriceIsDenied, also while another has room.
func TestANamedLabelWithoutRoomOrPriceIsDenied(t *testing.T) {
	at := time.Date(2099, 1, 23, 12, 0, 0, 0, time.UTC)
	rec := budget.Recommendation{
		Label: "standard", Model: "s", ResetAt: at.Add(time.Hour),
		Labels: []prices.LabelStatus{{Label: "premium", Status: prices.StatusExceeded}, {Label: "new", Status: prices.StatusUnpriced}, {Label: "standard", Model: "s"}, {Label: "cheap", Model: "c"}},
	}
	for label, want := range map[string]struct {
		model string
		wait  time.Duration
		ok    bool // a denial that a wait helps
	}{"": {model: "s"}, "standard": {model: "s"}, "cheap": {model: "c"}, "premium": {wait: time.Hour, ok: true}, "new": {}} {
		_, model, err := rec.Choose(label, nil, at)
		if want.model != "" {
			require.NoError(t, err, label)
			assert.Equal(t, want.model, model, label)
			continue
		}
		denial, ok := errors.AsType[*prices.QuotaExceededError](err)
		require.True(t, ok, label)
		wait, helps := denial.RetryIn()
		assert.Equal(t, want.wait, wait, label)
		assert.Equal(t, want.ok, helps, label)
	}
	away := errors.New("away")
	_, _, err := budget.Recommendation{}.Choose("premium", away, at)
	assert.Equal(t, away, err)
}

// TestLostAnswersOfAKeeperCountOnce: whichever is lost, on the way in or out.
func TestLostAnswersOfAKeeperCountOnce(t *testing.T) {
	for name, lost := range map[string]ddbmem.Fault{"lost answer": {Lose: true}, "lost request": {Drop: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *guarded) {
				w.call(guardRequest())
				require.NoError(t, w.guard.Close(w.Context()))
				var left atomic.Int64
				left.Store(1)
				w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if r.Operation == "TransactWriteItems" && left.Add(-1) >= 0 {
						return lost
					}
					return ddbmem.Fault{}
				})
				w.call(guardRequest())
				l := w.spent("premium")
				assert.Equal(t, []int64{2 * callMicros, 2}, []int64{l.CostMicros, l.Requests})
			})
		})
	}
}

// TestGuardInAnOutage: calls go on by the last plan of the keeper, and are counted when it is back.
func TestGuardInAnOutage(t *testing.T) {
	for _, label := range []string{"", "premium"} {
		for _, resource := range []string{"", "chat"} {
			for name, later := range map[string]time.Duration{"at once": 0, "a minute later": time.Minute, "an hour later": time.Hour} {
				t.Run(fmt.Sprintf("label %q, resource %q, %s", label, resource, name), func(t *testing.T) {
					inBubble(t, func(w *guarded) {
						r := guardRequest()
						r.Label, r.Resource = label, resource
						w.call(r)
						require.NoError(t, w.guard.Close(w.Context()))
						w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
						w.now = w.now.Add(later)
						c, err := w.guard.Start(w.Context(), r)
						require.NoError(t, err)
						assert.Equal(t, []string{"premium", premium}, []string{c.Label, c.Model})
						_ = c.Settle(w.Context(), guardUsage) // the limits are not corrected
						w.db.SetFaults(nil)
						<-time.After(time.Minute) // until it is noticed that the store is back
						assert.Equal(t, int64(2), w.spent("premium").Requests)
						assert.Empty(t, w.refused)
					})
				})
			}
		}
	}
}

// TestRecordsShareTransactions: nobody waits for them, so they wait for each other. The figure is in
// docs/cost.md, where a record alone costs four write units.
func TestRecordsShareTransactions(t *testing.T) {
	inBubble(t, func(w *guarded) {
		const records = 600
		w.org(1_000*callMicros, 1_000*callMicros)
		guard, err := llm.New(&llm.Options{Keeper: w.keeper, Now: func() time.Time { return w.now }})
		require.NoError(t, err)
		w.guard = guard
		w.call(guardRequest())
		require.NoError(t, guard.Close(w.Context()))
		before := w.db.Meter()
		for range records {
			w.call(guardRequest())
			<-time.After(100 * time.Millisecond)
		}
		require.NoError(t, guard.Close(w.Context()))
		units := w.db.Meter().Sub(before).WriteUnits() / records
		assert.LessOrEqual(t, units, 2.3)
		t.Logf("%.3f write units a record", units)
		assert.Equal(t, int64(records+1), w.spent("premium").Requests)
	})
}

// unreachable is a network on which no request arrives.
type unreachable struct{ err error }

func (u unreachable) Do(*http.Request) (*http.Response, error) { return nil, u.err }

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
				_, keeperErr := keeper.Recommend(t.Context(), exampleOrg, "chat")
				answered := name == "capacity" || name == "request limit" || name == "throttling" // no policy admits then
				assert.Equal(t, test.admits && !answered, limiterErr == nil, "the limiter: %v", limiterErr)
				assert.Equal(t, test.admits, errors.Is(keeperErr, dynalimit.ErrUnavailable), "the keeper: %v", keeperErr)
				assert.Equal(t, answered, errors.Is(limiterErr, dynalimit.ErrUnavailable))
				_, keeperErr = keeper.Submit(t.Context(), exampleOrg, "chat", prices.Usage{RequestID: exampleOrg, Label: "premium"})
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
