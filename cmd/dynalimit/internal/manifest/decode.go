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

// Parse decodes and checks a manifest in YAML; name is the file's name in errors. It returns the manifest with
// warnings, or Problems with all faults, both in the order of the file. It does not read a table.
func Parse(name string, data []byte) (*Manifest, error) {
	var f file
	r := yamlfile.DecodeFile(name, data, form, &f)
	d := &decoder{r, &Manifest{Name: DefaultName, Configs: map[admin.Scope]admin.LimitConfig{}, Entities: map[string]Entity{}}}
	d.decodeManifest(f)
	if len(r.Problems) == 0 {
		d.checkParents()
		d.warnOfGroups()
	}
	if len(r.Problems) > 0 {
		return nil, r.Problems.SortInPlace()
	}
	d.m.Warnings = d.m.Warnings.SortInPlace()
	return d.m, nil
}

// decoder converts a decoded file to a manifest and collects the faults.
type decoder struct {
	*yamlfile.Reader
	m *Manifest
}

// refuseValue adds a problem with reason at the value under path, unless a part of the value has one already.
// It returns true even then. For an empty reason, which means no fault, it returns false.
func (d *decoder) refuseValue(path, reason string) bool {
	if reason != "" && !d.IsWrong(path) {
		d.AddProblem(d.Places[path], path, "%s", reason)
	}
	return reason != ""
}

// checkedText returns the text at value if check returns "" for it. Otherwise it adds check's reason as a
// problem under path and returns "". It returns "" for nil too.
func (d *decoder) checkedText(path string, value *string, check func(string) string) string {
	if value == nil || d.refuseValue(path, check(*value)) {
		return ""
	}
	return *value
}

// refuseName adds a problem of the name under path, with reason. It does nothing for an empty reason.
func (d *decoder) refuseName(path, reason string) {
	if reason != "" {
		d.refuseValue(path, "the name "+reason)
	}
}

// decodeManifest converts the parsed file f to d.m and adds its faults to d.Problems. It refuses versions above
// 2. A file of version 1 keeps the meaning of that version.
func (d *decoder) decodeManifest(f file) {
	if f.Version > 2 {
		d.refuseValue("version", fmt.Sprintf("is %d: write 2, the newest version of manifests", f.Version))
	}
	d.m.Name = cmp.Or(d.checkedText("name", f.Name, CheckName), DefaultName)
	d.m.Namespace = d.checkedText("namespace", f.Namespace, schema.EntityRule.Check)
	d.decodeSource(admin.Scope{Everyone: true}, f.System, "system")
	for name, l := range f.Resources {
		path := below("resources", name)
		d.refuseName(path, checkResourceKey(name))
		d.decodeSource(admin.Scope{Everyone: true, Resource: name}, l, path)
	}
	for name, plan := range f.Plans {
		path := below("plans", name)
		d.refuseName(path, schema.EntityRule.Check(name))
		d.decodeOwned(admin.Scope{Plan: name}, *plan, path)
	}
	for id, e := range f.Entities {
		path := below("entities", id)
		d.refuseName(path, schema.EntityRule.Check(id))
		d.decodeEntity(id, *e, path)
	}
	if f.Version < 2 {
		d.applyVersion1(f)
		return
	}
	for id, e := range f.Entities {
		if e != nil && e.Cascade != nil && !*e.Cascade {
			d.refuseValue(below(below("entities", id), "cascade"), "is false, which in a file of version 1 means that the parent does not count: write 'detached: true' for that, or leave it out")
		}
	}
}

// applyVersion1 gives a file of version 1 its meaning: a parent counts only with cascade. It marks
// other entities with a parent as detached in d.m and warns of them. It refuses the field detached.
func (d *decoder) applyVersion1(f file) {
	var detached []string
	for id, e := range d.m.Entities {
		if f.Entities[id].Detached != nil {
			d.refuseValue(below(below("entities", id), "detached"), "is of version 2: write 'version: 2', or leave it out")
		}
		if e.Record.ParentID != "" && !e.Record.Cascade {
			e.Record.Detached = true
			d.m.Entities[id] = e
			detached = append(detached, id)
		}
	}
	if len(detached) > 0 {
		d.m.Warnings = append(d.m.Warnings, d.ProblemAt(below(below("entities", slices.Min(detached)), "parent"),
			"does not count, because the file has version 1 (%s): write 'version: 2', and 'detached: true' where a parent is for order alone", countText(len(detached), "parent", "parents")))
	}
}

