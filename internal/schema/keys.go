// Package schema is the table's layout: keys, attribute names, the codec of every item and the expressions of
// every write. It is pure: it builds and reads values, and sends nothing.
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
	// ownPrefix follows the namespace in the keys of this project's own counters.
	ownPrefix = "OWN#"
)

// The global secondary indexes.
const (
	IndexChildren      = "GSI1" // parent → children
	IndexResource      = "GSI2" // resource → buckets
	IndexEntityConfigs = "GSI3" // resource → entities with limits of their own
)

// BucketEntries is the prefix of the sort keys of buckets in the resource index.
const BucketEntries = "BUCKET#"

// Key is a primary key.
type Key struct{ PK, SK string }

// Keys builds the keys of one namespace. The zero value is the layout without a namespace.
type Keys struct{ prefix string }

// NewKeys returns the keys of a namespace; "" is the layout without one.
func NewKeys(namespace string) Keys {
	if namespace == "" {
		return Keys{}
	}
	return Keys{prefix: namespace + "/"}
}

// OwnKeys returns the keys of this project's own counters in a namespace. No key of a user begins like that,
// because ids and names have no '#', and no kind of item has that name.
func OwnKeys(namespace string) Keys { return Keys{prefix: NewKeys(namespace).prefix + ownPrefix} }

// IsOwn reports whether a prefix is from OwnKeys.
func IsOwn(prefix string) bool { return strings.HasSuffix(prefix, ownPrefix) }

// Prefix returns the text with which every partition key of the namespace begins, such as "ns/"; "" without a
// namespace.
func (k Keys) Prefix() string { return k.prefix }

// Name returns the name of the namespace, "" without one.
func (k Keys) Name() string { return strings.TrimSuffix(strings.TrimSuffix(k.prefix, ownPrefix), "/") }

// Bucket returns the key of an entity's bucket for a resource.
func (k Keys) Bucket(entity, resource string) Key {
	return Key{k.Entity(entity), skBucketPrefix + resource}
}

// Meta returns the key of an entity's record.
func (k Keys) Meta(entity string) Key { return Key{k.Entity(entity), skMeta} }

// EntityConfig returns the key of an entity's limits for a resource; "" is the entity's default.
func (k Keys) EntityConfig(entity, resource string) Key {
	if resource == "" {
		resource = DefaultResource
	}
	return Key{k.Entity(entity), skConfigPrefix + resource}
}

// PlanConfig returns the key of a plan's limits for a resource; "" is the plan's default.
func (k Keys) PlanConfig(plan, resource string) Key {
	if resource == "" {
		resource = DefaultResource
	}
	return Key{k.prefix + "PLAN#" + plan, skConfigPrefix + resource}
}

// ResourceConfig returns the key of a resource's limits.
func (k Keys) ResourceConfig(resource string) Key {
	return Key{k.prefix + "RESOURCE#" + resource, skConfig}
}

// SystemConfig returns the key of the system's limits.
func (k Keys) SystemConfig() Key { return Key{k.prefix + "SYSTEM#", skConfig} }

// Parent returns the partition key of the children index that lists a parent's children.
func (k Keys) Parent(id string) string { return k.prefix + "PARENT#" + id }

// Resource returns the partition key of the resource index that lists a resource's buckets.
func (k Keys) Resource(resource string) string { return k.prefix + "RESOURCE#" + resource }

// EntityConfigs returns the partition key of the index that lists entities with limits for a resource; "" means
// their default.
func (k Keys) EntityConfigs(resource string) string {
	if resource == "" {
		resource = DefaultResource
	}
	return k.prefix + "ENTITY_CONFIG#" + resource
}

// Entity returns the partition key of an entity's items.
func (k Keys) Entity(id string) string { return k.prefix + "ENTITY#" + id }

// ChildID returns the id of the entity in a sort key of the children index; false for any other sort key.
func ChildID(gsi1sk string) (string, bool) { return strings.CutPrefix(gsi1sk, childPrefix) }

// VersionKey returns the key of the version record: one for the table, in every namespace.
func VersionKey() Key { return Key{"SYSTEM#", skVersion} }
