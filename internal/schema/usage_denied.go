package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	skDeniedPrefix = "#DENIED#"

	// deniedPrefix begins every counter of denials. Neither usage nor anything that says
	// what a limit is has a name like this, so that what serves calls may write it.
	deniedPrefix = "x_"
)

// DeniedAttributes are the attributes of items of denials that buckets do not have, as
// patterns in which * stands for any text.
func DeniedAttributes() []string { return []string{deniedPrefix + "*"} }

// Denied is how many acquires an entity's limits of a resource denied in an hour, as far as
// processes told.
type Denied struct {
	Keys             Keys
	Entity, Resource string
	Hour             time.Time
	// Limits are how many acquires each limit denied, by name.
	Limits map[string]int64
	// Expires is the item's time to live in seconds since 1970; 0 for none.
	Expires int64
}

// DeniedPrefix begins the sort keys of an entity's denials of a resource; without a
// resource those of all resources. The hour follows, as it does in keys of usage.
func DeniedPrefix(resource string) string {
	if resource == "" {
		return skDeniedPrefix
	}
	return skDeniedPrefix + resource + "#"
}

// Denied is the key of how many acquires an entity's limits of a resource denied in an hour.
func (k Keys) Denied(entity, resource string, hour time.Time) Key {
	return Key{k.entity(entity), DeniedPrefix(resource) + hour.UTC().Format(hourLayout)}
}

// DeniedHour is the partition of the resource index that lists the denials of an hour.
func (k Keys) DeniedHour(hour time.Time) string {
	return k.prefix + "DENIED#" + hour.UTC().Format(hourLayout)
}

// Key is the item's.
func (d *Denied) Key() Key { return d.Keys.Denied(d.Entity, d.Resource, d.Hour) }

// Statement adds the counts to the item.
func (d *Denied) Statement() Statement {
	b := newStatementBuilder()
	b.setValue(attrEntity, String(d.Entity))
	b.setValue(attrResource, String(d.Resource))
	b.setValue(GSI2PK, String(d.Keys.DeniedHour(d.Hour)))
	b.setValue(GSI2SK, String(d.Entity+"#"+d.Resource))
	if d.Expires > 0 {
		b.setValue(TTL, Number(d.Expires))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Limits)) {
		b.addNumber(deniedPrefix+name, d.Limits[name])
	}
	return b.build()
}

// DeniedOf takes the key of an item of denials apart, whether it was read from the table or
// from an index; false for the key of something else. It has no counts.
func DeniedOf(key Key) (Denied, bool) {
	k, entity, resource, hour, ok := hourlyOf(key, skDeniedPrefix)
	return Denied{Keys: k, Entity: entity, Resource: resource, Hour: hour}, ok
}

// DecodeDenied reads an item of denials.
func DecodeDenied(item Item) (Denied, error) {
	out, ok := DeniedOf(KeyOf(item))
	if !ok {
		key := KeyOf(item)
		return Denied{}, fmt.Errorf("item %q, %q is none of denials", key.PK, key.SK)
	}
	d := decoder{item: item}
	out.Limits = map[string]int64{}
	for attr := range item {
		if name, ours := strings.CutPrefix(attr, deniedPrefix); ours && name != "" {
			out.Limits[name], _ = d.number(attr)
		}
	}
	out.Expires, _ = d.number(TTL)
	return out, d.err
}
