package zae

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Translation is a converted table.
type Translation struct {
	// Manifest contains all limits and entities that a manifest can express.
	Manifest *manifest.Manifest
	// Lacks names, sorted, each part that the manifest does not express, with advice.
	Lacks []string
	// Differs names, sorted, each part that the manifest expresses differently.
	Differs []string
}

// flags are the flags of a configuration item of zae-limiter 0.12 or later. Each is nil if the
// item does not have it.
type flags struct {
	// disabled is true if calls are refused, false if they are limited. bypass means that they
	// are admitted without limits.
	disabled *bool
	bypass   bool
	cascade  *bool
}

// isDecisive reports whether the flags decide that calls are refused, limited or neither.
func (f flags) isDecisive() bool { return f.disabled != nil || f.bypass }

// translator builds the manifest of a Source.
type translator struct {
	out   Translation
	flags map[admin.Scope]flags
	// limited are the sources with limits in the table, by their limits in short.
	limited map[admin.Scope]string
	// silent are the entities whose records do not decide whether calls charge their parents.
	silent map[string]bool
}

// Translate converts the items of s to a manifest with the name manager, and lists the parts that a manifest
// cannot express or expresses differently. namespace is the manifest's dynalimit namespace, or "". It sends no
// request.
func (s *Source) Translate(manager, namespace string) Translation {
	t := &translator{flags: map[admin.Scope]flags{}, limited: map[admin.Scope]string{}, silent: map[string]bool{}}
	t.out.Manifest = &manifest.Manifest{Name: manager, Namespace: namespace, Configs: map[admin.Scope]admin.LimitConfig{}, Entities: map[string]manifest.Entity{}}
	unused := map[admin.Scope]bool{} // sources that no call of zae-limiter 0.6 and 0.7 reads
	older, composite := map[admin.Scope][]schema.LegacyLimit{}, map[admin.Scope]schema.Item{}
	for _, item := range s.items {
		key := schema.KeyOf(item)
		if of, ok := schema.LegacyOf(key); ok && !of.IsBucket {
			limit, err := schema.DecodeLegacyLimit(item)
			if err != nil {
				t.addLack(scopeOf(of.Owner).String(), "%v", err)
				continue
			}
			at := scopeOf(of.Owner)
			if older[at] = append(older[at], limit); at.Entity != "" && at.Resource == "" && !s.nested[key] {
				unused[at] = true
			}
			continue
		}
		if at, ok := s.sourceAt(key); ok {
			composite[at] = item
			continue
		}
		if id, ok := strings.CutPrefix(key.PK, s.keys.Entity("")); ok && key.SK == s.keys.Meta(id).SK {
			t.addRecord(id, item)
		}
	}
	for at, limits := range older {
		if stored, _ := storedLimits(composite[at]); len(stored) > 0 {
			continue // zae-limiter 0.8 reads only the composite item
		}
		composite[at] = withLimits(composite[at], limits)
	}
	for at, item := range composite {
		if unused[at] && schema.ConfigVersion(item) == 0 {
			t.reportUnusedLimits(at, item)
			continue
		}
		t.addSource(at, item)
	}
	t.compareAll()
	t.cutParentChains()
	t.reportUndecidedParents()
	slices.Sort(t.out.Lacks)
	slices.Sort(t.out.Differs)
	return t.out
}

// withLimits returns a copy of a composite item, which may be nil, with the attributes of limits of the older
// layout added.
func withLimits(composite schema.Item, limits []schema.LegacyLimit) schema.Item {
	item := schema.Item{}
	maps.Copy(item, composite)
	for _, l := range limits {
		for field, n := range map[string]int64{"cp": l.Capacity, "bx": l.Burst, "ra": l.RefillAmount, "rp": l.PeriodSeconds()} {
			item["l_"+l.Name+"_"+field] = schema.Number(n)
		}
	}
	return item
}

