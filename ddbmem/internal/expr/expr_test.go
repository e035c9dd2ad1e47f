package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

func num(n int64) value.Value { return value.NumberFromInt(n) }

// testEnv has a placeholder for every value and name the tables below use.
func testEnv() *Env {
	return &Env{
		Names: map[string]string{"#n": "n", "#0": "st", "#set": "tags", "#dot": "a.b"},
		Values: value.Map{
			":0": num(0), ":1": num(1), ":4": num(4), ":5": num(5), ":6": num(6), ":he": value.String("he"), ":s": value.String("x"),
			":N": value.String("N"), ":bad": value.String("Z"), ":t": value.Bool(true), ":l": value.List{num(9)},
			":ss": value.StringSet{"x"}, ":ns": value.NumberSet{value.NumberFromInt(3)}, ":m": value.Map{"k": num(1)}, ":nul": value.Null{},
		},
	}
}

func testItem() value.Map {
	return value.Map{
		"n": num(5), "st": value.String("hello"), "tags": value.StringSet{"x", "y"}, "bo": value.Bool(true),
		"m": value.Map{"k": num(1), "l": value.List{num(0), num(7)}}, "li": value.List{num(1), value.Map{"x": num(2)}},
		"bin": value.Binary("\x01\x02"), "nul": value.Null{}, "a.b": num(1),
	}
}

func TestConditions(t *testing.T) {
	tests := map[string]bool{
		"n = :5": true, "n <> :5": false, "n < :6": true, "n <= :5": true, "n > :5": false, "n >= :5": true,
		"#n = :5": true, ":5 = n": true, "st = :5": false, "st <> :5": true, "st < :5": false,
		"nope = :5": false, "nope <> :5": true, "nope < :5": false, "NOT nope = :5": true,
		"n BETWEEN :4 AND :6": true, "n between :5 and :5": true, "n BETWEEN :6 AND :6": false, "nope BETWEEN :4 AND :6": false,
		"n IN (:4, :6)": false, "n IN (:4, :5)": true, "nope IN (:4)": false,
		"begins_with(st, :he)": true, "begins_with(n, :he)": false, "contains(st, :he)": true, "contains(tags, :s)": true,
		"contains(#set, :he)": false, "contains(li, :1)": true, "contains(n, :1)": false,
		"size(st) = :5": true, "size(li) < :4": true, "size(bin) > :1": true, "size(n) > :0": false, "size(nope) >= :0": false,
		"attribute_type(n, :N)": true, "attribute_type(st, :N)": false, "attribute_type(nope, :N)": false,
		"attribute_exists(m.k)": true, "attribute_exists(m.z)": false, "attribute_not_exists(m.l[2])": true, "attribute_exists(m.l[1])": true,
		"attribute_exists(n.x)": false, "attribute_exists(li[1].x)": true, "attribute_exists(#dot)": true,
		"m = :m": false, "bo = :t": true, "nul = :nul": true,
		"NOT n = :5": false, "NOT (n = :4 OR n = :6)": true,
		"n = :4 AND n = :5 OR n = :5": true, "n = :5 OR n = :5 AND n = :4": true, "(n = :5 OR n = :5) AND n = :4": false,
		"NOT n = :4 AND n = :5": true, "NOT NOT n = :5": true,
		"n=:5 and(st<>:he)or not bo=:t": true,
	}
	for text, want := range tests {
		c, err := ParseCondition(text)
		require.NoError(t, err, text)
		require.NoError(t, c.Check(testEnv()), text)
		require.Equal(t, want, c.Holds(testEnv(), testItem()), text)
	}
}

