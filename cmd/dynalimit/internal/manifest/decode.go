package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/yamlfile"
)

// Parse reads a manifest; file is its name in errors. It fails with Problems, which are all
// that is wrong.
func Parse(name string, data []byte) (*Manifest, error) {
	var f file
	r := yamlfile.Read(name, data, form, &f)
	d := &decoder{r, &Manifest{Name: DefaultName, Configs: map[admin.Scope]admin.LimitConfig{}, Entities: map[string]Entity{}}}
	d.manifest(f)
	if len(r.Problems) == 0 {
		d.parents()
		d.groups()
	}
	if len(r.Problems) > 0 {
		return nil, r.Problems.Sorted()
	}
	d.m.Warnings = d.m.Warnings.Sorted()
	return d.m, nil
}

// decoder makes a manifest of what was read, and says what cannot be.
type decoder struct {
	*yamlfile.Reader
	m *Manifest
}

// refuse reports what is wrong with a value, unless a part of it is already; no reason is
// none.
func (d *decoder) refuse(path, reason string) bool {
	if reason != "" && !d.IsWrong(path) {
		d.Wrong(d.Places[path], path, "%s", reason)
	}
	return reason != ""
}

// text is a text that a check has nothing against; "" for none.
func (d *decoder) text(path string, value *string, check func(string) string) string {
	if value == nil || d.refuse(path, check(*value)) {
		return ""
	}
	return *value
}

// name reports what is wrong with a name.
func (d *decoder) name(path, reason string) {
	if reason != "" {
		d.refuse(path, "the name "+reason)
	}
}

func (d *decoder) manifest(f file) {
	if f.Version > 2 {
		d.refuse("version", fmt.Sprintf("is %d: write 2, the newest version of manifests", f.Version))
	}
	d.m.Name = cmp.Or(d.text("name", f.Name, CheckName), DefaultName)
	d.m.Namespace = d.text("namespace", f.Namespace, schema.CheckNamespace)
	d.level(admin.Scope{Everyone: true}, f.System, "system")
	for name, l := range f.Resources {
		path := below("resources", name)
		d.name(path, checkResource(name))
		d.level(admin.Scope{Everyone: true, Resource: name}, l, path)
	}
	for name, plan := range f.Plans {
		path := below("plans", name)
		d.name(path, schema.CheckEntity(name))
		d.owned(admin.Scope{Plan: name}, *plan, path)
	}
	for id, e := range f.Entities {
		path := below("entities", id)
		d.name(path, schema.CheckEntity(id))
		d.entity(id, *e, path)
	}
	if f.Version < 2 {
		d.detach(f)
		return
	}
	for id, e := range f.Entities {
		if e != nil && e.Cascade != nil && !*e.Cascade {
			d.refuse(below(below("entities", id), "cascade"), "is false, which in a file of version 1 means that the parent does not count: write 'detached: true' for that, or leave it out")
		}
	}
}

// detach gives a file of version 1 its meaning: there a parent counts only with cascade.
func (d *decoder) detach(f file) {
	var detached []string
	for id, e := range d.m.Entities {
		if f.Entities[id].Detached != nil {
			d.refuse(below(below("entities", id), "detached"), "is of version 2: write 'version: 2', or leave it out")
		}
		if e.Record.ParentID != "" && !e.Record.Cascade {
			e.Record.Detached = true
			d.m.Entities[id] = e
			detached = append(detached, id)
		}
	}
	if len(detached) > 0 {
		d.m.Warnings = append(d.m.Warnings, d.Problem(below(below("entities", slices.Min(detached)), "parent"),
			"does not count, because the file has version 1 (%s): write 'version: 2', and 'detached: true' where a parent is for order alone", plural(len(detached), "parent", "parents")))
	}
}

// CheckName says what is wrong with the name of a manifest, or "" if nothing is.
func CheckName(name string) string {
	if len(name) > 64 {
		return fmt.Sprintf("has %d bytes: at most 64 are allowed", len(name))
	}
	return schema.CheckEntity(name)
}

// checkResource says what is wrong with the name of a resource that everybody has limits for.
func checkResource(name string) string {
	if name == schema.DefaultResource {
		return fmt.Sprintf("%q means every resource: write the limits under 'system'", name)
	}
	return schema.CheckResource(name)
}

// owned reads the levels of a plan or an entity. zae-limiter's name of the default is read
// too.
func (d *decoder) owned(of admin.Scope, o owned, path string) {
	d.level(of, o.Default, below(path, "default"))
	for name, l := range o.Resources {
		at, path := of, below(below(path, "resources"), name)
		if name != schema.DefaultResource {
			at.Resource = name
			d.name(path, schema.CheckResource(name))
		} else if o.Default != nil {
			d.refuse(path, fmt.Sprintf("is the default, which stands here twice: leave 'default' or '%s' out", name))
		}
		d.level(at, l, path)
	}
}

