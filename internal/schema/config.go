package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attribute names of configuration items.
const (
	attrConfigVersion = "config_version"

	attrOnUnavailable = "on_unavailable"
	attrUnlimited     = "unlimited"
	attrBlocked       = "blocked"
)

// ConfigItem is the content of a configuration item.
type ConfigItem struct {
	// Limits is sorted by name.
	Limits []ConfigLimit
	// Extends means that Limits are put over those of the next less specific source, by name. Lifted, sorted,
	// are limits of less specific sources that this one takes away.
	Extends bool
	Lifted  []string
	// Raises, sorted by name, raise limits in force until an instant. They are not a list of limits.
	Raises []ConfigRaise
	// Unlimited means that the owner has no limits, at this source and at less specific ones. It counts only
	// without Limits. Counted, together with it, means that limits of less specific sources count the calls
	// and deny none.
	Unlimited, Counted bool
	// Blocked means that every call is rejected, even if more specific items say otherwise. BlockedExcept
	// means that only calls with an Admit in a more specific item are admitted.
	Blocked, BlockedExcept, Admit bool
	// OnUnavailable is "allow", "block", "local", or "" without a policy.
	OnUnavailable string
	// Groups are the groups of a resource, sorted. Only a resource's own item has them.
	Groups []string
	// ManagedBy names the tool that manages the item; "" without one. It does not affect calls.
	ManagedBy string
	// Version counts the writes of the item; 0 when it has no version.
	Version int64
	// Unread means that the item cannot be decoded. Its Limits are unknown, and Item keeps the limits of the
	// old item.
	Unread bool
}

// Same reports whether two configurations are equal in everything but their versions. It also compares raises,
// ended ones too, and managers.
func (c ConfigItem) Same(other ConfigItem) bool {
	return c.Unlimited == other.Unlimited && c.Blocked == other.Blocked && c.OnUnavailable == other.OnUnavailable &&
		c.BlockedExcept == other.BlockedExcept && c.Admit == other.Admit && c.Counted == other.Counted &&
		c.ManagedBy == other.ManagedBy && c.Unread == other.Unread && c.Extends == other.Extends &&
		slices.Equal(c.Limits, other.Limits) && slices.Equal(c.Lifted, other.Lifted) && slices.Equal(c.Groups, other.Groups) &&
		slices.Equal(c.Raises, other.Raises)
}

// WithoutEnded returns the configuration with a new list of raises, without those that have ended at now, in
// Unix seconds.
func (c ConfigItem) WithoutEnded(now int64) ConfigItem {
	c.Raises = slices.DeleteFunc(slices.Clone(c.Raises), func(r ConfigRaise) bool { return r.Until <= now })
	return c
}

// OrNone returns the configuration, or nil if it is empty apart from its manager and version. Extends without a
// list counts as empty.
func (c ConfigItem) OrNone() *ConfigItem {
	if c.Same(ConfigItem{ManagedBy: c.ManagedBy, Extends: c.Extends}) {
		return nil
	}
	return &c
}

// ConfigOwner identifies the owner of a configuration item: an entity for a resource, a plan for a resource,
// a resource (without entity and plan), or the system (all empty). An entity or a plan without a resource
// means its default. An owner never has both an entity and a plan.
type ConfigOwner struct{ Entity, Resource, Plan string }

// Normal returns the owner with DefaultResource as its resource, if it is an entity or plan without one.
func (o ConfigOwner) Normal() ConfigOwner {
	if (o.Entity != "" || o.Plan != "") && o.Resource == "" {
		o.Resource = DefaultResource
	}
	return o
}

// Config returns the key of the configuration item of an entity, a plan, a resource or the system. An entity or
// a plan without a resource means its default.
func (k Keys) Config(o ConfigOwner) Key {
	switch {
	case o.Entity != "":
		return k.EntityConfig(o.Entity, o.Resource)
	case o.Plan != "":
		return k.PlanConfig(o.Plan, o.Resource)
	case o.Resource != "":
		return k.ResourceConfig(o.Resource)
	default:
		return k.SystemConfig()
	}
}