// CheckName returns the fault of a manifest's name, such as too many bytes, as the end of a sentence, or "".
func CheckName(name string) string {
	if len(name) > 64 {
		return fmt.Sprintf("has %d bytes: at most 64 are allowed", len(name))
	}
	return schema.EntityRule.Check(name)
}

// checkResourceKey returns the fault of a key of the file's 'resources', or "". It refuses the name for every
// resource, because those limits belong under 'system'.
func checkResourceKey(name string) string {
	if name == schema.DefaultResource {
		return fmt.Sprintf("%q means every resource: write the limits under 'system'", name)
	}
	return schema.ResourceRule.Check(name)
}

// decodeOwned adds the default and the resources of the plan or entity in the scope of to d.m, and their faults
// to d.Problems. It accepts zae-limiter's name of the default among the resources, and refuses a default that
// is given twice.
func (d *decoder) decodeOwned(of admin.Scope, o owned, path string) {
	d.decodeSource(of, o.Default, below(path, "default"))
	for name, l := range o.Resources {
		at, path := of, below(below(path, "resources"), name)
		if name != schema.DefaultResource {
			at.Resource = name
			d.refuseName(path, schema.ResourceRule.Check(name))
		} else if o.Default != nil {
			d.refuseValue(path, fmt.Sprintf("is the default, which is given twice: leave 'default' or '%s' out", name))
		}
		d.decodeSource(at, l, path)
	}
}

// decodeEntity adds the entity id of the file to d.m, with its record and its sources, and reports faults under
// path. It sets LimitsOnly if the file gives limits and no field of the record.
func (d *decoder) decodeEntity(id string, e entity, path string) {
	of := admin.Entity{
		ID: id, Name: d.checkedText(below(path, "name"), e.Name, checkEntityName), ParentID: d.checkedText(below(path, "parent"), e.Parent, schema.EntityRule.Check),
		Plan: d.checkedText(below(path, "plan"), e.Plan, schema.EntityRule.Check), Cascade: e.Cascade != nil && *e.Cascade,
		Detached: e.Detached != nil && *e.Detached, Only: e.Only,
	}
	switch {
	case of.Cascade && of.Detached:
		d.refuseValue(below(path, "detached"), "is true together with cascade, which charges the parent: leave one of them out")
	case of.Cascade && e.Parent == nil:
		d.refuseValue(below(path, "cascade"), "is true without a parent to charge: write 'parent' too, or leave it out")
	case of.ParentID == id:
		d.refuseValue(below(path, "parent"), "is the entity itself: name another one, or leave it out")
	}
	if len(e.Metadata) > 0 && string(e.Metadata) != "null" && !d.refuseValue(below(path, "metadata"), schema.CheckMetadata(json.RawMessage(e.Metadata))) {
		of.Metadata = json.RawMessage(e.Metadata)
	}
	bare := e.Name == nil && e.Parent == nil && e.Cascade == nil && e.Detached == nil && e.Plan == nil && e.Metadata == nil
	d.decodeOwned(admin.Scope{Entity: id}, e.owned, path)
	d.m.Entities[id] = Entity{Record: of, LimitsOnly: bare && (e.Default != nil || len(e.Resources) > 0)}
}

// checkEntityName returns the fault of an entity's name for people, or "".
func checkEntityName(name string) string {
	if len(name) > 1024 {
		return fmt.Sprintf("has %d bytes: at most 1024 are allowed", len(name))
	}
	return ""
}

