// Package dynalimit limits what services spend on LLM calls: token-bucket rate
// limits, nested per key, project and organisation, exact across any number of
// processes, with one DynamoDB table as the only server.
//
// A [Repository] knows the table: entities and their parents, and the limits
// configured for the system, a resource or an entity. A [RateLimiter] charges
// buckets: [RateLimiter.Acquire] takes several limits at once, all or nothing,
// at the entity and its parents; [RateLimiter.Wait] blocks until they fit. The
// [Lease] it returns corrects the amounts once the true ones are known: Adjust
// by a difference, Settle at what was used, Rollback for a call that failed.
//
//	repo, err := dynalimit.NewRepository(dynamodb.NewFromConfig(cfg), "limits", nil)
//	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 90_000)}})
//	lease, err := limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 500})
//	defer lease.Rollback(ctx) // a no-op once settled
//	…
//	err = lease.Settle(ctx, dynalimit.Amounts{"tpm": reply.Tokens})
//
// A denial is a [*LimitExceededError] with the exact wait; a store that does not
// answer is an [*UnavailableError], never taken for a denial.
//
// No burst, retry, lost answer, crash or slow clock lets more through than the
// limit. A warm acquire is one conditional update and no read; callers of one
// process that arrive while it is in flight share the next. The design is in
// docs/design, the costs are in docs/cost.md.
package dynalimit
