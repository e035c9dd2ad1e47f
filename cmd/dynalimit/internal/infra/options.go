package infra

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Part is a part of a deployment that can be described without the others.
type Part string

// The parts.
const (
	PartTables Part = "tables"
	PartRoles  Part = "roles"
	PartAlarms Part = "alarms"
)

// partAggregator is the function, which is there only where it is asked for.
const partAggregator Part = "aggregator"

// partArchive is the function that archives, which is there only where it is asked for.
const partArchive Part = "archive"

// partTail is the role of what follows the stream, which is there only where it is asked for.
const partTail Part = "tail"

// partKeeper is the role of `dynalimit keeper serve`, which is there only where it is asked for.
const partKeeper Part = "keeper"

// onlyAsked are the parts that are there only where they are asked for.
var onlyAsked = []Part{partAggregator, partArchive, partTail, partKeeper}

// Parts are all parts but those that are there only where they are asked for, in the order in which they are written.
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
	// Aggregator adds the function of AWS Lambda that adds the stream of the limits to usage,
	// with its role, and the alarms on it where alarms are described. Defaults to none.
	Aggregator bool
	// Archive adds the function of AWS Lambda that keeps what expires in a bucket of S3, with
	// its role, and the alarms on it where alarms are described. Defaults to none.
	Archive bool
	// Tail adds the role of what follows the stream and turns it into usage (dynalimit tail)
	// instead of the function. Defaults to none.
	Tail bool
	// Keeper adds the role of what serves budgets over HTTP (dynalimit keeper serve), on the
	// tables of Budget. Defaults to none.
	Keeper bool
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
	switch p {
	case partAggregator:
		return o.Aggregator
	case partArchive:
		return o.Archive
	case partTail:
		return o.Tail
	case partKeeper:
		return o.Keeper
	}
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
	for _, p := range onlyAsked {
		if p != partKeeper && o.Has(p) && o.Namespace != "" {
			return &OptionError{string(p), "is of the whole table, with all its namespaces; deploy it without --namespace"}
		}
	}
	if o.Keeper && o.Budget == nil {
		return &OptionError{"keeper", "is about the tables of budgets; add --budget, with --control and --usage where they have other names"}
	}
	return checkTags(o.Tags)
}

const (
	mostTags     = 50
	longestKey   = 128 // characters
	longestValue = 256
)

// tagText are the characters that AWS takes in tags.
var tagText = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

func checkTags(tags map[string]string) error {
	if len(tags) > mostTags {
		return &OptionError{"tags", fmt.Sprintf("are %d; give at most %d", len(tags), mostTags)}
	}
	folded := map[string]bool{}
	for key, value := range tags {
		lower := strings.ToLower(key)
		switch {
		case key == "" || utf8.RuneCountInString(key) > longestKey || utf8.RuneCountInString(value) > longestValue:
			return &OptionError{"tags", fmt.Sprintf("has %q: a key has 1 to %d characters and a value at most %d", key, longestKey, longestValue)}
		case strings.HasPrefix(lower, "aws:"):
			return &OptionError{"tags", fmt.Sprintf("has %q: keys that begin with aws: are Amazon's; use another", key)}
		case !utf8.ValidString(key+value) || !tagText.MatchString(key+value):
			return &OptionError{"tags", fmt.Sprintf("has %q: AWS takes letters, digits, spaces and _ . : / = + - @", key)}
		case folded[lower]:
			return &OptionError{"tags", fmt.Sprintf("has %q in two cases, which are one key of a role; give one", lower)}
		}
		folded[lower] = true
	}
	return nil
}