func TestBadConditions(t *testing.T) {
	tests := map[string]string{
		"":                                       "can not be empty",
		"n":                                      `Syntax error; token: "<EOF>"`,
		"n =":                                    `Syntax error; token: "<EOF>", near: "="`,
		"n = :5 n":                               `Syntax error; token: "n"`,
		"n == :5":                                "Syntax error",
		"n = :":                                  `Syntax error; token: ":"`,
		"n = 5":                                  `Syntax error; token: "5"`,
		"_n = :5":                                "Syntax error",
		"(n = :5":                                "Syntax error",
		"n BETWEEN :4":                           "Syntax error",
		"n IN :4":                                "Syntax error",
		"ttl = :5":                               "reserved keyword: ttl",
		"m.Status = :5":                          "reserved keyword: Status",
		"((n = :5))":                             "redundant parentheses",
		"foo(n)":                                 "Invalid function name; function: foo",
		"size(n)":                                "not allowed to be used this way in an expression; function: size",
		"if_not_exists(n, :5)":                   "function: if_not_exists",
		"n = attribute_exists(n)":                "not allowed to be used this way",
		"begins_with(st)":                        "Incorrect number of operands",
		"attribute_exists(:5)":                   "requires a document path",
		"begins_with(st, :5)":                    "operator or function: begins_with, operand type: N",
		"attribute_type(n, :bad)":                "Invalid attribute type name found; type: Z",
		"attribute_type(n, :5)":                  "operand type: N",
		"n < :t":                                 "operator or function: <, operand type: BOOL",
		"n BETWEEN :6 AND :4":                    "upper bound to be greater than or equal to lower bound",
		"n BETWEEN :4 AND :s":                    "same data type for lower and upper bounds",
		"size(:5) = :5":                          "operator or function: size, operand type: N",
		"n = n":                                  "must be distinct",
		"#n = n":                                 "must be distinct",
		"contains(st, st)":                       "must be distinct",
		"n = :x":                                 "value used in expression is not defined; attribute value: :x",
		"#x = :5":                                "name used in the document path is not defined; attribute name: #x",
		"n[99999999999999] = :5":                 "List index is not within the allowable range",
		strings.Repeat("n", 5000):                "Expression size has exceeded",
		"n" + strings.Repeat(".n", 40) + " = :5": "too many nesting elements",
		strings.Repeat("n=:5 OR ", 301) + "n=:5": "too many operators",
	}
	for text, message := range tests {
		c, err := ParseCondition(text)
		if err == nil {
			err = c.Check(testEnv())
		}
		require.ErrorContains(t, err, message, text)
	}
}

// The first operand of an operator or a function may not be a path that another operand repeats.
func TestDistinctOperands(t *testing.T) {
	for text, want := range map[string]string{
		"n = n": "=, first operand: [n]", "n <> n": "<>, first operand: [n]", "n < n": "<, first operand: [n]",
		"n <= n": "<=, first operand: [n]", "n > n": ">, first operand: [n]", "n >= n": ">=, first operand: [n]",
		"n IN (n)":              "IN, first operand: [n]",
		"begins_with(st, st)":   "begins_with, first operand: [st]",
		"contains(m.#n, m.n)":   "contains, first operand: [m, n]",
		"li[1] = li[1]":         "=, first operand: [li, [1]]",
		"NOT (m.n = m.#n)":      "=, first operand: [m, n]",
		"n = :5 OR #n = n":      "=, first operand: [n]",
		"n BETWEEN n AND :5":    "BETWEEN, first operand: [n]",
		"n BETWEEN :4 AND n":    "BETWEEN, first operand: [n]",
		"n BETWEEN n AND n":     "BETWEEN, first operand: [n]",
		"n BETWEEN :5 AND :5":   "",
		":5 = :5":               "",
		":5 IN (:5)":            "",
		"n IN (n, :5)":          "IN, first operand: [n]",
		"contains(:s, :s)":      "",
		"size(st) = size(st)":   "",
		"li[0] = li[1]":         "",
		"begins_with(st, m.st)": "",
	} {
		c, err := ParseCondition(text)
		require.NoError(t, err, text)
		err = c.Check(testEnv())
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.EqualError(t, err, "The first operand must be distinct from the remaining operands for this operator or function; operator: "+want, text)
	}
}

