package infra

import (
	"fmt"
	"strings"
)

// Part is a part of a deployment that can be described without the others.
type Part string

// The parts.
const (
	PartTables Part = "tables"
	PartRoles  Part = "roles"
	PartAlarms Part = "alarms"
)

// Parts are all parts, in the order in which they are written.
func Parts() []Part { return []Part{PartTables, PartRoles, PartAlarms} }

// Options say what is to be described. Names of tables, keys, the boundary and who is
// trusted are parameters of what is written: the options set their defaults.
type Options struct {
	// Table is the limiter's table. Defaults to "limits".
	Table string
	// Budget are the tables of budgets. Defaults to none.
	Budget *BudgetTables
	// Namespace bounds the roles to one namespace of the table by leading keys. Defaults
	// to none: the roles are for what lies in no namespace, and the administrator's for
	// the whole table.
	Namespace string
	// Parts are what is described. Defaults to everything. Roles and alarms alone are for
	// tables that are there already.
	Parts []Part
	// Tags are put on everything that can have tags. Defaults to none.
	Tags map[string]string
}

// BudgetTables name the tables of budgets.
type BudgetTables struct{ Control, Usage string }

// Has says whether a part is described.
func (o Options) Has(p Part) bool {
	for _, part := range o.Parts {
		if part == p {
			return true
		}
	}
	return len(o.Parts) == 0
}

// OptionError says which option is wrong, and what to do.
type OptionError struct{ Option, Reason string }

func (e *OptionError) Error() string { return fmt.Sprintf("%s %s", e.Option, e.Reason) }

func (o Options) check() error {
	for _, p := range o.Parts {
		if p != PartTables && p != PartRoles && p != PartAlarms {
			return &OptionError{"parts", fmt.Sprintf("has %q; the parts are tables, roles and alarms", p)}
		}
	}
	for key, value := range o.Tags {
		switch {
		case key == "" || len(key) > 128 || len(value) > 256:
			return &OptionError{"tags", fmt.Sprintf("has %q: a key has 1 to 128 characters and a value at most 256", key)}
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return &OptionError{"tags", fmt.Sprintf("has %q: keys that begin with aws: are Amazon's; use another", key)}
		case strings.ContainsAny(key+value, "\"\\\n\r$%{}"):
			return &OptionError{"tags", fmt.Sprintf("has %q: leave out quotes, backslashes, line ends, $, %% and braces", key)}
		}
	}
	return nil
}