func (d *decoder) entity(id string, e entity, path string) {
	of := admin.Entity{
		ID: id, Name: d.text(below(path, "name"), e.Name, checkEntityName), ParentID: d.text(below(path, "parent"), e.Parent, schema.CheckEntity),
		Plan: d.text(below(path, "plan"), e.Plan, schema.CheckEntity), Cascade: e.Cascade != nil && *e.Cascade,
		Detached: e.Detached != nil && *e.Detached, Only: e.Only,
	}
	switch {
	case of.Cascade && of.Detached:
		d.refuse(below(path, "detached"), "is true beside cascade, which charges the parent: leave one of them out")
	case of.Cascade && e.Parent == nil:
		d.refuse(below(path, "cascade"), "is true without a parent to charge: write 'parent' too, or leave it out")
	case of.ParentID == id:
		d.refuse(below(path, "parent"), "is the entity itself: name another one, or leave it out")
	}
	if len(e.Metadata) > 0 && string(e.Metadata) != "null" && !d.refuse(below(path, "metadata"), schema.CheckMetadata(json.RawMessage(e.Metadata))) {
		of.Metadata = json.RawMessage(e.Metadata)
	}
	bare := e.Name == nil && e.Parent == nil && e.Cascade == nil && e.Detached == nil && e.Plan == nil && e.Metadata == nil
	d.owned(admin.Scope{Entity: id}, e.owned, path)
	d.m.Entities[id] = Entity{Record: of, LimitsOnly: bare && (e.Default != nil || len(e.Resources) > 0)}
}

// checkEntityName says what is wrong with a name for people.
func checkEntityName(name string) string {
	if len(name) > 1024 {
		return fmt.Sprintf("has %d bytes: at most 1024 are allowed", len(name))
	}
	return ""
}

// level reads one level.
func (d *decoder) level(at admin.Scope, l *level, path string) {
	if l == nil {
		return
	}
	c := admin.LimitConfig{
		Extends: l.Extends, Lifted: slices.Sorted(slices.Values(l.Lifted)), Only: l.Only, Unlimited: l.Unlimited != "", Counted: l.Unlimited == isCounted,
		Blocked: l.Blocked, BlockedExcept: l.BlockedExcept, Admit: l.Admit, OnUnavailable: dynalimit.UnavailablePolicy(l.OnUnavailable),
	}
	for name, one := range l.Limits {
		c.Limits = append(c.Limits, d.limit(at, name, *one, below(below(path, "limits"), name)))
	}
	slices.SortFunc(c.Limits, func(a, b dynalimit.Limit) int { return strings.Compare(a.Name, b.Name) })
	if len(l.Groups) > 0 {
		d.refuse(below(path, "groups"), checkGroups(at, l.Groups))
		c.Groups = slices.Sorted(slices.Values(l.Groups))
	}
	for _, name := range c.Lifted {
		d.name(below(path, "lifted"), schema.CheckLimitName(name))
	}
	switch {
	case len(c.Limits) > schema.MaxLimits:
		d.refuse(below(path, "limits"), fmt.Sprintf("are %d: at most %d limits make a level", len(c.Limits), schema.MaxLimits))
	case !slices.Contains([]dynalimit.UnavailablePolicy{"", dynalimit.Block, dynalimit.Allow, dynalimit.Local}, c.OnUnavailable):
		d.refuse(below(path, "on_unavailable"), fmt.Sprintf("is %q: write block, allow or local", l.OnUnavailable))
	case c.Unlimited && len(c.Limits) > 0:
		d.refuse(below(path, "unlimited"), "stands beside limits: leave one of them out")
	case !c.Unlimited && !c.Blocked && !c.BlockedExcept && !c.Admit && len(c.Limits)+len(c.Lifted) == 0 && c.OnUnavailable == "" && len(l.Groups) == 0:
		d.refuse(path, "says nothing: write limits, or leave the level out")
	}
	d.extending(at, l, path)
	d.exceptions(at, l, path)
	d.m.Configs[at] = c
}

// extending refuses a level whose extends and lifted contradict its limits.
func (d *decoder) extending(at admin.Scope, l *level, path string) {
	switch {
	case l.Extends && len(l.Limits)+len(l.Lifted) == 0:
		d.refuse(below(path, "extends"), "is true without limits: write those that are put over the less specific ones, or leave it out")
	case len(l.Lifted) > 0 && !l.Extends:
		d.refuse(below(path, "lifted"), "takes limits away at a level that replaces them all: write extends: true beside it, or leave it out")
	case l.Extends && at == (admin.Scope{Everyone: true}):
		d.refuse(below(path, "extends"), "is true of everybody, and no level is less specific: leave it out")
	case slices.ContainsFunc(l.Lifted, func(name string) bool { return l.Limits[name] != nil }):
		d.refuse(below(path, "lifted"), "names a limit that stands in limits too: leave one of them out")
	}
}