// showMap is m in the order of its names.
func showMap(m value.Map) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if inner, ok := m[name].(value.Map); ok {
			parts = append(parts, name+"="+showMap(inner))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, m[name]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func TestUpdates(t *testing.T) {
	base := value.Map{"n": num(5), "li": value.List{num(0), num(1), num(2)}, "m": value.Map{"k": num(1)}, "ss": value.StringSet{"x"}}
	tests := []struct{ text, want string }{
		{"SET a = :5", "a=5"},
		{"SET n = n + :1", "n=6"},
		{"SET n = n - :1, a = n", "n=4 a=5"},
		{"SET n = :1 - n", "n=-4"},
		{"SET a = if_not_exists(a, :0) + :1", "a=1"},
		{"SET a = if_not_exists(n, :0)", "a=5"},
		{"SET a = if_not_exists(b, if_not_exists(c, :4))", "a=4"},
		{"SET li = list_append(li, :l)", "li=[0 1 2 9]"},
		{"SET li = list_append(:l, li)", "li=[9 0 1 2]"},
		{"SET a = list_append(if_not_exists(a, :l), :l)", "a=[9 9]"},
		{"SET a = (n + :1)", "a=6"},
		{"SET m.k = :5", "m={k=5}"},
		{"SET m.z = :5", "m={k=1 z=5}"},
		{"SET li[1] = :5", "li=[0 5 2]"},
		{"SET li[9] = :5, li[7] = :4", "li=[0 1 2 4 5]"},
		{"REMOVE n", "n="},
		{"REMOVE nope", ""},
		{"REMOVE li[0], li[2]", "li=[1]"},
		{"REMOVE li[7]", ""},
		{"REMOVE m.k, m.z", "m={}"},
		{"SET li[5] = :5 REMOVE li[0]", "li=[1 2 5]"},
		{"ADD n :1, a :4", "n=6 a=4"},
		{"ADD ss :ss, b :ss", "b=[x]"},
		{"ADD m.k :1, m.z :1", "m={k=2 z=1}"},
		{"DELETE ss :ss", "ss="},
		{"DELETE nope :ss", ""},
		{"set n = :1 remove m add a :1 delete ss :ss", "n=1 m= a=1 ss="},
	}
	for _, tt := range tests {
		u, err := ParseUpdate(tt.text)
		require.NoError(t, err, tt.text)
		require.NoError(t, u.Check(testEnv()), tt.text)
		before := showMap(base)
		got, err := u.Apply(testEnv(), base)
		require.NoError(t, err, tt.text)
		require.Equal(t, before, showMap(base), "%s changed its input", tt.text)
		require.Equal(t, wanted(base, tt.want), showMap(got), tt.text)
	}
}

// wanted is base with the attributes of want, "name=" for one that is gone.
func wanted(base value.Map, want string) string {
	shown := map[string]string{}
	for name, v := range base {
		shown[name] = strings.TrimSuffix(strings.TrimPrefix(showMap(value.Map{name: v}), "{"), "}")
	}
	for rest := want; rest != ""; {
		name, after, _ := strings.Cut(rest, "=")
		end := strings.IndexByte(after, ' ')
		if strings.HasPrefix(after, "[") || strings.HasPrefix(after, "{") {
			end = strings.IndexAny(after, "]}") + 1
		}
		if end < 0 {
			end = len(after)
		}
		shown[name] = name + "=" + after[:end]
		if end == 0 {
			delete(shown, name)
		}
		rest = strings.TrimPrefix(after[end:], " ")
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		parts = append(parts, shown[name])
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func TestBadUpdates(t *testing.T) {
	tests := map[string]string{
		"":                              "can not be empty",
		"n = :5":                        "Syntax error",
		"SET":                           "Syntax error",
		"SET n":                         "Syntax error",
		"SET n = :5,":                   "Syntax error",
		"SET n = :5 +":                  `Syntax error; token: "<EOF>", near: "+"`,
		"SET n = :5 + :5 + :5":          "Syntax error",
		"SET n = :5 SET st = :5":        `The "SET" section can only be used once`,
		"SET ttl = :5":                  "reserved keyword: ttl",
		"SET n = :5 REMOVE n":           "overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]",
		"SET m.k = :5, m = :m":          "overlap",
		"SET m.k = :5, m[1] = :5":       "conflict with each other",
		"SET n = size(n)":               "not allowed in an update expression; function: size",
		"SET n = foo(n)":                "Invalid function name",
		"SET n = if_not_exists(:5, :5)": "requires a document path",
		"SET n = list_append(:l)":       "Incorrect number of operands",
		"SET n = list_append(:5, :l)":   "operator or function: list_append, operand type: N",
		"SET n = n + :s":                "operator or function: +, operand type: S",
		"ADD n n":                       "Syntax error",
		"ADD n if_not_exists(n, :5)":    "Syntax error",
		"ADD n :s":                      "operator: ADD, operand type: STRING",
		"DELETE n :5":                   "operator: DELETE, operand type: NUMBER",
		"REMOVE n = :5":                 "Syntax error",
		"SET n = :x":                    "not defined",
	}
	for text, message := range tests {
		u, err := ParseUpdate(text)
		if err == nil {
			err = u.Check(testEnv())
		}
		require.ErrorContains(t, err, message, text)
	}
}

func TestUpdatesThatDoNotFit(t *testing.T) {
	tests := map[string]error{
		"SET a = zz":                ErrMissing,
		"SET a = zz + :1":           ErrMissing,
		"SET a = st + :1":           ErrOperandType,
		"SET a = list_append(n,:l)": ErrOperandType,
		"ADD st :1":                 ErrOperandType,
		"ADD tags :ns":              ErrOperandType,
		"DELETE st :ss":             ErrOperandType,
		"SET zz.x = :1":             ErrPath,
		"SET n.x = :1":              ErrPath,
		"SET n[0] = :1":             ErrPath,
		"SET m[0] = :1":             ErrPath,
		"SET li.x = :1":             ErrPath,
		"SET li[7].x = :1":          ErrPath,
		"REMOVE zz.x":               ErrPath,
		"DELETE zz.x :ss":           ErrPath,
	}
	for text, want := range tests {
		u, err := ParseUpdate(text)
		require.NoError(t, err, text)
		require.NoError(t, u.Check(testEnv()), text)
		_, err = u.Apply(testEnv(), testItem())
		require.ErrorIs(t, err, want, text)
	}
}

// DynamoDB ignores a REMOVE below nothing if there is no item at all.
func TestRemoveFromNoItem(t *testing.T) {
	u, err := ParseUpdate("REMOVE x.y, z[0] SET n = :1")
	require.NoError(t, err)
	got, err := u.Apply(testEnv(), nil)
	require.NoError(t, err)
	require.Equal(t, "{n=1}", showMap(got))
}

func TestProjections(t *testing.T) {
	tests := []struct{ text, want string }{
		{"n, nope", "{n=5}"},
		{"#n, m.k", "{m={k=1} n=5}"},
		{"li[1], li[0]", "{li=[1 map[x:2]]}"},
		{"m.l[1]", "{m={l=[7]}}"},
		{"li[1].x, m.nope, n.x", "{li=[map[x:2]]}"},
		{"#dot", "{a.b=1}"},
	}
	for _, tt := range tests {
		p, err := ParseProjection(tt.text)
		require.NoError(t, err, tt.text)
		require.NoError(t, p.Check(testEnv()), tt.text)
		require.Equal(t, tt.want, showMap(p.Apply(testEnv(), testItem())), tt.text)
	}
	for text, message := range map[string]string{
		"": "empty", "n,": "Syntax error", "n n": "Syntax error", "n, #n": "overlap", "m, m.k": "overlap",
		"m.k, m[0]": "conflict", "data": "reserved keyword", "#x": "not defined", "n, :5": "Syntax error",
	} {
		p, err := ParseProjection(text)
		if err == nil {
			err = p.Check(testEnv())
		}
		require.ErrorContains(t, err, message, text)
	}
}

func TestKeyConditions(t *testing.T) {
	good := map[string]string{
		"h = :5": "", "#h = :5 AND r = :1": "=", "r > :1 AND h = :5": ">", "(h = :5) AND (r BETWEEN :1 AND :4)": "BETWEEN",
		"h = :5 AND begins_with(r, :s)": "begins_with", ":5 = h AND :1 < r": ">",
	}
	env := testEnv()
	env.Names["#h"] = "h"
	for text, op := range good {
		c, err := ParseCondition(text)
		require.NoError(t, err, text)
		k, err := c.Key(env, "h", "r")
		require.NoError(t, err, text)
		require.Equal(t, num(5), k.Hash, text)
		require.Equal(t, op, k.Op, text)
	}
	bad := map[string]string{
		"r = :5": "missed key schema element: h", "h > :5": "not supported", "h = :5 AND x = :1": "missed key schema element: r",
		"h = :5 OR r = :1": "Invalid operator", "NOT h = :5": "Invalid operator", "h = :5 AND r <> :1": "Invalid operator",
		"h = :5 AND r > :1 AND r < :4": "not supported", "h = r": "Invalid operator", "h = :5 AND attribute_exists(r)": "Invalid operator",
		"h IN (:5)": "Invalid operator", "h.x = :5": "Invalid operator",
	}
	for text, message := range bad {
		c, err := ParseCondition(text)
		require.NoError(t, err, text)
		_, err = c.Key(env, "h", "r")
		require.ErrorContains(t, err, message, text)
	}
}

func TestReservedWords(t *testing.T) {
	require.Len(t, reserved, 573)
	for _, w := range []string{"ttl", "Status", "NAME", "zone", "abort"} {
		require.True(t, isReserved(w), w)
	}
	require.False(t, isReserved("pk"))
}

// FuzzParse wants no panic, whatever the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"SET a = :5 REMOVE m.k", "n = :5 AND (m.l[0] < :1 OR NOT size(st) IN (:4))", "a, b.c[1]", "ADD n :1", "((", "[", "#", "a[", "NOT", "SET a = if_not_exists("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		env, item := testEnv(), testItem()
		if c, err := ParseCondition(text); err == nil && c.Check(env) == nil {
			c.Holds(env, item)
			_, _ = c.Key(env, "h", "r")
		}
		if u, err := ParseUpdate(text); err == nil && u.Check(env) == nil {
			before := showMap(item)
			_, _ = u.Apply(env, item)
			require.Equal(t, before, showMap(item))
		}
		if p, err := ParseProjection(text); err == nil && p.Check(env) == nil {
			p.Apply(env, item)
		}
	})
}
