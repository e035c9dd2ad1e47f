package infra

// What is written is a tree of these: object, list, string, int64, bool, and code, which is
// text in the language that is written.

// object is a mapping, in its order.
type object []field

// field is an entry of a mapping. The note is a comment above it.
type field struct {
	Key   string
	Value any
	Note  string
}

// list is a sequence.
type list []any

// code is an expression, as it is written.
type code string

// texts are a list of strings.
func texts(values []string) list {
	l := make(list, len(values))
	for i, v := range values {
		l[i] = v
	}
	return l
}

// oneOrMore is a list, or its only value.
func oneOrMore(l list) any {
	if len(l) == 1 {
		return l[0]
	}
	return l
}

// statement is a statement of a policy, with its resources as the language names them.
func (s Statement) tree(arn func(Resource) code) object {
	resources := make(list, len(s.Resources))
	for i, r := range s.Resources {
		resources[i] = arn(r)
	}
	o := object{
		{Key: "Sid", Value: s.Sid, Note: s.About},
		{Key: "Effect", Value: "Allow"},
		{Key: "Action", Value: texts(s.Actions)},
		{Key: "Resource", Value: resources},
	}
	if len(s.Conditions) == 0 {
		return o
	}
	var conditions object
	for _, operator := range s.operators() {
		var keys object
		for _, c := range s.under(operator) {
			keys = append(keys, field{Key: c.Key, Value: oneOrMore(texts(c.Values))})
		}
		conditions = append(conditions, field{Key: operator, Value: keys})
	}
	return append(o, field{Key: "Condition", Value: conditions})
}