// Item returns the item of an owner with the content and version of c; GSI3 lists that of an entity or a plan.
// It keeps unknown attributes of old, which may be nil. It drops the limits and raises of old, unless c is
// Unread.
func (c ConfigItem) Item(k Keys, o ConfigOwner, old Item) Item {
	o = o.Normal()
	item := make(Item, len(old)+4*len(c.Limits)+9)
	for name, value := range old {
		_, _, isLimit := splitLimit(name)
		_, _, isRaise := splitRaise(name)
		if _, _, isQuota := splitQuota(name); !isLimit && !isQuota && !isRaise || c.Unread {
			item[name] = value
		}
	}
	key := k.Config(o)
	item[PK], item[SK] = String(key.PK), String(key.SK)
	if o.Resource != "" {
		item[attrResource] = String(o.Resource)
	}
	if o.Entity != "" {
		item[attrEntity] = String(o.Entity)
		item[GSI3PK], item[GSI3SK] = String(k.EntityConfigs(o.Resource)), String(o.Entity)
	}
	if o.Plan != "" {
		item[attrPlan] = String(o.Plan)
		item[GSI3PK], item[GSI3SK] = String(k.Plans()), String(o.Plan+"#"+o.Resource)
	}
	for _, l := range c.Limits {
		if l.MaxDebt > 0 {
			item[kindPrefix+l.Name+"_"+fieldMaxDebt] = Number(l.MaxDebt)
		}
		if l.Reserve != 0 {
			item[kindPrefix+l.Name+"_"+fieldReserve] = Number(l.Reserve)
		}
		if l.Shadow {
			item[kindPrefix+l.Name+"_"+fieldShadow] = &types.AttributeValueMemberBOOL{Value: true}
		}
		if l.IsSlots() {
			l.putSlots(item)
			continue
		}
		if l.Window != "" {
			l.putQuota(item)
			continue
		}
		prefix := limitPrefix + l.Name + "_"
		item[prefix+fieldCapacity] = Number(l.Capacity)
		item[prefix+fieldBurst] = Number(l.Burst)
		item[prefix+fieldAmount] = Number(l.RefillAmount)
		item[prefix+fieldPeriod] = Number(l.PeriodSeconds())
	}
	if !c.Unread {
		putAlerts(item, c.Limits)
	}
	for _, name := range c.Lifted {
		item[kindPrefix+name+"_"+fieldLifted] = &types.AttributeValueMemberBOOL{Value: true}
	}
	for _, r := range c.Raises {
		r.putAttributes(item)
	}
	c.writeMarks(item)
	item[attrConfigVersion] = Number(c.Version)
	return item
}

// writeMarks sets the policy, manager, marks and groups in item, in place, and removes the empty ones. It keeps
// the groups and the mark extends of an unreadable configuration without groups, as they may be the unreadable
// part.
func (c ConfigItem) writeMarks(item Item) {
	for name, text := range map[string]string{attrOnUnavailable: c.OnUnavailable, attrManagedBy: c.ManagedBy} {
		delete(item, name)
		if text != "" {
			item[name] = String(text)
		}
	}
	putMarks(item, map[string]bool{attrUnlimited: c.Unlimited && !c.Counted, attrCounted: c.Counted, attrBlocked: c.Blocked, attrExcept: c.BlockedExcept, attrAdmit: c.Admit})
	if c.Unread && len(c.Groups) == 0 {
		return // they may be the unreadable part
	}
	putMarks(item, map[string]bool{attrExtends: c.Extends && len(c.Limits)+len(c.Lifted) > 0})
	delete(item, attrGroups)
	if len(c.Groups) > 0 {
		item[attrGroups] = &types.AttributeValueMemberSS{Value: c.Groups}
	}
}

// ConfigVersion returns the version of a configuration item. It returns 0 if the item has no readable version.
func ConfigVersion(item Item) int64 {
	n, _ := (&decoder{item: item}).number(attrConfigVersion)
	return n
}

// ConfigUnchanged returns the condition that a configuration item still has the version of old, or no version
// if old has none. A nil old requires that there is no item.
func ConfigUnchanged(old Item) Statement {
	b := newStatementBuilder()
	version := old[attrConfigVersion]
	switch {
	case old == nil:
		b.requireAbsent(PK)
	case version == nil:
		b.requireExists(PK)
		b.requireAbsent(attrConfigVersion)
	default:
		b.requireCompare(attrConfigVersion, "=", version)
	}
	return withoutEmptyValues(b.build())
}

// withoutEmptyValues returns the statement with nil as its values if they are an empty map, which DynamoDB
// refuses.
func withoutEmptyValues(st Statement) Statement {
	if len(st.Values) == 0 {
		st.Values = nil
	}
	return st
}

