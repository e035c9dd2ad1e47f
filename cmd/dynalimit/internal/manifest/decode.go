package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Parse reads a manifest; file is its name in errors. It fails with Problems, which are all
// that is wrong.
func Parse(file string, data []byte) (*Manifest, error) {
	r := &reader{file: file}
	root := r.read(data)
	if root == nil {
		return nil, r.problems.sorted()
	}
	d := &decoder{
		reader: r, most: 1<<20 + 4*len(data), bounds: ofMetadata,
		m: &Manifest{Name: DefaultName, Configs: map[dynalimit.Scope]dynalimit.LimitConfig{}, Entities: map[string]Entity{}},
	}
	d.manifest(root)
	if len(r.problems) == 0 {
		d.parents()
	}
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	d.m.Warnings = d.m.Warnings.sorted()
	return d.m, nil
}

// decoder turns nodes into a manifest.
type decoder struct {
	*reader
	m *Manifest
	bounds
	looks int // nodes that were looked at: aliases make few of them many
	most  int
}

// field is a key that a mapping can have, and what reads its value.
type field struct {
	name string
	read func(n *node, path string)
}

// enough is false once the aliases of the file have become too much.
func (d *decoder) enough(n *node, path string) bool {
	d.looks++
	if d.looks == d.most {
		d.wrong(n.line, n.column, path, "is too much: aliases make the file %d values long; write less, or use fewer '*'", d.most)
	}
	return d.looks < d.most
}

// fields reads a mapping whose keys are known.
func (d *decoder) fields(n *node, path, what string, known ...field) {
	if !d.isMapping(n, path, what) {
		return
	}
	for _, e := range n.entries {
		i := slices.IndexFunc(known, func(f field) bool { return f.name == e.key })
		if i >= 0 {
			known[i].read(e.value, below(path, e.key))
			continue
		}
		names := make([]string, len(known))
		for i, f := range known {
			names[i] = f.name
		}
		text := fmt.Sprintf("%q is unknown here", e.key)
		if near := nearest(e.key, names); near != "" {
			text += fmt.Sprintf(": did you mean %q?", near)
		} else {
			text += ": it can be one of " + strings.Join(names, ", ")
		}
		d.wrong(e.line, e.column, path, "%s", text)
	}
}

// named reads a mapping whose keys are names; check says what is wrong with one.
func (d *decoder) named(n *node, path, what string, check func(string) string, read func(e entry, path string)) {
	if !d.isMapping(n, path, what) {
		return
	}
	for _, e := range n.entries {
		if reason := check(e.key); reason != "" {
			d.wrong(e.line, e.column, path, "the name %s", reason)
			continue
		}
		read(e, below(path, e.key))
	}
}

func (d *decoder) isMapping(n *node, path, what string) bool {
	if !d.enough(n, path) {
		return false
	}
	if n.kind == mapping && len(n.entries) > 0 {
		return true
	}
	text := "is %s: write %s"
	switch n.kind {
	case nothing:
		d.wrong(n.line, n.column, path, text, "empty", what+", or leave the key out")
	case mapping:
		d.wrong(n.line, n.column, path, text, "empty ({})", what+", or leave the key out")
	case sequence:
		d.wrong(n.line, n.column, path, text, "a list", what)
	default:
		d.wrong(n.line, n.column, path, text, fmt.Sprintf("%q", n.text), what)
	}
	return false
}

