package ddbmem_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"
)

// expression is a generated expression with the placeholders it uses.
type expression struct {
	t      *rapid.T
	names  map[string]string
	values item
}

func newExpression(t *rapid.T) *expression {
	return &expression{t: t, names: map[string]string{}, values: item{}}
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// chance is true once in n times.
func chance(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == n }

var attributeNames = []string{"a", "b", "n", "o", "st", "ss", "ns", "li", "ma", "g", "h"}

var numbers = []string{
	"0", "1", "2", "-1", "3", "1.5", "0.1", "-0.25", "100", "1e20", "-7E-3", "9007199254740993",
	"12345678901234567890123456789012345678", "0.00000000000000000001", "9.99E100",
}

func aNumber(t *rapid.T) string { return rapid.SampledFrom(numbers).Draw(t, "number") }

// someValue is an attribute value, nested depth levels at most.
func someValue(t *rapid.T, depth int) av {
	kinds := []string{"N", "N", "N", "S", "S", "SS", "NS", "BS", "BOOL", "NULL", "B"}
	if depth > 0 {
		kinds = append(kinds, "L", "M", "L", "M")
	}
	return valueOf(t, rapid.SampledFrom(kinds).Draw(t, "kind"), depth)
}

func valueOf(t *rapid.T, kind string, depth int) av {
	switch kind {
	case "N":
		return &types.AttributeValueMemberN{Value: aNumber(t)}
	case "S":
		return str(pick(t, "text", "", "x", "xy", "y", "S", "N", "été"))
	case "SS":
		return &types.AttributeValueMemberSS{Value: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "q", "r", "x"}), 1, 3, rapid.ID).Draw(t, "ss")}
	case "NS":
		return &types.AttributeValueMemberNS{Value: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "-3", "1.5"}), 1, 3, rapid.ID).Draw(t, "ns")}
	case "BS":
		return &types.AttributeValueMemberBS{Value: [][]byte{[]byte(pick(t, "bs", "p", "q"))}}
	case "BOOL":
		return &types.AttributeValueMemberBOOL{Value: rapid.Bool().Draw(t, "bool")}
	case "NULL":
		return &types.AttributeValueMemberNULL{Value: true}
	case "B":
		return &types.AttributeValueMemberB{Value: []byte(pick(t, "bytes", "x", "xy", "z"))}
	case "L":
		list := &types.AttributeValueMemberL{Value: []av{}}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list.Value = append(list.Value, someValue(t, depth-1))
		}
		return list
	}
	m := &types.AttributeValueMemberM{Value: item{}}
	for _, name := range []string{"x", "y"} {
		if rapid.Bool().Draw(t, name) {
			m.Value[name] = someValue(t, depth-1)
		}
	}
	return m
}

// natural is a value of the type an attribute's name suggests, mostly.
func natural(t *rapid.T, name string) av {
	kinds := map[string]string{"n": "N", "o": "N", "h": "N", "st": "S", "ss": "SS", "ns": "NS", "li": "L", "ma": "M"}
	kind, ok := kinds[name]
	switch {
	case name == "g":
		return str(pick(t, "index key", "G", "H"))
	case !ok || chance(t, 8, "odd type") && name != "h":
		return someValue(t, 2)
	}
	return valueOf(t, kind, 2)
}

func randomItem(t *rapid.T, key item) item {
	it := item{}
	for k, v := range key {
		it[k] = v
	}
	for _, name := range attributeNames {
		if rapid.Bool().Draw(t, "has "+name) {
			it[name] = natural(t, name)
		}
	}
	if chance(t, 30, "wrong index key") {
		it["h"] = str("text")
	}
	return it
}

// name is an attribute's name, or a placeholder for it.
func (e *expression) name(n string) string {
	if !rapid.Bool().Draw(e.t, "placeholder") {
		return n
	}
	p := fmt.Sprintf("#%d", len(e.names))
	e.names[p] = n
	return p
}

func (e *expression) value(v av) string {
	p := fmt.Sprintf(":%d", len(e.values))
	e.values[p] = v
	return p
}

func (e *expression) path() string {
	top := rapid.SampledFrom(attributeNames).Draw(e.t, "attribute")
	p := e.name(top)
	for range rapid.IntRange(0, 2).Draw(e.t, "steps") {
		step := ""
		switch {
		case top == "ma" || chance(e.t, 12, "into a map"):
			step = "." + e.name(pick(e.t, "member", "x", "y", "z"))
		case top == "li" || chance(e.t, 12, "into a list"):
			step = pick(e.t, "index", "[0]", "[1]", "[2]")
		}
		p += step
		top = pick(e.t, "holds", "ma", "li", "")
	}
	return p
}