// addLack appends to t.out.Lacks a part that the manifest does not express: the name of the item and a
// formatted reason with advice.
func (t *translator) addLack(what, format string, args ...any) {
	t.out.Lacks = append(t.out.Lacks, what+": "+fmt.Sprintf(format, args...))
}

// addDifference appends to t.out.Differs a part that has another effect here than in zae-limiter: the name of
// the item and a text.
func (t *translator) addDifference(what, text string) {
	t.out.Differs = append(t.out.Differs, what+": "+text)
}

// scopeOf returns dynalimit's scope of an owner of configuration in zae-limiter's table. zae-limiter's name for
// the default resource becomes "".
func scopeOf(o schema.ConfigOwner) admin.Scope {
	resource := o.Resource
	if resource == schema.DefaultResource {
		resource = ""
	}
	return admin.Scope{Everyone: o.Entity == "", Entity: o.Entity, Resource: resource}
}

// sourceAt returns the scope of a composite configuration item, which has all limits of a source, by its key.
// ok is false for another kind of item.
func (s *Source) sourceAt(key schema.Key) (at admin.Scope, ok bool) {
	if key == s.keys.SystemConfig() {
		return admin.Scope{Everyone: true}, true
	}
	if resource, is := strings.CutPrefix(key.PK, s.keys.Resource("")); is {
		return admin.Scope{Everyone: true, Resource: resource}, key.SK == s.keys.SystemConfig().SK
	}
	entity, is := strings.CutPrefix(key.PK, s.keys.Entity(""))
	resource, config := schema.ConfigResource(key.SK)
	return scopeOf(schema.ConfigOwner{Entity: entity, Resource: resource}), is && config
}

// addRecord adds the record of an entity to the manifest, or only a lack if its id is invalid. Values that
// dynalimit refuses it leaves out, with a lack each. It adds to t.silent a record that does not decide whether
// to charge the parent.
func (t *translator) addRecord(id string, item schema.Item) {
	what := "entity " + id
	if why := schema.EntityRule.Check(id); why != "" {
		t.addLack(what, "its id %s", why)
		return
	}
	e := schema.DecodeEntity(item)
	record := admin.Entity{ID: id, Name: e.Name, ParentID: e.ParentID, Metadata: e.Metadata}
	if len(record.Name) > 1024 {
		t.addLack(what, "its name has %d bytes: write one of at most 1024", len(record.Name))
		record.Name = ""
	}
	if why := schema.CheckMetadata(record.Metadata); why != "" {
		t.addLack(what, "its metadata %s", why)
		record.Metadata = nil
	}
	if why := schema.EntityRule.Check(record.ParentID); record.ParentID != "" && why != "" {
		t.addLack(what, "the id of its parent %q %s", record.ParentID, why)
		record.ParentID = ""
	}
	if item["cascade"] == nil {
		t.silent[id] = true
	}
	record = setParentLink(record, e.Cascade)
	t.out.Manifest.Entities[id] = manifest.Entity{Record: record}
}

// setParentLink returns a copy of record whose parent counts by all sources if cascade is true, else not at
// all, as in zae-limiter. Without a parent it clears both marks.
func setParentLink(record admin.Entity, cascade bool) admin.Entity {
	record.Cascade, record.Detached = cascade && record.ParentID != "", !cascade && record.ParentID != ""
	return record
}

