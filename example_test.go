package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// The examples run on ddbmem, a DynamoDB in process. Their clock stands still, so
// that what they print is the same every time; leave Now out in a program.
var standingStill = &dynalimit.RepositoryOptions{
	Principal: "ops@example.com",
	Now:       func() time.Time { return time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC) },
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// newLimiter is a limiter on a new table, for examples that are not about that.
func newLimiter(limits ...dynalimit.Limit) (*dynalimit.RateLimiter, *dynalimit.Repository) {
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", standingStill))
	check(repo.CreateTable(context.Background()))
	return must(dynalimit.New(repo, &dynalimit.Options{Limits: limits})), repo
}

// From nothing to the first lease.
func Example() {
	ctx := context.Background()
	perMinute := []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 12_000)}

	client := ddbmem.New().Client() // production: dynamodb.NewFromConfig(cfg), the same type
	repo := must(dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{Limits: perMinute}))
	lease := must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 500}))

	fmt.Println(lease.Used())
	// Output: map[rpm:1 tpm:500]
}

// service is a program that calls a model.
type service struct {
	limiter *dynalimit.RateLimiter
	model   func(context.Context) (tokens int64, err error)
}

// answer is one model call under a lease.
func (s *service) answer(ctx context.Context, user string, estimate int64) error {
	lease, err := s.limiter.Acquire(ctx, user, "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": estimate})
	var exceeded *dynalimit.LimitExceededError
	if errors.As(err, &exceeded) { // denied, and nothing was taken
		return fmt.Errorf("come back in %v: %w", exceeded.RetryAfter, err)
	}
	if err != nil {
		return err // *UnavailableError: the store did not answer; *ValidationError: a bad request
	}

	used, err := s.model(ctx)
	if err != nil {
		return errors.Join(err, lease.Rollback(ctx)) // all of it is given back
	}
	return lease.Settle(ctx, dynalimit.Amounts{"tpm": used}) // what it really cost
}

// A model call: admitted by an estimate, settled at what it used. A denial says
// exactly when the request fits.
func ExampleRateLimiter_Acquire() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 12_000))
	s := &service{limiter: limiter, model: func(context.Context) (int64, error) { return 4_200, nil }}

	fmt.Println(s.answer(ctx, "user-123", 6_000))
	fmt.Println(must(limiter.Check(ctx, "user-123", "gpt-4", nil)).Available())
	fmt.Println(s.answer(ctx, "user-123", 9_000))
	// Output:
	// <nil>
	// map[rpm:59 tpm:7800]
	// come back in 6s: dynalimit: tpm of user-123 on gpt-4 exceeded: 9000 asked, 7800 left; retry after 6s
}

// An amount above the burst can never fit; no wait is given for it.
func ExampleRateLimiter_Acquire_exceedsBurst() {
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 12_000))
	_, err := limiter.Acquire(context.Background(), "user-123", "gpt-4", dynalimit.Amounts{"tpm": 50_000})
	fmt.Println(errors.Is(err, dynalimit.ErrExceedsBurst))
	fmt.Println(err)
	// Output:
	// true
	// dynalimit: tpm of user-123 on gpt-4: 50000 asked, the burst is 12000; ask for less or raise the burst
}

// Do gives the lease back when the function fails or panics, and keeps it when
// it returns nil.
func ExampleRateLimiter_Do() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 12_000))

	err := limiter.Do(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 500},
		func(ctx context.Context, lease *dynalimit.Lease) error {
			return errors.New("503 overloaded")
		})

	fmt.Println(err)
	fmt.Println(must(limiter.Check(ctx, "user-123", "gpt-4", nil)).Available())
	// Output:
	// 503 overloaded
	// map[tpm:12000]
}

// Wait blocks until the amounts fit. When that is later than the deadline it
// fails at once instead of waiting in vain.
func ExampleRateLimiter_Wait() {
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	check(repo.CreateTable(context.Background()))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rps", 100)}}))
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()

	must(limiter.Wait(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rps": 100})) // the whole burst
	must(limiter.Wait(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rps": 5}))   // 50 ms later
	_, err := limiter.Wait(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rps": 100})
	fmt.Println(errors.Is(err, dynalimit.ErrLimitExceeded), ctx.Err())
	// Output: true <nil>
}

// Check says what an acquire would do, and where each limit came from. It
// writes nothing.
func ExampleRateLimiter_Check() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 12_000)}))

	report := must(limiter.Check(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 500}))
	for _, s := range report.Statuses {
		fmt.Printf("%s: %d of %d left, from the %s limits\n", s.Limit.Name, s.Remaining, s.Limit.Burst, s.Source)
	}
	fmt.Println("allowed:", report.Allowed)
	// Output:
	// tpm: 12000 of 12000 left, from the system limits
	// allowed: true
}

// RetryAfter of a Check answers "when?" without taking anything.
func ExampleReport() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 12_000))
	must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 12_000}))
	fmt.Println(must(limiter.Check(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 500})).RetryAfter)
	// Output: 2.5s
}

// Adjust corrects a lease by the difference. It is never denied: what was used
// is used, and the bucket may go into debt.
func ExampleLease_Adjust() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 12_000))
	lease := must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 11_500}))

	check(lease.Adjust(ctx, dynalimit.Amounts{"tpm": 1_300}))
	fmt.Println(lease.Used(), lease.Statuses()[0].Remaining)
	// Output: map[tpm:12800] -800
}

