// Package schema is the table's layout: keys, attribute names, the codec of
// every item and the expressions of every write. It is pure: it builds and reads
// values, it sends nothing.
package schema

import "strings"

// Attribute names shared by all items.
const (
	PK, SK         = "PK", "SK"
	GSI1PK, GSI1SK = "GSI1PK", "GSI1SK"
	GSI2PK, GSI2SK = "GSI2PK", "GSI2SK"
	GSI3PK, GSI3SK = "GSI3PK", "GSI3SK"
	TTL            = "ttl"

	attrPlan, attrManagedBy = "plan", "managed_by"

	// DefaultResource is the resource under which the default limits of an entity
	// or a plan are stored.
	DefaultResource = "_default_"

	skMeta, skConfig, skVersion = "#META", "#CONFIG", "#VERSION"
	skBucketPrefix              = "#BUCKET#"
	skConfigPrefix              = "#CONFIG#"
	childPrefix                 = "CHILD#"
	// ownPrefix begins the keys of this project's own counters, behind the namespace.
	ownPrefix = "OWN#"
)

// The global secondary indexes.
const (
	IndexChildren      = "GSI1" // parent → children
	IndexResource      = "GSI2" // resource → buckets
	IndexEntityConfigs = "GSI3" // resource → entities with limits of their own
)

// BucketEntries begins the sort keys of buckets in the resource index.
const BucketEntries = "BUCKET#"

// Key is a primary key.
type Key struct{ PK, SK string }

// Keys builds the keys of one namespace; the zero value is the layout without a
// namespace.
type Keys struct{ prefix string }

// NewKeys returns the keys of a namespace; "" is the layout without one.
func NewKeys(namespace string) Keys {
	if namespace == "" {
		return Keys{}
	}
	return Keys{prefix: namespace + "/"}
}

// OwnKeys returns the keys of this project's own counters in a namespace. No key of a user begins
// so: ids and names have no '#', and no kind of item is called so.
func OwnKeys(namespace string) Keys { return Keys{prefix: NewKeys(namespace).prefix + ownPrefix} }

// IsOwn reports whether a prefix is that of OwnKeys.
func IsOwn(prefix string) bool { return strings.HasSuffix(prefix, ownPrefix) }

// Prefix begins every partition key: the namespace's, "" without one.
func (k Keys) Prefix() string { return k.prefix }

// Name is the namespace's, "" without one.
func (k Keys) Name() string { return strings.TrimSuffix(strings.TrimSuffix(k.prefix, ownPrefix), "/") }

// Bucket is the key of an entity's bucket for a resource.
func (k Keys) Bucket(entity, resource string) Key {
	return Key{k.Entity(entity), skBucketPrefix + resource}
}

// Meta is the key of an entity's record.
func (k Keys) Meta(entity string) Key { return Key{k.Entity(entity), skMeta} }

// EntityConfig is the key of an entity's limits for a resource; "" is the
// entity's default.
func (k Keys) EntityConfig(entity, resource string) Key {
	if resource == "" {
		resource = DefaultResource
	}
	return Key{k.Entity(entity), skConfigPrefix + resource}
}

// PlanConfig is the key of a plan's limits for a resource; "" is the plan's default.
func (k Keys) PlanConfig(plan, resource string) Key {
	if resource == "" {
		resource = DefaultResource
	}
	return Key{k.prefix + "PLAN#" + plan, skConfigPrefix + resource}
}

// ResourceConfig is the key of a resource's limits.
func (k Keys) ResourceConfig(resource string) Key {
	return Key{k.prefix + "RESOURCE#" + resource, skConfig}
}

// SystemConfig is the key of the system's limits.
func (k Keys) SystemConfig() Key { return Key{k.prefix + "SYSTEM#", skConfig} }

// Parent is the partition of the children index that lists a parent's children.
func (k Keys) Parent(id string) string { return k.prefix + "PARENT#" + id }

// Resource is the partition of the resource index.
func (k Keys) Resource(resource string) string { return k.prefix + "RESOURCE#" + resource }

// EntityConfigs is the partition of the index of entities with limits for a
// resource; "" is the default.
func (k Keys) EntityConfigs(resource string) string {
	if resource == "" {
		resource = DefaultResource
	}
	return k.prefix + "ENTITY_CONFIG#" + resource
}

// Entity is the partition of everything an entity owns.
func (k Keys) Entity(id string) string { return k.prefix + "ENTITY#" + id }

// ChildID returns the entity named by a sort key of the children index.
func ChildID(gsi1sk string) (string, bool) { return strings.CutPrefix(gsi1sk, childPrefix) }
