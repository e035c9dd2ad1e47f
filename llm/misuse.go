package llm

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// usable refuses calls of a guard that New did not make, and without a context.
func (g *Guard) usable(ctx context.Context) error {
	if g == nil || g.opts.Now == nil {
		return invalid("guard", "was not made by New; make one with llm.New(&llm.Options{...})")
	}
	return problem.NoContext(ctx, "llm")
}

// usable refuses a call that Start did not return, and one without a context.
func (c *Call) usable(ctx context.Context) error {
	if c == nil || c.guard == nil {
		return invalid("call", "is none; look at the error of the Start that returned it before using it")
	}
	return problem.NoContext(ctx, "llm")
}