// Consume takes more under the same lease, and may be denied: for a stream that
// grows beyond its estimate.
func ExampleLease_Consume() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 1_000))
	lease := must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 600}))

	fmt.Println(lease.Consume(ctx, dynalimit.Amounts{"tpm": 300}))
	fmt.Println(lease.Consume(ctx, dynalimit.Amounts{"tpm": 300}))
	fmt.Println(lease.Used())
	// Output:
	// <nil>
	// dynalimit: tpm of user-123 on gpt-4 exceeded: 300 asked, 100 left; retry after 12s
	// map[tpm:900]
}

// SettleSoon gives back what was not used without a wait; the next call of this process has it.
func ExampleLease_SettleSoon() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 1_000))
	for range 3 {
		lease := must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 800}))
		check(lease.SettleSoon(ctx, dynalimit.Amounts{"tpm": 50}, nil)) // the answer is passed on meanwhile
	}
	check(limiter.Close(ctx)) // waits for what is still being settled
	fmt.Println("served 3 calls, of which 800 of 1,000 were taken before each")
	// Output: served 3 calls, of which 800 of 1,000 were taken before each
}

// Statuses holds what response headers show: of the caller's own limits, because a parent's are
// others' too. Package httplimit shows them so.
func ExampleLease_Statuses() {
	limiter, _ := newLimiter(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 12_000))
	lease := must(limiter.Acquire(context.Background(), "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 500}))
	for _, s := range lease.Statuses() {
		if s.EntityID != "user-123" {
			continue
		}
		fmt.Printf("x-ratelimit-remaining-%s: %d\n", s.Limit.Name, s.Remaining)
		fmt.Printf("x-ratelimit-reset-%s: %v\n", s.Limit.Name, s.Reset)
	}
	// Output:
	// x-ratelimit-remaining-rpm: 59
	// x-ratelimit-reset-rpm: 1s
	// x-ratelimit-remaining-tpm: 11500
	// x-ratelimit-reset-tpm: 2.5s
}

// Keys of a project have their own limits and share the project's. A denial at
// one level takes nothing at any.
func Example_createEntity() {
	ctx := context.Background()
	limiter, repo := newLimiter(dynalimit.PerMinute("tpm", 12_000))

	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: "shop", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 20_000)}))
	for _, key := range []string{"key-ana", "key-ben"} {
		check(admin.New(repo).Entities.Create(ctx, admin.Entity{ID: key, ParentID: "shop", Cascade: true}))
	}

	must(limiter.Acquire(ctx, "key-ana", "gpt-4", dynalimit.Amounts{"tpm": 12_000}))
	_, err := limiter.Acquire(ctx, "key-ben", "gpt-4", dynalimit.Amounts{"tpm": 9_000})
	fmt.Println(err)
	left := must(limiter.Check(ctx, "key-ben", "gpt-4", nil))
	for _, s := range left.Statuses { // the key first, then its parents
		fmt.Println(s.EntityID, s.Remaining)
	}
	// Output:
	// dynalimit: tpm of shop on gpt-4 exceeded: 9000 asked, 8000 left; retry after 3s
	// key-ben 12000
	// shop 8000
}

// The most specific source that has limits wins; lists are not merged.
func Example_setLimits() {
	ctx := context.Background()
	limiter, repo := newLimiter()

	tpm := func(n int64) []dynalimit.Limit { return []dynalimit.Limit{dynalimit.PerMinute("tpm", n)} }
	err := errors.Join(
		admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, tpm(10_000)),
		admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, tpm(20_000)),
		admin.New(repo).Limits.Set(ctx, admin.Scope{Plan: "pro"}, tpm(30_000)), // on every resource
		admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "user-123", Plan: "pro"}),
		admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: "user-456", Resource: "gpt-4"}, tpm(40_000)), // of this user alone
	)
	check(err)

	for _, c := range [][2]string{{"anyone", "small"}, {"anyone", "gpt-4"}, {"user-123", "gpt-4"}, {"user-456", "gpt-4"}} {
		fmt.Println(c, must(limiter.Check(ctx, c[0], c[1], nil)).Available()["tpm"])
	}
	// Output:
	// [anyone small] 10000
	// [anyone gpt-4] 20000
	// [user-123 gpt-4] 30000
	// [user-456 gpt-4] 40000
}

// When DynamoDB does not answer, a call fails with *UnavailableError unless it,
// or the system's configuration, says Allow. A denial is never mistaken for that.
func ExampleWithOnUnavailable() {
	ctx := context.Background()
	db := ddbmem.New()
	client := db.Client(func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }) // reads are the SDK's to retry
	repo := must(dynalimit.NewRepository(client, "limits", standingStill))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}}))
	ask := dynalimit.Amounts{"rpm": 1}
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}
	})
	defer func() { db.SetFaults(nil); check(limiter.Close(ctx)) }()

	_, err := limiter.Acquire(ctx, "user-123", "gpt-4", ask)
	fmt.Println(errors.Is(err, dynalimit.ErrUnavailable), errors.Is(err, dynalimit.ErrLimitExceeded))

	lease := must(limiter.Acquire(ctx, "user-123", "gpt-4", ask, dynalimit.WithOnUnavailable(dynalimit.Allow)))
	fmt.Println(lease.Degraded())
	// Output:
	// true false
	// true
}

// An Observer hears of every acquire and every write, for metrics and traces.
func ExampleOptions_observer() {
	ctx := context.Background()
	_, repo := newLimiter()
	writes, callers := 0, 0
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)},
		Observer: observe.Observer{WriteEnd: func(_ context.Context, e observe.WriteEnd) {
			writes += e.Tries
			callers += e.Callers
		}},
	}))
	for range 3 {
		must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	}
	fmt.Println(writes, "writes for", callers, "callers")
	// Output: 3 writes for 3 callers
}
