package laws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Inside is what the judge sees of a limiter that its users do not. The root
// package's tests fill it in, from export_test.go; all of it is required.
type Inside struct {
	// Lanes are the lanes of a limiter: its writes are heard, or changed, there.
	Lanes func(*dynalimit.RateLimiter) *lane.Registry
	// Transactions puts wrap around the sending of a limiter's transactions.
	Transactions func(l *dynalimit.RateLimiter, wrap func(next Transact) Transact)
	// Levels are the buckets that a lease charges.
	Levels func(*dynalimit.Lease) []Level
	// Config is the configuration in force, read anew: its fingerprint and limits.
	Config func(ctx context.Context, r *dynalimit.Repository, entity, resource string) (fingerprint string, limits []dynalimit.Limit, err error)
}

// Level is one bucket of a lease.
type Level struct {
	// Entity is whose bucket it is.
	Entity string
	// Degraded says that the policy admitted the call, and not the bucket.
	Degraded bool
	// Charges are what a call for amounts takes of it, in millitokens.
	Charges func(dynalimit.Amounts) []plan.Signed
	// Holdings are what the lease has of each limit, as far as is known now.
	Holdings func() []backlog.Holding
}

// Transact sends a transaction, once. The items of failed conditions come back as
// images by their place.
type Transact = func(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (ddb.Verdict, map[int]*schema.Image, error)
