package rules

import (
	"context"
	"strings"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Rule is one that can be left out of a statement: by this change.
type Rule func(schema.Statement) schema.Statement

// LeaveOut is a change of stores: of one whose updates lack the rule.
func LeaveOut(rule Rule) func(lane.Store) lane.Store {
	return func(s lane.Store) lane.Store { return ruleless{s, rule} }
}

type ruleless struct {
	lane.Store
	edit Rule
}

func (s ruleless) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	return s.Store.Update(ctx, key, s.edit(st), hint, slot)
}

// without is a rule whose clauses are changed by edit, which drops one by
// returning "".
func without(edit func(Clause) string) Rule {
	return func(st schema.Statement) schema.Statement { return rewritten(st, edit) }
}

// Seen is rf = :seen: the refill instant is the one that the client saw.
var Seen = without(func(c Clause) string {
	if c.Attribute == "rf" {
		return ""
	}
	return c.Text
})

// UpperBound are the upper bounds of what limits are worth.
var UpperBound = without(func(c Clause) string {
	if m := between.FindStringSubmatch(c.Text); m != nil {
		return m[1] + " >= " + m[2]
	}
	if IsTokens(c.Attribute) && strings.Contains(c.Text, " <= ") {
		return ""
	}
	return c.Text
})

// LowerBound are the lower bounds: what is taken is there.
var LowerBound = without(func(c Clause) string {
	if m := between.FindStringSubmatch(c.Text); m != nil {
		return m[1] + " <= " + m[3]
	}
	if IsTokens(c.Attribute) && strings.Contains(c.Text, " >= ") {
		return ""
	}
	return c.Text
})

// Window is that a quota is in the window that the client saw, or took in.
var Window = without(func(c Clause) string {
	if strings.HasPrefix(c.Attribute, "q_") && strings.HasSuffix(c.Attribute, "_w") {
		return ""
	}
	return c.Text
})

// Room is that a quota holds what is taken of it.
var Room = without(func(c Clause) string {
	if strings.HasPrefix(c.Attribute, "q_") && strings.HasSuffix(c.Attribute, "_tk") && strings.Contains(c.Text, " >= ") {
		return ""
	}
	return c.Text
})