// below is the path of a key; one with a dot, or that cannot be printed, is quoted.
func below(path, key string) string {
	if strings.Contains(key, ".") || strings.ContainsFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func (d *decoder) manifest(root *node) {
	d.fields(root, "", "a mapping with system, resources, plans or entities",
		field{"version", d.version},
		field{"name", d.text(&d.m.Name, CheckName)},
		field{"namespace", d.text(&d.m.Namespace, schema.CheckNamespace)},
		field{"system", d.level(dynalimit.Scope{})},
		field{"resources", d.levels(func(name string) dynalimit.Scope { return dynalimit.Scope{Resource: name} }, resource)},
		field{"plans", d.plans},
		field{"entities", d.entities},
	)
}

// CheckName says what is wrong with the name of a manifest, or "" if nothing is.
func CheckName(name string) string {
	if len(name) > 64 {
		return fmt.Sprintf("has %d bytes: at most 64 are allowed", len(name))
	}
	return schema.CheckEntity(name)
}

// resource says what is wrong with the name of a resource that everybody has limits for.
func resource(name string) string {
	if name == schema.DefaultResource {
		return fmt.Sprintf("%q means every resource: write the limits under 'system'", name)
	}
	return schema.CheckResource(name)
}

// ownResource says what is wrong with a resource that a plan or an entity has limits for.
func ownResource(name string) string {
	if name == schema.DefaultResource { // zae-limiter's name of the default
		return ""
	}
	return schema.CheckResource(name)
}

func (d *decoder) version(n *node, path string) {
	if n.kind != scalar || n.text != "1" {
		d.wrong(n.line, n.column, path, "is %q: write 1, the only version of manifests", n.text)
	}
}

// text reads a text into a variable.
func (d *decoder) text(to *string, check func(string) string) func(*node, string) {
	return func(n *node, path string) {
		if n.kind != scalar {
			d.wrong(n.line, n.column, path, "is no text: write one, or leave the key out")
			return
		}
		if reason := check(n.text); reason != "" {
			d.wrong(n.line, n.column, path, "%s", reason)
			return
		}
		*to = n.text
	}
}

// truth reads true or false into a variable.
func (d *decoder) truth(to *bool) func(*node, string) {
	return func(n *node, path string) {
		if n.kind != scalar || n.quoted || n.text != "true" && n.text != "false" {
			d.wrong(n.line, n.column, path, "is %q: write true or false", n.text)
			return
		}
		*to = n.text == "true"
	}
}

// levels reads levels by the names of resources.
func (d *decoder) levels(scope func(string) dynalimit.Scope, check func(string) string) func(*node, string) {
	return func(n *node, path string) {
		d.named(n, path, "resources with their levels, such as {gpt-4: {limits: {rpm: 100}}}", check, func(e entry, path string) {
			d.level(scope(e.key))(e.value, path)
		})
	}
}

func (d *decoder) plans(n *node, path string) {
	d.named(n, path, "plans with their levels, such as {pro: {default: {limits: {rpm: 100}}}}", schema.CheckEntity, func(e entry, path string) {
		d.fields(e.value, path, "default or resources", d.owned(dynalimit.Scope{Plan: e.key})...)
	})
}

// owned are the keys of a plan's or an entity's levels.
func (d *decoder) owned(of dynalimit.Scope) []field {
	return []field{
		{"default", d.level(of)},
		{"resources", d.levels(func(name string) dynalimit.Scope {
			at := of
			if name != schema.DefaultResource {
				at.Resource = name
			}
			return at
		}, ownResource)},
	}
}

func (d *decoder) entities(n *node, path string) {
	d.named(n, path, "entities, such as {team-a: {plan: pro}}", schema.CheckEntity, func(e entry, path string) {
		d.entity(e, path)
	})
}

func (d *decoder) entity(e entry, path string) {
	out := Entity{Record: dynalimit.Entity{ID: e.key}, LimitsOnly: true, line: e.line, column: e.column}
	defer func() { d.m.Entities[e.key] = out }()
	if e.value.kind == mapping && len(e.value.entries) == 0 || e.value.kind == nothing {
		out.LimitsOnly = false // a record that says nothing
		return
	}
	record := func(read func(*node, string)) func(*node, string) {
		return func(n *node, path string) {
			out.LimitsOnly = false
			read(n, path)
		}
	}
	of := &out.Record
	d.fields(e.value, path, "name, parent, plan, default or resources", append(d.owned(dynalimit.Scope{Entity: e.key}),
		field{"name", record(d.text(&of.Name, entityName))},
		field{"parent", record(d.text(&of.ParentID, schema.CheckEntity))},
		field{"cascade", record(d.truth(&of.Cascade))},
		field{"plan", record(d.text(&of.Plan, schema.CheckEntity))},
		field{"metadata", record(d.metadata(&of.Metadata))},
	)...)
	if of.Cascade && of.ParentID == "" {
		d.wrong(e.line, e.column, below(path, "cascade"), "is true without a parent to charge: write 'parent' too, or leave it out")
	}
	if of.ParentID == of.ID {
		d.wrong(e.line, e.column, below(path, "parent"), "is the entity itself: name another one, or leave it out")
	}
}

// entityName says what is wrong with a name for people.
func entityName(name string) string {
	if len(name) > 1024 {
		return fmt.Sprintf("has %d bytes: at most 1024 are allowed", len(name))
	}
	return ""
}

// deepestChain is how many levels an entity and its parents can be.
const deepestChain = schema.MaxDepth

// parents refuses cycles and chains that are too deep, and warns of names that stand
// nowhere else in the file.
func (d *decoder) parents() {
	plans := map[string]bool{}
	for at := range d.m.Configs {
		plans[at.Plan] = true
	}
	parent := func(id string) string { return d.m.Entities[id].Record.ParentID }
	for _, id := range slices.Sorted(maps.Keys(d.m.Entities)) {
		e := d.m.Entities[id]
		path := below("entities", id)
		if chain, ok := chainOf(id, parent); !ok {
			d.wrong(e.line, e.column, below(path, "parent"), "%s", chainProblem(id, chain))
		}
		warn := func(key, kind, name string) {
			d.m.Warnings = append(d.m.Warnings, Problem{
				d.file, e.line, e.column, below(path, key),
				fmt.Sprintf("%s %q stands nowhere in the file: if it is not in the table either, correct the name", kind, name),
			})
		}
		if p := e.Record.ParentID; p != "" {
			if _, here := d.m.Entities[p]; !here {
				warn("parent", "the entity", p)
			}
		}
		if p := e.Record.Plan; p != "" && !plans[p] {
			warn("plan", "the plan", p)
		}
	}
}

// chainOf is an entity with its parents; false if the last one stands in it twice, or it
// is too long.
func chainOf(id string, parent func(string) string) (chain []string, ok bool) {
	for ; id != ""; id = parent(id) {
		chain = append(chain, id)
		if slices.Contains(chain[:len(chain)-1], id) || len(chain) > deepestChain {
			return chain, false
		}
	}
	return chain, true
}

func chainProblem(id string, chain []string) string {
	if last := chain[len(chain)-1]; slices.Contains(chain[:len(chain)-1], last) {
		return fmt.Sprintf("makes a cycle (%s): take one of them out of it", strings.Join(chain[slices.Index(chain, last):], " -> "))
	}
	return fmt.Sprintf("makes a chain of more than %d levels above %s: attach it higher up", deepestChain, id)
}