// decodeSource adds the configuration l of the source at to d.m.Configs, even with faults, which it reports
// under path. Limits, groups and lifted names are sorted. A nil l adds nothing.
func (d *decoder) decodeSource(at admin.Scope, l *source, path string) {
	if l == nil {
		return
	}
	c := admin.LimitConfig{
		Extends: l.Extends, Lifted: slices.Sorted(slices.Values(l.Lifted)), Only: l.Only, Unlimited: l.Unlimited != "", Counted: l.Unlimited == isCounted,
		Blocked: l.Blocked, BlockedExcept: l.BlockedExcept, Admit: l.Admit, OnUnavailable: dynalimit.UnavailablePolicy(l.OnUnavailable),
	}
	for name, one := range l.Limits {
		c.Limits = append(c.Limits, d.decodeLimit(at, name, *one, below(below(path, "limits"), name)))
	}
	slices.SortFunc(c.Limits, func(a, b dynalimit.Limit) int { return strings.Compare(a.Name, b.Name) })
	if len(l.Groups) > 0 {
		d.refuseValue(below(path, "groups"), checkGroups(at, l.Groups))
		c.Groups = slices.Sorted(slices.Values(l.Groups))
	}
	for _, name := range c.Lifted {
		d.refuseName(below(path, "lifted"), schema.LimitRule.Check(name))
	}
	switch {
	case len(c.Limits) > schema.MaxLimits:
		d.refuseValue(below(path, "limits"), fmt.Sprintf("are %d: at most %d limits make a source", len(c.Limits), schema.MaxLimits))
	case !slices.Contains([]dynalimit.UnavailablePolicy{"", dynalimit.Refuse, dynalimit.Allow, dynalimit.Local}, c.OnUnavailable):
		d.refuseValue(below(path, "on_unavailable"), fmt.Sprintf("is %q: write block, allow or local", l.OnUnavailable))
	case c.Unlimited && len(c.Limits) > 0:
		d.refuseValue(below(path, "unlimited"), "is given together with limits: leave one of them out")
	case !c.Unlimited && !c.Blocked && !c.BlockedExcept && !c.Admit && len(c.Limits)+len(c.Lifted) == 0 && c.OnUnavailable == "" && len(l.Groups) == 0:
		d.refuseValue(path, "says nothing: write limits, or leave the source out")
	}
	d.checkExtends(at, l, path)
	d.checkExceptions(at, l, path)
	d.m.Configs[at] = c
}

// checkExtends reports under path, at most once, that extends or lifted of a source contradicts its limits.
func (d *decoder) checkExtends(at admin.Scope, l *source, path string) {
	switch {
	case l.Extends && len(l.Limits)+len(l.Lifted) == 0:
		d.refuseValue(below(path, "extends"), "is true without limits: write the limits that extend the less specific ones, or leave it out")
	case len(l.Lifted) > 0 && !l.Extends:
		d.refuseValue(below(path, "lifted"), "takes limits away at a source that replaces them all: write extends: true beside it, or leave it out")
	case l.Extends && at == (admin.Scope{Everyone: true}):
		d.refuseValue(below(path, "extends"), "is true of the system, the least specific source: leave it out")
	case slices.ContainsFunc(l.Lifted, func(name string) bool { return l.Limits[name] != nil }):
		d.refuseValue(below(path, "lifted"), "names a limit of limits too: leave one of them out")
	}
}

// checkExceptions reports the fault of a source that both blocks and admits, blocks in two ways, or admits as
// the system, under path.
func (d *decoder) checkExceptions(at admin.Scope, l *source, path string) {
	switch {
	case l.Admit && (l.Blocked || l.BlockedExcept):
		d.refuseValue(below(path, "admit"), "is true at a source that is blocked: leave one of them out")
	case l.Admit && at == (admin.Scope{Everyone: true}):
		d.refuseValue(below(path, "admit"), "is true of the system, the least specific source: leave it out")
	case l.Blocked && l.BlockedExcept:
		d.refuseValue(below(path, "blocked_except"), "is true together with blocked, which no source lifts: leave one of them out")
	}
}

// decodeLimit returns a limit of the source at with its defaults, and reports faults under path. With
// concurrent, hold or longest it is one of calls in flight, with a window or zone a quota, else a token bucket.
func (d *decoder) decodeLimit(at admin.Scope, name string, l limit, path string) dynalimit.Limit {
	of, err := l.Reserve.withReserve(d.decodeUnreserved(at, name, l, path))
	if err != nil && of.Capacity > 0 {
		d.refuseValue(below(path, "reserve"), err.Error())
	}
	return of
}

