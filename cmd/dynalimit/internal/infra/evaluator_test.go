package infra

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// iamCall is what IAM is asked about one request, or one part of a transaction.
type iamCall struct {
	Action, Resource string
	// Context are the condition keys of the request, each with its values. A key that the
	// request does not have is missing.
	Context map[string][]string
}

// iamStatement is a statement of any policy, allowing or denying.
type iamStatement struct {
	Effect                                   string
	Action, NotAction, Resource, NotResource values
	Condition                                map[string]map[string]values
}

type iamPolicy struct{ Statement []iamStatement }

// values are one text or a list.
type values []string

// UnmarshalJSON reads either.
func (v *values) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*v = values{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(v))
}

func readPolicy(t *testing.T, text string) iamPolicy {
	t.Helper()
	var p iamPolicy
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	return p
}

// allows reports whether the policy, alone, allows a call: some statement does, and none
// denies it.
func (p iamPolicy) allows(c iamCall) bool {
	allowed := false
	for _, s := range p.Statement {
		if !s.matches(c) {
			continue
		}
		if s.Effect == "Deny" {
			return false
		}
		allowed = true
	}
	return allowed
}

func (s iamStatement) matches(c iamCall) bool {
	fold := func(v values) values {
		var folded values
		for _, one := range v {
			folded = append(folded, strings.ToLower(one))
		}
		return folded
	}
	switch action := strings.ToLower(c.Action); {
	case s.Action != nil && !anyLike(fold(s.Action), action), s.NotAction != nil && anyLike(fold(s.NotAction), action),
		s.Resource != nil && !anyLike(s.Resource, c.Resource), s.NotResource != nil && anyLike(s.NotResource, c.Resource):
		return false
	}
	for operator, keys := range s.Condition {
		for key, want := range keys {
			if !matchesCondition(operator, want, c.Context[key]) {
				return false
			}
		}
	}
	return true
}

// matchesCondition compares the values that a request has of a key, none if it lacks the key, with
// those of a condition.
func matchesCondition(operator string, want values, got []string) bool {
	if operator == "Null" { // an empty set is none
		return slices.Contains(want, "true") == (len(got) == 0)
	}
	quantifier, operator, quantified := strings.Cut(operator, ":")
	if !quantified {
		quantifier, operator = "", quantifier
	}
	operator, ifExists := strings.CutSuffix(operator, "IfExists")
	positive, negated := strings.CutPrefix(operator, "StringNot")
	if negated {
		positive = "String" + positive
	}
	matches := func(value string) bool {
		switch positive {
		case "StringEquals":
			return slices.Contains(want, value) != negated
		case "StringLike":
			return anyLike(want, value) != negated
		default:
			panic("an operator that is not known: " + operator)
		}
	}
	switch {
	case len(got) == 0:
		return ifExists || quantifier == "ForAllValues" || quantifier == "" && negated
	case quantifier == "ForAllValues":
		return !slices.ContainsFunc(got, func(v string) bool { return !matches(v) })
	case quantifier == "ForAnyValue":
		return slices.ContainsFunc(got, matches)
	case len(got) > 1:
		panic("many values of a key that is compared as one")
	default:
		return matches(got[0])
	}
}

func anyLike(patterns values, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, text) })
}

// like matches a pattern in which * is any text and ? any character.
func like(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return like(pattern[1:], text) || text != "" && like(pattern, text[1:])
	default:
		return text != "" && (pattern[0] == '?' || pattern[0] == text[0]) && like(pattern[1:], text[1:])
	}
}