// exceptions refuses a level that blocks and admits, or blocks in two ways.
func (d *decoder) exceptions(at admin.Scope, l *level, path string) {
	switch {
	case l.Admit && (l.Blocked || l.BlockedExcept):
		d.refuse(below(path, "admit"), "is true at a level that is blocked: leave one of them out")
	case l.Admit && at == (admin.Scope{Everyone: true}):
		d.refuse(below(path, "admit"), "is true of everybody, and no level is less specific: leave it out")
	case l.Blocked && l.BlockedExcept:
		d.refuse(below(path, "blocked_except"), "is true beside blocked, which no level lifts: leave one of them out")
	}
}

// limit reads one limit, and fills in its defaults.
func (d *decoder) limit(at admin.Scope, name string, l limit, path string) dynalimit.Limit {
	d.name(path, schema.CheckLimitName(name))
	twice := "stands here under another name too: leave one of them out"
	switch {
	case l.Refill > 0 && l.RefillAmount > 0:
		d.refuse(below(path, "refill_amount"), "is the refill, which "+twice)
	case l.Period > 0 && l.RefillPeriod > 0:
		d.refuse(below(path, "refill_period"), "is the period, which "+twice)
	case l.Capacity == "":
		d.refuse(path, "has no capacity: write what a period allows, such as 'capacity: 100'")
	}
	if l.Window != "" || l.Zone != "" {
		return d.quota(at, name, l, path)
	}
	d.unitless(l, path)
	if l.Unit != "" {
		d.refuse(below(path, "unit"), "is of quotas alone: write a window too, such as 'window: day', or leave it out")
	}
	n := l.Capacity.n()
	return dynalimit.Limit{
		Name: name, Capacity: n, Burst: cmp.Or(int64(l.Burst), n),
		RefillAmount: cmp.Or(int64(l.Refill), int64(l.RefillAmount), n),
		RefillPeriod: cmp.Or(time.Duration(l.Period), time.Duration(l.RefillPeriod), time.Minute), MaxDebt: int64(l.MaxDebt), Shadow: l.Shadow,
	}
}

// quota reads a quota of the calendar.
func (d *decoder) quota(at admin.Scope, name string, l limit, path string) dynalimit.Limit {
	for key, said := range map[string]bool{
		"burst": l.Burst > 0, "refill": l.Refill > 0, "refill_amount": l.RefillAmount > 0, "period": l.Period > 0, "refill_period": l.RefillPeriod > 0,
	} {
		if said {
			d.refuse(below(path, key), "is of buckets alone: leave it out, for a quota is full once in each window, or leave out its window and zone")
		}
	}
	switch {
	case l.Window == "" && !d.IsWrong(below(path, "window")):
		d.refuse(below(path, "zone"), "has no window: write one, such as 'window: day', or leave it out")
	case l.Window == "hour" && l.Zone != "" && l.Zone != "UTC":
		d.refuse(below(path, "zone"), fmt.Sprintf("is %q: hours are those of UTC, leave it out", l.Zone))
	}
	d.unitless(l, path)
	if l.Unit != "" && !l.PerModel && at.Resource == "" {
		d.refuse(below(path, "unit"), "is money that each model would have by itself: write it at a group of models (resources: {gpt-4: {groups: [all]}, all: {limits: ...}}), or 'per_model: true' beside it")
	}
	n := l.Capacity.n()
	return dynalimit.Limit{
		Name: name, Capacity: n, Burst: n, RefillAmount: n,
		Window: string(l.Window), Zone: string(cmp.Or(l.Zone, "UTC")), Unit: string(l.Unit), PerModel: l.PerModel, MaxDebt: int64(l.MaxDebt), Shadow: l.Shadow,
	}
}

// unitless refuses what is of money alone in a limit without its unit.
func (d *decoder) unitless(l limit, path string) {
	switch {
	case l.Unit != "" || d.IsWrong(below(path, "unit")):
	case l.Capacity.inDollars():
		d.refuse(path, fmt.Sprintf("has %s and no unit: write 'unit: usd' and a window too, such as {capacity: %q, unit: usd, window: day}", l.Capacity, l.Capacity))
	case l.PerModel:
		d.refuse(below(path, "per_model"), "is of money alone: write 'unit: usd' too, or leave it out")
	}
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
		e, path := d.m.Entities[id].Record, below("entities", id)
		if chain, ok := chainOf(id, parent); !ok {
			d.refuse(below(path, "parent"), chainProblem(id, chain))
		}
		if _, here := d.m.Entities[e.ParentID]; e.ParentID != "" && !here {
			d.warn(below(path, "parent"), "the entity", e.ParentID)
		}
		if e.Plan != "" && !plans[e.Plan] {
			d.warn(below(path, "plan"), "the plan", e.Plan)
		}
	}
}

func (d *decoder) warn(path, kind, name string) {
	d.m.Warnings = append(d.m.Warnings, d.Problem(path, "%s %q stands nowhere in the file: if it is not in the table either, correct the name", kind, name))
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