// decodeUnreserved is decodeLimit without the reserve: it returns a limit with its defaults, in tokens or
// micro-dollars. It reports faults under path.
func (d *decoder) decodeUnreserved(at admin.Scope, name string, l limit, path string) dynalimit.Limit {
	d.refuseName(path, schema.LimitRule.Check(name))
	if l.Concurrent > 0 || l.Hold > 0 || l.Longest > 0 {
		return d.decodeConcurrent(name, l, path)
	}
	twice := "is given here under another name too: leave one of them out"
	switch {
	case l.Refill > 0 && l.RefillAmount > 0:
		d.refuseValue(below(path, "refill_amount"), "is the refill, which "+twice)
	case l.Period > 0 && l.RefillPeriod > 0:
		d.refuseValue(below(path, "refill_period"), "is the period, which "+twice)
	case l.Capacity == "":
		d.refuseValue(path, "has no capacity: write what a period allows, such as 'capacity: 100'")
	}
	if l.Window != "" || l.Zone != "" {
		return d.decodeQuota(at, name, l, path)
	}
	d.checkUnitless(l, path)
	if l.AlertAt != 0 {
		d.refuseValue(below(path, "alert_at"), "is of quotas alone: write a window too, such as 'window: day', or leave it out")
	}
	if l.Unit != "" {
		d.refuseValue(below(path, "unit"), "is of quotas alone: write a window too, such as 'window: day', or leave it out")
	}
	n := l.Capacity.number()
	return dynalimit.Limit{
		Name: name, Capacity: n, Burst: cmp.Or(int64(l.Burst), n),
		RefillAmount: cmp.Or(int64(l.Refill), int64(l.RefillAmount), n),
		RefillPeriod: cmp.Or(time.Duration(l.Period), time.Duration(l.RefillPeriod), time.Minute), MaxDebt: int64(l.MaxDebt), Shadow: l.Shadow,
	}
}

// decodeConcurrent returns a limit of calls in flight, and reports fields that other limits have and invalid
// holds. Without a number of calls it reports that and returns a zero Limit.
func (d *decoder) decodeConcurrent(name string, l limit, path string) dynalimit.Limit {
	for key, said := range map[string]bool{
		"capacity": l.Capacity != "", "unit": l.Unit != "", "burst": l.Burst > 0, "refill": l.Refill > 0, "refill_amount": l.RefillAmount > 0, "period": l.Period > 0,
		"refill_period": l.RefillPeriod > 0, "window": l.Window != "", "zone": l.Zone != "", "per_model": l.PerModel, "max_debt": l.MaxDebt > 0, "alert_at": l.AlertAt != 0,
	} {
		if said {
			d.refuseValue(below(path, key), "is of other limits: leave it out, for calls in flight have concurrent, hold, longest, reserve and shadow, such as {concurrent: 20, hold: 1m, longest: 10m}")
		}
	}
	if l.Concurrent == 0 && !d.IsWrong(below(path, "concurrent")) {
		d.refuseValue(path, "has no number of calls in flight: write one, such as 'concurrent: 20', or leave out its hold and longest")
		return dynalimit.Limit{}
	}
	of := dynalimit.Concurrent(name, int64(l.Concurrent), time.Duration(l.Hold))
	if l.Longest > 0 {
		of = of.WithLongest(time.Duration(l.Longest))
	}
	of.Shadow = l.Shadow
	if _, at, reason := schema.CheckLimits([]schema.ConfigLimit{schema.ConfigLimit(of)}); reason != "" {
		_, field, _ := strings.Cut(at, ".")
		d.refuseValue(below(path, map[string]string{"Hold": "hold", "Longest": "longest"}[field]), reason)
	}
	return of
}

