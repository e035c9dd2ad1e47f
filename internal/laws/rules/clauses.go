package rules

import (
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// OpIDLength is the length of a write's id: 8 bytes for its operation, and one for its try.
const OpIDLength = 9

// Clause is one condition of a statement, on one attribute.
type Clause struct {
	// Attribute is the name of the attribute.
	Attribute string
	// Text is the condition, with placeholders.
	Text string
}

var (
	// Placeholder matches the placeholder of a name or of a value.
	Placeholder = regexp.MustCompile(`[#:]\d+`)
	between     = regexp.MustCompile(`^(#\d+) BETWEEN (:\d+) AND (:\d+)$`)
)

// Clauses splits the condition of a statement at AND into clauses, each with the name of its first attribute. A
// BETWEEN stays whole.
func Clauses(st schema.Statement) []Clause {
	var out []Clause
	parts := strings.Split(st.Condition, " AND ")
	for i := 0; i < len(parts); i++ {
		text := parts[i]
		if strings.Contains(text, " BETWEEN ") {
			i++
			text += " AND " + parts[i]
		}
		out = append(out, Clause{st.Names[Placeholder.FindString(text)], text})
	}
	return out
}

// rewriteClauses returns a copy of the statement with each clause of its condition replaced by edit's result;
// "" drops the clause. It drops unused names and values, because DynamoDB refuses them.
func rewriteClauses(st schema.Statement, edit func(Clause) string) schema.Statement {
	var kept []string
	for _, c := range Clauses(st) {
		if text := edit(c); text != "" {
			kept = append(kept, text)
		}
	}
	out := schema.Statement{
		Update: st.Update, Condition: strings.Join(kept, " AND "),
		Names: map[string]string{}, Values: map[string]types.AttributeValue{},
	}
	for _, p := range Placeholder.FindAllString(out.Update+" "+out.Condition, -1) {
		if p[0] == '#' {
			out.Names[p] = st.Names[p]
		} else {
			out.Values[p] = st.Values[p]
		}
	}
	return out
}

// IsTokens reports whether an attribute has the tokens of a token bucket.
func IsTokens(attr string) bool {
	return strings.HasPrefix(attr, "b_") && strings.HasSuffix(attr, "_tk")
}
