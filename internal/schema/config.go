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

// ConfigItem is what a configuration item says.
type ConfigItem struct {
	// Limits is sorted by name.
	Limits []ConfigLimit
	// Extends means that Limits are put by name over those of the next less specific level.
	// Lifted, sorted, are limits of less specific levels that it takes away.
	Extends bool
	Lifted  []string
	// Raises, sorted by name, raise limits that are in force until an instant. They are no list.
	Raises []ConfigRaise
	// Unlimited means that nothing limits the owner, and that no less specific
	// level does either. It counts only without Limits. Counted, beside it, means that limits of less
	// specific levels count its calls and deny nothing.
	Unlimited, Counted bool
	// Blocked means that no call is admitted, whatever more specific items say. BlockedExcept means
	// that calls are admitted which Admit of a more specific item speaks for.
	Blocked, BlockedExcept, Admit bool
	// OnUnavailable is "allow", "block", "local" or "" for none.
	OnUnavailable string
	// Groups are the groups of a resource, sorted; of a resource's own item alone.
	Groups []string
	// ManagedBy names the tool that keeps the item; "" for none. It says nothing about calls.
	ManagedBy string
	// Version counts the writes of the item; 0 when it has no version.
	Version int64
	// Unread means that the item cannot be understood: Limits are not known, and to encode
	// this keeps what limits the old item has.
	Unread bool
}

// Same says whether two configurations say the same, whatever their versions.
func (c ConfigItem) Same(other ConfigItem) bool {
	return c.Unlimited == other.Unlimited && c.Blocked == other.Blocked && c.OnUnavailable == other.OnUnavailable &&
		c.BlockedExcept == other.BlockedExcept && c.Admit == other.Admit && c.Counted == other.Counted &&
		c.ManagedBy == other.ManagedBy && c.Unread == other.Unread && c.Extends == other.Extends &&
		slices.Equal(c.Limits, other.Limits) && slices.Equal(c.Lifted, other.Lifted) && slices.Equal(c.Groups, other.Groups) &&
		slices.Equal(c.Raises, other.Raises)
}

// WithoutEnded returns the configuration without raises that have ended at an instant, in Unix seconds.
func (c ConfigItem) WithoutEnded(now int64) ConfigItem {
	c.Raises = slices.DeleteFunc(slices.Clone(c.Raises), func(r ConfigRaise) bool { return r.Until <= now })
	return c
}

// OrNone is the configuration, nil if it says nothing, whoever manages it. To extend with no
// list is to say nothing.
func (c ConfigItem) OrNone() *ConfigItem {
	if c.Same(ConfigItem{ManagedBy: c.ManagedBy, Extends: c.Extends}) {
		return nil
	}
	return &c
}

// ConfigOwner says whose configuration an item holds: an entity's for a resource, a
// plan's for a resource, a resource's (no entity, no plan), or the system's (none of
// them). An entity or a plan without a resource means its default. An owner never has
// both an entity and a plan.
type ConfigOwner struct{ Entity, Resource, Plan string }

// Normal spells the default of an entity or a plan in its one way.
func (o ConfigOwner) Normal() ConfigOwner {
	if (o.Entity != "" || o.Plan != "") && o.Resource == "" {
		o.Resource = DefaultResource
	}
	return o
}

// Config is the key of the owner's configuration item.
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

// Item returns the item of an owner that holds c. It keeps the attributes of old that it does
// not know and drops every limit of it, unless c is Unread; old may be nil.
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
		if l.Shadow {
			item[kindPrefix+l.Name+"_"+fieldShadow] = &types.AttributeValueMemberBOOL{Value: true}
		}
		if l.Window != "" {
			storedQuota{l.Name, l.Capacity, l.Window, l.Zone, l.Unit, l.PerModel}.put(item)
			continue
		}
		prefix := limitPrefix + l.Name + "_"
		item[prefix+fieldCapacity] = Number(l.Capacity)
		item[prefix+fieldBurst] = Number(l.Burst)
		item[prefix+fieldAmount] = Number(l.RefillAmount)
		item[prefix+fieldPeriod] = Number(l.PeriodSeconds())
	}
	for _, name := range c.Lifted {
		item[kindPrefix+name+"_"+fieldLifted] = &types.AttributeValueMemberBOOL{Value: true}
	}
	for _, r := range c.Raises {
		r.put(item)
	}
	c.mark(item)
	item[attrConfigVersion] = Number(c.Version)
	return item
}

// mark writes what a configuration says besides limits, and removes what it does not say.
func (c ConfigItem) mark(item Item) {
	for name, text := range map[string]string{attrOnUnavailable: c.OnUnavailable, attrManagedBy: c.ManagedBy} {
		delete(item, name)
		if text != "" {
			item[name] = String(text)
		}
	}
	putMarks(item, map[string]bool{attrUnlimited: c.Unlimited && !c.Counted, attrCounted: c.Counted, attrBlocked: c.Blocked, attrExcept: c.BlockedExcept, attrAdmit: c.Admit})
	if c.Unread && len(c.Groups) == 0 {
		return // they may be what cannot be read
	}
	putMarks(item, map[string]bool{attrExtends: c.Extends && len(c.Limits)+len(c.Lifted) > 0})
	delete(item, attrGroups)
	if len(c.Groups) > 0 {
		item[attrGroups] = &types.AttributeValueMemberSS{Value: c.Groups}
	}
}