// decodeQuota returns a quota with the zone UTC by default, in tokens or micro-dollars of money. It reports
// fields that only token buckets have, a zone without a window, and money that is neither of a resource nor per
// model.
func (d *decoder) decodeQuota(at admin.Scope, name string, l limit, path string) dynalimit.Limit {
	for key, said := range map[string]bool{
		"burst": l.Burst > 0, "refill": l.Refill > 0, "refill_amount": l.RefillAmount > 0, "period": l.Period > 0, "refill_period": l.RefillPeriod > 0,
	} {
		if said {
			d.refuseValue(below(path, key), "is of buckets alone: leave it out, for a quota is full once in each window, or leave out its window and zone")
		}
	}
	switch {
	case l.Window == "" && !d.IsWrong(below(path, "window")):
		d.refuseValue(below(path, "zone"), "has no window: write one, such as 'window: day', or leave it out")
	case l.Window == "hour" && l.Zone != "" && l.Zone != "UTC":
		d.refuseValue(below(path, "zone"), fmt.Sprintf("is %q: hours are those of UTC, leave it out", l.Zone))
	}
	d.checkUnitless(l, path)
	if l.Unit != "" && !l.PerModel && at.Resource == "" {
		d.refuseValue(below(path, "unit"), "is money that each model would have separately: write it at a group of models (resources: {gpt-4: {groups: [all]}, all: {limits: ...}}), or 'per_model: true' beside it")
	}
	n := l.Capacity.number()
	return dynalimit.Limit{
		Name: name, Capacity: n, Burst: n, RefillAmount: n,
		Window: string(l.Window), Zone: string(cmp.Or(l.Zone, "UTC")), Unit: string(l.Unit), PerModel: l.PerModel, MaxDebt: int64(l.MaxDebt), Shadow: l.Shadow, AlertAt: dynalimit.Percentages(l.AlertAt),
	}
}

// checkUnitless reports dollars and per_model as faults under path in a limit without a unit. It does nothing
// for a limit with one.
func (d *decoder) checkUnitless(l limit, path string) {
	switch {
	case l.Unit != "" || d.IsWrong(below(path, "unit")):
	case l.Capacity.inDollars():
		d.refuseValue(path, fmt.Sprintf("has %s and no unit: write 'unit: usd' and a window too, such as {capacity: %q, unit: usd, window: day}", l.Capacity, l.Capacity))
	case l.PerModel:
		d.refuseValue(below(path, "per_model"), "is of money alone: write 'unit: usd' too, or leave it out")
	}
}

// deepestChain is the maximal number of levels of an entity and its parents.
const deepestChain = schema.MaxDepth

// checkParents reports cycles of parents and chains that are too deep as faults. It adds warnings about parents
// and plans that the file does not define.
func (d *decoder) checkParents() {
	plans := map[string]bool{}
	for at := range d.m.Configs {
		plans[at.Plan] = true
	}
	parent := func(id string) string { return d.m.Entities[id].Record.ParentID }
	for _, id := range slices.Sorted(maps.Keys(d.m.Entities)) {
		e, path := d.m.Entities[id].Record, below("entities", id)
		if chain, ok := chainOf(id, parent); !ok {
			d.refuseValue(below(path, "parent"), chainProblem(id, chain))
		}
		if _, here := d.m.Entities[e.ParentID]; e.ParentID != "" && !here {
			d.warnUnknown(below(path, "parent"), "the entity", e.ParentID)
		}
		if e.Plan != "" && !plans[e.Plan] {
			d.warnUnknown(below(path, "plan"), "the plan", e.Plan)
		}
	}
}

// warnUnknown adds a warning at path to d.m about a plan, group or entity that the file does not contain,
// because the table may. kind is its noun with article.
func (d *decoder) warnUnknown(path, kind, name string) {
	d.m.Warnings = append(d.m.Warnings, d.ProblemAt(path, "%s %q is not in the file: if it is not in the table either, correct the name", kind, name))
}

// chainOf returns the entity id and its ancestors, as parent names the next one, or "" at the end. ok is false
// for a cycle or more than deepestChain entities. The chain then ends with the repeated or the first surplus
// entity.
func chainOf(id string, parent func(string) string) (chain []string, ok bool) {
	for ; id != ""; id = parent(id) {
		chain = append(chain, id)
		if slices.Contains(chain[:len(chain)-1], id) || len(chain) > deepestChain {
			return chain, false
		}
	}
	return chain, true
}

// chainProblem describes the fault of a chain for which chainOf returned false: a cycle, or too many levels
// above id.
func chainProblem(id string, chain []string) string {
	if last := chain[len(chain)-1]; slices.Contains(chain[:len(chain)-1], last) {
		return fmt.Sprintf("makes a cycle (%s): take one of them out of it", strings.Join(chain[slices.Index(chain, last):], " -> "))
	}
	return fmt.Sprintf("makes a chain of more than %d levels above %s: attach it higher up", deepestChain, id)
}
