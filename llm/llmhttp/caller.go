package llmhttp

import (
	"context"
	"slices"
	"strings"
)

// Caller is whose call it is.
type Caller struct {
	// Entity is who is limited.
	Entity string
	// Parent is the id of the entity's parent, and Plan the name of its plan, where the entity's record
	// does not say them (dynalimit.WithParent, WithPlan); empty for none. Take both from what was
	// verified, such as the claims of a signed token, and never from a header: who chooses a parent
	// chooses whose limits are charged. A parent without a record is answered with 403.
	Parent, Plan string
	// Org and App are whose budget pays; both empty without a keeper.
	Org, App string
	// Models are those that the caller may ask for, as on the wire; one that ends in "*" stands for
	// all that begin so. Empty: all of Options.Models.
	Models []string
	// Tags attribute the cost, as in llm.Request.
	Tags map[string]string
}

// WithCaller says whose calls those are that are made with the context.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is the caller of a context; ok is false without one.
func CallerOf(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

type callerKey struct{}

// may reports whether the caller may ask for a model.
func (c *Caller) may(model string) bool {
	return len(c.Models) == 0 || slices.ContainsFunc(c.Models, func(pattern string) bool { return matches(pattern, model) })
}

// matches reports whether a model is the one of a pattern, or one of those.
func matches(pattern, model string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(model, prefix)
	}
	return pattern == model
}