// ConfigVersion is the version of a configuration item, 0 when it has none.
func ConfigVersion(item Item) int64 {
	n, _ := (&decoder{item: item}).number(attrConfigVersion)
	return n
}

// ConfigUnchanged is the condition that a configuration item is as it was when
// old was read; nil for no item.
func ConfigUnchanged(old Item) Statement {
	b := newStatementBuilder()
	version := old[attrConfigVersion]
	switch {
	case old == nil:
		b.absent(PK)
	case version == nil:
		b.exists(PK)
		b.absent(attrConfigVersion)
	default:
		b.compare(attrConfigVersion, "=", version)
	}
	return withoutEmptyValues(b.build())
}

// withoutEmptyValues is a statement without the empty map of values that DynamoDB refuses.
func withoutEmptyValues(st Statement) Statement {
	if len(st.Values) == 0 {
		st.Values = nil
	}
	return st
}

// DecodeConfig reads a configuration item; attributes it does not know are
// ignored. A missing burst or refill amount is the capacity. It fails on a
// limit, or a mark, that cannot be understood, and with an *UnknownKind on a limit of a
// kind that is not known: to leave it out would not enforce it.
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
	for _, q := range quotas {
		i, twice := slices.BinarySearchFunc(c.Limits, q.name, func(l ConfigLimit, name string) int { return strings.Compare(l.Name, name) })
		if twice {
			return ConfigItem{}, fmt.Errorf("limit %s is both a bucket and a quota", q.name)
		}
		c.Limits = slices.Insert(c.Limits, i, ConfigLimit{
			Name: q.name, Capacity: q.allowed, Burst: q.allowed, RefillAmount: q.allowed, Window: q.window, Zone: q.zone, Unit: q.unit, PerModel: q.perModel,
		})
	}
	if err := c.readMore(item); err != nil {
		return ConfigItem{}, err
	}
	return c, nil
}

// readMore reads what limits of any kind may say besides.
func (c *ConfigItem) readMore(item Item) (err error) {
	d := decoder{item: item}
	for i := range c.Limits {
		l := &c.Limits[i]
		l.MaxDebt, _ = d.number(kindPrefix + l.Name + "_" + fieldMaxDebt)
		if l.Shadow, err = mark(item, kindPrefix+l.Name+"_"+fieldShadow); err != nil {
			return err
		}
	}
	if c.Lifted, err = lifted(item); err != nil {
		return err
	}
	if c.Raises, err = DecodeRaises(item); err != nil {
		return err
	}
	return cmp.Or(checkLifted(item, c.Lifted), d.err)
}

// ReadableConfig reads a configuration item as far as it can be understood. It is blocked
// if it may be.
func ReadableConfig(item Item) ConfigItem {
	c, err := DecodeConfig(item)
	if err != nil {
		unlimited, _ := mark(item, attrUnlimited)
		counted, _ := mark(item, attrCounted)
		admit, _ := mark(item, attrAdmit)
		groups, _ := groupsIn(item)
		return ConfigItem{
			Unlimited: unlimited || counted, Counted: counted, Groups: groups, Blocked: mayBe(item, attrBlocked), BlockedExcept: mayBe(item, attrExcept), Admit: admit,
			OnUnavailable: DecodePolicy(item), ManagedBy: Text(item, attrManagedBy), Version: ConfigVersion(item), Unread: true,
		}
	}
	return c
}

// Marks are what a configuration item says besides limits; see ConfigItem.
type Marks struct {
	Unlimited, Counted, Extends   bool
	Blocked, BlockedExcept, Admit bool
	OnUnavailable                 string
	Groups                        []string
}

// DecodeMarks reads the marks of a configuration item. It fails on one that cannot be
// understood.
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
		if *one.to, err = mark(item, one.name); err != nil {
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

// groupsIn returns the groups that an item names, sorted. It returns nil if the item names no groups,
// and an error for more than MaxGroups.
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

// HasList reports whether a configuration item has a list: limits of any kind, or names of
// limits that it takes away.
func HasList(item Item) bool {
	for attr := range item {
		if _, _, bucket := splitLimit(attr); bucket {
			return true
		}
		if _, kind := isKind(attr); kind {
			return true
		}
	}
	return false
}

// LimitNames are the names of the limits that a configuration item holds, of whatever
// kind, in order. Those that it takes away are left out.
func LimitNames(item Item) []string {
	var names []string
	for attr := range item {
		name, _, ok := splitLimit(attr)
		if !ok {
			name, ok = isKind(attr)
		}
		if _, field, kind := splitQuota(attr); ok && !(kind && field == fieldLifted) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mayBe reports whether an item has a mark, or one that cannot be understood.
func mayBe(item Item, name string) bool {
	yes, err := mark(item, name)
	return yes || err != nil
}

// mark reads an attribute that is true or false; false if it is absent.
func mark(item Item, name string) (bool, error) {
	switch v := item[name].(type) {
	case nil, *types.AttributeValueMemberNULL:
		return false, nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	}
	return false, fmt.Errorf("attribute %s is not a BOOL", name)
}

// limitsIn are the fields of limits that an item has, by the limit's name.
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

// completed is l with what the item leaves out. It fails when that is the
// capacity or the period.
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

// DecodePolicy reads what an item says to do when the store does not
// answer; "" for none.
func DecodePolicy(item Item) string {
	return Text(item, attrOnUnavailable)
}

// splitLimit splits l_{name}_{field} at the last underscore: names may hold
// underscores, fields do not.
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
