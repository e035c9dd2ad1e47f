package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

const (
	milli = 1000
	// maxTokens is the most that a limit, or an amount, may be.
	maxTokens = 1_000_000_000_000
)

// rateLimiter is a limiter with what it was made of, and its lanes.
type rateLimiter struct {
	*dynalimit.RateLimiter
	repo  *repository
	own   []dynalimit.Limit
	mode  dynalimit.CascadeMode
	lanes *lane.Registry
}

func newLimiter(r *repository, opts *dynalimit.Options) (*rateLimiter, error) {
	l, err := dynalimit.New(r.Repository, opts)
	if err != nil {
		return nil, err
	}
	made := &rateLimiter{RateLimiter: l, repo: r, lanes: inside.Lanes(l)}
	if opts != nil {
		made.own, made.mode = opts.Limits, opts.Cascade
	}
	return made, nil
}

// configOf is what limits a bucket whose limits are a limiter's own.
func configOf(limits []dynalimit.Limit) *plan.Config {
	c := &plan.Config{}
	for _, l := range limits {
		c.Limits = append(c.Limits, plan.Limit{
			Name: l.Name, Capacity: l.Capacity * milli, Level: "options",
			Rate: bucket.Rate{Burst: l.Burst * milli, Amount: l.RefillAmount * milli, Period: l.RefillPeriod.Milliseconds()},
		})
	}
	return c
}

// requireRefused checks that a lane cannot write an op of limit x as it is.
func requireRefused(t *testing.T, err error) {
	t.Helper()
	var failure *lane.Failure
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, "x", failure.Limit)
}
