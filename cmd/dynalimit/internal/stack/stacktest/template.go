package stacktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// template is a template as it was written: maps, lists and texts, with intrinsic functions
// in their long form.
type template map[string]any

// noValue is what removes a property.
type noValue struct{}

// parse reads a template in YAML or JSON.
func parse(text string) (template, error) {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, err
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, fmt.Errorf("it has %d documents", len(file.Docs))
	}
	tree, err := plain(file.Docs[0].Body)
	if err != nil {
		return nil, err
	}
	m, ok := tree.(map[string]any)
	if !ok || len(child(m, "Resources")) == 0 {
		return nil, fmt.Errorf("at least one Resources member must be defined")
	}
	return m, nil
}

// plain turns a node into maps, lists and values, and short functions into long ones.
func plain(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		m := map[string]any{}
		for _, entry := range n.Values {
			if err := put(m, entry); err != nil {
				return nil, err
			}
		}
		return m, nil
	case *ast.MappingValueNode:
		m := map[string]any{}
		return m, put(m, n)
	case *ast.SequenceNode:
		list := []any{}
		for _, v := range n.Values {
			value, err := plain(v)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case *ast.TagNode:
		name := strings.TrimPrefix(n.Start.Value, "!")
		if name != "Ref" && name != "Condition" {
			name = "Fn::" + name
		}
		value, err := plain(n.Value)
		return map[string]any{name: value}, err
	}
	var value any
	err := yaml.NodeToValue(n, &value)
	return value, err
}

func put(m map[string]any, entry *ast.MappingValueNode) error {
	var key string
	if err := yaml.NodeToValue(entry.Key, &key); err != nil {
		return err
	}
	value, err := plain(entry.Value)
	m[key] = value
	return err
}

func child(m map[string]any, key string) map[string]any {
	c, _ := m[key].(map[string]any)
	return c
}

// scope is what functions of a template refer to.
type scope struct {
	template template
	params   map[string]string
	pseudo   map[string]string
	// physical are the names of what was made.
	physical map[string]string
}

// resource is a resource with its functions resolved.
type resource struct {
	kind       string
	policy     string // DeletionPolicy
	properties map[string]any
}

// resources are those whose condition holds.
func (s *scope) resources() (all map[string]resource, order []string) {
	all = map[string]resource{}
	for _, name := range slices.Sorted(maps.Keys(child(s.template, "Resources"))) {
		r := child(child(s.template, "Resources"), name)
		if condition, ok := r["Condition"].(string); ok && !s.condition(condition) {
			continue
		}
		properties, _ := s.resolve(r["Properties"]).(map[string]any)
		policy, _ := r["DeletionPolicy"].(string)
		kind, _ := r["Type"].(string)
		all[name] = resource{kind, policy, properties}
		order = append(order, name)
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(all[a]) - rank(all[b]) })
	return all, order
}

// rank puts tables before what is about them.
func rank(r resource) int {
	if strings.HasPrefix(r.kind, "AWS::DynamoDB::") {
		return 0
	}
	return 1
}

func (s *scope) condition(name string) bool {
	yes, _ := s.resolve(child(s.template, "Conditions")[name]).(bool)
	return yes
}

// resolve is a value with its functions called.
func (s *scope) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if name, argument, ok := function(v); ok {
			return s.call(name, argument)
		}
		m := map[string]any{}
		for key, value := range v {
			if r := s.resolve(value); r != (noValue{}) {
				m[key] = r
			}
		}
		return m
	case []any:
		list := []any{}
		for _, value := range v {
			if r := s.resolve(value); r != (noValue{}) {
				list = append(list, r)
			}
		}
		return list
	}
	return v
}

// function is the function that a map calls.
func function(m map[string]any) (name string, argument any, ok bool) {
	if len(m) != 1 {
		return "", nil, false
	}
	for name, argument = range m {
		ok = name == "Ref" || name == "Condition" || strings.HasPrefix(name, "Fn::")
	}
	return name, argument, ok
}

func (s *scope) call(name string, argument any) any {
	if name == "Fn::If" { // of its branches one is resolved
		branches := argument.([]any)
		if s.condition(branches[0].(string)) {
			return s.resolve(branches[1])
		}
		return s.resolve(branches[2])
	}
	argument = s.resolve(argument)
	list, _ := argument.([]any)
	switch name {
	case "Ref":
		return s.ref(argument.(string))
	case "Condition":
		return s.condition(argument.(string))
	case "Fn::Equals":
		return fmt.Sprint(list[0]) == fmt.Sprint(list[1])
	case "Fn::Not":
		return list[0] != true
	case "Fn::Sub":
		return s.sub(argument.(string))
	case "Fn::GetAtt":
		return s.attribute(argument.(string))
	}
	panic("stacktest does not know " + name)
}

func (s *scope) ref(name string) any {
	if name == "AWS::NoValue" {
		return noValue{}
	}
	for _, from := range []map[string]string{s.pseudo, s.params, s.physical} {
		if value, ok := from[name]; ok {
			return value
		}
	}
	return name + "-to-be-made"
}

func (s *scope) attribute(text string) string {
	logical, name, _ := strings.Cut(text, ".")
	return fmt.Sprintf("arn:%s:of:%s:%s:%s/%s", s.pseudo["AWS::Partition"], s.pseudo["AWS::Region"], s.pseudo["AWS::AccountId"], s.ref(logical), name)
}

func (s *scope) sub(text string) string {
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			return text
		}
		name, after, _ := strings.Cut(rest, "}")
		value := fmt.Sprint(s.ref(name))
		if strings.Contains(name, ".") {
			value = s.attribute(name)
		}
		text = before + value + after
	}
}