// addSource adds the configuration of a source to the manifest, unless nothing of it can be expressed, and a
// bare entity for it if needed. It sets t.flags and t.limited for compareAll. It adds a lack or difference for
// each part that does not fit.
func (t *translator) addSource(at admin.Scope, item schema.Item) {
	for _, why := range []string{checkName(at.Entity, schema.EntityRule.Check), checkName(at.Resource, schema.ResourceRule.Check)} {
		if why != "" {
			t.addLack(at.String(), "its name %s", why)
			return
		}
	}
	t.flags[at] = flagsOf(item)
	c := admin.LimitConfig{OnUnavailable: dynalimit.UnavailablePolicy(schema.DecodePolicy(item))}
	c.Blocked = t.flags[at].disabled != nil && *t.flags[at].disabled
	c.Unlimited = t.flags[at].bypass
	limits, err := storedLimits(item)
	if err != nil {
		t.addLack(at.String(), "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		t.addLimit(at, &c, name, limits[name])
	}
	if len(c.Limits) > schema.MaxLimits {
		t.addLack(at.String(), "it has %d limits, and a source has at most %d: leave some out", len(c.Limits), schema.MaxLimits)
		c.Limits = nil
	}
	if len(limits) > 0 {
		t.limited[at] = describeLimits(c.Limits)
	}
	if c.Unlimited && len(limits) > 0 {
		t.addDifference(at.String(), "its bypass becomes 'unlimited: true', so its limits ("+describeLimits(c.Limits)+") are not in the manifest, and its usage is counted nowhere; limits with 'shadow: true' count")
		c.Limits = nil
	} else if c.Unlimited {
		t.addDifference(at.String(), "its bypass becomes 'unlimited: true', and its usage is counted nowhere; limits with 'shadow: true' count")
	}
	if len(c.Limits) == 0 && !c.Unlimited && !c.Blocked && c.OnUnavailable == "" {
		if len(limits) > 0 {
			t.addLack(at.String(), "none of its limits is in the manifest, so less specific ones hold")
		}
		return
	}
	t.out.Manifest.Configs[at] = c
	if _, recorded := t.out.Manifest.Entities[at.Entity]; at.Entity != "" && !recorded {
		t.out.Manifest.Entities[at.Entity] = manifest.Entity{Record: admin.Entity{ID: at.Entity}, LimitsOnly: true}
	}
}

// reportUnusedLimits adds a lack with the limits of an entity's default that zae-limiter 0.6 and 0.7 stored. It
// adds nothing to the manifest, because no call used them.
func (t *translator) reportUnusedLimits(at admin.Scope, item schema.Item) {
	c := admin.LimitConfig{}
	limits, _ := storedLimits(item) // these are of one prefix
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		t.addLimit(at, &c, name, limits[name])
	}
	t.addLack(at.String(), "its default limits (%s): no call of zae-limiter 0.6 or 0.7 uses them; write them under 'default' if they are to hold", describeLimits(c.Limits))
}

// addLimit appends the limit name of the source at to c.Limits with defaults, unless it cannot be expressed. It
// reports the lacks and differences of the limit.
func (t *translator) addLimit(at admin.Scope, c *admin.LimitConfig, name string, s stored) {
	what := fmt.Sprintf("limit %s of %s", name, at)
	l, without, lacks, differs := s.convertLimit(name)
	if lacks != "" {
		t.addLack(what, "%s", lacks)
	}
	if differs != "" {
		t.addDifference(what, differs)
	}
	if !without {
		c.Limits = append(c.Limits, notation.WithDefaults([]dynalimit.Limit{l})...)
	}
}

// checkName returns the fault that check finds in a name, or "" for a missing name.
func checkName(name string, check func(string) string) string {
	if name == "" {
		return ""
	}
	return check(name)
}

// describeLimits lists limits with their names, separated by commas.
func describeLimits(limits []dynalimit.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.Name + " " + notation.DescribeLimit(l)
	}
	return strings.Join(texts, ", ")
}

// flagsOf returns zae-limiter's flags in a configuration item. disabled and cascade are nil, and bypass false,
// if the item does not have them.
func flagsOf(item schema.Item) (f flags) {
	if v, ok := item["disabled"].(*types.AttributeValueMemberBOOL); ok {
		f.disabled = &v.Value
	}
	f.bypass = schema.Text(item, "disabled") == "bypass"
	if v, ok := item["cascade"].(*types.AttributeValueMemberBOOL); ok {
		f.cascade = &v.Value
	}
	return f
}
