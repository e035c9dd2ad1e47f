package manifest

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Groups of resources: calls on a resource of a group also take from the limits of the group,
// which are sources with the group's name as their resource.

// checkGroups returns the fault of groups at the source at, or "". Only a source of everybody on a resource may
// have groups.
func checkGroups(at admin.Scope, groups []string) string {
	if !at.Everyone || at.Resource == "" {
		return "are of a resource, for everybody: write them there, such as 'resources: {gpt-4: {groups: [all]}}', or leave them out"
	}
	return schema.CheckGroups(at.Resource, groups)
}

// warnOfGroups adds a warning to d.m about each group without limits in the file, because the table may have
// them.
func (d *decoder) warnOfGroups() {
	for at, group := range d.m.groupsWithoutLimits(nil) {
		d.warnUnknown(below(below("resources", at.Resource), "groups"), "the group", group)
	}
}

// groupsWithoutLimits returns a sorted sequence of the groups without a source in the manifest or in others,
// each with the scope that names it. others may be nil.
func (m *Manifest) groupsWithoutLimits(others map[admin.Scope]admin.LimitConfig) iter.Seq2[admin.Scope, string] {
	type naming struct {
		at    admin.Scope
		group string
	}
	var all []naming
	stands := map[string]bool{}
	for at, c := range m.Configs {
		stands[at.Resource] = true
		for _, group := range c.Groups {
			all = append(all, naming{at, group})
		}
	}
	for at := range others {
		stands[at.Resource] = true
	}
	slices.SortFunc(all, func(a, b naming) int {
		return cmp.Or(cmp.Compare(a.at.Resource, b.at.Resource), cmp.Compare(a.group, b.group))
	})
	return func(yield func(admin.Scope, string) bool) {
		for _, n := range all {
			if !stands[n.group] && !yield(n.at, n.group) {
				return
			}
		}
	}
}

// groupsIn returns the set of the group names that any of the given configurations lists.
func groupsIn(sources ...map[admin.Scope]admin.LimitConfig) map[string]bool {
	all := map[string]bool{}
	for _, configs := range sources {
		for _, l := range configs {
			for _, group := range l.Groups {
				all[group] = true
			}
		}
	}
	return all
}

// groupedBy returns the set of resources that are groups, or in a group, after the manifest is applied. live
// are the stored configurations; those of this manifest that the file leaves out do not count.
func groupedBy(m *Manifest, live map[admin.Scope]admin.LimitConfig) map[string]bool {
	all := map[string]bool{}
	note := func(at admin.Scope, l admin.LimitConfig) {
		for _, group := range l.Groups {
			all[group], all[at.Resource] = true, true
		}
	}
	for at, l := range live {
		if _, named := m.Configs[at]; !named && l.ManagedBy != m.Name {
			note(at, l)
		}
	}
	for at, l := range m.Configs {
		note(at, l)
	}
	return all
}

// checkMoneyGroup returns the fault of a money limit of l at a resource that is neither a group of models nor
// in one, or "". grouped is the set of resources that are. A limit per model has no fault.
func checkMoneyGroup(grouped map[string]bool, at admin.Scope, l admin.LimitConfig) string {
	for _, one := range l.Limits {
		if one.Unit != "" && !one.PerModel && !grouped[at.Resource] {
			return fmt.Sprintf("the money of %q limits no model, because no model is in the group %q and it is in none: write 'groups: [%s]' at the models, or 'per_model: true' beside it",
				one.Name, at.Resource, at.Resource)
		}
	}
	return ""
}

// groupDifferences compares the groups of two configurations of a source. more is true if it leaves a group,
// and so admits more; less is true if it joins one.
func groupDifferences(from, to admin.LimitConfig) (more, less bool) {
	lacks := func(of []string) func(string) bool {
		return func(group string) bool { return !slices.Contains(of, group) }
	}
	return slices.ContainsFunc(from.Groups, lacks(to.Groups)), slices.ContainsFunc(to.Groups, lacks(from.Groups))
}

// groupStep returns the step of the apply for a group's source, or for a source with changed groups. loosens
// means that it admits more, gone that it decides nothing any more.
func groupStep(loosens, gone bool) int {
	if loosens {
		return stepLoosenGroups + btoi(gone)
	}
	return stepGroups
}