func (e *expression) operand() string {
	switch rapid.IntRange(0, 5).Draw(e.t, "operand") {
	case 0, 1:
		return e.value(someValue(e.t, 1))
	case 2:
		return "size(" + e.path() + ")"
	}
	return e.path()
}

func (e *expression) condition(depth int) string {
	if depth > 0 {
		switch rapid.IntRange(0, 6).Draw(e.t, "logic") {
		case 0:
			return e.condition(depth-1) + " AND " + e.condition(depth-1)
		case 1:
			return e.condition(depth-1) + pick(e.t, "or", " OR ", " or ") + e.condition(depth-1)
		case 2:
			return "NOT " + e.condition(depth-1)
		case 3:
			return "(" + e.condition(depth-1) + ")"
		}
	}
	switch rapid.IntRange(0, 10).Draw(e.t, "test") {
	case 0:
		return "attribute_exists(" + e.path() + ")"
	case 1:
		return "attribute_not_exists(" + e.path() + ")"
	case 2:
		return "attribute_type(" + e.path() + ", " + e.value(str(pick(e.t, "type", "S", "N", "L", "M", "SS", "NULL", "BOOL"))) + ")"
	case 3:
		return "begins_with(" + e.path() + ", " + e.operand() + ")"
	case 4:
		return "contains(" + e.path() + ", " + e.operand() + ")"
	case 5:
		return e.path() + " BETWEEN " + e.value(valueOf(e.t, "N", 0)) + " AND " + e.operand()
	case 6:
		return e.operand() + " IN (" + e.operand() + ", " + e.value(someValue(e.t, 1)) + ")"
	}
	return e.operand() + pick(e.t, "compare", " = ", " <> ", " < ", " <= ", " > ", " >= ") + e.operand()
}

func (e *expression) setOperand(depth int) string {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(e.t, "function") {
		case 0:
			return "if_not_exists(" + e.path() + ", " + e.setOperand(depth-1) + ")"
		case 1:
			return "list_append(" + e.setOperand(depth-1) + ", " + e.setOperand(depth-1) + ")"
		}
	}
	switch rapid.IntRange(0, 3).Draw(e.t, "set operand") {
	case 0:
		return e.path()
	case 1:
		return e.value(someValue(e.t, 2))
	case 2:
		return e.value(valueOf(e.t, "L", 1))
	}
	return e.value(valueOf(e.t, "N", 0))
}

func (e *expression) update() string {
	var sections []string
	add := func(word string, action func() string) {
		list := []string{action()}
		if rapid.Bool().Draw(e.t, "two") {
			list = append(list, action())
		}
		sections = append(sections, word+" "+strings.Join(list, ", "))
	}
	if rapid.IntRange(0, 2).Draw(e.t, "SET") > 0 {
		add("SET", func() string {
			a := e.path() + " = " + e.setOperand(2)
			if rapid.Bool().Draw(e.t, "arithmetic") {
				a += pick(e.t, "sign", " + ", " - ") + e.setOperand(1)
			}
			return a
		})
	}
	if chance(e.t, 3, "REMOVE") {
		add("REMOVE", e.path)
	}
	if chance(e.t, 3, "ADD") {
		add("ADD", func() string { return e.path() + " " + e.value(valueOf(e.t, pick(e.t, "of", "N", "N", "SS", "NS"), 0)) })
	}
	if chance(e.t, 4, "DELETE") || len(sections) == 0 {
		add("DELETE", func() string { return e.path() + " " + e.value(valueOf(e.t, pick(e.t, "of", "SS", "NS"), 0)) })
	}
	return strings.Join(sections, " ")
}

func (e *expression) projection() string {
	list := []string{e.path()}
	for range rapid.IntRange(0, 2).Draw(e.t, "more paths") {
		list = append(list, e.path())
	}
	return strings.Join(list, ", ")
}

// spoil breaks one expression in a dozen, by a word too many, too few or wrong.
func (e *expression) spoil(s string) string {
	if !chance(e.t, 12, "spoil") {
		return s
	}
	words := strings.Fields(s)
	i := rapid.IntRange(0, len(words)-1).Draw(e.t, "at")
	switch rapid.IntRange(0, 4).Draw(e.t, "how") {
	case 0:
		words = append(words[:i:i], words[i+1:]...)
	case 1:
		words = append(words[:i+1:i+1], words[i:]...)
	case 2:
		words[i] = pick(e.t, "word", "status", "AND", "SET", "(", ")", ",", "=", ":nope", "#nope", "size", "a.b", "1", "@")
	case 3:
		e.names["#unused"] = "a"
	case 4:
		e.values[":unused"] = str("x")
	}
	return strings.Join(words, " ")
}

func (e *expression) givenNames() map[string]string {
	if len(e.names) == 0 {
		return nil
	}
	return e.names
}

func (e *expression) givenValues() item {
	if len(e.values) == 0 {
		return nil
	}
	return e.values
}
