package rules

import (
	"context"
	"strings"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Rule changes a statement so that it lacks one rule of the protocol.
type Rule func(schema.Statement) schema.Statement

// LeaveOut wraps a store so that its updates lack the rule.
func LeaveOut(rule Rule) func(lane.Store) lane.Store {
	return func(s lane.Store) lane.Store { return ruleless{s, rule} }
}

type ruleless struct {
	lane.Store
	edit Rule
}

// Update implements lane.Store. It sends the update without the part that the rule stands for.
func (s ruleless) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	return s.Store.Update(ctx, key, s.edit(st), hint, slot)
}

// without returns a Rule that replaces each clause of a condition by edit's result; "" drops the clause.
func without(edit func(Clause) string) Rule {
	return func(st schema.Statement) schema.Statement { return rewriteClauses(st, edit) }
}

// Seen drops rf = :seen: the refill instant is the one that the client saw.
var Seen = without(func(c Clause) string {
	if c.Attribute == "rf" {
		return ""
	}
	return c.Text
})

// UpperBound drops the upper bounds of tokens.
var UpperBound = without(func(c Clause) string {
	if m := between.FindStringSubmatch(c.Text); m != nil {
		return m[1] + " >= " + m[2]
	}
	if IsTokens(c.Attribute) && strings.Contains(c.Text, " <= ") {
		return ""
	}
	return c.Text
})

// LowerBound drops the lower bounds: the tokens for the take are there.
var LowerBound = without(func(c Clause) string {
	if m := between.FindStringSubmatch(c.Text); m != nil {
		return m[1] + " <= " + m[3]
	}
	if IsTokens(c.Attribute) && strings.Contains(c.Text, " >= ") {
		return ""
	}
	return c.Text
})

// Window drops the condition that a quota is in the window that the client saw, or took from.
var Window = without(func(c Clause) string {
	if strings.HasPrefix(c.Attribute, "q_") && strings.HasSuffix(c.Attribute, "_w") {
		return ""
	}
	return c.Text
})

// Room drops the condition that a quota holds the tokens of a take.
var Room = without(func(c Clause) string {
	if strings.HasPrefix(c.Attribute, "q_") && strings.HasSuffix(c.Attribute, "_tk") && strings.Contains(c.Text, " >= ") {
		return ""
	}
	return c.Text
})
