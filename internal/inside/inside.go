// Package inside shows the suites of the whole limiter its internal state. Package
// dynalimit sets the functions; only tests use them. Their first arguments
// are the *RateLimiter, *Lease or *Repository that they look into.
package inside

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

var (
	// Lanes are the lanes of a limiter: its writes are heard, or changed, there.
	Lanes func(limiter any) *lane.Registry
	// Transactions puts wrap around the sending of a limiter's transactions.
	Transactions func(limiter any, wrap func(next Transact) Transact)
	// Levels are the buckets that a lease charges.
	Levels func(lease any) []Level
	// ReadConfig is the configuration in force, as a call has it, or read anew.
	// With group, the resource is a group.
	ReadConfig func(ctx context.Context, repository any, entity, resource string, group, anew bool) (Config, error)
)

// Level is one bucket of a lease.
type Level struct {
	// Lane is the bucket's.
	Lane *lane.Lane
	// Degraded says that the policy admitted the call, and not the bucket.
	Degraded bool
	// Config is its configuration, and Incarnation the bucket that the lease took from.
	Config      *plan.Config
	Incarnation *[]byte
	// Last is its last image.
	Last plan.Reading
	// Charges are the call's takes or, for other amounts, its further takes, in
	// millitokens.
	Charges func(further map[string]int64) []plan.Signed
	// Holdings are the lease's holdings of each limit, as far as is known now.
	Holdings []backlog.Holding
}

// Config is the configuration of the calls of an entity on a resource.
type Config struct {
	Fingerprint string
	// Limits is a []dynalimit.Limit, and OnUnavailable a dynalimit.UnavailablePolicy.
	Limits, OnUnavailable any
	Source                sources.Source
	ParentID              string
	Cascade               bool
	ReadAt                int64
	// Bucket was read with it. Read tells that it comes from the table, not the cache.
	Bucket schema.Item
	Read   bool
}

// Transact sends a transaction, once. The items of failed conditions come back as
// images by their place.
type Transact = func(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (ddb.Verdict, map[int]*schema.Image, error)