// TestEvaluator: the evaluator decides as IAM documents that it does.
func TestEvaluator(t *testing.T) {
	const table = "arn:aws:dynamodb:r:1:table/limits"
	call := func(keys ...string) iamCall {
		return iamCall{"dynamodb:UpdateItem", table, map[string][]string{"k": keys}}
	}
	statement := func(effect, rest string) string {
		return `{"Effect": "` + effect + `", "Action": "dynamodb:Update*", "Resource": "` + table + `"` + rest + `}`
	}
	under := func(operator, want string) string {
		return statement("Allow", `, "Condition": {"`+operator+`": {"k": `+want+`}}`)
	}
	for name, test := range map[string]struct {
		statements string
		call       iamCall
		want       bool
	}{
		"nothing allows":               {"", call(), false},
		"allowed":                      {statement("Allow", ""), call(), true},
		"a deny wins":                  {statement("Allow", "") + "," + statement("Deny", ""), call(), false},
		"a deny before wins":           {statement("Deny", "") + "," + statement("Allow", ""), call(), false},
		"another action":               {statement("Allow", ""), iamCall{"dynamodb:PutItem", table, nil}, false},
		"actions in any case":          {statement("Allow", ""), iamCall{"DynamoDB:updateitem", table, nil}, true},
		"an index is no table":         {statement("Allow", ""), iamCall{"dynamodb:UpdateItem", table + "/index/GSI1", nil}, false},
		"a longer name":                {statement("Allow", ""), iamCall{"dynamodb:UpdateItem", table + "2", nil}, false},
		"all but an action":            {`{"Effect": "Allow", "NotAction": ["dynamodb:Put*"], "Resource": "*"}`, call(), true},
		"not that action":              {`{"Effect": "Allow", "NotAction": ["dynamodb:Update*"], "Resource": "*"}`, call(), false},
		"all but a resource":           {`{"Effect": "Allow", "Action": "*", "NotResource": "arn:*:table/limits"}`, call(), false},
		"equal":                        {under("StringEquals", `["a", "b"]`), call("b"), true},
		"equal, missing":               {under("StringEquals", `"a"`), call(), false},
		"equal if it exists, missing":  {under("StringEqualsIfExists", `"a"`), call(), true},
		"equal if it exists, other":    {under("StringEqualsIfExists", `"a"`), call("b"), false},
		"equal knows no wildcard":      {under("StringEquals", `"a*"`), call("ab"), false},
		"like":                         {under("StringLike", `"a*c"`), call("abbc"), true},
		"like one character":           {under("StringLike", `"a?c"`), call("ac"), false},
		"not like, missing":            {under("StringNotLike", `"a*"`), call(), true},
		"not like":                     {under("StringNotLike", `"a*"`), call("ab"), false},
		"all values":                   {under("ForAllValues:StringLike", `["a*", "b"]`), call("ab", "b"), true},
		"all values but one":           {under("ForAllValues:StringLike", `["a*", "b"]`), call("ab", "b", "c"), false},
		"all values, missing":          {under("ForAllValues:StringLike", `"a*"`), call(), true},
		"all values not":               {under("ForAllValues:StringNotLike", `"l_*"`), call("b_x", "l_x"), false},
		"any value":                    {under("ForAnyValue:StringLike", `"a*"`), call("b", "ab"), true},
		"any value, missing":           {under("ForAnyValue:StringLike", `"a*"`), call(), false},
		"any value not, missing":       {under("ForAnyValue:StringNotLike", `"a*"`), call(), false},
		"null: must be missing":        {under("Null", `"true"`), call("a"), false},
		"null: is missing":             {under("Null", `"true"`), call(), true},
		"null: must be there":          {under("Null", `"false"`), call(), false},
		"null: is there":               {under("Null", `"false"`), call("a"), true},
		"one of two conditions":        {statement("Allow", `, "Condition": {"Null": {"k": "false"}, "StringEquals": {"k": "b"}}`), call("a"), false},
		"another statement allows too": {under("StringEquals", `"a"`) + "," + under("StringEquals", `"b"`), call("b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, readPolicy(t, `{"Statement": [`+test.statements+`]}`).allows(test.call))
		})
	}
	assert.Panics(t, func() { matchesCondition("DateLessThan", values{"a"}, []string{"a"}) }, "it guesses nothing")
}

// needed checks that a policy allows nothing that none of the calls is for, but in the
// statements that are named.
func needed(t *testing.T, policy string, calls []iamCall, besides ...string) {
	t.Helper()
	for what, less := range lessenings(t, policy) {
		other := slices.ContainsFunc(besides, func(statement string) bool { return strings.HasPrefix(what, statement) })
		assert.True(t, other || slices.ContainsFunc(calls, func(c iamCall) bool { return !less.allows(c) }), "%s is not needed: take it out of the policy", what)
	}
}

// constructed is a call that says which keys and which attributes it is about, or neither.
func constructed(action, resource string, keys []string, names ...string) iamCall {
	c := iamCall{actionsPrefix + action, resource, map[string][]string{}}
	if keys != nil {
		c.Context[leadingKeys] = keys
	}
	if names != nil {
		c.Context[attributes] = names
	}
	return c
}

// written is a call to one record of the table of limits.
func written(action, key string, names ...string) iamCall {
	return constructed(action, "arn:aws:dynamodb:us-east-1:123456789012:table/limits", []string{key}, append([]string{"PK", "SK"}, names...)...)
}