// DecodeConfig reads a configuration item. It ignores unknown attributes. A missing burst or refill amount is
// the capacity. It fails on a malformed limit or mark, and with an *UnknownKind on a limit of an unknown
// kind, because a skipped limit would not be enforced.
func DecodeConfig(item Item) (ConfigItem, error) {
	if unknown := UnknownConfig(item); unknown != nil {
		return ConfigItem{}, unknown
	}
	marks, err := DecodeMarks(item)
	if err != nil {
		return ConfigItem{}, err
	}
	c := ConfigItem{
		Unlimited: marks.Unlimited, Counted: marks.Counted, Blocked: marks.Blocked, BlockedExcept: marks.BlockedExcept, Admit: marks.Admit,
		OnUnavailable: marks.OnUnavailable, Groups: marks.Groups,
		Extends: marks.Extends, ManagedBy: Text(item, attrManagedBy), Version: ConfigVersion(item),
	}
	limits, err := limitsIn(item)
	if err != nil {
		return ConfigItem{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		l, err := limits[name].completed(item)
		if err != nil {
			return ConfigItem{}, err
		}
		c.Limits = append(c.Limits, l)
	}
	quotas, err := quotasIn(item)
	if err != nil {
		return ConfigItem{}, err
	}
	inFlight, err := slotsIn(item)
	if err != nil {
		return ConfigItem{}, err
	}
	for _, q := range append(quotas, inFlight...) {
		i, twice := slices.BinarySearchFunc(c.Limits, q.Name, func(l ConfigLimit, name string) int { return strings.Compare(l.Name, name) })
		if twice {
			return ConfigItem{}, fmt.Errorf("limit %s is of two kinds", q.Name)
		}
		c.Limits = slices.Insert(c.Limits, i, q)
	}
	if err := c.readMore(item); err != nil {
		return ConfigItem{}, err
	}
	return c, nil
}

// readMore reads the debts, reserves, shadows and alerts of c's limits, the lifted limits and the raises into
// c. It fails for a malformed one, and for a limit that is both set and lifted.
func (c *ConfigItem) readMore(item Item) (err error) {
	d := decoder{item: item}
	for i := range c.Limits {
		l := &c.Limits[i]
		l.MaxDebt, _ = d.number(kindPrefix + l.Name + "_" + fieldMaxDebt)
		l.Reserve, _ = d.number(kindPrefix + l.Name + "_" + fieldReserve)
		if l.Shadow, err = readMark(item, kindPrefix+l.Name+"_"+fieldShadow); err != nil {
			return err
		}
	}
	readAlerts(item, c.Limits)
	if c.Lifted, err = liftedIn(item); err != nil {
		return err
	}
	if c.Raises, err = DecodeRaises(item); err != nil {
		return err
	}
	return cmp.Or(checkLifted(item, c.Lifted), d.err)
}

// ReadableConfig decodes a configuration item. Of a malformed one it returns the readable parts, with Unread
// set and without limits, lifted limits and raises; an unreadable block counts as set.
func ReadableConfig(item Item) ConfigItem {
	c, err := DecodeConfig(item)
	if err != nil {
		unlimited, _ := readMark(item, attrUnlimited)
		counted, _ := readMark(item, attrCounted)
		admit, _ := readMark(item, attrAdmit)
		groups, _ := groupsIn(item)
		return ConfigItem{
			Unlimited: unlimited || counted, Counted: counted, Groups: groups, Blocked: mayHaveMark(item, attrBlocked), BlockedExcept: mayHaveMark(item, attrExcept), Admit: admit,
			OnUnavailable: DecodePolicy(item), ManagedBy: Text(item, attrManagedBy), Version: ConfigVersion(item), Unread: true,
		}
	}
	return c
}

// Marks are the content of a configuration item apart from limits; see ConfigItem.
type Marks struct {
	Unlimited, Counted, Extends   bool
	Blocked, BlockedExcept, Admit bool
	OnUnavailable                 string
	Groups                        []string
}

// DecodeMarks reads the marks, groups and policy of a configuration item, without its limits. An item with the
// mark Counted is Unlimited too. It fails on a malformed mark or group; the policy is not checked.
func DecodeMarks(item Item) (m Marks, err error) {
	for _, one := range []struct {
		name string
		to   *bool
	}{
		{attrBlocked, &m.Blocked},
		{attrExcept, &m.BlockedExcept},
		{attrAdmit, &m.Admit},
		{attrUnlimited, &m.Unlimited},
		{attrCounted, &m.Counted},
		{attrExtends, &m.Extends},
	} {
		if *one.to, err = readMark(item, one.name); err != nil {
			return Marks{}, err
		}
	}
	m.Unlimited = m.Unlimited || m.Counted
	if m.Groups, err = groupsIn(item); err != nil {
		return Marks{}, err
	}
	m.OnUnavailable = DecodePolicy(item)
	return m, nil
}

// groupsIn returns the groups in an item, sorted and without repetitions, or nil without groups. It fails for
// more than MaxGroups, an invalid name, or another type than a set of texts.
func groupsIn(item Item) ([]string, error) {
	switch v := item[attrGroups].(type) {
	case nil:
		return nil, nil
	case *types.AttributeValueMemberSS:
		if n := len(v.Value); n > MaxGroups {
			return nil, fmt.Errorf("attribute %s names %d groups; at most %d are allowed", attrGroups, n, MaxGroups)
		}
		for _, group := range v.Value {
			if reason := CheckGroup(group); reason != "" {
				return nil, fmt.Errorf("attribute %s names a group that %s", attrGroups, reason)
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(v.Value))), nil
	}
	return nil, fmt.Errorf("attribute %s is not a set of texts", attrGroups)
}

// HasList reports whether a configuration item has a list: limits of any kind, also an unknown one, or names of
// limits that it takes away. Raises and marks do not count.
func HasList(item Item) bool {
	for attr := range item {
		if _, _, bucket := splitLimit(attr); bucket {
			return true
		}
		if _, kind := limitOfKind(attr); kind {
			return true
		}
	}
	return false
}

// LimitNames returns the names of the limits of a configuration item, also of an unknown kind, sorted and
// without repetitions. It leaves out limits that are only lifted.
func LimitNames(item Item) []string {
	var names []string
	for attr := range item {
		name, _, ok := splitLimit(attr)
		if !ok {
			name, ok = limitOfKind(attr)
		}
		if _, field, kind := splitQuota(attr); ok && !(kind && field == fieldLifted) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mayHaveMark reports whether an item has a mark. It counts a malformed mark as set.
func mayHaveMark(item Item, name string) bool {
	yes, err := readMark(item, name)
	return yes || err != nil
}

// readMark returns the value of a BOOL attribute. It returns false if the attribute is absent or NULL, and an
// error for another type.
func readMark(item Item, name string) (bool, error) {
	switch v := item[name].(type) {
	case nil, *types.AttributeValueMemberNULL:
		return false, nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	}
	return false, fmt.Errorf("attribute %s is not a BOOL", name)
}

// limitsIn returns the token buckets in a configuration item by name, with their stored fields alone. It
// fails for a field that is not an integer.
func limitsIn(item Item) (map[string]*ConfigLimit, error) {
	d := decoder{item: item}
	limits := map[string]*ConfigLimit{}
	for attr := range item {
		name, field, ok := splitLimit(attr)
		if !ok {
			continue
		}
		n, _ := d.number(attr)
		l := limits[name]
		if l == nil {
			l = &ConfigLimit{Name: name}
			limits[name] = l
		}
		switch field {
		case fieldCapacity:
			l.Capacity = n
		case fieldBurst:
			l.Burst = n
		case fieldAmount:
			l.RefillAmount = n
		case fieldPeriod:
			l.RefillPeriod = seconds(n)
		}
	}
	return limits, d.err
}

// completed returns the limit with its capacity as burst and refill amount, where the item leaves them out. It
// fails if the capacity or the period is missing.
func (l ConfigLimit) completed(item Item) (ConfigLimit, error) {
	prefix := limitPrefix + l.Name + "_"
	for _, field := range []string{fieldCapacity, fieldPeriod} {
		if item[prefix+field] == nil {
			return ConfigLimit{}, fmt.Errorf("attribute %s is missing", prefix+field)
		}
	}
	if item[prefix+fieldBurst] == nil {
		l.Burst = l.Capacity
	}
	if item[prefix+fieldAmount] == nil {
		l.RefillAmount = l.Capacity
	}
	return l, nil
}

// DecodePolicy returns the text of an item's outage policy, unchecked; "" without one.
func DecodePolicy(item Item) string {
	return Text(item, attrOnUnavailable)
}

// splitLimit splits an attribute l_{name}_{field} of a token bucket at the last underscore; names may contain
// underscores. It returns false unless the field is cp, bx, ra or rp.
func splitLimit(attr string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(attr, limitPrefix)
	if !ok {
		return "", "", false
	}
	i := strings.LastIndexByte(rest, '_')
	if i < 1 {
		return "", "", false
	}
	name, field = rest[:i], rest[i+1:]
	switch field {
	case fieldCapacity, fieldBurst, fieldAmount, fieldPeriod:
		return name, field, true
	}
	return "", "", false
}
