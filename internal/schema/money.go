package schema

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Money is the part of a write about limits of money, and about alerts. It changes neither tokens nor conditions.
type Money struct {
	// Begun are limits whose unit becomes dollars, and Ended those that lose their unit.
	Begun, Ended []string
	// Spent are the changes of counters by model, in millitokens, in the order of their names.
	Spent []Spent
	// Gone are the counters by model that the write removes.
	Gone []string
	// Alerts are the alerts that the write sets, in the form of AlertText. Silent are limits whose alerts it removes.
	Alerts, Silent []string
}

// Spent is the change of a counter by model.
type Spent struct {
	Counter string
	Amount  int64
}

// Add adds an amount, in millitokens, to the change of a counter by model in m.Spent, which it keeps sorted.
func (m *Money) Add(counter string, amount int64) {
	i, there := slices.BinarySearchFunc(m.Spent, counter, func(s Spent, name string) int { return strings.Compare(s.Counter, name) })
	if !there {
		m.Spent = slices.Insert(m.Spent, i, Spent{Counter: counter})
	}
	m.Spent[i].Amount += amount
}

// HasCounter reports whether Spent has a change of a counter.
func (m *Money) HasCounter(counter string) bool {
	return slices.ContainsFunc(m.Spent, func(s Spent) bool { return s.Counter == counter })
}

// IsEmpty reports whether the part changes nothing.
func (m *Money) IsEmpty() bool {
	return len(m.Begun)+len(m.Ended)+len(m.Spent)+len(m.Gone)+len(m.Alerts)+len(m.Silent) == 0
}

// AddTo returns the statement with the changes of money added to its update. It adds the values to st.Values in
// place and copies the names.
func (m *Money) AddTo(st Statement) Statement {
	b := statementBuilder{names: map[string]string{}, places: map[string]string{}, values: st.Values}
	name := func(attr string) string { // apart from the names of the rest
		p := "#v" + b.name(attr)[1:]
		return p
	}
	var set, add, remove []string
	for _, limit := range m.Begun {
		set = append(set, name(unitAttr(limit))+" = "+b.value(String(money)))
	}
	for _, text := range m.Alerts {
		attr, value := alertsOf(text)
		set = append(set, name(attr)+" = "+b.value(value))
	}
	for _, s := range m.Spent {
		add = append(add, name(byModelPrefix+s.Counter)+" "+b.value(Number(s.Amount)))
	}
	for _, limit := range m.Ended {
		remove = append(remove, name(unitAttr(limit)))
	}
	for _, limit := range m.Silent {
		remove = append(remove, name(alertsAttr(limit)))
	}
	for _, counter := range m.Gone {
		remove = append(remove, name(byModelPrefix+counter))
	}
	st.Names = maps.Clone(st.Names)
	for p, attr := range b.names {
		st.Names["#v"+p[1:]] = attr
	}
	st.Update = withParts(withParts(withParts(st.Update, "SET ", set), "ADD ", add), "REMOVE ", remove)
	return st
}

// withParts adds parts to the clause of an update that begins with verb, or appends the clause. It returns the
// update unchanged without parts.
func withParts(update, verb string, parts []string) string {
	if len(parts) == 0 {
		return update
	}
	list := strings.Join(parts, ", ")
	switch i := strings.Index(update, verb); {
	case i >= 0:
		i += len(verb)
		return update[:i] + list + ", " + update[i:]
	case update == "":
		return verb + list
	}
	return update + " " + verb + list
}

// attributes calls set with the name and value of each attribute of money and alerts in a new bucket: units,
// alerts and counters by model. It leaves out m's removals.
func (m *Money) attributes(set func(name string, value types.AttributeValue)) {
	for _, limit := range m.Begun {
		set(unitAttr(limit), String(money))
	}
	for _, text := range m.Alerts {
		set(alertsOf(text))
	}
	for _, s := range m.Spent {
		set(byModelPrefix+s.Counter, Number(s.Amount))
	}
}
