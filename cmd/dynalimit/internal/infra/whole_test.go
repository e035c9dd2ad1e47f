package infra

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// combinations are options of all kinds with each other.
func combinations() map[string]Options {
	all := map[string]Options{}
	for _, parts := range [][]Part{
		nil, {PartTables}, {PartRoles}, {PartAlarms}, {PartTables, PartRoles}, {PartTables, PartAlarms}, {PartRoles, PartAlarms},
	} {
		for _, b := range []*BudgetTables{nil, budgets} {
			for i := range 16 {
				if b == nil && i >= 8 {
					break // a keeper is about budgets
				}
				o := Options{Parts: parts, Budget: b, Aggregator: i%2 == 1, Archive: i/2%2 == 1, Tail: i/4%2 == 1, Keeper: i/8 == 1}
				all[fmt.Sprint(parts, " budget ", b != nil, " aggregator ", o.Aggregator, " archive ", o.Archive, " tail ", o.Tail, " keeper ", o.Keeper)] = o
			}
		}
	}
	return all
}

// found are what the group of a pattern finds in a text, each once, in order.
func found(text, pattern string) []string {
	var names []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Join(m[1:], "."))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestTemplatesAreWhole: whatever is asked for together, both templates name nothing that is
// not in them, and ask for no parameter that they do not use.
func TestTemplatesAreWhole(t *testing.T) {
	for name, o := range combinations() {
		m := modelOf(t, o)
		text := m.CloudFormation()
		root := resolveStack(t, text, places[0], nil)
		names := func(section string) []string {
			entries, _ := root[section].(map[string]any)
			return slices.Sorted(maps.Keys(entries))
		}
		used := slices.Concat(found(text, `!Ref (\w+)\n`), found(text, `!GetAtt (\w+)\.`), found(text, `\$\{(\w+)\}`))
		for _, n := range used {
			assert.Contains(t, slices.Concat(names("Parameters"), names("Resources")), n, name)
		}
		for _, n := range names("Parameters") {
			assert.Contains(t, used, n, name)
		}
		_, below, _ := strings.Cut(text, "\nResources:")
		assert.Equal(t, names("Conditions"), found(below, `\b(Has[A-Z]\w+)\n`), name)

		text = m.Terraform()
		file, diagnostics := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
		require.False(t, diagnostics.HasErrors(), diagnostics.Error())
		declared := map[string][]string{}
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			declared[b.Type] = append(declared[b.Type], strings.Join(b.Labels, "."))
		}
		slices.Sort(declared["variable"])
		assert.Equal(t, declared["variable"], found(text, `\bvar\.(\w+)`), name)
		for _, n := range found(text, `[^.\w"](aws_\w+)\.(\w+)`) {
			assert.Contains(t, declared["resource"], n, name)
		}
		for _, n := range found(text, `\bdata\.(aws_\w+)\.(\w+)\.`) {
			assert.Contains(t, declared["data"], n, name)
		}
	}
}
