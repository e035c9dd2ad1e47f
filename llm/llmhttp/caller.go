package llmhttp

import (
	"context"
	"slices"
	"strings"
)

// Caller is the caller of a call.
type Caller struct {
	// Entity is the limited party.
	Entity string
	// Parent is the id of the entity's parent, and Plan the name of its plan, for entities whose record
	// has none (dynalimit.WithParent, WithPlan); empty for none. Take both from verified data,
	// such as the claims of a signed token, and never from a header: a caller that chooses its parent
	// chooses the charged limits. A parent without a record is answered with 403.
	Parent, Plan string
	// Org and App are the owner and the program of the budget; both empty without a keeper.
	Org, App string
	// Models are the models that the caller may use, by their names on the wire; a name that ends in "*"
	// matches all with that beginning. Defaults to nil: all of Options.Models.
	Models []string
	// Tags attribute the cost, as in llm.Request.
	Tags map[string]string
}

// WithCaller returns a context that makes c the caller of its requests, unless Options.Identify is set.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller that WithCaller put into a context. It returns false without one.
func CallerOf(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

type callerKey struct{}

// WithBatch returns a context that makes its requests batch calls. They leave the reserve of each limit to
// interactive calls (llm.Request.Batch).
func WithBatch(ctx context.Context) context.Context { return context.WithValue(ctx, batchKey{}, true) }

// isBatch reports whether the requests of a context are batch calls.
func isBatch(ctx context.Context) bool { return ctx.Value(batchKey{}) != nil }

type batchKey struct{}

// mayUse reports whether the caller may use a model: its Models are empty or one matches the name.
func (c *Caller) mayUse(model string) bool {
	return len(c.Models) == 0 || slices.ContainsFunc(c.Models, func(pattern string) bool { return matchesPattern(pattern, model) })
}

// matchesPattern reports whether name, a model or a path, is the pattern, or begins with it if the pattern ends
// in "*".
func matchesPattern(pattern, model string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(model, prefix)
	}
	return pattern == model
}
