package dynalimit

import (
	"context"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// clause is one condition of a statement: on which attribute, and its text.
type clause struct{ attr, text string }

var (
	placeholder = regexp.MustCompile(`[#:]\d+`)
	between     = regexp.MustCompile(`^(#\d+) BETWEEN (:\d+) AND (:\d+)$`)
)

// clauses splits a condition.
func clauses(st schema.Statement) []clause {
	var out []clause
	parts := strings.Split(st.Condition, " AND ")
	for i := 0; i < len(parts); i++ {
		text := parts[i]
		if strings.Contains(text, " BETWEEN ") {
			i++
			text += " AND " + parts[i]
		}
		out = append(out, clause{st.Names[placeholder.FindString(text)], text})
	}
	return out
}

// rewritten is the statement with its clauses changed by edit, which drops one
// by returning "". What is then unused goes, for DynamoDB refuses it.
func rewritten(st schema.Statement, edit func(clause) string) schema.Statement {
	var kept []string
	for _, c := range clauses(st) {
		if text := edit(c); text != "" {
			kept = append(kept, text)
		}
	}
	out := schema.Statement{
		Update: st.Update, Condition: strings.Join(kept, " AND "),
		Names: map[string]string{}, Values: map[string]types.AttributeValue{},
	}
	for _, p := range placeholder.FindAllString(out.Update+" "+out.Condition, -1) {
		if p[0] == '#' {
			out.Names[p] = st.Names[p]
		} else {
			out.Values[p] = st.Values[p]
		}
	}
	return out
}

// ruleless is a store whose statements lack a rule.
type ruleless struct {
	lane.Store
	edit func(schema.Statement) schema.Statement
}

func (s ruleless) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	return s.Store.Update(ctx, key, s.edit(st), hint, slot)
}

// without is an edit of clauses as one of statements.
func without(edit func(clause) string) func(schema.Statement) schema.Statement {
	return func(st schema.Statement) schema.Statement { return rewritten(st, edit) }
}

func isTokens(attr string) bool {
	return strings.HasPrefix(attr, "b_") && strings.HasSuffix(attr, "_tk")
}

// withoutRefilled leaves out rf = :seen.
var withoutRefilled = without(func(c clause) string {
	if c.attr == "rf" {
		return ""
	}
	return c.text
})

// withoutUpper leaves out the upper bounds.
var withoutUpper = without(func(c clause) string {
	if m := between.FindStringSubmatch(c.text); m != nil {
		return m[1] + " >= " + m[2]
	}
	if isTokens(c.attr) && strings.Contains(c.text, " <= ") {
		return ""
	}
	return c.text
})

// withoutLower leaves out the lower bounds.
var withoutLower = without(func(c clause) string {
	if m := between.FindStringSubmatch(c.text); m != nil {
		return m[1] + " <= " + m[3]
	}
	if isTokens(c.attr) && strings.Contains(c.text, " >= ") {
		return ""
	}
	return c.text
})

// withoutExistence leaves out that limits exist.
var withoutExistence = without(func(c clause) string {
	if strings.HasPrefix(c.text, "attribute_exists") && strings.HasSuffix(c.attr, "_bx") {
		return "(" + c.text + " OR " + strings.Replace(c.text, "exists", "not_exists", 1) + ")" // a condition must not be empty
	}
	return c.text
})

// withoutIncarnation leaves out that a give-back meets the bucket that was taken
// from.
var withoutIncarnation = without(func(c clause) string {
	if c.attr == "ci" {
		return ""
	}
	return c.text
})

// withoutFull removes limits that are no longer configured whatever they owe.
func withoutFull(st schema.Statement) schema.Statement {
	_, removed, _ := strings.Cut(st.Update, "REMOVE ")
	return rewritten(st, func(c clause) string {
		p := placeholder.FindString(c.text)
		if isTokens(c.attr) && slices.Contains(strings.Split(removed, ", "), p) {
			return ""
		}
		return c.text
	})
}

// oneID is a store that sends every try of an operation with one id.
type oneID struct {
	lane.Store
	mu    sync.Mutex
	tries map[uint64]byte
}

func (s *oneID) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	own := st.Values[":0"].(*types.AttributeValueMemberB).Value
	s.mu.Lock()
	s.tries[binary.BigEndian.Uint64(own)] = own[8]
	s.mu.Unlock()
	for name, v := range st.Values {
		if b, ok := v.(*types.AttributeValueMemberB); ok && len(b.Value) == opIDLen {
			st.Values[name] = schema.Bytes(append(slices.Clone(b.Value[:8]), 0))
		}
	}
	a := s.Store.Update(ctx, key, st, hint, slot)
	if a.Image != nil && len(a.Image.Op) == opIDLen {
		s.mu.Lock()
		defer s.mu.Unlock()
		image := *a.Image
		image.Op = append(slices.Clone(image.Op[:8]), s.tries[binary.BigEndian.Uint64(image.Op)])
		a.Image = &image
	}
	return a
}

// blindResend is a store that sends a write whose answer was lost once more.
type blindResend struct{ lane.Store }

func (s blindResend) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	a := s.Store.Update(ctx, key, st, hint, slot)
	if a.Verdict == ambiguous {
		st = rewritten(st, func(c clause) string {
			if strings.HasPrefix(c.attr, "op") {
				return ""
			}
			return c.text
		})
		a = s.Store.Update(ctx, key, st, hint, slot)
	}
	return a
}
